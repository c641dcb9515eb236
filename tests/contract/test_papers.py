"""Statements, figures, hunts, `solve`, the playground and the installation's own check."""

import json
import math

import numpy as np
import pytest

from . import formulas as f
from . import names as n

FIG8 = n.example("B-FIG-8")


def test_statements_on_data():
    problem = n.sphere(4, 6, 10, rng=0)
    assert n.check_statement("B-THM-3", problem, n.flow(problem)).verdict == "holds"
    opposed = n.problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    assert n.check_statement("B-THM-2", opposed).verdict == "not applicable"
    assert n.check_statement("B-THM-2", opposed, reading="paper").verdict == "fails"
    found = n.check_statement("B-ASM-B", n.example("B-FIG-1b"))
    assert (found.verdict, [*found.witness]) == ("fails", [0, 1, 2])


def test_every_statement_is_listed():
    listed = n.statements()
    assert len(listed) >= 93
    assert {id[0] for id in listed} == set("ABCD")
    assert {each.kind for each in listed.values()} >= {"limit", "existential", "finite"}


def test_a_statement_of_ones_own():
    n.own_statement("X-FEW", lambda problem: 2.0 - max(n.lengths(problem)))
    assert n.check_statement("X-FEW", FIG8).verdict == "consistent"
    found = n.check_statement("X-FEW", n.example("B-FIG-1a"))
    assert (found.verdict, found.slack) == ("refuted", -1.0)
    assert found.hypotheses[0].holds


def test_statements_on_their_instances():
    found = n.verify(["B-ASM-B", "C-LEM-1", "A-LEM-2", "D-THM-1"])
    assert found.exit_code == 0
    assert all(each.check.verdict == each.expected for each in found.checks)
    assert {each.check.verdict for each in n.verify("B-ASM-B").checks} == {"holds", "fails"}
    assert [each.check.verdict for each in n.verify("B-ASM-B", on=n.example("B-FIG-1b")).checks] == ["fails"]


def test_the_registry_of_papers():
    assert [n.paper(letter).letter for letter in "ABCD"] == [*"ABCD"]
    assert "B-FIG-9a" in n.paper("B").figures
    assert "B-THM-3" in n.paper("B").statements


def test_a_figure_measures_its_claims():
    found = n.figure("B-FIG-1b")
    assert found.holds
    assert found.failed == []
    assert len(found.claims) >= 3
    assert all(np.isfinite(claim.measured) for claim in found.claims if isinstance(claim.measured, float))


def test_figures_become_files(tmp_path):
    done = n.reproduce(["B-FIG-1a"], out=tmp_path)
    assert [(each.id, each.holds) for each in done.figures] == [("B-FIG-1a", True)]
    assert {"index.html"} <= {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "B-FIG-1a.png").read_bytes()[:4] == b"\x89PNG"


def test_a_hunt_refutes_and_proves():
    found = n.hunt("margin <= 3", tries=5, workers=0)
    assert (found.verdict, found.exit_code) == ("refuted (proved)", 1)
    problem = found.subject()
    largest = max(each.max_margin.margin for each in n.selections(problem))
    assert largest > 3 or n.max_margin(problem, n.best_tokens(problem)).margin > 3


def test_a_hunt_that_finds_nothing():
    found = n.hunt("margin >= 0", tries=2, workers=0)
    assert found.exit_code == 0
    assert "refuted" not in found.verdict


def test_hunting_a_printed_statement():
    found = n.hunt("B-THM-1", reading="paper", tries=3, workers=0)
    assert found.verdict == "refuted (proved)"
    assert found.candidate.size == (1, 2, 1)


def test_solve_lists_what_attracts():
    found = n.solve(FIG8, flow=True, exact=True)
    told = found.json()
    assert (told["status"], told["feasible"]) == ("complete", 4)
    assert [tuple(each["selection"]) for each in told["selections"]] == [(0, 1), (0, 0)]
    by_margin = [1.0, 1 / math.sqrt(10.0)]
    assert f.close([np.mean(each["margin_interval"]) for each in told["selections"]], by_margin)
    assert [each["globally_optimal"] for each in told["selections"]] == [False, True]
    assert told["flow"]["nearest"] == 1
    assert tuple(told["flow"]["selection"]) == (0, 0)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert len(n.solve(FIG8, all=True).selections) == 4
    assert n.solve(FIG8, norm="linf").json()["norm_name"] == "linf"


def test_the_playground_answers():
    asked = {"ask": "solve", "problem": {"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]]}}
    found = n.playground_answer(asked)["selections"][0]
    assert tuple(found["selection"]) == (0,)
    with pytest.raises(ValueError, match="port"):
        n.playground_serve(port=-1)


@pytest.mark.extra
def test_the_playground_in_a_notebook():
    pytest.importorskip("anywidget")
    assert n.playground(FIG8).state["problem"]["scores"] == [[1.0, 0.0], [1.0, 0.0]]


def test_the_installation_is_examined():
    found = n.examine()
    assert {each.name for each in found.checks} >= {"python", "hardmax"}
    assert found.exit_code == (0 if all(each.ok for each in found.checks) else 1)


def test_the_ledger_has_a_verdict_for_everything_printed():
    rows = n.ledger().json()["rows"]
    assert {row["paper"] for row in rows} == {"A", "B", "C"}
    allowed = {"reproduced", "reproduced with a stated change", "not reproduced", "stand-in only", "not run"}
    assert {row["verdict"] for row in rows} <= allowed
    assert all((row["result"] is None) == (row["verdict"] == "not run") for row in rows)
    assert len({(row["paper"], row["item"]) for row in rows}) == len(rows) > 100
