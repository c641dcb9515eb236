"""Theorem 5 at its own width: first step, gradient flow of p, selection, max-margin direction (A-THM-5).

Assumption 4, a first step of at least 4 n^2 T^2 and a width of at least (88 eta0^2 + 111 eta0 + 2)^8 make p
select the important tokens and tend to the max-margin direction of its own selection (equation (10),
A-RED-7). Such widths start at 1e44; the first step is drawn in the structured form, which has S + 2
coordinates whatever the width, and the flow is that of paper B on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import AnyInteger, check_arguments
from hardmax._lib.parallel import serial_blas
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.statistics import assumption_4
from hardmax.dynamics.flow import flow
from hardmax.dynamics.gradient import settle_at
from hardmax.dynamics.run import Run
from hardmax.embeddings.first_step import (
    FirstStepErrors,
    InitialEvent,
    StructuredState,
    draw_initial,
    loss_bound,
    read_delta,
)
from hardmax.embeddings.patterns import Pattern, pattern_max_margin, token_selection
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem


@dataclass(frozen=True)
class Thresholds:
    """The least step eta0 = 4 n^2 T^2 of Theorem 5, and the least width d at the step ``first_rate`` taken.

    The width is the largest of four: 256, the logarithm of Lemma 2, the eighth power of Lemma 12 and S + 3 of
    Lemma 13.
    """

    n: int
    T: int
    S: int
    delta: float
    first_rate: Fraction

    @property
    def least_eta0(self) -> int:
        """4 n^2 T^2."""
        return least_first_step(self.n, self.T)

    @property
    def logarithmic(self) -> int:
        """(2 log(S^2/delta))^2, rounded up: from here on event (14) is within d^(-1/4)."""
        return math.ceil((2.0 * (2.0 * math.log(self.S) - math.log(self.delta))) ** 2)

    @property
    def polynomial(self) -> int:
        """(88 eta0^2 + 111 eta0 + 2)^8, rounded up where eta0 is not an integer."""
        return loss_width(self.first_rate)

    @property
    def width(self) -> int:
        """The least d."""
        return max(256, self.logarithmic, self.polynomial, self.S + 3)

    def allow(self, d: int) -> bool:
        """Whether the step taken and the width d meet equation (10)."""
        return self.first_rate >= self.least_eta0 and d >= self.width


@check_arguments
def theorem_5_thresholds(
    n: int, T: int, S: int, *, delta: float, first_rate: AnyInteger | float | Fraction | None = None
) -> Thresholds:
    """Return Theorem 5's thresholds for n sequences of T tokens out of S, at probability 1 - delta.

    ``first_rate`` is the size of the first step, the least that is allowed by default.
    """
    delta = read_delta(delta)
    n, T, S = expect.whole("n", n, 1), expect.whole("T", T, 1), expect.whole("S", S, 1)
    least = least_first_step(n, T)
    return Thresholds(n, T, S, delta, _positive_fraction(least if first_rate is None else first_rate))


def least_first_step(n: int, T: int) -> int:
    """Return 4 n^2 T^2, the least first step of Theorem 5."""
    return 4 * expect.whole("n", n, 1) ** 2 * expect.whole("T", T, 1) ** 2


def loss_width(first_rate: float | Fraction) -> int:
    """Return (88 eta0^2 + 111 eta0 + 2)^8, from which width on Lemma 12 bounds the loss after a step."""
    exact = _positive_fraction(first_rate)
    return math.ceil((88 * exact**2 + 111 * exact + 2) ** 8)


def _positive_fraction(first_rate: Any) -> Fraction:
    # An integer or a fraction may be larger than any float.
    if not isinstance(first_rate, Rational) or first_rate <= 0:
        expect.positive("first_rate", first_rate)
    # A numpy integer would stay one inside the fraction, and overflow.
    return Fraction(int(first_rate)) if isinstance(first_rate, Integral) else Fraction(first_rate)


# The angle to the limit falls like the residual over |p|, and the residual is of the size of the values c.
DISTANCE = 1e5


@dataclass(frozen=True)
class StrongConditions:
    """The hypotheses of A-THM-5S: then p converges in direction, to the max margin of the designated tokens.

    ``apart``: no designated token is an ordinary one of another input. (H1) ``lead``, the least score of a
    designated token over another of its input, is positive. (H2) ``rank`` equals ``tokens``, the number of
    distinct tokens: their keys are independent. (H3) the loss at the start is below ``loss_bound``, what one
    input without its designated token costs at least, with the copies of it, which lose theirs together.
    """

    apart: bool
    lead: float
    rank: int
    tokens: int
    loss: float
    loss_bound: float

    @property
    def holds(self) -> bool:
        """Whether all of them do."""
        return self.apart and self.lead > 0.0 and self.rank == self.tokens and self.loss < self.loss_bound


@check_arguments
def strong_conditions(problem: Problem, designated: Sequence[int], start: Any = None) -> StrongConditions:
    """Test the hypotheses of A-THM-5S for one designated position per input and the flow's ``start``."""
    if len(designated) != problem.n:
        raise ValueError(f"designated must hold {problem.n} positions, one per input, got {len(designated)}")
    lead, floor = math.inf, math.inf
    stars, others = set(), set()
    used = np.unique(problem.tokens)
    keys, number = np.unique(problem.keys[used], axis=0, return_inverse=True)
    numbers = problem.split(number.ravel()[np.searchsorted(used, problem.tokens)])  # one for equal keys
    inputs = list(zip(problem.split(problem.scores), numbers, strict=True))
    contents = [tuple(sorted(zip(x.tolist(), scores.tolist(), strict=True))) for scores, x in inputs]
    copies = Counter(contents)
    for i, (scores, tokens) in enumerate(inputs):
        star = expect.whole(f"designated[{i}]", designated[i])
        if star >= len(tokens):
            raise ValueError(f"designated[{i}] must be a position below {len(tokens)}, got {star}")
        rest = np.delete(scores, star)
        stars.add(int(tokens[star]))
        others.update(np.delete(tokens, star).tolist())
        if rest.size:
            lead = min(lead, float(scores[star] - rest.max()))
            floor = min(floor, copies[contents[i]] * float(problem.loss.value(rest.max())))
    rank = int(np.linalg.matrix_rank(keys))
    u = settle_at(problem, problem.vector("start", start)).u
    loss = float(problem.loss.value(u).mean())
    return StrongConditions(not stars & others, lead, rank, len(keys), loss, floor / problem.n)


