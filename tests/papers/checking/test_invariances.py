"""What no verdict may depend on: units, origin, order and repetition of the data, for all statements of B."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.papers.checking.fuzz import LIGHTER

import hardmax as hm
from hardmax.papers.checking.check import Check, check_statement, statements

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

# Statements about joint training scale differently, and statements of fixed protocols (rates, steps) are
# measurements of those; both are tested by themselves below or elsewhere.
JOINT = {"B-ASM-C", "B-EQ-75", "B-EQ-79", "B-NEW-1", "B-NEW-1b", "B-THM-5", "B-THM-6"}
PROTOCOL = {"B-APP-E", "B-THM-2M", "B-THM-L1", "B-THM-L2", "B-THM-8N"}
LONG = {"B-THM-4", "B-ERR-21"}
# Lemma 5 is about one input; Lemma 10 and B-NEW-4 ask for independent rows, which repeated inputs are not.
ONCE = {"B-THM-L5", "B-THM-L10", "B-NEW-4"}
FIXED = sorted(id for id in statements() if id.startswith("B-") and id not in JOINT | PROTOCOL | LONG)

Data = tuple[list[np.ndarray], list[np.ndarray]]


def draw(seed: int) -> Data:
    """Gaussian keys and scores of one to three inputs in one to three dimensions."""
    rng = np.random.default_rng([18, seed])
    n, T, d = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    return list(rng.normal(size=(n, T, d))), list(rng.normal(size=(n, T)))


def turn(d: int, seed: int) -> np.ndarray:
    """A random rotation."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))
    return q * np.sign(np.diag(r))


