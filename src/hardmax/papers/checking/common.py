"""Measurements and hypotheses of several statements: lateness, lost attention, directions, scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hardmax.dynamics.measures import SignedLog
from hardmax.margin.att_svm import max_margin
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Conditions, Hypothesis, Unmet
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

PATIENCE = 20.0  # when it is late, all but the leading terms add at most e^-20
ROUNDING = 1e-9  # of a sum of doubles, in a claim that can be tight; a failure is settled without it


def log_spread(problem: Problem) -> float:
    """Return the log of the ratio of score gaps times the ratio of slopes of the loss, largest over least."""
    scores = problem.split(problem.scores)
    gaps = np.concatenate([np.abs(g[:, None] - g[None, :]).ravel() for g in scores])
    gaps = gaps[gaps > 0]
    if not gaps.size:
        return 0.0
    # slopes at far scores are not floats, their logarithms are
    slopes = problem.loss.log_slopes(np.linspace(problem.scores.min(), problem.scores.max(), 101))
    return math.log(gaps.max()) - math.log(gaps.min()) + float(np.ptp(slopes))


def late_radius(problem: Problem, least: float) -> float:
    """Return the norm of p from which a limit may be judged; ``least`` is the least margin to be resolved.

    At this norm e^(-least R) is below e^-20 over 64 n T times all ratios of score gaps and slopes: only the
    terms of largest margin are left. Before it, what is far from its limit refutes nothing.
    """
    if not least > 0:
        return math.inf  # a margin that floats do not tell from zero is resolved nowhere
    T = int(problem.sizes.max())
    return (math.log(64 * problem.n * T) + log_spread(problem) + PATIENCE) / least


def later(radius: float, farthest: float) -> list[float]:
    """Return the radii at which an approach is looked for: the given one, and 10 and 100 times as far out."""
    return [R for R in (radius, 10 * radius, 100 * radius) if farthest >= R]


def second_gap(best: MaxMargin) -> float:
    """Return the gap from the margin to the least margin off the support, at the unit p_mm; inf if none."""
    assert best.slack is not None
    loose = best.slack[~best.tight]
    return float(loose.min(initial=np.inf)) * best.margin


def late_for(problem: Problem, best: MaxMargin) -> float:
    """Return the norm of p from which a direction may be judged against p_mm: see `late_radius`."""
    return late_radius(problem, min(best.margin, second_gap(best)))


def along(best: MaxMargin) -> np.ndarray:
    """Return p_mm/|p_mm|, of a selection that is known to be separable and to have a competitor."""
    assert best.direction is not None
    return best.direction


def longest_difference(problem: Problem) -> float:
    """Return the largest distance of two keys of one input: logits move by at most this times |p|."""
    keys = problem.split(problem.keys[problem.tokens])
    return max(float(np.linalg.norm(k[:, None] - k[None], axis=-1).max()) for k in keys)


def unit_length(problem: Problem) -> float:
    """Return the |p| at which logits move by at most one; 1 if all keys are equal."""
    return 1 / (longest_difference(problem) or 1.0)


def random_points(
    problem: Problem, draws: int, chance: np.random.Generator, low: float, high: float
) -> Iterator[np.ndarray]:
    """Draw normal points whose scale runs from ``low`` to ``high`` times `unit_length`, evenly in the log."""
    unit = unit_length(problem)
    for scale in np.geomspace(low * unit, high * unit, draws):
        yield scale * chance.normal(size=problem.d)


def with_copies(problem: Problem, sets: Iterable[Iterable[int]]) -> list[tuple[int, ...]]:
    """Add all copies to sets of tokens: a token that occurs several times loses nothing to itself."""
    whole = []
    for leaders, inside in zip(problem.split(problem.groups), sets, strict=True):
        chosen = {int(leaders[t]) for t in inside}
        whole.append(tuple(t for t, leader in enumerate(leaders.tolist()) if leader in chosen))
    return whole


def log_lost(problem: Problem, p: Any, sets: Iterable[Sequence[int]]) -> np.ndarray:
    """Return the log of the attention that each input gives to tokens outside its set, at any norm of p."""
    logs = []
    for keys, inside in zip(problem.split(problem.keys[problem.tokens]), sets, strict=True):
        # differences first: the logits are huge, their gaps need not be
        logits = (keys - keys[inside[0]]) @ np.asarray(p, dtype=float)
        outside = np.delete(logits, inside)
        logs.append(np.logaddexp.reduce(outside, initial=-np.inf) - np.logaddexp.reduce(logits))
    return np.array(logs)


def unit_directions(d: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return unit vectors: an even fan of angles in the plane, random ones in more dimensions."""
    if d == 2:
        angles = 2 * np.pi * np.arange(count) / count
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    draws = rng.normal(size=(count, d))
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


