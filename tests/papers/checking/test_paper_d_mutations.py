"""A wrong constant, sign or norm flips a verdict of every statement of part D."""

from typing import Any

import numpy as np
import pytest

from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.optim import Sign
from hardmax.margin.norms import factored
from hardmax.papers.checking.check import statements
from hardmax.papers.geometry.statements import (
    factor_training,
    factors,
    memory,
    norms,
    rates,
    split,
    surviving,
)

pytestmark = pytest.mark.no_cover

critical, freezing, runaway = rates.critical_rate, memory.freezing_rate, memory.runaway_rate
growth, slack, halves, drift = memory.adam_growth, rates.mean_slack, factors.balanced, rates.drift
dual, visit, separable = factored.combined, rates.visit, memory.separable
projective_margin: Any = factor_training.projective_margin
log_growth, bound_rows, is_won = split.log_growth, split.bound_rows, split.is_won


def lopsided(W: np.ndarray, m: int) -> Any:
    K, Q = halves(W, m)
    return 1.01 * K, Q / 1.01


# id, instance, where the formula lives, its name, what replaces it
MUTATIONS: list[tuple[str, str, Any, str, Any]] = [
    (
        "D-CONJ-0",
        "triple, l3",
        norms,
        "separable",
        lambda problem, norm, tokens: separable(problem, "l1.5", tokens),
    ),
    ("D-CONJ-1", "w22, Muon", factor_training, "norm_of_rule", lambda rule: "nuclear"),
    ("D-CONJ-2", "w22", factor_training, "projective_margin", lambda A, rows: 2 * projective_margin(A, rows)),
    ("D-CONJ-3", "skew", memory, "separable", lambda problem, _, tokens: separable(problem, "linf", tokens)),
    ("D-CONJ-4", "two-scc, linf", surviving, "GD", lambda rate, norm: Sign(0.1)),
    (
        "D-CONJ-5",
        "opposed inputs and a third one",
        surviving,
        "gradient",
        lambda problem, p: gradient(problem, 1.1 * p),
    ),
    ("D-THM-1", "w33", factors, "balanced", lopsided),
    ("D-THM-2", "w33, rank 1: not optimal", factored, "combined", lambda R, y: dual(R, y) / 10),
    ("D-THM-2", "w33, rank 2: optimal", factored, "combined", lambda R, y: 1.1 * dual(R, y)),
    ("D-THM-3", "triple, l2, rate 3", rates, "mean_slack", lambda y, m, size: 1.001 * slack(y, m, size)),
    ("D-THM-4", "plane", norms, "words", lambda problem, tokens, _: ("strong",)),
    ("D-THM-5", "triple, l3", rates, "critical_rate", lambda best: 1.05 * critical(best)),
    ("D-THM-5", "triple, l1.5", rates, "critical_rate", lambda best: 0.95 * critical(best)),
    (
        "D-THM-6",
        "triple, sign descent, rate 0.1",
        rates,
        "drift",
        lambda moves, length: [*drift(moves, length)[:2], -drift(moves, length)[2]],
    ),
    ("D-THM-7", "skew, l2", memory, "freezing_rate", lambda best, beta: 0.5 * freezing(best, beta)),
    (
        "D-THM-7",
        "space-b, linf: Signum",
        memory,
        "freezing_rate",
        lambda best, beta: 3 * freezing(best, beta),
    ),
    ("D-THM-8", "cycle", split, "log_growth", lambda found, ratio: 1.3 * log_growth(found, ratio)),
    (
        "D-THM-9",
        "skew",
        memory,
        "adam_growth",
        lambda rate, margin, betas: growth(1.05 * rate, margin, betas),
    ),
    ("D-THM-9b", "skew", memory, "runaway_rate", lambda margin, betas: 0.97 * runaway(margin, betas)),
    ("D-THM-9b", "skew", memory, "runaway_rate", lambda margin, betas: 1.03 * runaway(margin, betas)),
    ("D-THM-11", "dependent", split, "bound_rows", lambda found: [not each for each in bound_rows(found)]),
    ("D-THM-11", "dependent", split, "is_won", lambda rows, j: not is_won(rows, j)),
    ("D-THM-12", "plane-plus", split, "log_growth", lambda found, ratio: 0.9 * log_growth(found, ratio)),
    ("D-THM-10", "skew, l2", rates, "visit", lambda problem, i, norm: -visit(problem, i, norm)),
]


def label(mutation: tuple[Any, ...]) -> str:
    return f"{mutation[0]}: {mutation[3]}, {mutation[1]}"


@pytest.mark.parametrize("id, name, module, formula, mutant", MUTATIONS, ids=map(label, MUTATIONS))
def test_a_wrong_formula_flips_the_verdict(
    id: str, name: str, module: Any, formula: str, mutant: Any, flips: Any
) -> None:
    assert flips(id, name, module, formula, mutant)


def test_every_statement_has_a_mutation() -> None:
    assert {each[0] for each in MUTATIONS} == {id for id in statements() if id.startswith("D-")}
