"""No check passes by saying yes: a wrong constant, sign or exponent flips a verdict of every statement."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import hardmax.directions.assumptions
from hardmax.directions.assumptions import assumption_d
from hardmax.directions.direction import local_constants
from hardmax.directions.joint_margins import interpolated_max_margin
from hardmax.directions.neighbors import selection_of
from hardmax.margin.att_svm import max_margin
from hardmax.papers.checking.check import statements
from hardmax.papers.checking.instances import instances
from hardmax.papers.max_margin.statements import (
    convergence,
    directions,
    finite,
    foundations,
    gradients,
    index,
    local,
    paths,
    several_optimal,
)
from hardmax.papers.max_margin.statements import finite as finite_joint
from hardmax.papers.max_margin.statements import foundations as assumptions
from hardmax.papers.max_margin.statements import joint_training as joint
from hardmax.papers.max_margin.statements import several_optimal as proxy
from hardmax.problem.selection import Selection

pytestmark = pytest.mark.no_cover


cosine = gradients.descent_cosine
separator, offset_path, critical = foundations.explicit_separator, paths.predicted, paths.critical_step
attracts, smoothness = convergence.attracts, gradients.smoothness
kept = local.distance_kept
compose, sandwich = several_optimal.composed_loss, several_optimal.sandwich


def turned(found: Any) -> Any:
    """The opposite answer."""
    return type(found).NO if found else type(found).STRONG


def without_log_T(log_T: Any, margin: Any, R: Any) -> tuple[Any, Any]:
    return -margin * R, -margin * R


def second_best(problem: Any, best: Any) -> Any:
    """p_mm of another token of the first input."""
    tokens = list(selection_of(problem, best))
    others = ([(t + k) % int(problem.sizes[0]), *tokens[1:]] for k, t in [(1, tokens[0]), (2, tokens[0])])
    return next(found for each in others if (found := max_margin(problem, each)).is_feasible)


def scaled_constants(**factors: float) -> Callable[..., Any]:
    def mutated(*arguments: Any) -> Any:
        found = local_constants(*arguments)
        return replace(found, **{name: getattr(found, name) * factor for name, factor in factors.items()})

    return mutated


def does_not_attract(problem: Any, best: Any) -> Any:
    return SimpleNamespace(verdict=not attracts(problem, best).verdict)


def smoother(problem: Any) -> Any:
    found = smoothness(problem)
    return replace(found, L_p=found.L_p / 1000, tight=found.tight / 1000)


# id, instance, where the formula lives, its name, what replaces it
MUTATIONS: list[tuple[str, str, Any, str, Any]] = [
    ("B-APP-E", "B-FIG-9, d = 2, trial 0", proxy, "joined_sets", lambda _, tokens, __: [[t] for t in tokens]),
    (
        "B-ASM-B",
        "B-FIG-1a",
        hardmax.directions.assumptions,
        "best_tokens",
        lambda problem: Selection(tuple((T - 1,) for T in problem.sizes.tolist())),
    ),
    ("B-ASM-C", "B-FIG-3a", assumptions, "POSITIVE", 0.9),
    (
        "B-ASM-D",
        "negative scores",
        assumptions,
        "assumption_d",
        lambda problem, sets: assumption_d(several_optimal.lifted(problem), sets),
    ),
    ("B-EQ-73", "B-FIG-8", finite, "log_lost_between", without_log_T),
    (
        "B-EQ-75",
        "B-FIG-3a",
        finite_joint,
        "log_risk_at_least",
        lambda n, r, Gamma, nu, lost: -r * (Gamma - 2 * nu * lost),
    ),
    ("B-EQ-79", "a third input that is squeezed", finite_joint, "log_lost_between", without_log_T),
    (
        "B-EQ-79",
        "a third input that is squeezed",
        finite_joint,
        "margin_kept",
        lambda relaxed, full, epsilon: relaxed,
    ),
    ("B-EQ-84", "two winners per input", finite, "log_lost_between", without_log_T),
    ("B-ERR-21", "B-FIG-1b, random starts", convergence, "attracts", does_not_attract),
    (
        "B-NEW-1",
        "B-FIG-3b, rho = 0.5",
        joint,
        "interpolated_max_margin",
        lambda problem, rho, tokens: interpolated_max_margin(problem, 1.1 * rho, tokens),
    ),
    (
        "B-NEW-1b",
        "switching third input, rho = 8",
        joint,
        "interpolated_max_margin",
        lambda problem, rho, tokens: interpolated_max_margin(problem, rho / 8, tokens),
    ),
    ("B-NEW-2", "B-FIG-8", paths, "predicted", lambda unit, w, R: offset_path(unit, -w, R)),
    ("B-NEW-3", "B-FIG-8", paths, "critical_step", lambda found: 1.1 * critical(found)),
    ("B-NEW-3", "random keys", paths, "critical_step", lambda found: 0.9 * critical(found)),
    ("B-NEW-4", "B-FIG-8", index, "finite_indices", lambda found: found.sum),
    ("B-NEW-4", "random keys in space", index, "finite_indices", lambda found: 1 - len(found.directions)),
    ("B-NEW-4", "random keys in the plane", index, "morse_quotient", lambda indices: [-1, 0]),
    ("B-THM-1", "B-FIG-8", paths, "still_away", lambda angle: 0.05 * angle),
    ("B-THM-1", "B-FIG-8", paths, "path_limit", second_best),
    ("B-THM-2", "B-FIG-1a", convergence, "growth_rate", lambda norm: 2 * norm),
    ("B-THM-2", "B-FIG-1a", convergence, "flow_limit", second_best),
    ("B-THM-2M", "B-FIG-1a from (0, 1), after the transient", convergence, "TRANSIENT", 0.01),
    ("B-THM-3", "B-FIG-1b, token 1", local, "local_constants", scaled_constants(mu=3000)),
    (
        "B-THM-4",
        "B-FIG-1b, best direction turned by 5 degrees",
        local,
        "distance_kept",
        lambda path: kept(path) - 1,
    ),
    ("B-THM-5", "B-FIG-3a, r = R", joint, "still_away", lambda angle: 0.4 * angle),
    ("B-THM-6", "B-FIG-3b, r = R/2", joint, "coupling", lambda problem, tokens: 0.0),
    ("B-THM-6", "B-FIG-3b, r = 1.5 R", joint, "relaxed_max_margin", joint.max_margin),
    ("B-THM-8", "two winners per input", several_optimal, "still_away", lambda distance: 0.05 * distance),
    (
        "B-THM-8N",
        "tanh",
        several_optimal,
        "composed_loss",
        lambda loss, shape: replace(compose(loss, shape), log_slope=lambda u: loss.log_slope(u)),
    ),
    ("B-THM-L1", "random tokens", foundations, "POWER", {False: 1, True: 1}),
    ("B-THM-L1", "random tokens, normalised", foundations, "POWER", {False: 2, True: 2}),
    ("B-THM-L2", "equal labels", foundations, "explicit_separator", lambda data: 0.99 * separator(data)),
    ("B-THM-L3", "random tokens", gradients, "remainder_bound", lambda Gamma, A, lost: Gamma * A * lost**2),
    ("B-THM-L4", "B-FIG-1a", gradients, "descent_cosine", lambda pull, p_mm: -cosine(pull, p_mm)),
    ("B-THM-L5", "B-FIG-1a", gradients, "radial_bound", lambda pi: 1 - pi),
    ("B-THM-L6", "random tokens, logistic", gradients, "smoothness", smoother),
    ("B-THM-L7", "B-FIG-1b, token 1", local, "local_constants", scaled_constants(c=10)),
    ("B-THM-L7", "B-FIG-8, tokens 0 and 1", local, "local_constants", scaled_constants(C=0.1)),
    ("B-THM-L8", "a high scorer behind the neighbour", directions, "deciding_gap", directions.margin_gap),
    ("B-THM-L9", "B-FIG-1b, token 2", directions, "below", lambda excess: excess),
    ("B-THM-L10", "B-FIG-8", directions, "most_neighbors", lambda d: d - 1),
    (
        "B-THM-L14",
        "two winners per input",
        several_optimal,
        "sandwich",
        lambda found: (sandwich(found)[0] + 0.1, 1.0),
    ),
]


# Variants of true theorems that are false, each refuted with a proof where the theorem itself holds.
REFUTED = {
    "B-EQ-73: log_lost_between",
    "B-EQ-79: log_lost_between",
    "B-EQ-84: log_lost_between",
    "B-THM-1: path_limit",
    "B-THM-2: flow_limit",
    "B-THM-L1: POWER",
    "B-THM-L2: explicit_separator",
    "B-THM-L3: remainder_bound",
    "B-THM-L4: descent_cosine",
    "B-THM-L5: radial_bound",
    "B-THM-L6: smoothness",
    "B-THM-L7: local_constants",
    "B-THM-L8: deciding_gap",
    "B-THM-L9: below",
    "B-THM-L10: most_neighbours",
    "B-THM-L14: sandwich",
}


def is_refuted(mutation: tuple[Any, ...]) -> bool:
    return f"{mutation[0]}: {mutation[3]}" in REFUTED


def label(mutation: tuple[Any, ...]) -> str:
    return f"{mutation[0]}: {mutation[3]}, {mutation[1]}"


MEASURED = [each for each in MUTATIONS if not is_refuted(each)]
PLANTED = [each for each in MUTATIONS if is_refuted(each)]


@pytest.mark.parametrize("id, name, module, formula, mutant", MEASURED, ids=map(label, MEASURED))
def test_a_wrong_formula_flips_the_verdict(
    id: str, name: str, module: Any, formula: str, mutant: Any, flips: Any
) -> None:
    assert flips(id, name, module, formula, mutant)


@pytest.mark.parametrize("id, name, module, formula, mutant", PLANTED, ids=map(label, PLANTED))
def test_a_false_variant_is_refuted_with_a_proof(
    id: str, name: str, module: Any, formula: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (instance,) = (each for each in instances([id]) if each.name == name)
    monkeypatch.setattr(module, formula, mutant)
    found = instance.run()
    assert (found.verdict, bool(found.proof)) == ("fails", True), found


def test_every_statement_has_a_mutation() -> None:
    assert {each[0] for each in MUTATIONS} == {id for id in statements() if id.startswith("B-")}