def cone_directions(
    q: np.ndarray, mu: float, count: int, chance: np.random.Generator, *, boundary: bool = False
) -> np.ndarray:
    """Return unit vectors with 1 - cos to the unit vector q of at most mu, or exactly mu on the boundary.

    On the line a cone is the ray of q itself.
    """
    if q.size == 1:
        return np.tile(q, (count, 1))
    across = chance.normal(size=(count, q.size))
    across -= np.outer(across @ q, q)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    gaps = np.full(count, mu) if boundary else mu * chance.uniform(size=count)
    return np.outer(1 - gaps, q) + np.sqrt(gaps * (2 - gaps))[:, None] * across


def lead(first: SignedLog, second: SignedLog) -> float:
    """Return how far the first number is below the second: a difference of logs, or 1 if signs differ."""
    if first.sign != second.sign:
        return 1.0 if first.sign < second.sign else -1.0
    return (second.log - first.log) * first.sign


def single_input(problem: Problem, i: int) -> Problem:
    """Return input i alone, as a problem with scores."""
    keys, scores = (problem.split(x)[i] for x in (problem.keys[problem.tokens], problem.scores))
    return Problem([keys], [scores], problem.loss)


def separable_best(problem: Problem) -> tuple[Hypothesis, MaxMargin | None]:
    """Return the hypothesis that the best tokens are separable (B-ERR-01), and their max-margin solution."""
    if not best_tokens(problem).is_unique:
        return Hypothesis("best tokens separable", None, "several best tokens", "B-ERR-01"), None
    best = max_margin(problem)
    measured = best.margin if best.is_feasible else 0.0
    return Hypothesis("best tokens separable", best.is_feasible, measured, "B-ERR-01"), best


def strict_best(problem: Problem) -> Hypothesis:
    """Return the hypothesis that every input has one best-scoring token."""
    sets = best_tokens(problem).sets
    return Hypothesis("one best token per input", all(len(s) == 1 for s in sets), [len(s) for s in sets])


def distinct_scores(problem: Problem, erratum: str | None = None) -> Hypothesis:
    """Return the hypothesis that no two tokens of an input score alike; copies of a token count once."""
    first = problem.split(problem.groups == np.arange(problem.groups.size))
    alike = []
    for i, (scores, is_first) in enumerate(zip(problem.split(problem.scores), first, strict=True)):
        if len(set(scores[is_first].tolist())) < is_first.sum():
            alike.append(i)
    return Hypothesis("distinct scores", not alike, {"inputs with equal scores": alike}, erratum)


def one_selection(problem: Problem, selection: Iterable[int] | None) -> tuple[Conditions, tuple[int, ...]]:
    """Return the given selection, or by default the best tokens with the hypothesis that they are unique."""
    if selection is not None:
        return Conditions(), tuple(selection)
    unique = strict_best(problem)
    return Conditions([unique]), tuple(tokens[0] for tokens in best_tokens(problem).sets)


def fixed_scores(problem: Problem) -> Hypothesis:
    """Return the hypothesis that the scores do not depend on the attention."""
    return Hypothesis("fixed scores", not problem.readout.moves)


def decreasing_loss(problem: Problem) -> Hypothesis:
    """Return Assumption A on the range of the scores: l' is negative and finite."""
    lo, hi = float(problem.scores.min()), float(problem.scores.max())
    logs = problem.loss.log_slopes(np.linspace(lo, hi, 101))
    falls = bool(np.isfinite(logs).all()) and problem.loss.decreases(lo, hi)
    return Hypothesis("B-ASM-A", falls, math.exp(float(logs.min())))


def need_rivals(problem: Problem, sets: Iterable[Sequence[int]], conditions: Iterable[Hypothesis]) -> None:
    """End the test after its conditions if the sets contain every token, so that nothing is claimed."""
    whole = with_copies(problem, sets)
    if all(len(inside) == size for inside, size in zip(whole, problem.sizes.tolist(), strict=True)):
        raise Unmet(conditions)


def identity_embeddings(c: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return embeddings [e_s, c_s] and the readout v of the last coordinate."""
    values = np.asarray(c, dtype=float)
    return np.column_stack([np.eye(len(values)), values]), np.append(np.zeros(len(values)), 1.0)
