"""In a notebook results show themselves: tables as HTML, displays and figures as PNG, without any setting."""

import builtins
import re

import pytest

import hardmax as hm
from hardmax._lib.notebook import ROWS, table
from hardmax.app.results.sweep import SweepResult

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def problem():
    return hm.data.example("B-FIG-8")


@pytest.fixture(scope="module")
def path(problem):
    return hm.train(problem, hm.optim.Normalized(0.1), steps=300)


def cells(html):
    return re.findall(r"<td>(.*?)</td>", html)


def test_a_table_is_escaped_and_counts_what_it_leaves_out():
    html = table("<script>", ["<b>"], [["<i>"]] * (ROWS + 5))
    assert "<script>" not in html
    assert html.count("&lt;i&gt;") == ROWS
    assert "and 5 rows more" in html


def test_results_are_tables(problem, path):
    assert cells(problem._repr_html_()) == ["0", "2", "1", "1", "2", "1"]
    shown = cells(path._repr_html_())
    assert shown[:2] == ["step", "300"]
    assert "0 0" in shown
    assert cells(path.selection._repr_html_()) == ["0", "0", "1", "0"]
    assert cells(hm.Selection(((0, 2),))._repr_html_()) == ["0", "0 or 2"]
    best = hm.max_margin(problem, path.selection)
    assert "0.316228" in cells(best._repr_html_())
    opposed = hm.max_margin(hm.Constraints.dense([[1.0], [-1.0]]))
    assert cells(opposed._repr_html_())[-2:] == ["rows that cancel", "2"]


def test_showing_an_enumeration_does_not_use_it_up(problem):
    search = hm.selections(problem)
    shown = search._repr_html_()
    assert "4 selections, complete" in shown
    found = list(search)
    assert [each.selection for each in found] == [(0, 1), (0, 0), (1, 0), (1, 1)]
    tokens = [" ".join(map(str, each.selection)) for each in found]
    assert cells(shown)[1 :: len(cells(shown)) // 4] == tokens
    assert search._repr_html_() == shown
    assert "attracts" in cells(found[0]._repr_html_())


def test_a_sweep_shows_the_table_of_its_command():
    swept = hm.sweep(lambda at, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 4, workers=0)
    lines = re.sub("<[^>]*>", "", swept._repr_html_()).splitlines()
    assert lines == str(swept).splitlines()
    assert lines[:3] == str(SweepResult.of_sweep(swept)).splitlines()[:3]
    assert " of 4 (" in lines[1]


def test_displays_and_what_they_plot_are_pictures(problem, path):
    found = list(hm.attractors(problem))
    swept = hm.sweep(lambda at, seed: {"odd": seed % 2 == 1}, {"a": [1, 2], "b": [1]}, 4, workers=0)
    displays = [
        path.display(),
        hm.directions.PlaneDisplay.of(problem, found, [path, path]),
        hm.trials.PhaseDisplay.of(swept, ["odd"], x="a", y="b"),
    ]
    for display in displays:
        assert display._repr_png_().startswith(PNG)
        assert display.plot()._repr_png_().startswith(PNG)


def test_a_figure_shows_picture_and_claims():
    html = hm.figure("B-FIG-1a")._repr_html_()
    assert html.startswith('<img src="data:image/png;base64,iVBOR')
    assert "yes" in cells(html)
    assert "NO" not in cells(html)


def test_a_sweep_as_a_data_frame():
    pandas = pytest.importorskip("pandas")
    swept = hm.sweep(lambda at, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 3, workers=0)
    frame = swept.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["d", "trial", "seed", "status", "odd"]
    assert frame["d"].tolist() == [2, 2, 2, 5, 5, 5]


def test_without_pandas_a_sentence_says_what_to_do(monkeypatch):
    swept = hm.sweep(lambda at, seed: {"odd": True}, {"d": [2]}, 1, workers=0)
    true = builtins.__import__

    def refuse(name, *rest):
        if name == "pandas":
            raise ImportError("No module named 'pandas'")
        return true(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install pandas; or use to_csv"):
        swept.to_frame()
