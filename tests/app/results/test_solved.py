"""hm.solve says what the command says, shows it in a notebook, and solves nothing twice."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.margin import att_svm
from hardmax.margin.certificates import certify

ROOT = Path(__file__).parents[3]

EXAMPLE, SADDLE, OPPOSED = (f"examples/{name}.json" for name in ("three-inputs", "saddle", "opposed"))


@pytest.fixture(autouse=True)
def in_the_clone(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    "file, options, arguments",
    [
        (EXAMPLE, {}, []),
        (EXAMPLE, {"flow": True}, ["--flow"]),
        (EXAMPLE, {"all": True, "exact": True}, ["--all", "--exact"]),
        (EXAMPLE, {"limit": 3}, ["--limit", "3"]),
        (SADDLE, {"critical": True}, ["--critical"]),
        (OPPOSED, {"flow": True}, ["--flow"]),
    ],
)
def test_the_same_table_json_and_exit_code_as_the_command(file, options, arguments, command, valid_json):
    found = hm.solve(file, **options)
    assert command("solve", file, *arguments) == (found.exit_code, f"{found}\n")
    code, told = command("solve", file, *arguments, "--json")
    assert (code, json.loads(told)) == (found.exit_code, valid_json(found))
    # a problem without a file has no other name than that
    named = hm.solve(hm.Problem.load(file), **options)
    assert str(named) == str(found).replace(f"{file}: ", "problem: ", 1)
    assert named.json() == found.json()


@pytest.mark.parametrize("width", ["60", "200"])
def test_the_table_is_as_wide_as_the_terminal(width, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", width)
    assert command("solve", EXAMPLE, "--flow")[1] == f"{hm.solve(EXAMPLE, flow=True)}\n"


def test_a_notebook_shows_the_table_and_the_picture():
    found = hm.solve(hm.data.example("B-FIG-8"), flow=True)
    shown = found._repr_html_()
    text = re.sub(r"<[^>]+>", "", shown[: shown.index("</pre>")])
    assert text.replace("&gt;", ">").replace("&lt;", "<") == f"{found}\n"
    picture = re.fullmatch(r'<img src="data:image/png;base64,([^"]+)">', shown[shown.index("<img") :])
    assert base64.b64decode(picture[1]).startswith(b"\x89PNG")
    assert len(found.plot().axes[0].lines) > len(hm.solve(found.problem).plot().axes[0].lines)  # the flow


def test_no_picture_outside_the_plane():
    found = hm.solve(hm.data.sphere(n=2, T=3, d=3, rng=0))
    assert "<img" not in found._repr_html_()
    with pytest.raises(ValueError, match="2 dimensions"):
        found.plot()


def test_words_of_a_name_are_no_markup(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = "<b>[bold]x.json"
    hm.data.example("B-FIG-1a").save(file)
    found = hm.solve(file)
    assert str(found).startswith("<b>[bold]x.json: n = 1")
    assert "&lt;b&gt;[bold]x.json: n = 1" in found._repr_html_()


@pytest.fixture
def solved(monkeypatch):
    """Counts the hard-margin problems that are solved outside the enumeration's own kernels."""
    calls = []
    original = att_svm.AttentionRows.solve

    def count(self, chosen, exact=False, norm="l2"):
        calls.append(exact)
        return original(self, chosen, exact, norm)

    monkeypatch.setattr(att_svm.AttentionRows, "solve", count)
    return calls


@pytest.mark.parametrize("d", [2, 3])
def test_what_the_enumeration_certified_is_not_solved_again(solved, d):
    """The selection of best-scoring tokens was solved a second time after the search had certified it."""
    problem = hm.data.sphere(n=2, T=3, d=d, rng=1)
    by_search = [f.max_margin for f in hm.selections(problem) if f.is_best]
    assert len(by_search) == 1
    solved.clear()
    found = hm.solve(problem, all=True)
    assert solved == []
    assert found.best[0][1] in [each.max_margin for each in found.selections]
    np.testing.assert_array_equal(found.best[0][1].p, by_search[0].p)


def test_tied_best_tokens_are_not_solved_again(solved):
    keys = [[[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [[0.0, 2.0], [2.0, 0.0], [-2.0, -1.0]]]
    problem = hm.Problem(keys, [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    found = hm.solve(problem)
    feasible = [tokens for tokens, best in found.best if best.is_feasible]
    refuted = [tokens for tokens, best in found.best if best.is_feasible is False]
    assert (len(feasible), len(refuted)) == (2, 2)
    assert len(solved) == len(refuted)  # of these the enumeration keeps no Farkas vector


def test_exact_solves_each_listed_selection_once(solved):
    problem = hm.data.sphere(n=2, T=3, d=3, rng=1)
    found = hm.solve(problem, all=True, exact=True)
    assert solved == [True] * len(found.selections)
    assert {each.max_margin.arithmetic for each in found.selections} == {"exact"}
    assert found.best[0][1].arithmetic == "exact"


def test_known_solutions_are_handed_back():
    problem = hm.data.example("B-FIG-8")
    [(tokens, best)] = att_svm.best_max_margins(problem)
    [(again, same)] = att_svm.best_max_margins(problem, known={tokens: best})
    assert again == tokens
    assert same is best


def test_certificates(tmp_path):
    files = hm.solve(OPPOSED, all=True).save(tmp_path / "proofs")
    assert [file.name for file in files] == ["selection-0.json", "selection-1.json", "global-0.json"]
    assert all(certify(file)["valid"] for file in files)
    assert hm.certify(files[-1]).what.startswith("infeasible")


def test_a_start_of_the_flow():
    found = hm.solve(EXAMPLE, flow=True, start=[3.0, 2.0])
    assert (found.flow.start, found.flow.nearest) == ("given", 0)
    with pytest.raises(ValueError, match="`start` requires `flow=True`"):
        hm.solve(EXAMPLE, start=[3.0, 2.0])
    with pytest.raises(ValueError, match="start"):
        hm.solve(EXAMPLE, flow=True, start=[3.0])


def test_budgets_of_python(valid_json):
    problem = hm.data.sphere(n=8, T=6, d=3, rng=1)
    some = hm.solve(problem, limit=5)
    assert (some.status, some.found, some.cut, some.exit_code) == ("truncated", 5, "limit", 3)
    assert valid_json(some)["feasible"] is None
    every = hm.solve(problem, limit=None, seconds=None)
    assert (every.status, every.cut, every.exit_code) == ("complete", None, 0)
    assert valid_json(every)["feasible"] == every.found > 5
    with pytest.raises(ValueError, match="seconds"):
        hm.solve(problem, seconds=0.0)
    with pytest.raises(ValueError, match=r"must be a hardmax\.Problem or the name of a file, got list"):
        hm.solve([[1.0]])


def test_an_interrupt_is_raised_in_python(monkeypatch):
    from hardmax.directions.enumerate import SelectionList

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(SelectionList, "_advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hm.solve(EXAMPLE)
