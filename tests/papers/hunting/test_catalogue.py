"""Printed statements that are false are refuted; each within a unit or a few."""

from pathlib import Path

import pytest

import hardmax as hm
from hardmax.app.results.hunt import CatalogueResult, hunt_entry, judge_file
from hardmax.papers.checking.check import statements
from hardmax.papers.hunting import search
from hardmax.papers.registry import ERRATA, PAPERS, places

ROOT = Path(__file__).parents[3]
QUICK = {"B-EQ-73", "B-ERR-15", "B-ERR-18", "B-ERR-19", "A-ERR-5", "A-ERR-15", "C-COR-1", "D-ERR-2"}
CATALOGUE = [entry for paper in PAPERS.values() for entry in paper.catalogue]
ENTRIES = {each.claim: each for each in CATALOGUE}

# Errata that no finite data can show, and why. Those not named here or above are about words or labels.
ELSEWHERE = {
    "B-ERR-02": "a limit, measured only",
    "B-ERR-06": "about an experiment",
    "B-ERR-11": "about an experiment",
    "B-ERR-13": "about solvers",
    "A-ERR-13": "a step of a proof",
    "C-ERR-06": "formal: no data has that frequency",
    "C-ERR-12": "a step of a proof",
    "C-ERR-15": "a step of a proof",
    "C-ERR-16": "a limit",
    "D-ERR-1": "a limit",
    "D-ERR-3": "a limit",
    "D-ERR-4": "a limit",
    "D-ERR-7": "a limit",
    "D-ERR-8": "a limit",
    "D-ERR-9": "about arithmetic with rounding",
}


def test_entries_are_known():
    assert len(ENTRIES) == len(CATALOGUE) == 24
    assert {each for each in ENTRIES if each not in places("printed")} <= set(statements())
    assert {each.erratum for each in CATALOGUE} - {"B-EQ-73"} <= set(ERRATA)
    assert set(places("printed")) <= set(ENTRIES)
    assert set(ELSEWHERE) <= set(ERRATA)


@pytest.mark.parametrize("claim", sorted(QUICK))
def test_quick_ones_are_refuted(claim):
    found = hunt_entry(ENTRIES[claim], seconds=60, workers=0)
    assert found.verdict == "refuted (proved)"
    assert found.candidate.size <= found.first_size


def test_the_table(valid_json):
    entry = ENTRIES["C-ERR-04"]
    found = CatalogueResult(60.0, 0, ((entry, hunt_entry(entry, 60.0, workers=0)),))
    told = valid_json(found)
    assert (told["refuted"], found.exit_code) == (1, 0)
    assert "1 of 1 refuted" in str(found)


def test_the_answer_of_a_hunt(valid_json):
    assert valid_json(hm.hunt("B-THM-L2", tries=1, workers=0))["verdict"].startswith("nothing found")
    assert valid_json(hm.hunt("margin <= 3", tries=5, workers=0))["slack"] < 0


def test_general_position_is_needed_for_b_err_21():
    """Findings, 1: without twins, in the plane, a direction that is not locally optimal takes every start."""
    problem = hm.Problem([[[0, 0], [-1, 0], [-1, 1], [-1, -1]]], [[1, 2, 0, -1]])
    found = hm.check_statement("B-ERR-21", problem, count=2)
    assert found.verdict == "not applicable"
    assert [h.id for h in found.hypotheses if not h.holds] == ["general position"]
    assert found.slack == -1.0
    assert list(hm.attractors(problem)) == []


@pytest.mark.parametrize("factor", ["", "_16", "_1000"])
def test_no_multiple_of_R_bar_makes_the_cone_keep_a_flow(factor):
    folder = ROOT / "examples" / "hunts"
    name = f"{folder}/conjectures.py:cone_from{factor}_R_bar"
    found = judge_file(name, folder / "cone.json", given={"selection": [0], "start": [0.0, 1.0]})
    assert (found.verdict, found.proof) == ("refuted (proved)", "ball arithmetic, 128 bits")


def test_adam_may_have_several_growth_rates():
    from hardmax.trials.provenance import named

    conjecture = named(f"{ROOT}/examples/hunts/conjectures.py:one_growth_rate")[0]
    assert conjecture(None, p=[0.0, -4.0]) < 0  # betas 0.5 and 0.263
    assert conjecture(None, p=[2.2, 3.0]) > 0  # 0.9 and 0.991


@pytest.mark.parametrize(
    "name, file, start, verdict",
    [
        ("without_general_position", "every-start", None, "suspected (15 digits)"),
        ("head_start", "head-start", [-1.0, 1.0], "refuted (proved)"),
        ("nearly_all", "nearly-all", [-5.5, 5.5], "refuted (proved)"),
        pytest.param(
            "descent_follows_flow", "parting", [0.928, 0.0], "refuted (proved)", marks=pytest.mark.slow
        ),
    ],
)
def test_findings(name, file, start, verdict, monkeypatch):
    monkeypatch.setattr(search, "ORDERS", 1)  # of each kind, in which a refutation is judged again
    folder = ROOT / "examples" / "hunts"
    given = {} if start is None else {"start": start}
    found = judge_file(f"{folder}/conjectures.py:{name}", folder / f"{file}.json", given=given)
    assert found.verdict == verdict
