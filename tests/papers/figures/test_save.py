"""Saved figures: the same bytes every time, every digit, and enough to draw them again."""

import csv
import struct
import time

import matplotlib
import numpy as np
import pytest

from hardmax._lib.style import style
from hardmax.papers.figures.figure import Findings, figure, recipe
from hardmax.papers.figures.reproduce import load_tables, save

AWKWARD = [1 / 3, 1e-300, -0.0, 1e22, float("inf"), float("nan")]


@pytest.fixture
def awkward(table):
    """A figure whose numbers and words are hard to write down."""
    words = np.array(["plain", "a, b", 'quo"te', "p^mm ≥ 1", "", "two\nlines"])

    @recipe("B-FIG-93", "awkward", draw=lambda tables, canvas: None)
    def compute(setting):
        columns = {"value": np.array(AWKWARD), "count": np.arange(6), "yes": np.arange(6) > 2, "word": words}
        return Findings({"numbers": columns, "empty": {"t": np.array([])}}, ())

    return figure("B-FIG-93")


def test_files_are_named_by_the_figure(table, tmp_path):
    paths = save(figure("B-FIG-91"), tmp_path / "new" / "folder")
    names = [path.name for path in paths]
    assert names == [f"B-FIG-91.{end}" for end in ("npz", "slow.csv", "fast.csv", "svg", "png")]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(names)


def test_the_same_figure_is_the_same_bytes(table, tmp_path):
    first = save(figure("B-FIG-90"), tmp_path / "a")
    time.sleep(1.1)  # a clock in a file would show by now
    with matplotlib.rc_context({"svg.hashsalt": None, "savefig.dpi": 40, "font.size": 20}):
        second = save(figure("B-FIG-90"), tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_pictures_have_print_size_and_no_fonts(table, tmp_path):
    *_, svg, png = save(figure("B-FIG-91"), tmp_path)
    assert struct.unpack(">II", png.read_bytes()[16:24]) == (2100, 720)  # 7 by 2.4 inches at 300 dpi
    text = svg.read_text()
    assert 'width="504pt" height="172.8pt"' in text
    assert "<text" not in text
    assert "font-family" not in text


def test_csv_keeps_every_digit_and_every_word(awkward, tmp_path):
    path = save(awkward, tmp_path)[1]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_array_equal([float(row["value"]) for row in rows], AWKWARD)
    assert [row["word"] for row in rows] == awkward.tables["numbers"]["word"].tolist()
    assert [row["count"] for row in rows] == list("012345")
    assert [row["yes"] for row in rows] == ["False"] * 3 + ["True"] * 3


def test_npz_holds_the_tables(awkward, tmp_path):
    tables = load_tables(save(awkward, tmp_path)[0])
    assert list(tables) == ["numbers", "empty"]
    for name, column in awkward.tables["numbers"].items():
        np.testing.assert_array_equal(tables["numbers"][name], column)


def test_a_saved_figure_can_be_drawn_again(table, tmp_path):
    paths = save(figure("B-FIG-91"), tmp_path)
    tables = load_tables(paths[0])
    with style():
        matplotlib.rcParams["svg.hashsalt"] = "B-FIG-91"
        canvas = matplotlib.figure.Figure(figsize=(7.0, 2.4), layout="constrained")
        table["B-FIG-91"].draw(tables, canvas)
        canvas.savefig(tmp_path / "again.svg", metadata={"Date": None})
    assert (tmp_path / "again.svg").read_bytes() == paths[-2].read_bytes()
