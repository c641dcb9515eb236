"""Measurements at a p: attention, soft sparsity, risk, excess risk, smoothness constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.dynamics.gradient import Settled, attention_of, risk_of, settle_at
from hardmax.problem import Problem, need_problem
from hardmax.problem.coordinates import Scale, scaled
from hardmax.problem.selection import Selection, chosen_slots

# Below this log of 1 - u the log of u is minus that to the last digit.
VANISHING = -40.0

# Of the Gauss rule that follows a prediction from one token's to the present one.
NODES = 24


@check_arguments
def attention(problem: Problem, p: Any) -> list[np.ndarray]:
    """Return the softmax weights s_i of every input.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
    >>> hm.attention(problem, [0.0])
    [array([0.5, 0.5])]
    """
    need_problem(problem)
    settled = settle_at(problem, problem.vector("p", p))
    return problem.split(settled.slots.spread(settled.shares))


@check_arguments
def off_top_attention(problem: Problem, p: Any) -> float:
    """Return the mean over inputs of the attention off the top token, without cancellation.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
    >>> f"{hm.dynamics.off_top_attention(problem, [60.0]):.4g}"
    '8.757e-27'
    """
    need_problem(problem)
    settled = settle_at(problem, problem.vector("p", p))
    shares = settled.slots.spread(settled.shares)
    # Copies of the top token are that token; a twin of it with another score counts as lost attention.
    is_off = problem.groups != np.repeat(settled.slots.leaders[settled.tops], problem.sizes)
    return float(np.mean(np.add.reduceat(np.where(is_off, shares, 0.0), problem.offsets[:-1])))


def predictions(problem: Problem, p: Any) -> np.ndarray:
    """Signed prediction u_i of every input: positive where it has the sign of the label.

    >>> import hardmax as hm
    >>> from hardmax.dynamics.measures import predictions
    >>> predictions(hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]]), [0.0])
    array([0.5])
    """
    return settle_at(problem, problem.vector("p", p)).u


def attended(problem: Problem, p: Any, threshold: float) -> Selection:
    """Tokens with at least that much attention, copies of a token together; an input may have none.

    >>> import hardmax as hm
    >>> from hardmax.dynamics.measures import attended
    >>> attended(hm.Problem([[[1.0], [0.0], [-9.0]]], [[1.0, 0.0, 0.0]]), [1.0], 1e-3).sets
    ((0, 1),)
    """
    if expect.positive("threshold", threshold) > 1.0:
        raise ValueError(f"threshold must be a share of attention, at most 1, got {threshold!r}")
    shares = np.bincount(problem.groups, np.concatenate(attention(problem, p)), len(problem.tokens))
    return Selection(np.flatnonzero(s >= threshold).tolist() for s in problem.split(shares))


@check_arguments
def soft_sparsity(s: Any) -> float:
    """Return the effective number of attended tokens, |s|_1 / |s|_2^2: 1 if one-hot, T if uniform.

    >>> import hardmax as hm
    >>> hm.dynamics.soft_sparsity([0.25, 0.25, 0.25, 0.25])
    4.0
    """
    s = expect.finite_array("s", s, (None,))
    if not s.any():
        raise ValueError("s must have a nonzero entry")
    largest = float(np.abs(s).max())  # squares of the quotients neither overflow nor vanish
    s = s / largest
    return float(np.abs(s).sum() / (s @ s)) / largest


@check_arguments
def loss(problem: Problem, p: Any) -> float:
    """Return the mean loss over the inputs, or their weighted sum of losses.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]], loss="correlation")
    >>> hm.loss(problem, [0.0])
    -0.5
    """
    need_problem(problem)
    return risk_of(problem, settle_at(problem, problem.vector("p", p)))


@dataclass(frozen=True)
class SignedLog:
    """A number too small or too large for float64: its sign and the log of its size.

    >>> import hardmax as hm
    >>> float(hm.dynamics.SignedLog(-1, 0.0))
    -1.0
    """

    sign: int
    log: float

    def __float__(self) -> float:
        return self.sign * math.exp(self.log) if self.sign else 0.0

    @staticmethod
    def sum(terms: Iterable[SignedLog]) -> SignedLog:
        """Signed log-sum-exp."""
        nonzero = [t for t in terms if t.sign and t.log > -math.inf]
        if not nonzero:
            return SignedLog(0, -math.inf)
        top = max(t.log for t in nonzero)
        return _signed_log(math.fsum(t.sign * math.exp(t.log - top) for t in nonzero), top)


def _signed_log(x: float, log_scale: float) -> SignedLog:
    """Return x exp(log_scale)."""
    if x == 0.0:
        return SignedLog(0, -math.inf)
    return SignedLog(1 if x > 0 else -1, log_scale + math.log(abs(x)))


@check_arguments
def excess_loss(problem: Problem, p: Any, selection: Sequence[int]) -> SignedLog:
    """Return the loss at p minus the loss of attending to one chosen token per input, in the log domain.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> e = hm.dynamics.excess_loss(problem, [3000.0, 9000.0], selection=[0, 0])
    >>> e.sign, round(e.log, 6)
    (1, -3001.313262)
    """
    need_problem(problem)
    chosen = chosen_slots(problem, selection)
    settled = settle_at(problem, problem.vector("p", p))
    if problem.readout.in_log is not None:
        return _label_excess(problem, settled, chosen)
    if problem.readout.moves:
        scores = problem.readout.vertex_predictions(problem.tokens, problem.offsets)[chosen]
        falls = _moving_falls(problem, settled, chosen)
    else:
        scores = problem.scores[chosen]
        falls = [_fall(settled, i, score) for i, score in enumerate(scores)]
    terms = []
    for fall, score, weight in zip(falls, scores.tolist(), problem.log_weights.tolist(), strict=True):
        slope = problem.loss.log_mean_slope(score, float(fall))
        terms.append(SignedLog(fall.sign, fall.log + slope + weight - math.log(problem.total)))
    return SignedLog.sum(terms)


def _label_excess(problem: Problem, settled: Settled, chosen: np.ndarray) -> SignedLog:
    """The risk of the log loss in the log domain: attending to the labels costs nothing."""
    wrong = np.flatnonzero(problem.scores[chosen] == 0.0)
    if wrong.size:
        raise ValueError(
            f"selection must be of label tokens with the log loss, got another in input {int(wrong[0])}, "
            "where the risk is infinite; choose tokens with score 1"
        )
    # Loss of an input and 1 - u are alike where both vanish.
    assert settled.log_u is not None
    gaps = [_fall(settled, i, 1.0).log for i in range(problem.n)]
    terms = []
    for gap, log_u, weight in zip(gaps, settled.log_u.tolist(), problem.log_weights.tolist(), strict=True):
        log = gap if gap < VANISHING else math.log(-log_u)
        terms.append(SignedLog(1, log + weight - math.log(problem.total)))
    return SignedLog.sum(terms)


def _fall(settled: Settled, i: int, score: float) -> SignedLog:
    """score - u_i; in the log domain when the score is the top token's, since then it is tiny."""
    if score == settled.scores[settled.tops[i]]:
        return _signed_log(-float(settled.lean[i]), float(settled.depth[i]))
    return _signed_log(float(score - settled.u[i]), 0.0)


