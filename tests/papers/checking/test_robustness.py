"""Checks on problems that nobody wrote them for: a verdict or a sentence, never anything else."""

import inspect

import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.checking.check import check_statement, statements
from hardmax.papers.max_margin import instances as examples

RAGGED = hm.Problem(
    [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0], [0.0, 2.0]], [[0.3, 0.1]]],
    [[1.0, 0.0], [1.0, 0.0, 0.2], [0.0]],
)
ALONE = hm.Problem([[[1.0, 0.0]], [[0.0, 1.0]]], [[1.0], [2.0]])
GRAM = hm.Problem.from_gram(np.eye(4), inputs=[[0, 1], [2, 3]], scores=[[1, 0], [1, 0]])
TWINS = hm.Problem([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.5, 0.0]])
TOKENS = examples.random_tokens([1, -1], W="identity")
PROBLEMS = {"ragged": RAGGED, "alone": ALONE, "gram": GRAM, "twins": TWINS, "tokens": TOKENS}
LONG = ("B-ERR-21", "B-THM-4", "tokens")


def uncounted(name: str) -> object:
    """A parameter; with those that take long, no lines are counted."""
    return pytest.param(name, marks=[pytest.mark.slow, pytest.mark.no_cover]) if name in LONG else name


def needed(id: str, problem: hm.Problem) -> dict[str, object]:
    axis = np.eye(problem.d)[0]
    given = {
        "selection": [0] * problem.n,
        "p": axis,
        "q": axis + 0.1 * np.eye(problem.d)[-1],
        "rho": 1.0,
        "start": axis,
    }
    parameters = inspect.signature(statements()[id].test).parameters.values()
    return {
        each.name: given[each.name]
        for each in parameters
        if each.default is inspect.Parameter.empty and each.name != "problem"
    }


@pytest.mark.parametrize("name", [uncounted(name) for name in PROBLEMS])
@pytest.mark.parametrize("id", [uncounted(id) for id in statements() if id.startswith("B-")])
def test_any_problem_gets_a_verdict(id: str, name: str) -> None:
    problem = PROBLEMS[name]
    found = check_statement(id, problem, **needed(id, problem))
    # what is proved cannot fail, whatever the data
    assert found.verdict != "fails" or found.label != "proved"


def test_nothing_competes_is_vacuous() -> None:
    for id in ("B-THM-1", "B-THM-2", "B-THM-L4", "B-EQ-73"):
        assert check_statement(id, ALONE).verdict == "vacuous"


TWO_LABELS = hm.Problem.from_tokens([[[1.0, 1.0], [0.0, 0.0]]] * 2, labels=[1, -1], readout=[1.0, 0.0])


@pytest.mark.parametrize("id", ["B-THM-5", "B-THM-6", "B-EQ-79"])
def test_joint_statements_need_separable_labels(id: str) -> None:
    found = check_statement(id, TWO_LABELS, selection=[0, 0], **({"rho": 2.0} if id == "B-THM-6" else {}))
    assert found.verdict == "not applicable"
    assert [h.id for h in found.hypotheses if not h.holds] == ["labels separable"]
