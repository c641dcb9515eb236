"""Gradients and Hessian of the risk, right in direction at any norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import as_matrix, lengths
from hardmax.dynamics.softmax import DEPTH, LEAN, LOG_MASS, U, log_slopes, settle, take_logs
from hardmax.problem import Problem, need_problem
from hardmax.problem.coordinates import Scale, scaled
from hardmax.problem.keys import Dense, Keys
from hardmax.problem.losses import LossFunction
from hardmax.problem.problem import Slots, slots_of
from hardmax.problem.readouts import Attention


@dataclass(frozen=True, eq=False)
class Gradient:
    """Minus the gradient as a unit direction and the log of its norm; both survive any underflow.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]])
    >>> g = hm.gradient(problem, [5000.0, 0.0])
    >>> g.direction.tolist(), round(float(g.log_norm), 3)
    ([1.0, 0.0], -5001.313)
    """

    direction: np.ndarray  # unit vector of -gradient; zero at a stationary point
    log_norm: float  # -inf at a stationary point
    shape: tuple[int, ...] | None = None  # of the variable, where that is not the direction's

    @property
    def matrix(self) -> np.ndarray:
        """The direction as a matrix: that of W, where the inputs have queries.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[3.0, 4.0]], [[1.0, 0.0]])
        >>> (hm.gradient(problem, None).matrix * 2**0.5).round(12).tolist()
        [[0.6, 0.8], [-0.6, -0.8]]
        """
        return as_matrix(self.direction, self.direction.shape if self.shape is None else self.shape)

    @property
    def is_stationary(self) -> bool:
        """Whether the gradient is exactly zero."""
        return self.log_norm == -math.inf

    @property
    def vector(self) -> np.ndarray:
        """The gradient itself; it underflows to zero where exp(log_norm) does."""
        return -self.direction * math.exp(self.log_norm) if not self.is_stationary else 0.0 * self.direction


@dataclass(frozen=True, eq=False)
class Settled:
    """Attention at one p, from which the risk, its gradient and its Hessian follow."""

    slots: Slots
    gaps: np.ndarray  # (M,) logit gaps to the top slot, plus the shift
    tops: np.ndarray  # (n,)
    shift: float
    scores: np.ndarray  # (M,) scores at this attention
    weights: np.ndarray  # (M,) zero-sum weights over exp(depth) / mass
    u: np.ndarray  # (n,) signed predictions
    depth: np.ndarray
    lean: np.ndarray
    log_mass: np.ndarray
    log_slopes: np.ndarray  # (n,) log|l'|, plus the log of the input's weight
    # For a loss of log u (`softmax.take_logs`): the part of depth that log_slopes leave, and log u.
    left: np.ndarray | None = None
    log_u: np.ndarray | None = None

    @property
    def log_scale(self) -> np.ndarray:
        """log of the factor of each input's weights in minus the gradient times `total`, plus the shift."""
        return (self.depth if self.left is None else self.left) - self.log_mass + self.log_slopes

    @property
    def shares(self) -> np.ndarray:
        """Attention of every merged slot."""
        logits = self.gaps - self.shift
        logits[self.tops] = 0.0
        return self.slots.counts * np.exp(logits - self.per_slot(self.log_mass))

    def per_slot(self, x: np.ndarray) -> np.ndarray:
        """A per-input quantity repeated on the slots."""
        return np.repeat(x, np.diff(self.slots.offsets), axis=0)

    def per_input(self, x: np.ndarray) -> np.ndarray:
        """A per-slot quantity summed over the inputs."""
        return np.add.reduceat(x, self.slots.offsets[:-1], axis=0)

    def differences(self, table: np.ndarray) -> np.ndarray:
        """Rows of the slots minus the row of their input's top slot."""
        rows = table[self.slots.tokens]
        return rows - self.per_slot(rows[self.tops])


def settle_at(problem: Problem, p: np.ndarray, slots: Slots | None = None) -> Settled:
    """Return attention, predictions and gradient weights of a problem at p, for any readout.

    Given slots have the units of p; else both are scaled, which changes none of these.
    """
    if slots is None:
        scale = scaled(problem)
        slots, p = slots_of(scale.problem), scale.point(p)
    return settle_gaps(problem, slots, *slots.table.gaps(slots.tokens, slots.offsets, p))