def _moving_falls(problem: Problem, settled: Settled, chosen: np.ndarray) -> list[SignedLog]:
    """u of the chosen tokens alone minus u_i, as the integral of du along the way from there.

    On the way the slots' shares are x times the present ones: du/dx = sum_t s_t (h_t - h_chosen), a sum of
    terms that are all small near the chosen token, so nothing cancels there.
    """
    slots = settled.slots
    start = chosen if slots.group is None else slots.group[chosen]
    at, ends = attention_of(problem, settled), np.zeros(len(settled.shares))
    ends[start] = 1.0
    log_shares = np.log(slots.counts) + settled.gaps - settled.shift - settled.per_slot(settled.log_mass)
    log_shares[start] = -np.inf  # the chosen token itself does not count
    top = np.maximum.reduceat(log_shares, slots.offsets[:-1])
    top = np.where(np.isfinite(top), top, 0.0)
    parts = np.exp(log_shares - settled.per_slot(top))
    total = np.zeros(problem.n)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    for x, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        h, _ = problem.readout.attend(replace(at, shares=ends + x * (at.shares - ends)))
        total += weight * settled.per_input(parts * (h - settled.per_slot(h[start])))
    return [_signed_log(-fall, log) for fall, log in zip(total.tolist(), top.tolist(), strict=True)]


