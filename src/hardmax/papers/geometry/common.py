"""What several statements of part D assume, rounding of floats, and what its figures share."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GREEN, ORANGE, RED, TEAL
from hardmax.dynamics.train import train_quietly
from hardmax.papers.checking.check import Hypothesis, need
from hardmax.papers.checking.common import decreasing_loss, fixed_scores, one_selection
from hardmax.problem import Problem

ROUNDING = 1e-9  # what a sum of doubles may add to an identity


def separable(
    problem: Problem, norm: str, selection: Iterable[int] | None = None, before: tuple[Hypothesis, ...] = ()
) -> hm.MaxMargin:
    """The max margin of a selection, the best tokens by default.

    If one of its conditions is not met, the test ends with this condition after those ``before``.
    """
    need(*before, fixed_scores(problem))
    hypotheses, tokens = one_selection(problem, selection)
    for condition in (*hypotheses, decreasing_loss(problem)):
        need(*before, condition)
    best = hm.max_margin(problem, tokens, norm=norm)
    if not best.is_certified:
        verdict = False if best.is_feasible is False else None
        need(*before, Hypothesis("selection separable", verdict, best.status))
    need(*before, Hypothesis("a token competes", best.p_norm != 0, 0))
    return best


def strong(problem: Problem, best: hm.MaxMargin) -> Hypothesis:
    """The hypothesis that the selection attracts in its norm; "weak" and "doubtful" leave it open."""
    word = hm.attracts(problem, best).written
    return Hypothesis("strong", word == "strong" if word in ("strong", "no") else None, word)


def no_still_coordinate(best: hm.MaxMargin) -> Hypothesis:
    """The hypothesis that every coordinate feels the gradient in the limit; else it swings."""
    assert best.multipliers is not None
    pull = np.abs(best.constraints.rows().T @ best.multipliers)
    return Hypothesis("no coordinate of D'y is zero", bool(pull.min() > ROUNDING * pull.max()), pull.tolist())


# `train` without its warning of a rate that is too large: what happens there is what is tested
trained = partial(train_quietly, record=())


def has_queries(problem: Problem) -> Hypothesis:
    """The hypothesis that what is trained is a matrix."""
    return Hypothesis("inputs with queries", len(problem.shape) == 2, problem.shape)


def chosen(run: hm.Run) -> Hypothesis:
    """The hypothesis that a run came to select one token of every input; ``measured`` are these."""
    selection = run.selection if run.p.any() else None
    tokens = selection.tokens if selection is not None and selection.is_unique else None
    measured = run.event if tokens is None else tokens
    return Hypothesis("the run selects one token per input", tokens is not None, measured)


def run_margin(
    problem: Problem, run: hm.Run, norm: str, *before: Hypothesis
) -> tuple[Hypothesis, hm.MaxMargin]:
    """Return the hypothesis that a run selects one token per input, and the max margin of these tokens.

    If one of the conditions is not met, the test ends with it after those ``before``.
    """
    one = chosen(run)
    need(*before, one)
    return one, separable(problem, norm, one.measured, before)


def selects(run: hm.Run, best: hm.MaxMargin) -> Hypothesis:
    """The hypothesis that a run came to select what the max margin is of."""
    one = chosen(run)
    same = bool(one.holds) and one.measured == tuple(best.selection or ())
    return Hypothesis("the run selects these tokens", same, one.measured)


def row_margins(best: hm.MaxMargin, points: np.ndarray) -> np.ndarray:
    """The least margin of the rows at every point."""
    return np.asarray((np.atleast_2d(points) @ best.constraints.rows().T).min(axis=1))


COLORS = {"l1": ORANGE, "l1.5": TEAL, "l2": BLUE, "l3": GREEN, "linf": RED}
NAMES = {
    "l1": r"$\ell_1$",
    "l1.5": r"$\ell_{1.5}$",
    "l2": r"$\ell_2$",
    "l3": r"$\ell_3$",
    "linf": r"$\ell_\infty$",
}


def marks(last: int, number: int = 60) -> list[int]:
    """Steps evenly spaced in their logarithm, with the powers of ten, up to the last one."""
    spread = np.geomspace(1, last, number).round().astype(int)
    return np.union1d(spread, 10 ** np.arange(int(np.log10(last)) + 1)).tolist()


def deficits(run: hm.Run, best: hm.MaxMargin) -> tuple[np.ndarray, np.ndarray]:
    """The recorded steps after the start, and how far p was from the max margin at each."""
    late = np.flatnonzero(np.asarray(run.points).any(axis=1))
    return run.times[late].astype(int), np.array([max(best.margin_gap(run.points[at]), 0.0) for at in late])


def at(steps: np.ndarray, values: np.ndarray, step: int) -> float:
    """The value recorded at that step."""
    return float(values[steps == step][0])


STEPS = {"quick": 10_000, "paper": 100_000}