def settle_gaps(
    problem: Problem, slots: Slots, gaps: np.ndarray, tops: np.ndarray, shift: float = 0.0
) -> Settled:
    """Return attention, predictions and gradient weights from logit gaps to the top slots, plus ``shift``."""
    if not problem.readout.moves:
        settled = _settle(slots, gaps, tops, shift, slots.merge(problem.scores))
        in_log = problem.readout.in_log
        if in_log is None:
            return replace(settled, log_slopes=_log_slopes(problem, problem.loss, settled.u))
        inputs = np.empty((LOG_MASS + 1, problem.n))
        inputs[DEPTH], inputs[LEAN] = settled.depth, settled.lean
        take_logs(tops, settled.scores, shift, inputs)
        left, u = inputs[DEPTH], inputs[U]
        log_u = u + np.where(left == settled.depth, 0.0, settled.depth - shift)
        return replace(settled, log_slopes=_log_slopes(problem, in_log, u), left=left, log_u=log_u)
    plain = _settle(slots, gaps, tops, shift, np.zeros(len(gaps)))
    h, u = problem.readout.attend(attention_of(problem, plain))
    settled = _settle(slots, gaps, tops, shift, h - plain.per_slot(h[tops]))
    return replace(settled, u=u, log_slopes=_log_slopes(problem, problem.loss, u))


def attention_of(problem: Problem, settled: Settled) -> Attention:
    """Return a settled point as a readout takes it."""
    slots = settled.slots
    merged = None if slots.group is None else slots
    return Attention(problem.tokens, slots.offsets, settled.shares, settled.tops, merged)


def risk_at(problem: Problem, p: np.ndarray, slots: Slots) -> float:
    """Return the risk at p, which has the units of the slots."""
    return risk_of(problem, settle_at(problem, p, slots))


def risk_of(problem: Problem, settled: Settled) -> float:
    """Return the risk at a settled point."""
    in_log = problem.readout.in_log
    if in_log is not None and settled.log_u is not None:
        return problem.average(in_log.value(settled.log_u))
    return problem.average(problem.loss.value(settled.u))


def _log_slopes(problem: Problem, loss: LossFunction, x: np.ndarray) -> np.ndarray:
    if problem.readout.moves and loss.is_compiled:  # such heads come with many inputs
        slopes = np.empty(len(x))
        log_slopes(np.ascontiguousarray(x), loss.log_slope, slopes)
    else:
        slopes = loss.log_slopes(x)
    return slopes if problem.weights is None else slopes + problem.log_weights


def _settle(slots: Slots, gaps: np.ndarray, tops: np.ndarray, shift: float, scores: np.ndarray) -> Settled:
    weights, inputs = np.empty(len(gaps)), np.empty((LOG_MASS + 1, len(tops)))
    settle(gaps, tops, scores, slots.counts, slots.offsets, shift, weights, inputs)
    u, depth, lean, log_mass = inputs
    return Settled(slots, gaps, tops, shift, scores, weights, u, depth, lean, log_mass, np.zeros(len(tops)))


def attended_values(problem: Problem, settled: Settled) -> tuple[np.ndarray, np.ndarray]:
    """z_i = sum_t s_it x_it of every input, and the values of the merged slots."""
    if problem.readout.values is None:
        raise ValueError("this problem has scores but no values; make it with from_values or from_tokens")
    at = attention_of(problem, settled)
    values = at.rows(problem.readout.values)
    return at.mean(values), values


@check_arguments
def gradient(problem: Problem, p: Any, wrt: Literal["p", "v", "W"] = "p") -> Gradient:
    """Return minus the gradient of the loss by p, by the readout v, or by W, in the log domain.

    >>> import hardmax as hm
    >>> problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    >>> hm.gradient(problem, None, wrt="W").direction.shape
    (10, 10)
    """
    need_problem(problem)
    p = problem.vector("p", p)
    problem.need_decreasing_loss()
    if wrt == "p":
        settled = settle_at(problem, p)
        pull = pull_of(settled, settled.slots.table, problem.total)
        return replace(pull, log_norm=pull.log_norm + scaled(problem).log, shape=problem.shape)
    if wrt == "v":
        return readout_pull(problem, settle_at(problem, p), problem.total)
    if wrt != "W":
        raise ValueError(f'wrt must be "p", "v" or "W", got {wrt!r}')
    values = problem.readout.values
    if problem.key_map is None or values is None:
        raise ValueError("the gradient by W needs a problem made with from_tokens: keys W x of its values x")
    # Tokens with one key may have several values here (W = 0 is an example): only equal values are merged.
    scale = scaled(problem)
    slots = replace(slots_of(problem._with(table=Dense(values))), table=scale.problem.table)
    inner = pull_of(settle_at(problem, scale.point(p), slots), Dense(values), problem.total)
    length = float(lengths(p))
    if length == 0.0 or inner.is_stationary:
        return Gradient(np.zeros((problem.d, inner.direction.size)), -math.inf)
    return Gradient(np.outer(p / length, inner.direction), inner.log_norm + math.log(length))


def pull_of(settled: Settled, table: Keys, total: float) -> Gradient:
    """Return minus the gradient by what has these keys; ``total`` is that of the problem."""
    slots = settled.slots
    V, common = table.gather(slots.tokens, slots.offsets, settled.tops, settled.weights, settled.log_scale)
    return unit(V, common - math.log(total))


