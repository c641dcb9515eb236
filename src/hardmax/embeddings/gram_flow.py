"""Gradient flow of E and p, or of E, p and v, by inner products, and what it conserves (A-RED-5).

The joint flow keeps the d x d matrix E'E - pp' - vv', or, with v fixed, E'E - pp' on the complement of v.
Its nonzero eigenvalues are those of the inner products with the rows of p and v negated, so they can be
measured without the vectors. With E fixed the flow of p is that of paper B: make a problem of
`GramState.vectors` and use `hardmax.flow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings import one_layer
from hardmax.embeddings.gram import GramRun, GramState, problem_of, read_names

# Local error of a step, relative to the largest inner product of each kind.
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class GramFlow(GramRun):
    """The joint flow at the recorded ``times``: inner products, risk and |p|.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.gram import GramState
    >>> from hardmax.embeddings.gram_flow import flow_gram
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> run = flow_gram(corpus, GramState.infinite(3), times=[0, 10, 1000])
    >>> bool(run.losses[-1] < 0.01), run.drift < 1e-9
    (True, True)
    """

    states: tuple[GramState, ...] = field(kw_only=True)
    trained: frozenset[str] = field(kw_only=True)

    @cached_property
    def spectra(self) -> np.ndarray:
        """What the flow conserves, at every recorded time."""
        return np.array([conserved_spectrum(state, self.trained) for state in self.states])

    @property
    def drift(self) -> float:
        """How far the conserved numbers moved from their start, at most: the error of the integration."""
        return float(np.abs(self.spectra - self.spectra[0]).max())


def flow_gram(corpus: Corpus, state: GramState, *, times: Any, train: Iterable[str] = ("E", "p")) -> GramFlow:
    """Gradient flow of (E, p) or (E, p, v) from ``state`` at time ``times[0]``, recorded at all ``times``.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.embeddings.gram import GramState, descend_gram
    >>> from hardmax.embeddings.gram_flow import flow_gram
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> run = flow_gram(corpus, GramState.infinite(3), times=[0, 1], train="Epv")
    >>> near = descend_gram(corpus, GramState.infinite(3), steps=1000, rate=1e-3, train="Epv")
    >>> bool(np.abs(run.state.c - near.state.c).max() < 1e-3)
    True
    """
    from scipy.integrate import solve_ivp

    names = read_names(train)
    if not {"E", "p"} <= names:
        raise ValueError(
            f'train must name "E" and "p", or all three, got {sorted(names)}; with E fixed use hardmax.flow'
        )
    if state.S != corpus.S:
        raise ValueError(f"state must hold the {corpus.S} tokens of the corpus, got {state.S}")
    clock = expect.finite_array("times", times, (None,))
    if len(clock) < 2 or (np.diff(clock) <= 0).any():
        raise ValueError("times must be at least two numbers in ascending order")
    packed = _pack(state)
    scale = np.concatenate([np.full(state.S**2, np.abs(state.K).max()), np.ones(2 * state.S + 3)])
    found = solve_ivp(
        lambda _, x: _rate_of_change(corpus, _unpack(x, state.S), "v" in names),
        (clock[0], clock[-1]),
        packed,
        method="DOP853",
        t_eval=clock,
        rtol=TOLERANCE,
        atol=TOLERANCE * scale,
    )
    if not found.success:
        raise ValueError(f"times reach beyond what could be integrated: {found.message}")
    states = tuple(_unpack(x, state.S) for x in found.y.T)
    losses = np.array([one_layer.evaluate(corpus, each.a, each.c).loss for each in states])
    seen = {"losses": losses, "norms": np.array([each.p_norm for each in states])}
    return GramFlow(
        partial(problem_of, corpus, states[-1]),
        "t",
        clock,
        None,
        method="gradient flow",
        observed=seen,
        state=states[-1],
        states=states,
        trained=names,
    )


def conserved_spectrum(state: GramState, train: Iterable[str] = ("E", "p")) -> np.ndarray:
    """The eigenvalues of E'E - pp' - vv', ascending; with v fixed those of E'E - pp' on v's complement.

    With the stack W = [E; p; v] and signs D = diag(1, ..., 1, -1, -1), W'DW has the eigenvalues of R'DR for
    any R with R R' = W W', besides zeros.

    >>> from hardmax.embeddings.gram import GramState
    >>> from hardmax.embeddings.gram_flow import conserved_spectrum
    >>> state = GramState.from_vectors([[3, 0, 0]], [0, 2, 0], [0, 0, 1])
    >>> conserved_spectrum(state, "Epv").round(12).tolist()
    [-4.0, -1.0, 9.0]
    """
    G = state.matrix
    if "v" not in read_names(train):
        if state.nu <= 0.0:
            raise ValueError("state must have a head v other than zero")
        G = G[:-1, :-1] - np.outer(G[:-1, -1], G[-1, :-1]) / state.nu
    signs = np.ones(len(G))
    signs[state.S :] = -1.0
    values, axes = np.linalg.eigh(G)
    R = axes * np.sqrt(np.maximum(values, 0.0))
    return np.linalg.eigvalsh(R.T @ (signs[:, None] * R))


def _rate_of_change(corpus: Corpus, at: GramState, with_v: bool) -> np.ndarray:
    """A-RED-5, packed as the state is."""
    point = one_layer.evaluate(corpus, at.a, at.c)
    A, C = point.A, point.C
    half = np.outer(at.a, A) + np.outer(at.c, C)
    by_a = at.pi * A + at.rho * C + at.K @ A
    by_c = at.rho * A + at.nu * C
    by_rho, by_nu = at.c @ A, 0.0
    if with_v:
        by_c = by_c + at.K @ C
        by_rho, by_nu = by_rho + at.a @ C, 2.0 * (at.c @ C)
    return -_pack(GramState(half + half.T, by_a, by_c, 2.0 * float(at.a @ A), float(by_rho), float(by_nu)))


def _pack(state: GramState) -> np.ndarray:
    return np.concatenate([state.K.ravel(), state.a, state.c, [state.pi, state.rho, state.nu]])


def _unpack(x: np.ndarray, S: int) -> GramState:
    K, a, c, rest = np.split(x, [S * S, S * S + S, S * S + 2 * S])
    return GramState(K.reshape(S, S), a, c, *(float(each) for each in rest))
