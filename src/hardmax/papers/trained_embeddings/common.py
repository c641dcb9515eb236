"""What statements of the trained-embeddings paper share: important tokens, embeddings after a first step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.statistics import assumption_4
from hardmax.dynamics.run import Run
from hardmax.embeddings.first_step import (
    FirstStepErrors,
    InitialEvent,
    StructuredState,
    draw_initial,
    infinite_width,
)
from hardmax.embeddings.theorem5 import Thresholds, least_first_step, strong_conditions, theorem_5_thresholds
from hardmax.margin.rationals import to_float
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Conditions, Hypothesis, Unmet
from hardmax.papers.checking.common import late_radius, second_gap
from hardmax.papers.checking.proof import balls, largest
from hardmax.problem import Problem

DELTA = 0.01
Width = int | None  # None is the least that the statement allows
Rate = float | None  # the first step eta0; None is 4 n^2 T^2
LARGEST = 1e75  # of embeddings and steps, and the inverse of the smallest: fourth powers are floats


def important_tokens(corpus: Corpus) -> tuple[Conditions, tuple[int, ...]]:
    """Return Assumption 4 and the token s* of every sequence; end the test if there is none."""
    test = assumption_4(corpus)
    condition = Hypothesis("Assumption 4", test.holds, None if test.holds else str(test.witness))
    if test.important is None:
        raise Unmet([condition])
    return Conditions([condition]), tuple(test.important.tolist())


def pattern_or_important(
    corpus: Corpus, selection: Sequence[Iterable[int]] | None
) -> tuple[Conditions, Sequence[Iterable[int]]]:
    """Return the given pattern, or by default that of the important tokens, which needs Assumption 4."""
    if selection is not None:
        return Conditions(), selection
    hypotheses, important = important_tokens(corpus)
    return hypotheses, [(s,) for s in important]


def step_of(corpus: Corpus, first_rate: Rate) -> float:
    """Return the given first step, whose square must be a float, or 4 n^2 T^2 with T the longest sequence."""
    if first_rate is None:
        return float(least_first_step(corpus.n, int(corpus.lengths.max())))
    return float(of_moderate_size("first_rate", np.array(expect.positive("first_rate", first_rate))))


def of_moderate_size(name: str, x: np.ndarray) -> np.ndarray:
    """Return the numbers if the fourth power of the largest is a float; else raise a ValueError."""
    size = float(np.abs(x).max(initial=0.0))
    if size and not 1 / LARGEST <= size <= LARGEST:
        raise ValueError(
            f"{name} must be between {1 / LARGEST:g} and {LARGEST:g} in size, got {size:g}; scale it"
        )
    return x


def fixed_embeddings(
    corpus: Corpus, E: Any = None, v: Any = None, first_rate: Rate = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the given E and v, or those after a first step of size eta0 at infinite width."""
    if E is None:
        limit = infinite_width(corpus, step_of(corpus, first_rate))
        return limit.E, limit.v
    E = of_moderate_size("E", expect.finite_array("E", E, (corpus.S, None)))
    return E, of_moderate_size("v", expect.finite_array("v", v, (E.shape[1],)))


def went_out(path: Run) -> bool | None:
    """Return whether a flow reached the norm it was sent to, with or without a tie.

    False if it came to rest, None if it stopped for another reason.
    """
    if path.event in (None, "tie"):
        return True
    return False if path.event in ("stationary point", "no competing token") else None


def late_enough(problem: Problem, best: MaxMargin, norm: float) -> Hypothesis:
    """Return the hypothesis that a path is far enough out for its limit to be judged."""
    if best.slack is None or not best.p_norm:
        return Hypothesis("late enough", None, {"|p|": norm})
    needed = late_radius(problem, min(best.margin, second_gap(best)))
    return Hypothesis("late enough", True if norm >= needed else None, {"|p|": norm, "needed": needed})


def score_lead(corpus: Corpus, E: np.ndarray, v: np.ndarray, important: tuple[int, ...]) -> float:
    """Return (H1)'s kappa: the least lead in gamma of an important token over others of its sequence."""
    positions = [X.tolist().index(star) for X, star in zip(corpus.sequences(), important, strict=True)]
    return strong_conditions(corpus.problem(E, v), positions).lead


@dataclass(frozen=True, eq=False)
class FirstStepDraw:
    """A random start at width d, the first step from there, and the conditions of the theory on both."""

    d: int
    start: StructuredState
    after: StructuredState
    errors: FirstStepErrors
    event: InitialEvent
    thresholds: Thresholds

    @property
    def conditions(self) -> list[Hypothesis]:
        """The conditions of Lemma 2: the width, and the event (14)."""
        least = max(256, self.thresholds.logarithmic)
        return [
            Hypothesis("d >= max(256, (2 log(S^2/delta))^2)", self.d >= least, to_float(Fraction(self.d))),
            Hypothesis("event (14)", self.event.holds, self.event.overlap),
        ]

    def wide_for_the_loss(self) -> Hypothesis:
        """Return Lemma 12's condition on d."""
        least = self.thresholds.polynomial
        share = to_float(Fraction(self.d, least))
        return Hypothesis("d >= (88 eta0^2 + 111 eta0 + 2)^8", self.d >= least, share)

    def wide_for_the_norm(self) -> Hypothesis:
        """Return Lemma 19's second condition on d, (2 eta0 (n sqrt(2 log(S^2/delta)) + 44 n))^4."""
        sizes = self.thresholds
        root = math.sqrt(2 * (2 * math.log(sizes.S) - math.log(sizes.delta)))
        least = (2 * sizes.first_rate * sizes.n * (Fraction(root) + 44)) ** 4
        return Hypothesis("d as Lemma 19 asks", self.d >= least, to_float(self.d / least))


def draw_first_step(
    corpus: Corpus,
    *,
    d: Width = None,
    first_rate: Rate = None,
    delta: float = DELTA,
    rng: int | np.random.Generator = 0,
) -> FirstStepDraw:
    """Draw E0, p0 at width d (Theorem 5's own by default) and take the first step, 4 n^2 T^2 by default."""
    step = step_of(corpus, first_rate)
    longest = int(corpus.lengths.max())
    thresholds = theorem_5_thresholds(corpus.n, longest, corpus.S, delta=delta, first_rate=step)
    width = thresholds.width if d is None else d
    start = draw_initial(corpus.S, width, rng=rng)
    after, errors = start.first_step(corpus, float(step))
    return FirstStepDraw(width, start, after, errors, start.initial_event(width, delta), thresholds)


def masses(corpus: Corpus, a: np.ndarray) -> list[tuple[list[int], np.ndarray, int]]:
    """Return for every sequence its distinct tokens, their softmax masses in balls, and the label."""
    rows = []
    for k in range(corpus.n):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        tokens = corpus.tokens[slots].tolist()
        weights = corpus.counts[slots].astype(int) * np.exp(a[tokens] - largest(a[tokens]))
        rows.append((tokens, weights / weights.sum(), int(corpus.labels[k])))
    return rows


def derivatives(corpus: Corpus, a: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return dL/da and dL/dc of all tokens in balls."""
    by_a, by_c = balls(np.zeros(corpus.S)), balls(np.zeros(corpus.S))
    for tokens, Q, y in masses(corpus, a):
        f = Q @ c[tokens]
        share = Q * (-y / (1 + (y * f).exp()) / corpus.n)
        by_a[tokens] += share * (c[tokens] - f)
        by_c[tokens] += share
    return by_a, by_c
