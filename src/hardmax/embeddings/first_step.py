"""The first step learns alpha: E1_s = E0_s + (eta0/2) alpha_s v + err_s and p1 = p0 + err_p (A-LEM-2).

The errors are formed without cancellation: with Q the softmax mass, g the logistic weight, dQ = Q -
m/T and dg = g - 1/2,

    r_s = E[y dQ_s]/2 + E[y dg Q_s],   w = -A,   err_s = eta0 (r_s v + w_s p),   err_p = eta0 E' w,

so that they are right to the last digits at any width, also where d = 1e60 and alpha hides them completely.

At the widths of Theorem 5 the embeddings are orthonormal up to 1e-22, and the first step gives those of
important tokens components c along v of the order of n T. In the Gram matrix I + c c' the identity loses two
digits for each that c gains. So a `StructuredState` holds the difference from the identity: every vector is
written in orthonormal coordinates, one per token, one for p and the last along v,

    E_s = e_s + noise_s + c_s v,      p = e_p + noise_p + rho v,      |v| = 1,

and the small noise is added to its 1 only in `E` and `p`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import AnyInteger, check_arguments
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings import one_layer
from hardmax.embeddings.gram import GramState
from hardmax.problem import Problem

# Numbers in E0 (16 GiB); inner products need no vectors.
LARGEST_TABLE = 2**31


@check_arguments
def initial_vectors(
    S: int, d: AnyInteger, *, rng: int | np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw E0 and p0 with independent N(0, 1/d) entries, and v uniform on the unit sphere.

    >>> import hardmax as hm
    >>> E, p, v = hm.embeddings.initial_vectors(S=5, d=400, rng=0)
    >>> E.shape, round(float(v @ v), 12), bool(abs(p @ p - 1) < 0.3)
    ((5, 400), 1.0, True)
    """
    S, d, rng = expect.whole("S", S, 1), expect.whole("d", d, 1), expect.generator(rng)
    if S * d > LARGEST_TABLE:
        raise ValueError(
            f"d must be at most {LARGEST_TABLE // S} for {S} vectors in memory; use draw_initial"
        )
    E, p, v = rng.normal(size=(S, d)), rng.normal(size=d), rng.normal(size=d)
    return E / math.sqrt(d), p / math.sqrt(d), v / np.linalg.norm(v)


@dataclass(frozen=True)
class InitialEvent:
    """The event (14) that the theory is conditional on: small overlaps, and norms of at most 2 (A-EVT-14).

    ``overlap`` is the largest of |E_s.v|, |E_s.p|, |p.v|, ``norm`` the largest of |E_s|, |p|.
    """

    overlap: float
    norm: float
    overlap_bound: float
    norm_bound: float = 2.0

    @property
    def holds(self) -> bool:
        """Whether both bounds hold."""
        return self.overlap <= self.overlap_bound and self.norm <= self.norm_bound


@check_arguments
def initial_event(E: Any, p: Any, v: Any, delta: float) -> InitialEvent:
    """Test the event (14) on vectors; its probability is at least 1 - delta for `initial_vectors`."""
    E = expect.finite_array("E", E, (None, None))
    p, v = (expect.finite_array(name, x, (E.shape[1],)) for name, x in (("p", p), ("v", v)))
    return initial_event_from_gram((E * E).sum(axis=1), E @ p, E @ v, p @ p, p @ v, d=len(p), delta=delta)


@check_arguments
def initial_event_from_gram(
    diagonal: Any, a: Any, c: Any, pi: float, rho: float, *, d: AnyInteger, delta: float
) -> InitialEvent:
    """Test the event (14) on inner products |E_s|^2, E p, E v, |p|^2 and p.v; d may be any Python integer."""
    diagonal = expect.finite_array("diagonal", diagonal, (None,))
    S = len(diagonal)
    a, c = (expect.finite_array(name, x, (S,)) for name, x in (("a", a), ("c", c)))
    d, delta = expect.whole("d", d, 1), read_delta(delta)
    bound = math.exp(-0.5 * math.log(d)) * math.sqrt(2.0 * (2.0 * math.log(S) - math.log(delta)))
    overlap = max(float(np.abs(a).max()), float(np.abs(c).max()), abs(rho))
    return InitialEvent(overlap, math.sqrt(max(float(np.max(diagonal)), pi)), bound)


