"""Making many figures: one that breaks or an interrupt costs nothing of the rest."""

import pytest

from hardmax.app.results.reproduce import reproduce
from hardmax.papers.figures import figure as module
from hardmax.papers.figures.figure import Findings, recipe
from hardmax.papers.figures.reproduce import FigureJob, read_records


def test_a_figure_that_breaks_leaves_the_others(reproduction):
    good, fails, broken = reproduction.figures
    assert (good.holds, fails.holds, broken.holds, reproduction.holds) == (True, False, False, False)
    assert [claim.id for claim in reproduction.failed] == ["B-FIG-91.end", "B-FIG-91.nothing"]
    assert (broken.error, broken.claims, broken.files) == ("ZeroDivisionError: division by zero", (), ())
    assert "return 1 / 0" in broken.trace
    folder = reproduction.report.parent
    assert all((folder / name).is_file() for record in (good, fails) for name in record.files)


def test_a_figure_without_its_data_says_what_to_do(table, tmp_path):
    (record,) = reproduce(["C-FIG-92"], out=tmp_path).figures
    assert record.error == "this figure needs real data; give its folder with --data"
    assert record.trace is None


def test_a_picture_that_cannot_be_drawn_leaves_its_numbers(table, tmp_path):
    @recipe("B-FIG-93", "no picture", draw=lambda tables, canvas: canvas.no_such_verb())
    def compute(setting):
        return Findings({"path": {"t": [1, 2]}}, ())

    (record,) = reproduce(["B-FIG-93"], out=tmp_path).figures
    assert "no_such_verb" in record.error
    assert (tmp_path / "B-FIG-93.path.csv").read_text() == "t\n1\n2\n"


def test_an_interrupt_keeps_what_is_done(table, tmp_path):
    @recipe("B-FIG-93", "forever", draw=lambda tables, canvas: None)
    def compute(setting):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(["B-FIG-90", "B-FIG-93", "B-FIG-91"], out=tmp_path)
    assert [record.id for record in read_records(tmp_path)] == ["B-FIG-90"]
    assert "2 of 2 claims hold" in (tmp_path / "index.html").read_text()


def test_going_on_completes_the_page(table, tmp_path):
    reproduce(["B-FIG-91"], out=tmp_path)
    done = reproduce(["B-FIG-90"], out=tmp_path)
    assert [record.id for record in done.figures] == ["B-FIG-90"]
    assert "3 of 5 claims hold" in done.report.read_text()
    assert [record.id for record in read_records(tmp_path)] == ["B-FIG-90", "B-FIG-91"]


@pytest.mark.parametrize(
    "ids, words",
    [
        (["B-FIG-90", "B-FIG-91", "C-FIG-92"], "hardmax reproduce --scale paper --data 'my data' --out "),
        (["B-FIG-90", "B-FIG-91"], "hardmax reproduce --paper B --scale"),
        (["B-FIG-91", "B-FIG-90"], "hardmax reproduce B-FIG-91 B-FIG-90 --scale"),
    ],
)
def test_the_command_that_makes_figures(table, tmp_path, ids, words):
    chosen = [module.recipes()[id] for id in ids]
    job = FigureJob(chosen, "paper", tmp_path / "my data", tmp_path)
    assert job.command(chosen).replace(f"{tmp_path}/my data", "my data").startswith(words)


def test_one_figure_may_be_named_without_a_list(table, tmp_path):
    assert [record.id for record in reproduce("B-FIG-90", out=tmp_path).figures] == ["B-FIG-90"]


@pytest.mark.parametrize(
    "ids, options, words",
    [
        ([], {}, "ids must name at least one figure, got none"),
        (["B-FIG-90"], {"scale": "huge"}, "scale must be one of quick, day, paper, got 'huge'"),
        (["B-FIG-90"], {"paper": "C"}, "got C, which has none of B-FIG-90"),
        (None, {"paper": "Z"}, "paper must be one of A, B, C, D or None, got 'Z'"),
    ],
)
def test_bad_usage_leaves_the_records_alone(table, tmp_path, ids, options, words):
    reproduce(["B-FIG-90"], out=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=words):
        reproduce(ids, out=tmp_path, **options)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_files_of_others_are_left_alone(table, tmp_path):
    for name, text in (("my-FIG-1.json", "[1]"), ("his-FIG-1.json", '{"a": 1}'), ("notes.txt", "mine")):
        (tmp_path / name).write_text(text)
    assert [record.id for record in reproduce(["B-FIG-90"], out=tmp_path).figures] == ["B-FIG-90"]
    assert (tmp_path / "my-FIG-1.json").read_text() == "[1]"
    assert [record.id for record in read_records(tmp_path)] == ["B-FIG-90"]


@pytest.mark.parametrize("text", ["not JSON", '{"schema": "hardmax.figure/1", "id": "B-FIG-91"}'])
def test_a_damaged_record_is_refused_before_the_work(table, tmp_path, text):
    (tmp_path / "B-FIG-91.json").write_text(text)
    with pytest.raises(ValueError, match=r"B-FIG-91\.json is not a valid record of a figure .*; delete it"):
        reproduce(["B-FIG-90"], out=tmp_path)
    assert not (tmp_path / "B-FIG-90.json").exists()


def test_a_picture_that_is_gone_is_said_on_the_page(table, tmp_path):
    reproduce(["B-FIG-91"], out=tmp_path)
    (tmp_path / "B-FIG-91.svg").unlink()
    text = reproduce(["B-FIG-90"], out=tmp_path).report.read_text()
    assert "The picture B-FIG-91.svg is gone; make this figure again." in text
    assert "3 of 5 claims hold" in text