@dataclass(frozen=True, eq=False)
class TheoremFive:
    """One run of Theorem 5: the width, the state after the first step, the flow from there and its limit.

    ``pattern`` holds the tokens that the end of ``path`` selects in every sequence, ``best`` the max-margin
    vector of that pattern, and ``important`` the tokens s*_X.
    """

    corpus: Corpus
    thresholds: Thresholds
    d: int
    event: InitialEvent
    errors: FirstStepErrors
    state: StructuredState
    path: Run
    pattern: Pattern
    best: MaxMargin
    important: tuple[int, ...]
    conditions: StrongConditions

    @property
    def hypotheses_hold(self) -> bool:
        """Equation (10) and the event (14); Assumption 4 holds in every run."""
        return self.thresholds.allow(self.d) and self.event.holds

    @property
    def selects_important(self) -> bool:
        """Part (1) for every sequence: s*_X is among the selected tokens (A-LEM-14)."""
        return all(star in chosen for star, chosen in zip(self.important, self.pattern, strict=True))

    @property
    def selects_only_important(self) -> bool:
        """Nothing but s*_X is selected, which A-THM-5S proves and the paper leaves open."""
        return self.pattern == tuple((star,) for star in self.important)

    @property
    def misalignment_p(self) -> float:
        """Part (2): 1 - cos of p with the max-margin direction of its own selection; nan if there is none."""
        return self.path.cosine_distance(self.best) if self.best.direction is not None else math.nan

    @property
    def loss(self) -> float:
        """The loss after the first step."""
        return self.conditions.loss

    @property
    def loss_bound(self) -> float:
        """Lemma 12's bound on it."""
        mean = self.corpus.matrix @ self.corpus.alpha / self.corpus.lengths
        return loss_bound(self.corpus.signs * mean, float(self.thresholds.first_rate))


@check_arguments
def run_theorem_5(
    corpus: Corpus,
    *,
    d: AnyInteger | None = None,
    first_rate: float | Fraction | None = None,
    delta: float = 0.01,
    until_norm: float | None = None,
    rng: int | np.random.Generator,
) -> TheoremFive:
    """Draw the first step at width d, let p flow with E fixed, and compare with its own max margin.

    By default ``first_rate`` and ``d`` are the least that Theorem 5 allows at probability 1 - delta, and p
    flows to a norm at which its direction has settled. The corpus has to satisfy Assumption 4. If the flow
    stops early, ``path.event`` has the reason.
    """
    assumption = assumption_4(corpus)
    if assumption.important is None:
        raise ValueError(f"corpus must satisfy Assumption 4, and does not: {assumption.witness}")
    thresholds = theorem_5_thresholds(corpus.n, corpus.T, corpus.S, delta=delta, first_rate=first_rate)
    d = thresholds.width if d is None else expect.whole("d", d, 1)
    start = draw_initial(corpus.S, d, rng=rng)
    state, errors = start.first_step(corpus, float(thresholds.first_rate))
    problem = state.problem(corpus)
    distance = DISTANCE * float(np.abs(state.c).max()) if until_norm is None else until_norm
    with serial_blas():
        path = flow(problem, until_norm=distance, start=state.p)
    chosen = token_selection(corpus, state.E, path.p).selected
    is_important = problem.tokens == np.repeat(assumption.important, problem.sizes)
    positions = [int(np.argmax(at)) for at in problem.split(is_important)]
    return TheoremFive(
        corpus=corpus,
        thresholds=thresholds,
        d=d,
        event=start.initial_event(d, delta),
        errors=errors,
        state=state,
        path=path,
        pattern=chosen,
        best=pattern_max_margin(corpus, chosen, state.E),
        important=tuple(assumption.important.tolist()),
        conditions=strong_conditions(problem, positions, state.p),
    )