def shifted(keys: list[np.ndarray], scores: list[np.ndarray], options: dict[str, Any], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return [keys[0] + rng.normal(size=keys[0].shape[1]), *keys[1:]], scores, options


def scaled(keys: list[np.ndarray], scores: list[np.ndarray], options: dict[str, Any], seed: int) -> Any:
    c = 2.0 ** np.random.default_rng(seed).integers(-20, 20)
    moved = {name: value / c if name == "start" else value for name, value in options.items()}
    return [c * k for k in keys], scores, moved


def rotated(keys: list[np.ndarray], scores: list[np.ndarray], options: dict[str, Any], seed: int) -> Any:
    Q = turn(keys[0].shape[1], seed)
    moved = {name: Q @ value if name in ("p", "q", "start") else value for name, value in options.items()}
    return [k @ Q.T for k in keys], scores, moved


def permuted(keys: list[np.ndarray], scores: list[np.ndarray], options: dict[str, Any], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    inputs = rng.permutation(len(keys))
    orders = [rng.permutation(len(k)) for k in keys]
    moved = dict(options)
    if "selection" in moved:
        placed = [int(np.flatnonzero(o == t)[0]) for o, t in zip(orders, moved["selection"], strict=True)]
        moved["selection"] = tuple(placed[i] for i in inputs)
    return [keys[i][orders[i]] for i in inputs], [scores[i][orders[i]] for i in inputs], moved


def repeated(keys: list[np.ndarray], scores: list[np.ndarray], options: dict[str, Any], seed: int) -> Any:
    """All inputs twice; only what is said of one input alone may change."""
    moved = dict(options)
    if "selection" in moved:
        moved["selection"] = tuple(moved["selection"]) * 2
    return keys * 2, scores * 2, moved


def copied(keys: list[np.ndarray], scores: list[np.ndarray], options: dict[str, Any], seed: int) -> Any:
    """A token of the first input once more, at the end: a multiplicity."""
    t = int(np.random.default_rng(seed).integers(len(keys[0])))
    more = np.concatenate([keys[0], keys[0][t : t + 1]]), np.append(scores[0], scores[0][t])
    return [more[0], *keys[1:]], [more[1], *scores[1:]], options


MOVES: list[Callable[..., Any]] = [shifted, scaled, rotated, permuted, repeated, copied]


def asked(id: str, problem: hm.Problem, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([19, seed])
    attract = [found.selection for found in hm.selections(problem, limit=5)]
    given: dict[str, Any] = {
        "selection": attract[0] if attract else (0,) * problem.n,
        "p": rng.normal(size=problem.d),
        "q": rng.normal(size=problem.d),
    }
    parameters = list(inspect.signature(statements()[id].test).parameters.values())[1:]
    return {p.name: given[p.name] for p in parameters if p.default is p.empty and p.name in given}


@cache
def unmoved(id: str, seed: int) -> Check:
    """The verdict on the data as drawn, which is the same for every move."""
    problem = hm.Problem(*draw(seed))
    return check_statement(id, problem, **asked(id, problem, seed), **LIGHTER.get(id, {}))


@pytest.mark.parametrize("move", MOVES, ids=[move.__name__ for move in MOVES])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_no_verdict_depends_on_how_the_data_is_written(move: Callable[..., Any], seed: int) -> None:
    keys, scores = draw(seed)
    problem = hm.Problem(keys, scores)
    for id in FIXED:
        if move is repeated and (id in ONCE or problem.n == 1):
            continue
        options = asked(id, problem, seed)
        before = unmoved(id, seed)
        other_keys, other_scores, moved = move(keys, scores, options, seed)
        other = hm.Problem(other_keys, other_scores)
        after = check_statement(id, other, **moved, **LIGHTER.get(id, {}))
        if move is copied and id in ("B-THM-L10", "B-ASM-B"):
            continue  # a copy is a neighbor of its own direction and a second best token as the paper counts
        assert after.verdict == before.verdict, (id, seed, before, after)


@pytest.mark.parametrize("seed", range(6))
def test_selections_depend_on_the_order_of_scores_alone(seed: int) -> None:
    """Shifted or scaled scores, and an input that stands twice: the same directions attract."""
    keys, scores = draw(seed)

    def attracting(keys: list[np.ndarray], scores: list[np.ndarray]) -> list[tuple[Any, ...]]:
        found = hm.selections(hm.Problem(keys, scores))
        n = len(keys)
        return sorted((each.selection[:n], each.attracts.verdict, each.max_margin.margin) for each in found)

    plain = attracting(keys, scores)
    assert attracting(keys, [3.0 + g for g in scores]) == plain
    assert attracting(keys, [4.0 * g for g in scores]) == plain
    twice = hm.selections(hm.Problem([*keys, keys[0]], [*scores, scores[0]]))
    same = [each for each in twice if each.selection[0] == each.selection[-1]]
    assert len(same) == len(plain)
    for each, (selection, local, margin) in zip(sorted(same, key=lambda x: x.selection), plain, strict=True):
        assert (each.selection[:-1], each.attracts.verdict) == (selection, local)
        assert each.max_margin.margin == pytest.approx(margin, rel=1e-12)


@pytest.mark.parametrize(
    "id, name, rho",
    [("B-THM-5", "B-FIG-3a", 1.0), ("B-THM-6", "B-FIG-3b", 1.5), ("B-NEW-1b", "B-FIG-3b", 1.5)],
)
def test_joint_statements_have_no_units(id: str, name: str, rho: float) -> None:
    """Keys times a and values times b: p over a, v over b, so rho times a/b."""
    a, b, plain = 0.25, 8.0, hm.data.example(name)
    head = plain.readout
    assert isinstance(head, hm.readouts.LinearReadout)
    keys, values = (plain.split(x[plain.tokens]) for x in (plain.keys, head.values))
    moved = hm.Problem.from_values([a * k for k in keys], [b * x for x in values], head.labels, head.v / b)
    options = {} if id == "B-NEW-1b" else {"selection": (1, 1, 1)}
    before = check_statement(id, plain, rho=rho, **options)
    after = check_statement(id, moved, rho=rho * a / b, **options)
    assert before.verdict == after.verdict == "holds"
    assert after.slack == pytest.approx(before.slack, rel=0.05)  # judged at about the same radius