@dataclass(frozen=True)
class Smoothness:
    """Lipschitz constants of the gradient by p: the paper's, and a tighter one.

    >>> import hardmax as hm
    >>> bound = hm.dynamics.smoothness(hm.data.example("B-FIG-1b"))
    >>> round(bound.L_p, 6), round(bound.tight, 6)
    (4.96045, 0.587031)
    """

    L_p: float
    tight: float


@check_arguments
def smoothness(problem: Problem) -> Smoothness:
    """Return the paper's L_p, from (v, W, X) if the keys are W x, else from (gamma, K), and a tighter one.

    Both grow with the square of the keys; where they leave the range of float64 a ValueError is raised.

    >>> import hardmax as hm
    >>> hm.dynamics.smoothness(hm.Problem([[[2.0], [1.0]]], [[1.0, 0.0]], loss="correlation")).tight
    0.25
    """
    if problem.loss.constants is None and problem.readout.in_log is None:
        raise ValueError(
            f"loss {problem.loss.name!r} has no constants; give LossFunction(..., constants=...)"
        )
    scale = scaled(problem)
    within = _smoothness(scale.problem)
    L_p, tight = Scale.shift(within, 2 * scale.exponent, "the smoothness constants of keys of this size")
    return Smoothness(float(L_p), float(tight))


def _smoothness(problem: Problem) -> np.ndarray:
    """(L_p, tight) for keys of moderate size."""
    if problem.readout.in_log is not None:  # a difference of two variances of k.q, each at most (range / 2)^2
        inputs = problem.split(problem.keys[problem.tokens])
        bound = problem.average(np.array([_diameter(rows) ** 2 / 4 for rows in inputs]))
        return np.array([bound, bound])
    assert problem.loss.constants is not None
    B = float(np.abs(problem.scores).max())
    M0, M1 = problem.loss.constants(-B, B)
    head, W = problem.readout.linear, problem.key_map
    paper: list[Any] = []
    tight: list[Any] = []
    for keys, gamma in zip(
        problem.split(problem.keys[problem.tokens]), problem.split(problem.scores), strict=True
    ):
        if W is not None and head is not None:
            X = head.values[problem.tokens][problem.offsets[len(paper)] : problem.offsets[len(paper) + 1]]
            x, v, w = np.linalg.norm(X, 2), np.linalg.norm(head.v), np.linalg.norm(W, 2)
            paper.append(M0 * v**2 * w**2 * x**4 + 3 * M1 * v * w**2 * x**3)
        else:
            k, g = np.linalg.norm(keys, 2), np.linalg.norm(gamma)
            paper.append(M0 * g**2 * k**2 + 3 * M1 * g * k**2)
        spread = _diameter(keys)
        gap = gamma.max() - gamma.min()
        tight.append(M0 * spread**2 * gap**2 / 16 + M1 * spread**2 * gap / 4)
    return np.array([problem.average(np.array(bounds)) for bounds in (paper, tight)])


def _diameter(keys: np.ndarray) -> Any:
    return max((np.linalg.norm(keys - key, axis=1).max() for key in keys), default=0.0)
