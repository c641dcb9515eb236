"""Embeddings close to the identity, stored and drawn as the difference from it.

At the widths of Theorem 5 the embeddings are orthonormal up to 1e-22, and the first step gives those of
important tokens components c along v of the order of n T. In the Gram matrix I + c c' the identity loses two
digits for each that c gains. Here every vector is written in orthonormal coordinates, one per token, one for
p and the last along v:

    E_s = e_s + noise_s + c_s v,      p = e_p + noise_p + rho v,      |v| = 1,

and the small noise is added to its 1 only in `E` and `p`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import AnyInteger, check_arguments
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings import one_layer
from hardmax.embeddings.first_step import (
    FirstStepErrors,
    InitialEvent,
    first_step_errors,
    initial_event_from_gram,
)
from hardmax.embeddings.gram import GramState
from hardmax.problem import Problem


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
