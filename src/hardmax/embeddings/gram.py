"""Training by inner products: gradient descent without the width d (A-RED-1, A-RED-2, A-RED-4).

The one-layer loss sees E, p and v through a = E p and c = E v, and its gradients are combinations of the rows
of E, of p and of v. So K = E E', a, c, pi = |p|^2, rho = p.v and nu = |v|^2 after a step follow from the same
before it, at the cost of a vector step with d replaced by the number of tokens S.

A key-query matrix W that is trained alone, with p fixed, moves u = W' p as a step times |p|^2 on p would
(A-DEF-2): give the inner products of (E, u, v) and that rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import exponent, isometric_keys
from hardmax._lib.scales import read_scale
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.blocks import BlockTrainer, Pull, StepOptions, unscaled_rule
from hardmax.dynamics.driver import Rule
from hardmax.dynamics.fields import TIME, FlowField, Leg
from hardmax.dynamics.flow import follow
from hardmax.dynamics.loop import ALONG
from hardmax.dynamics.optim import GD, Normalized, Optimizer
from hardmax.dynamics.run import Run
from hardmax.embeddings import one_layer
from hardmax.embeddings.one_layer import by_block, read_names
from hardmax.problem import Problem


@dataclass(frozen=True, eq=False)
class GramState:
    """The inner products of E, p and v, which are all that training by rotation-free rules depends on.

    >>> import numpy as np
    >>> from hardmax.embeddings.gram import GramState
    >>> state = GramState.from_vectors(E=[[1, 0], [1, 1]], p=[3, 4], v=[0, 1])
    >>> state.K.tolist(), state.a.tolist(), state.p_norm, state.rho
    ([[1.0, 1.0], [1.0, 2.0]], [3.0, 7.0], 5.0, 4.0)
    """

    K: np.ndarray  # (S, S) E E'
    a: np.ndarray  # (S,) E p
    c: np.ndarray  # (S,) E v
    pi: float  # |p|^2
    rho: float  # p.v
    nu: float  # |v|^2

    @classmethod
    def from_vectors(cls, E: Any, p: Any, v: Any) -> GramState:
        """The inner products of given vectors.

        >>> from hardmax.embeddings.gram import GramState
        >>> GramState.from_vectors([[1, 2]], [1, 0], [0, 1]).c.tolist()
        [2.0]
        """
        E = expect.finite_array("E", E, (None, None))
        p, v = (expect.finite_array(name, x, (E.shape[1],)) for name, x in (("p", p), ("v", v)))
        return cls(E @ E.T, E @ p, E @ v, float(p @ p), float(p @ v), float(v @ v))

    @classmethod
    def infinite(cls, S: int) -> GramState:
        """The start at infinite width: all vectors orthogonal, all lengths 1 (A-RED-3).

        >>> from hardmax.embeddings.gram import GramState
        >>> GramState.infinite(2).matrix.diagonal().tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        S = expect.whole("S", S, 1)
        return cls(np.eye(S), np.zeros(S), np.zeros(S), 1.0, 0.0, 1.0)

    # -- measures -----------------------------------------------------------------------------------------

    @property
    def S(self) -> int:
        """Number of tokens."""
        return len(self.a)

    @property
    def matrix(self) -> np.ndarray:
        """All inner products of the stack [E; p; v], (S + 2, S + 2)."""
        G = np.empty((self.S + 2, self.S + 2))
        G[:-2, :-2] = self.K
        G[:-2, -2] = G[-2, :-2] = self.a
        G[:-2, -1] = G[-1, :-2] = self.c
        G[-2:, -2:] = [[self.pi, self.rho], [self.rho, self.nu]]
        return G

    @property
    def token_norms(self) -> np.ndarray:
        """|E_s| of every token."""
        return np.sqrt(np.maximum(self.K.diagonal(), 0.0))

    @property
    def p_norm(self) -> float:
        """|p|."""
        return math.sqrt(max(self.pi, 0.0))

    @property
    def v_norm(self) -> float:
        """|v|."""
        return math.sqrt(max(self.nu, 0.0))

    def cosine(self, theta: Any) -> float:
        """Cosine of p with the vector E' theta (A-RED-4).

        Inner products hold 1 - cos down to rounding, 1e-16 of it; for less, measure on `vectors`.

        >>> from hardmax.embeddings.gram import GramState
        >>> round(GramState.from_vectors([[1, 0], [1, 1]], [3, 4], [0, 1]).cosine([-1, 1]), 12)
        0.8
        """
        theta = expect.finite_array("theta", theta, (self.S,))
        length = math.sqrt(max(float(theta @ self.K @ theta), 0.0))
        if length == 0.0 or self.p_norm == 0.0:
            raise ValueError("theta must give a vector E' theta with a direction, and p must not be zero")
        return float(theta @ self.a) / (self.p_norm * length)

    def vectors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E, p and v with these inner products, in at most S + 2 coordinates.

        With them E and v fixed, `Corpus.problem` makes a problem of which `hardmax.flow` trains p.

        >>> from hardmax.embeddings.gram import GramState
        >>> E, p, v = GramState.infinite(3).vectors()
        >>> E.shape, round(float(abs(E @ E.T).sum()), 12)
        ((3, 5), 3.0)
        """
        stack = isometric_keys(self.matrix)
        return stack[:-2], stack[-2], stack[-1]

    def step(
        self, corpus: Corpus, rate: float, train: Iterable[str] = ("E", "p"), *, scale: float | None = None
    ) -> GramState:
        """Take one gradient step on the blocks in ``train`` (A-RED-2); ``scale`` as in `descend_gram`.

        >>> import hardmax as hm
        >>> from hardmax.embeddings.gram import GramState
        >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
        >>> after = GramState.infinite(3).step(corpus, 64)
        >>> after.c.tolist(), after.K.tolist()[0]
        ([8.0, -8.0, 0.0], [65.0, -64.0, 0.0])
        """
        names, rate = read_names(train), expect.positive("rate", rate)
        point = one_layer.evaluate(corpus, self.a, self.c, read_scale("scale", scale, None))
        return _advance(self, dict.fromkeys(names, (rate * point.A, rate * point.C)))


@dataclass(frozen=True, eq=False, repr=False)
class GramRun(Run):
    """A training by inner products only; `final` is p in coordinates that have these inner products."""

    state: GramState = field(kw_only=True)  # at the end

    @property
    def p_norm(self) -> float:
        """|p| at the end."""
        return self.state.p_norm

    @property
    def final(self) -> np.ndarray:
        """p at the end, in coordinates where E, p and v have these inner products."""
        return self.state.vectors()[1]


def problem_of(corpus: Corpus, state: GramState, scale: float = 1.0) -> Problem:
    """Return the training of p with E and v as they are, in the coordinates of `GramState.vectors`."""
    E, _, v = state.vectors()
    return corpus.problem(E, v, scale=scale)


@dataclass(frozen=True, eq=False, repr=False)
class GramDescent(GramRun, one_layer.TokenRun):
    """Training by inner products: where it ended, and the risk, |p|, logits a and values c on the way.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.gram import GramState, descend_gram
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> run = descend_gram(corpus, GramState.infinite(3), steps=40, rate=2.0)
    >>> bool(run.losses[0] > 0.69), bool(run.losses[-1] < 0.1), run.selection
    (True, True, (0, 0))
    """


@check_arguments
def descend_gram(
    corpus: Corpus,
    state: GramState,
    *,
    rate: float | Optimizer | Mapping[str, Optimizer],
    steps: int | None,
    train: Iterable[str] = ("E", "p"),
    scale: float | None = None,
    **options: Any,
) -> GramDescent:
    """Train the blocks in ``train`` by inner products; the others stay fixed.

    The same path as `descend_embeddings` on vectors with these inner products, whatever their dimension.
    ``rate`` is that of gradient descent, or `GD` or `Normalized`, or one of them for each block: the moves
    of other optimizers depend on coordinates, or on earlier moves, which inner products do not have.
    ``scale`` is a positive factor before the logits a, 1 by default; the other options are those of
    `StepOptions`.
    """
    names = [name for name in "Epv" if name in read_names(train)]
    _need_tokens(corpus, state)
    plan, factor = StepOptions.read(corpus.n, steps=steps, **options), read_scale("scale", scale, None)
    optimizers = by_block(rate, names)
    if set(optimizers) != set(names):
        raise ValueError(f"optimizer must have the blocks {names}, got {sorted(optimizers)}")
    for name, optimizer in optimizers.items():
        if not isinstance(optimizer, GD | Normalized) or optimizer.norm != "l2":
            raise TypeError(
                f"optimizer of {name} must be GD or Normalized in l2 for inner products, got "
                f"{optimizer!r:.60}; for others start from vectors, such as start=state.vectors()"
            )
    rules = {name: unscaled_rule(optimizer, plan, ()) for name, optimizer in optimizers.items()}
    products = {name: np.array(x) for name, x in zip(("K", "a", "c", "rest"), _parts(state), strict=True)}
    beta = np.zeros(corpus.S)

    def at() -> GramState:
        return GramState(products["K"], products["a"], products["c"], *products["rest"].tolist())

    def evaluate(inputs: np.ndarray | None) -> one_layer.Evaluation:
        part = corpus if inputs is None else one_layer.take(corpus, inputs)
        return one_layer.evaluate_arrays(part, products["a"], products["c"], factor)

    def advance(point: one_layer.Evaluation, step: int) -> dict[str, Pull]:
        moves = _moves(at(), point, rules, step)
        if "p" in moves:
            beta[:] -= moves["p"][0]
        for array, moved in zip(products.values(), _parts(_advance(at(), moves)), strict=True):
            array[...] = moved
        return {}

    trainer = BlockTrainer({}, GD(1.0), plan, evaluate, advance, {**products, "beta": beta})
    settings = {name: repr(optimizer) for name, optimizer in optimizers.items()}
    start = dict(zip(products, _parts(state), strict=True))
    trainer.run(
        lambda: {"losses": trainer.point.loss, "norms": at().p_norm, "a": products["a"], "c": products["c"]},
        partial(
            one_layer.training_identity, f"inner products {settings}", corpus, start, names, scale=factor
        ),
    )
    return GramDescent(
        partial(problem_of, corpus, at(), factor),
        "step",
        np.array(trainer.times),
        None,
        trainer.event,
        method=", ".join(sorted({optimizer.name for optimizer in optimizers.values()})),
        observed=trainer.observed,
        state=at(),
        beta=None if "E" in names else beta,
    )


# For each block that moves, A and C of its step; that of p needs A only, that of v C only.
_Moves = dict[str, tuple[np.ndarray, np.ndarray]]


def _moves(state: GramState, point: one_layer.Evaluation, rules: Mapping[str, Rule], step: int) -> _Moves:
    """Return the steps of all blocks, from gradients that may be too small for floats."""
    logs = {"p": point.log_scale, "v": point.log_scale_C, "E": max(point.log_scale, point.log_scale_C)}
    moves = {}
    for name, rule in rules.items():
        rate, top = rule.rates[step], logs[name]
        if rule.kind == ALONG:
            moves[name] = rate * point.A, rate * point.C
            continue
        A, C = (
            hat * (math.exp(min(log - top, 0.0)) if top > -math.inf else 0.0)
            for hat, log in ((point.A_hat, point.log_scale), (point.C_hat, point.log_scale_C))
        )
        if name == "E":
            square = state.pi * (A @ A) + 2.0 * state.rho * (A @ C) + state.nu * (C @ C)
        else:
            by = A if name == "p" else C
            square = by @ state.K @ by
        length = math.sqrt(max(float(square), 0.0))
        damped = length + float(rule.constants[0]) * math.exp(min(-top, 700.0))
        factor = rate / damped if length > 0.0 else 0.0
        moves[name] = factor * A, factor * C
    return moves


def _need_tokens(corpus: Corpus, state: GramState) -> None:
    if state.S != corpus.S:
        raise ValueError(f"state must hold the {corpus.S} tokens of the corpus, got {state.S}")


def _advance(state: GramState, moves: _Moves) -> GramState:
    """Take the step A-RED-2: E <- E - A p' - C v', p <- p - E' A, v <- v - E' C, each by its own A and C."""
    K, a, c, pi, rho, nu = state.K, state.a, state.c, state.pi, state.rho, state.nu
    zero = np.zeros(state.S)
    A_p, C_v = moves.get("p", (zero, zero))[0], moves.get("v", (zero, zero))[1]
    KA = K @ A_p if "p" in moves else zero
    KC = K @ C_v if "v" in moves else zero
    new_a, new_c = a - KA, c - KC
    new_pi = pi - float(2.0 * (a @ A_p) - A_p @ KA)
    new_nu = nu - float(2.0 * (c @ C_v) - C_v @ KC)
    new_rho = rho - float(c @ A_p - A_p @ KC) - float(a @ C_v)
    if "E" in moves:
        A, C = moves["E"]
        along_p, along_v = pi * A + rho * C, rho * A + nu * C  # the step of E times p, and times v
        new_a += (A * (a @ A_p) + C * (c @ A_p)) - along_p
        new_c += (A * (a @ C_v) + C * (c @ C_v)) - along_v
        half = np.column_stack([A, C]) @ np.vstack([0.5 * along_p - a, 0.5 * along_v - c])
        K = K + (half + half.T)  # added first, so that K stays symmetric to the bit
    return GramState(K, new_a, new_c, new_pi, new_rho, new_nu)


def _parts(state: GramState) -> tuple[np.ndarray, ...]:
    return state.K, state.a, state.c, np.array([state.pi, state.rho, state.nu])


# Local error of a step, relative to the largest inner product of each kind.
TOLERANCE = 1e-11


@dataclass(frozen=True, eq=False, repr=False)
class GramFlow(GramRun):
    """The joint flow at the recorded ``times``: inner products, risk and |p|.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.gram import GramState
    >>> from hardmax.embeddings.gram import flow_gram
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> run = flow_gram(corpus, GramState.infinite(3), times=[0, 10, 1000])
    >>> bool(run.losses[-1] < 0.01), run.drift < 1e-9
    (True, True)
    """

    states: tuple[GramState, ...] = field(kw_only=True)
    trained: frozenset[str] = field(kw_only=True)

    @cached_property
    def spectra(self) -> np.ndarray:
        """The conserved eigenvalues at every recorded time."""
        return np.array([conserved_spectrum(state, self.trained) for state in self.states])

    @property
    def drift(self) -> float:
        """How far the conserved numbers moved from their start, at most: the error of the integration."""
        return float(np.abs(self.spectra - self.spectra[0]).max())


@check_arguments
def flow_gram(
    corpus: Corpus,
    state: GramState,
    *,
    times: Any,
    train: Iterable[str] = ("E", "p"),
    scale: float | None = None,
) -> GramFlow:
    """Follow gradient flow of (E, p) or (E, p, v) from ``state`` at ``times[0]``; record it at all ``times``.

    ``scale`` is a positive factor before the logits, 1 by default.
    """
    names = read_names(train)
    if not {"E", "p"} <= names:
        raise ValueError(
            f'train must name "E" and "p", or all three, got {sorted(names)}; with E fixed use hardmax.flow'
        )
    _need_tokens(corpus, state)
    clock = expect.finite_array("times", times, (None,))
    if len(clock) < 2 or (np.diff(clock) <= 0).any():
        raise ValueError("times must be at least two numbers in ascending order")
    factor = read_scale("scale", scale, None)
    field = _GramField(corpus, state, "v" in names, factor)
    lengths = clock - clock[0]
    _, points, event = follow(field, _pack(state), (), lengths[-1], lengths[1:])
    if event is not None:
        raise ValueError(f"times reach beyond what could be integrated: {event}")
    states = tuple(_unpack(x, state.S) for x in points.astype(float))
    losses = np.array([one_layer.evaluate(corpus, at.a, at.c, factor).loss for at in states])
    observed = {"losses": losses, "norms": np.array([at.p_norm for at in states])}
    return GramFlow(
        partial(problem_of, corpus, states[-1], factor),
        "t",
        clock,
        None,
        method="gradient flow",
        observed=observed,
        state=states[-1],
        states=states,
        trained=names,
    )


@check_arguments
def conserved_spectrum(state: GramState, train: Iterable[str] = ("E", "p")) -> np.ndarray:
    """Return the eigenvalues of E'E - pp' - vv', or with v fixed those of E'E - pp' on v's complement.

    With the stack W = [E; p; v] and signs D = diag(1, ..., 1, -1, -1), W'DW has the eigenvalues of R'DR for
    any R with R R' = W W', besides zeros.
    """
    G = state.matrix
    if "v" not in read_names(train):
        if state.nu <= 0.0:
            raise ValueError("state must have a readout v other than zero")
        G = G[:-1, :-1] - np.outer(G[:-1, -1], G[-1, :-1]) / state.nu
    signs = np.ones(len(G))
    signs[state.S :] = -1.0
    values, axes = np.linalg.eigh(G)
    R = axes * np.sqrt(np.maximum(values, 0.0))
    return np.linalg.eigvalsh(R.T @ (signs[:, None] * R))


class _GramField(FlowField):
    """A-RED-5: the speeds of the inner products in plain time, each kind over its size."""

    clock = TIME

    def __init__(self, corpus: Corpus, state: GramState, with_v: bool, factor: float) -> None:
        self.corpus, self.with_v, self.factor, self.S = corpus, with_v, factor, state.S
        largest = float(np.abs(state.K).max())
        self.sizes = np.concatenate([np.full(state.S**2, largest), np.ones(2 * state.S + 3)])
        self.start = _pack(state) / self.sizes
        self.power = exponent(state.matrix)  # of the unit of time

    def begin(self) -> tuple[Any, str | None]:
        """The given products."""
        return self.start.astype(np.longdouble), None

    def leg(self, x: Any, heading: np.ndarray | None, reach: float) -> Leg:
        """A step from x."""
        return _GramLeg(self, x)

    def whole(self, x: Any) -> Any:
        """The products themselves, packed."""
        return x * self.sizes

    def speed(self, x: np.ndarray) -> np.ndarray:
        """Return the speed of a packed state."""
        at = _unpack(self.whole(x), self.S)
        point = one_layer.evaluate(self.corpus, at.a, at.c, self.factor)
        A, C = point.A, point.C
        half = np.outer(at.a, A) + np.outer(at.c, C)
        by_a = at.pi * A + at.rho * C + at.K @ A
        by_c = at.rho * A + at.nu * C
        by_rho, by_nu = at.c @ A, 0.0
        if self.with_v:
            by_c = by_c + at.K @ C
            by_rho, by_nu = by_rho + at.a @ C, 2.0 * (at.c @ C)
        rates = GramState(half + half.T, by_a, by_c, 2.0 * float(at.a @ A), float(by_rho), float(by_nu))
        return np.ldexp(-_pack(rates) / self.sizes, -self.power)


class _GramLeg(Leg):
    """A step of inner products, which are never stiff for long."""

    is_explicit = True

    def __init__(self, field: _GramField, x: Any) -> None:
        self.field, self.x, self.heading = field, x, np.zeros(len(x))
        self.velocity = self.speed(0.0, self.heading)

    def speed(self, sigma: float, z: np.ndarray) -> np.ndarray:
        """Return the speed at x + z."""
        return self.field.speed(self.x.astype(float) + z)

    def tolerance(self, sigma: float) -> float:
        """Relative to the largest of the products."""
        return TOLERANCE * (1.0 + float(np.abs(self.x).max()))


def _pack(state: GramState) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in _parts(state)])


def _unpack(x: np.ndarray, S: int) -> GramState:
    K, a, c, rest = np.split(x, [S * S, S * S + S, S * S + 2 * S])
    return GramState(K.reshape(S, S), a, c, *rest.tolist())