def readout_pull(problem: Problem, settled: Settled, total: float) -> Gradient:
    """Return minus the gradient by the readout v at a settled point."""
    linear = problem.readout.linear
    if linear is None:
        raise ValueError(
            "the gradient by v needs a linear readout; make the problem with from_values or from_tokens"
        )
    z, _ = attended_values(problem, settled)
    common = settled.log_slopes.max()
    pull = (np.exp(settled.log_slopes - common) * linear.labels) @ z
    return unit(pull, common - math.log(total))


def with_readout(problem: Problem, v: np.ndarray) -> Problem:
    """Return the problem with another linear readout v."""
    if problem.readout.linear is None:
        raise ValueError("training v needs a linear readout; use Problem.from_values or from_tokens")
    return problem._with(readout=replace(problem.readout.linear, v=v))


def unit(V: np.ndarray, log_scale: float) -> Gradient:
    """Return the gradient exp(log_scale) V; scaled first, so that squares neither under- nor overflow."""
    largest = float(np.abs(V).max(initial=0.0))
    if largest == 0.0:
        return Gradient(np.zeros_like(V), -math.inf)
    length = float(np.linalg.norm(V / largest))
    return Gradient(V / largest / length, log_scale + math.log(largest) + math.log(length))


@dataclass(frozen=True, eq=False)
class Expansion:
    """-gradient = exp(common) V / total; its derivative exp(common) H / total is minus the Hessian.

    ``size`` is the length V would have if nothing canceled; it separates a stationary point from rounding.
    """

    H: np.ndarray
    V: np.ndarray
    common: float
    size: float


def expand(problem: Problem, settled: Settled, D: np.ndarray) -> Expansion:
    """Return first and second order at a settled point, with the differences D to the top slots.

    Per input, with C = sum w D and the mean difference m under the attention, the derivative of C is
    sum w D D' - C m' - m C', where the zero sum of w removes the m m' term exactly; the loss adds
    rate C (du/dp)'. For the log loss of one token that would cancel: see `_label_bend`.
    """
    log_scale = settled.log_scale
    common = float(log_scale.max())
    if common == -math.inf:
        return Expansion(np.zeros((problem.d, problem.d)), np.zeros(problem.d), common, 0.0)
    scale = np.exp(log_scale - common)
    pulls = settled.weights[:, None] * D
    C = settled.per_input(pulls)
    weighted = settled.per_slot(scale)[:, None] * pulls
    if settled.log_u is not None and (settled.per_input(settled.scores > 0.0) == 1).all():
        H = _label_bend(problem, settled, D, common)
    else:
        m = settled.per_input(settled.shares[:, None] * D)
        # du/dp of an input is C exp(depth) / mass, here without the shift; d log u/dp is that over u.
        in_log = problem.readout.in_log
        if in_log is None or settled.log_u is None:
            rates, log_du = problem.loss.slope_rates(settled.u), settled.depth - settled.log_mass
        else:
            rates, log_du = in_log.slope_rates(settled.log_u), log_scale - problem.log_weights
        bend = scale * rates * np.exp(log_du - settled.shift)
        cross = (scale[:, None] * C).T @ m
        H = weighted.T @ D - cross - cross.T + (bend[:, None] * C).T @ C
    size = float(np.linalg.norm(weighted, axis=1).sum())
    return Expansion(H, weighted.sum(axis=0), common, size)


def _label_bend(problem: Problem, settled: Settled, D: np.ndarray, common: float) -> np.ndarray:
    """`Expansion.H` of the log loss of one label token: minus the covariance of the keys under the attention.

    As second moments of differences to the top token; its own share, which may be all, does not enter.
    """
    log_shares = (
        settled.gaps - settled.shift + np.log(settled.slots.counts) - settled.per_slot(settled.log_mass)
    )
    log_shares[settled.tops] = -math.inf
    mean = settled.per_input(np.exp(log_shares)[:, None] * D)
    factor = settled.shift + problem.log_weights - common
    shares = np.exp(log_shares + settled.per_slot(factor))[:, None] * D
    return np.asarray(settled.per_input(shares).T @ mean - shares.T @ D)


@check_arguments
def hessian(problem: Problem, p: Any) -> np.ndarray:
    """Return the second derivative of the loss by p; entries underflow to zero where the loss is flat.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]], loss="correlation")
    >>> float(hm.dynamics.hessian(problem, [0.0])[0, 0]) + 0.0   # an inflection point of the sigmoid
    0.0
    """
    need_problem(problem)
    if problem.readout.moves:
        raise ValueError(
            "the Hessian is for linear readouts; a nonlinear one would need psi's second derivative"
        )
    problem.need_decreasing_loss()
    settled = settle_at(problem, problem.vector("p", p))
    second = expand(problem, settled, settled.differences(settled.slots.keys))
    H = -second.H * (math.exp(second.common) / problem.total)
    return Scale.shift(H, 2 * scaled(problem).exponent, "p has a Hessian that")