@dataclass(frozen=True, eq=False)
class FirstStepErrors:
    """Coefficients and lengths of the errors of the first step, next to adding (eta0/2) alpha v to E.

    ``alpha`` is the mean of y m_s/T_X; err_s = eta0 (r_s v + w_s p) and err_p = eta0 E' w.
    """

    first_rate: float
    alpha: np.ndarray  # (S,)
    r: np.ndarray  # (S,)
    w: np.ndarray  # (S,)
    token_errors: np.ndarray  # (S,) |err_s|
    cls_error: float  # |err_p|

    @property
    def largest(self) -> float:
        """max(|err_s|, |err_p|)."""
        return max(float(self.token_errors.max()), self.cls_error)

    def bound(self, d: int) -> float:
        """Lemma 2's bound 11 eta0 d^(-1/4); d may be any Python integer."""
        return 11.0 * self.first_rate * math.exp(-0.25 * math.log(d))


@dataclass(frozen=True, eq=False)
class FirstStep:
    """E1 and p1 after one full-batch step from E0 and p0, and the errors of Lemma 2.

    >>> import hardmax as hm
    >>> corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=0)
    >>> E, p, v = hm.embeddings.initial_vectors(corpus.S, 1024, rng=1)
    >>> step = hm.embeddings.take_first_step(corpus, E, p, v, first_rate=64)
    >>> bool(abs(step.E - E - 32 * corpus.alpha[:, None] * v - step.err_E).max() < 1e-12)
    True
    >>> step.errors.largest < step.errors.bound(1024)
    True
    """

    E: np.ndarray  # (S, d)
    p: np.ndarray  # (d,)
    err_E: np.ndarray  # (S, d), rows err_s
    err_p: np.ndarray  # (d,)
    errors: FirstStepErrors


@check_arguments
def take_first_step(corpus: Corpus, E: Any, p: Any, v: Any, first_rate: float) -> FirstStep:
    """Take one simultaneous gradient step of size eta0 on E and p, with v fixed.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> step = hm.embeddings.take_first_step(corpus, [[1, 0], [0, 1], [0, 0]], [0, 0], [0, 1], first_rate=4)
    >>> step.E.round(4).tolist()
    [[1.0, 0.5], [0.0, 0.3775], [0.0, -0.1225]]
    """
    E, p, v = one_layer.read_vectors(corpus, E, p, v)
    first_rate = expect.positive("first_rate", first_rate)
    point = one_layer.evaluate(corpus, E @ p, E @ v)
    by = one_layer.gradients_at(point, E, p, v)
    r, w = _residuals(corpus, E @ p, point)
    err_E = first_rate * (np.outer(r, v) + np.outer(w, p))
    err_p = first_rate * (E.T @ w)
    lengths = np.linalg.norm(err_E, axis=1), float(np.linalg.norm(err_p))
    errors = FirstStepErrors(first_rate, corpus.alpha_per_sequence, r, w, *lengths)
    return FirstStep(E - first_rate * by.E, p - first_rate * by.p, err_E, err_p, errors)


@check_arguments
def first_step_errors(
    corpus: Corpus, K: Any, a: Any, c: Any, pi: float, rho: float, nu: float, first_rate: float
) -> FirstStepErrors:
    """Return the errors by inner products: K = E E', a = E p, c = E v, pi = |p|^2, rho = p.v, nu = |v|^2."""
    K = expect.finite_array("K", K, (corpus.S, corpus.S))
    first_rate, nu = expect.positive("first_rate", first_rate), expect.positive("nu", nu)
    a = expect.finite_array("a", a, (corpus.S,))
    r, w = _residuals(corpus, a, one_layer.evaluate(corpus, a, c))
    # r v + w p, split into its part along v and the rest: both squares are positive.
    along = r * math.sqrt(nu) + w * (rho / math.sqrt(nu))
    across = w * math.sqrt(max(pi - rho * rho / nu, 0.0))
    # K is positive semidefinite; w may be tiny, and its square is not to underflow.
    size = float(np.abs(w).max())
    unit = w / size if size > 0.0 else w
    lengths = (
        first_rate * np.hypot(along, across),
        first_rate * size * math.sqrt(max(float(unit @ K @ unit), 0.0)),
    )
    return FirstStepErrors(first_rate, corpus.alpha_per_sequence, r, w, *lengths)


