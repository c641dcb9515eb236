"""A wrong constant, sign or exponent flips a verdict of every statement of the trained-embeddings paper."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hardmax.embeddings.near_identity
import hardmax.embeddings.one_layer
from hardmax.embeddings.patterns import pattern_max_margin
from hardmax.margin.solve import solve
from hardmax.papers.checking.check import statements
from hardmax.papers.trained_embeddings.statements import (
    convergence,
    first_step,
    gradients,
    local,
    margins,
    theorem,
    tied,
)

pytestmark = pytest.mark.no_cover

event = hardmax.embeddings.near_identity.initial_event_from_gram
pull = hardmax.embeddings.one_layer.pairwise_pull
gap, closed, printed, lead = (
    local.second_best_gap,
    margins.closed_form,
    gradients.positional_gradients,
    convergence.least_lead,
)
run, cheapest, row_margins = theorem.run_theorem_5, tied.cheapest_other, margins.row_margins


def without_ties(corpus: Any, selection: Any, E: Any) -> Any:
    best = pattern_max_margin(corpus, selection, E)
    untied = solve(best.constraints.subset(np.flatnonzero(~best.constraints.equal)))
    return replace(best, p=untied.p)


def turned_gale(corpus: Any, important: Any) -> Any:
    form, weights = closed(corpus, important)
    return replace(form, witness=(0,) if form.is_max_margin else None), weights


def tied_best(corpus: Any, **options: Any) -> Any:
    found = run(corpus, **options)
    return replace(found, best=pattern_max_margin(corpus, [[0, 2], [1]], found.state.E))


# id, instance, where the formula lives, its name, what replaces it
MUTATIONS: list[tuple[str, str, Any, str, Any]] = [
    ("A-DEF-16", "random keys", local, "second_best_gap", lambda *a: (-gap(*a)[0], gap(*a)[1])),
    ("A-ERR-5", "2 x 2", tied, "lone_type_norm", lambda N, own, c: N - 1 - own**2 / (1 + c @ c)),
    (
        "A-EVT-14",
        "S = 7, d = 256",
        hardmax.embeddings.near_identity,
        "initial_event_from_gram",
        lambda *a, d, delta: event(*a, d=4 * d, delta=delta),
    ),
    (
        "A-LEM-2",
        "no Assumption 4, d = 1024",
        first_step,
        "error_bounds",
        lambda first_rate, d: (2.11 * first_rate / d, 1.13 * first_rate / d),
    ),
    ("A-LEM-3", "2 x 2 with a tie", margins, "pattern_max_margin", without_ties),
    ("A-LEM-3P", "2 x 2", margins, "closed_form", turned_gale),
    ("A-LEM-3P", "slack constraints: Gale fails", margins, "closed_form", turned_gale),
    ("A-LEM-6", "slack constraints", gradients, "_beside_differences", lambda corpus, E, x: x),
    (
        "A-LEM-7",
        "no Assumption 4",
        gradients,
        "positional_gradients",
        lambda *a: [2 * x for x in printed(*a)],
    ),
    ("A-LEM-8", "no Assumption 4", hardmax.embeddings.one_layer, "pairwise_pull", lambda *a: 2 * pull(*a)),
    ("A-LEM-9", "slack constraints, M^+ 1", convergence, "EPSILON", 0.05),
    ("A-LEM-10", "no Assumption 4", gradients, "lost_share", lambda m, tau: 1 / (1 + 2 * m * np.exp(tau))),
    ("A-LEM-10", "no Assumption 4", gradients, "kept_share", lambda T, tau: 2 * np.exp(-tau) / T),
    (
        "A-LEM-11",
        "n = 6, T = 4, eta0 = 0.01",
        first_step,
        "norm_bounds",
        lambda first_rate, d: ((1 + 2 * first_rate) / 2, 2.0),
    ),
    (
        "A-LEM-12",
        "2 x 2",
        first_step,
        "loss_bound",
        lambda gains, rate: float(np.logaddexp(0, -0.5 * rate * gains - 1 / (22 * rate)).mean()),
    ),
    ("A-LEM-13", "slack constraints", convergence, "least_lead", lambda *a: -lead(*a)),
    ("A-LEM-14", "slack constraints", theorem, "loss_that_settles", lambda n: 1e-3 / (2 * n)),
    (
        "A-LEM-17",
        "one tie",
        local,
        "log_dominance",
        lambda T, C3, C4, tau1, R: np.log((T + T**2) * C3 * C4) - 3 * tau1 * R,
    ),
    ("A-LEM-18", "2 x 2", theorem, "run_theorem_5", tied_best),
    ("A-LEM-19", "2 x 2 after the first step", tied, "cheapest_other", lambda *a: (1.5, *cheapest(*a)[1:])),
    ("A-LEM-20", "slack constraints", margins, "row_margins", lambda best: row_margins(best) - 1),
    ("A-LEM-21", "2 x 2", margins, "norm_bound", lambda n: n / 4),
    ("A-SEC-3", "slack constraints", convergence, "halving", lambda ratio: 1 - abs(ratio / 4 - 1) / 0.15),
    (
        "A-THM-5",
        "2 x 2",
        theorem,
        "run_theorem_5",
        lambda *a, **options: replace(run(*a, **options), pattern=((2,), (2,))),
    ),
    ("A-THM-5S", "bad basin, from inside it", theorem, "good_start", lambda found: True),
]


@pytest.mark.parametrize(
    "id, name, module, formula, mutant", MUTATIONS, ids=[f"{each[0]}: {each[3]}" for each in MUTATIONS]
)
def test_a_wrong_formula_flips_the_verdict(
    id: str, name: str, module: Any, formula: str, mutant: Any, flips: Any
) -> None:
    assert flips(id, name, module, formula, mutant)


def test_every_statement_has_a_mutation() -> None:
    assert {each[0] for each in MUTATIONS} == {id for id in statements() if id.startswith("A-")}