def _residuals(corpus: Corpus, a: np.ndarray, point: one_layer.Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """Return r and w of all tokens; logits are relative to each sequence's largest, so that expm1 is safe."""
    starts = corpus.offsets[:-1]
    logits = a[corpus.tokens]
    e = np.expm1(logits - corpus.per_slot(np.maximum.reduceat(logits, starts)))
    plain = corpus.weights / corpus.per_slot(corpus.lengths)
    mean = corpus.per_slot(np.add.reduceat(plain * e, starts))
    shift = plain * (e - mean) / (1.0 + mean)
    y = corpus.signs
    tilt = -0.5 * np.tanh(0.5 * y * point.f)
    terms = 0.5 * corpus.per_slot(y) * shift + corpus.per_slot(y * tilt) * (plain + shift)
    return corpus.per_token(terms) / corpus.n, -point.A


@dataclass(frozen=True, eq=False)
class InfiniteWidth:
    """The first step in the limit of infinite width: K1 = I + c c', a1 = 0, c = (eta0/2) alpha.

    ``E`` and ``v`` realize it with S + 1 coordinates; p1 is orthogonal to all of them and plays no part.
    """

    first_rate: float
    c: np.ndarray  # (S,)
    pi: float = 1.0
    rho: float = 0.0
    nu: float = 1.0

    @property
    def a(self) -> np.ndarray:
        """Logits of the tokens: all zero."""
        return np.zeros(len(self.c))

    @property
    def K(self) -> np.ndarray:
        """Inner products of the embeddings."""
        return np.eye(len(self.c)) + np.outer(self.c, self.c)

    @property
    def E(self) -> np.ndarray:
        """Embeddings [e_s, c_s] with S + 1 coordinates."""
        return np.column_stack([np.eye(len(self.c)), self.c])

    @property
    def v(self) -> np.ndarray:
        """The head in the same coordinates: the last unit vector."""
        return np.append(np.zeros(len(self.c)), 1.0)


def loss_bound(gains: np.ndarray, first_rate: float) -> float:
    """Lemma 12's bound on the loss after the first step, from (1/T) sum_i y alpha_{x_i} of every sequence."""
    return float(one_layer.LOGISTIC.value(0.5 * first_rate * gains - 1.0 / (22.0 * first_rate)).mean())


@check_arguments
def infinite_width(corpus: Corpus, first_rate: float) -> InfiniteWidth:
    """Return the state after one step of size eta0 at infinite width."""
    first_rate = expect.positive("first_rate", first_rate)
    return InfiniteWidth(first_rate, 0.5 * first_rate * corpus.alpha_per_sequence)


def read_delta(delta: Any) -> float:
    """Read the probability with which the initialization may fail."""
    if not isinstance(delta, Real) or not 0 < float(delta) < 1:
        raise ValueError(f"delta must be a probability between 0 and 1, got {delta!r}")
    return float(delta)


@dataclass(frozen=True, eq=False)
class StructuredState:
    """E and p as [I + noise | (c, rho)] next to a unit vector v; the last row is p."""

    noise: np.ndarray  # (S + 1, S + 1)
    c: np.ndarray  # (S,) E v
    rho: float  # p.v

    @classmethod
    def infinite(cls, S: int) -> StructuredState:
        """The start at infinite width: no noise at all."""
        S = expect.whole("S", S, 1)
        return cls(np.zeros((S + 1, S + 1)), np.zeros(S), 0.0)

    @property
    def S(self) -> int:
        """Number of tokens."""
        return len(self.c)

    # -- the same as vectors and as inner products --------------------------------------------------------

    @property
    def E(self) -> np.ndarray:
        """Embeddings (S, S + 2); only the diagonal is rounded by the sum with the identity."""
        return np.column_stack([np.eye(self.S, self.S + 1) + self.noise[:-1], self.c])

    @property
    def p(self) -> np.ndarray:
        """The vector p, (S + 2,)."""
        return np.append(np.eye(1, self.S + 1, self.S) + self.noise[-1], self.rho)

    @property
    def v(self) -> np.ndarray:
        """The head: the last unit vector."""
        return np.append(np.zeros(self.S + 1), 1.0)

    @property
    def a(self) -> np.ndarray:
        """Logits E p, from small terms only, so that they keep their digits however small they are."""
        tokens, last = self.noise[:-1], self.noise[-1]
        return tokens[:, -1] + last[:-1] + tokens @ last + self.c * self.rho

    @property
    def pi(self) -> float:
        """|p|^2."""
        return float(self.p @ self.p)

    @property
    def gram(self) -> GramState:
        """The inner products; the part of K next to c c' has an error of c^2 times the rounding unit."""
        return GramState(self.E @ self.E.T, self.a, self.c, self.pi, self.rho, 1.0)

    def problem(self, corpus: Corpus) -> Problem:
        """Training of p with E and v fixed, to start at ``p``."""
        return corpus.problem(self.E, self.v)

    def loss(self, corpus: Corpus) -> float:
        """The loss of the one-layer model."""
        return one_layer.evaluate(corpus, self.a, self.c).loss

    def initial_event(self, d: int, delta: float) -> InitialEvent:
        """The event (14) that the theory is conditional on, for a state drawn at width d."""
        lengths = (self.E * self.E).sum(axis=1)
        return initial_event_from_gram(lengths, self.a, self.c, self.pi, self.rho, d=d, delta=delta)

    # -- the first step -----------------------------------------------------------------------------------

    def errors(self, corpus: Corpus, first_rate: float) -> FirstStepErrors:
        """Return the errors of a first step from here, next to adding (eta0/2) alpha v to E (A-LEM-2)."""
        start = self.gram
        return first_step_errors(corpus, start.K, start.a, start.c, start.pi, start.rho, 1.0, first_rate)

    def first_step(self, corpus: Corpus, first_rate: float) -> tuple[StructuredState, FirstStepErrors]:
        """One step of size eta0 on E and p: E gains (eta0/2) alpha v and the errors, p its own error."""
        if self.S != corpus.S:
            raise ValueError(f"corpus must have the {self.S} tokens of the state, got {corpus.S}")
        errors = self.errors(corpus, first_rate)
        w, noise = errors.w, self.noise.copy()
        noise[:-1] += first_rate * np.outer(w, self.noise[-1])
        noise[:-1, -1] += first_rate * w
        noise[-1] += first_rate * (w @ self.noise[:-1])
        noise[-1, :-1] += first_rate * w
        c = self.c + first_rate * (0.5 * errors.alpha + errors.r + self.rho * w)
        return StructuredState(noise, c, self.rho + first_rate * float(self.c @ w)), errors


# From here on chi is drawn as its deviation from the mean, by the cube-root normal approximation, whose error
# in the distribution no sample can detect; for fewer degrees the difference of a drawn chi
# from 1 keeps eleven digits.
MANY_DEGREES = 10**8


@check_arguments
def draw_initial(S: int, d: AnyInteger, *, rng: int | np.random.Generator) -> StructuredState:
    """E0, p0 and v of A-DEF-4 at width d, any positive Python integer, in S + 2 coordinates."""
    S, d, rng = expect.whole("S", S, 1), expect.whole("d", d, 1), expect.generator(rng)
    size = math.exp(-0.5 * math.log(d))
    along = rng.normal(size=S + 1) * size
    noise = np.tril(rng.normal(size=(S + 1, S + 1)), -1) * size
    # In fewer than S + 2 dimensions the columns without degrees of freedom are empty.
    noise[:, d - 1 :] = 0.0
    np.fill_diagonal(noise, [chi_deviation(d - 1 - i, d, rng) for i in range(S + 1)])
    return StructuredState(noise, along[:-1], float(along[-1]))


def chi_deviation(degrees: int, d: int, rng: np.random.Generator) -> float:
    """A draw of chi_degrees / sqrt(d) - 1; -1 where no degree of freedom is left."""
    if degrees <= 0:
        return -1.0
    if degrees < MANY_DEGREES:
        return math.sqrt(rng.chisquare(degrees) / d) - 1.0
    spread = math.exp(0.5 * (math.log(2) - math.log(9) - math.log(degrees)))
    cube_root = math.log1p(rng.normal() * spread - spread * spread)
    return math.expm1(1.5 * cube_root + 0.5 * math.log1p((degrees - d) / d))
