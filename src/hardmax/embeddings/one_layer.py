"""The one-layer model: loss, gradients A = dL/da and C = dL/dc, and by vectors (A-DEF-1, A-LEM-7, A-LEM-8).

The model sees the parameters only through a = E p and c = E v. With the softmax mass Q_s(X) of a token,

    A_s = -E[y g Q_s (c_s - f)],  C_s = -E[y g Q_s],  grad_E = A p' + C v',  grad_p = E' A,  grad_v = E' C.

In each sequence the terms of A sum to zero. Where the softmax is saturated c_top - f is a difference of
nearly equal numbers, so the terms are formed from values relative to the top token's, and the top token's
term is minus the sum of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numba import types

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.compiled import COUNTS, INDEX, OUT, OUT_INDEX, UNDERFLOW, VECTOR, njit
from hardmax._lib.scales import Scale, read_scale
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.blocks import BlockTrainer, Pull, StepOptions
from hardmax.dynamics.checkpoint import digest
from hardmax.dynamics.loop import ALONG
from hardmax.dynamics.optim import GD, Optimizer
from hardmax.dynamics.optim.rules import need_optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.softmax import settle
from hardmax.problem.losses import as_loss

# Twice the spread of the logits plus the size of the values: below this no term of A underflows.
MODERATE = 600.0

LOGISTIC = as_loss("logistic")


BLOCKS = ("E", "p", "v")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The model at (a, c): A = exp(log_scale) A_hat and C = exp(log_scale_C) C_hat, whatever the logits.

    ``A_hat`` is right in direction when A itself underflows; log_scale is -inf if A is exactly zero, that is
    where no sequence has two tokens of different value.
    """

    f: np.ndarray  # (n,) predictions
    log_g: np.ndarray  # (n,) log of the logistic weights g = 1/(1 + exp(y f))
    loss: float
    A_hat: np.ndarray  # (S,)
    log_scale: float
    C_hat: np.ndarray  # (S,)
    log_scale_C: float

    @property
    def g(self) -> np.ndarray:
        """Logistic weight of every sequence, equation (13)."""
        return np.exp(self.log_g)

    @cached_property
    def A(self) -> np.ndarray:
        """dL/da; it underflows to zero where exp(log_scale) does."""
        return self.A_hat * math.exp(self.log_scale)

    @cached_property
    def C(self) -> np.ndarray:
        """dL/dc."""
        return self.C_hat * math.exp(self.log_scale_C)


class Gradients(NamedTuple):
    """Gradients by E (S, d), p (d,) and v (d,)."""

    E: np.ndarray
    p: np.ndarray
    v: np.ndarray


@check_arguments
def evaluate(corpus: Corpus, a: Any, c: Any, scale: float = 1.0) -> Evaluation:
    """Compute predictions, loss and scalar gradients at a = E p and the values c of all tokens (A-LEM-7).

    The logits are ``scale`` times a, and A is the derivative by a. The paper prints no such factor.
    """
    a = expect.finite_array("a", a, (corpus.S,))
    c = expect.finite_array("c", c, (corpus.S,))
    return evaluate_arrays(corpus, a, c, expect.positive("scale", scale))


@check_arguments
def gradients(corpus: Corpus, E: Any, p: Any, v: Any, *, scale: Scale = None) -> Gradients:
    """Return the gradients by the vectors: A p' + C v', E' A and E' C; ``scale`` as in `train_embeddings`."""
    E, p, v = read_vectors(corpus, E, p, v)
    return gradients_at(evaluate(corpus, E @ p, E @ v, read_scale("scale", scale, E.shape[1])), E, p, v)


def gradients_at(point: Evaluation, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> Gradients:
    """Return the gradients by the vectors at an evaluation of the model."""
    A, C = point.A, point.C
    return Gradients(np.outer(A, p) + np.outer(C, v), E.T @ A, E.T @ C)


class KeyQueryGradients(NamedTuple):
    """Loss, and its gradients by E, p, W and v; ``u`` is that by u = W' p."""

    loss: float
    E: np.ndarray
    p: np.ndarray
    W: np.ndarray
    v: np.ndarray
    u: np.ndarray


@check_arguments
def key_query_gradients(corpus: Corpus, E: Any, p: Any, W: Any, v: Any) -> KeyQueryGradients:
    """Return loss and gradients of softmax(p' W E_X') E_X v, whose logits are E u with u = W' p (A-DEF-2).

    Every gradient is that of the plain model at u, and training W alone with p fixed trains u with the step
    times |p|^2.
    """
    E, p, v = read_vectors(corpus, E, p, v)
    W = expect.finite_array("W", W, (len(p), len(p)))
    u = W.T @ p
    point = evaluate(corpus, E @ u, E @ v)
    by_E, by_u, by_v = gradients_at(point, E, u, v)
    return KeyQueryGradients(point.loss, by_E, W @ by_u, np.outer(p, by_u), by_v, by_u)


@check_arguments
def token_mass(corpus: Corpus, a: Any) -> np.ndarray:
    """Return the softmax mass Q_s(X) of every slot, the data of a sparse matrix with the corpus's pattern."""
    a = expect.finite_array("a", a, (corpus.S,))
    gaps, _ = _gaps(corpus, a)
    share = np.exp(gaps)
    return share / corpus.per_slot(np.add.reduceat(share, corpus.offsets[:-1]))


@check_arguments
def pairwise_pull(corpus: Corpus, a: Any, c: Any, a_hat: Any) -> float:
    """Return -p_hat.grad_p from pairs of tokens, for a_hat = E p_hat (A-LEM-8); equal to -sum_s a_hat_s A_s.

    This is the paper's formula, E[g sum_{i<j} (a_hat_i - a_hat_j) q_i q_j (gamma_i - gamma_j)], over distinct
    tokens with their masses; its cost is the square of their number. It shows the sign of every pair's pull.
    """
    a_hat = expect.finite_array("a_hat", a_hat, (corpus.S,))
    point = evaluate(corpus, a, c)
    Q, c = token_mass(corpus, a), expect.finite_array("c", c, (corpus.S,))
    total = 0.0
    for k in range(corpus.n):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        tokens, q = corpus.tokens[slots], Q[slots]
        rise, gain = a_hat[tokens], corpus.signs[k] * c[tokens]
        pairs = (rise[:, None] - rise) * np.outer(q, q) * (gain[:, None] - gain)
        total += 0.5 * math.exp(point.log_g[k]) * float(pairs.sum())
    return total / corpus.n


def read_vectors(corpus: Corpus, E: Any, p: Any, v: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return E, p and v as float64 arrays that fit the corpus and each other."""
    E = expect.finite_array("E", E, (corpus.S, None))
    d = E.shape[1]
    return E, expect.finite_array("p", p, (d,)), expect.finite_array("v", v, (d,))


def starting_vectors(corpus: Corpus, start: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return E, p and v of a tuple of three as `read_vectors` does."""
    if not isinstance(corpus, Corpus):
        raise ValueError(f"corpus must be a Corpus, got {type(corpus).__name__}; a TextCorpus has a .corpus")
    try:
        E, p, v = start
    except (TypeError, ValueError):
        raise ValueError(f"start must be three arrays (E, p, v), got {start!r:.40}") from None
    return read_vectors(corpus, E, p, v)


def evaluate_arrays(corpus: Corpus, a: np.ndarray, c: np.ndarray, scale: float) -> Evaluation:
    """Evaluate the model at arrays of the right shapes, as in training."""
    if scale != 1.0:
        point = evaluate_arrays(corpus, scale * a, c, 1.0)
        return replace(point, A_hat=scale * point.A_hat)
    if 2.0 * (a.max() - a.min()) + np.abs(c).max() <= MODERATE:
        return _evaluate_moderate(corpus, a, c)
    a, c = expect.finite_array("a", a, (corpus.S,)), expect.finite_array("c", c, (corpus.S,))
    return _evaluate_anywhere(corpus, a, c)


def _evaluate_moderate(corpus: Corpus, a: np.ndarray, c: np.ndarray) -> Evaluation:
    """One exponential per token, and one pass over the slots."""
    f, A, C = np.empty(corpus.n), np.zeros(corpus.S), np.zeros(corpus.S)
    e = np.exp(a - a.max())
    counts = np.ascontiguousarray(corpus.counts, np.int64)  # a corpus made by hand may hold other kinds
    _balance(corpus.tokens, counts, corpus.offsets, corpus.signs, e, c, f, A, C)
    u = corpus.signs * f
    return Evaluation(f, -LOGISTIC.value(-u), float(LOGISTIC.value(u).mean()), A, 0.0, C, 0.0)


def _evaluate_anywhere(corpus: Corpus, a: np.ndarray, c: np.ndarray) -> Evaluation:
    """One exponential per slot, in the log domain, with the kernel that trains p on any problem."""
    n, y = corpus.n, corpus.signs
    gaps, tops = _gaps(corpus, a)
    gamma = corpus.per_slot(y) * c[corpus.tokens]
    weights, u, log_scale, log_mass = settle_slots(gaps, tops, gamma, corpus.offsets)
    log_g = -LOGISTIC.value(-u)
    log_scale += log_g - math.log(n)
    common, common_C = float(log_scale.max()), float(log_g.max())
    scale = np.exp(log_scale - common) if common > -math.inf else np.zeros(n)
    A_hat, C_hat = np.zeros(corpus.S), np.zeros(corpus.S)
    slots = (corpus.tokens, corpus.offsets, gaps, weights)
    _scatter(*slots, y, scale, log_g - log_mass - common_C, A_hat, C_hat)
    loss = float(LOGISTIC.value(u).mean())
    return Evaluation(y * u, log_g, loss, A_hat, common, C_hat, common_C - math.log(n))


def settle_slots(
    gaps: np.ndarray, tops: np.ndarray, gamma: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Q (gamma - u) of every slot over exp(log scale), then u, log scale and log mass per sequence."""
    weights, inputs = np.empty(len(gaps)), np.empty((4, len(tops)))
    settle(gaps, tops, gamma, np.ones(len(gaps)), offsets, 0.0, weights, inputs)
    u, depth, _, log_mass = inputs
    return weights, u, depth - log_mass, log_mass


def _gaps(corpus: Corpus, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log masses relative to the top slot of each sequence, and the top slots."""
    gaps, tops = np.empty(corpus.nnz), np.empty(corpus.n, np.intp)
    gaps_to_heaviest(a[corpus.tokens], corpus.log_counts, corpus.offsets, gaps, tops)
    return gaps, tops


@njit(types.void(VECTOR, VECTOR, INDEX, OUT, OUT_INDEX), cache=True, nogil=True)
def gaps_to_heaviest(logits, log_counts, offsets, gaps, tops):  # type: ignore[no-untyped-def]
    """The slot of the largest mass, count times exp(logit), of each sequence; log masses relative to it."""
    for k in range(offsets.size - 1):
        top = offsets[k]
        best = logits[top] + log_counts[top]
        for slot in range(offsets[k] + 1, offsets[k + 1]):
            mass = logits[slot] + log_counts[slot]
            if mass > best:
                best, top = mass, slot
        tops[k] = top
        for slot in range(offsets[k], offsets[k + 1]):
            gaps[slot] = (logits[slot] - logits[top]) + (log_counts[slot] - log_counts[top])


@njit(types.void(INDEX, INDEX, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, OUT, OUT), cache=True, nogil=True)
def _scatter(tokens, offsets, gaps, weights, labels, scale, log_rate, A, C):  # type: ignore[no-untyped-def]
    """Add up A and C over the slots of each token, with the common exponents taken out."""
    for k in range(offsets.size - 1):
        for slot in range(np.uintp(offsets[k]), np.uintp(offsets[k + 1])):
            token = np.uintp(tokens[slot])
            A[token] -= scale[k] * weights[slot]
            x = gaps[slot] + log_rate[k]
            if x > UNDERFLOW:
                C[token] -= labels[k] * math.exp(x)


@njit(
    types.void(INDEX, COUNTS, INDEX, VECTOR, VECTOR, VECTOR, OUT, OUT, OUT),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _balance(tokens, counts, offsets, labels, e, c, f, A, C):  # type: ignore[no-untyped-def]
    """f, A and C from e = exp(a - max a), with values relative to that of each sequence's heaviest token."""
    n = offsets.size - 1
    longest = 0
    for k in range(n):
        longest = max(longest, offsets[k + 1] - offsets[k])
    shares, excess = np.empty(longest), np.empty(longest)  # of a sequence's slots: gathered once
    for k in range(n):
        first = np.uintp(offsets[k])
        size = np.uintp(offsets[k + 1]) - first
        top = np.uintp(0)
        heaviest = 0.0
        for slot in range(size):
            share = counts[first + slot] * e[np.uintp(tokens[first + slot])]
            shares[slot] = share
            if share > heaviest:
                heaviest = share
                top = np.uintp(slot)
        unit = 1.0 / heaviest
        star = np.uintp(tokens[first + top])
        value = c[star]
        mass = 0.0
        pull = 0.0
        for slot in range(size):
            shares[slot] *= unit
            excess[slot] = c[np.uintp(tokens[first + slot])] - value
            mass += shares[slot]
            pull += shares[slot] * excess[slot]
        drift = pull / mass
        f[k] = value + drift
        rate = -labels[k] / (n * (1.0 + math.exp(labels[k] * f[k])) * mass)
        total = 0.0
        for slot in range(size):
            token = np.uintp(tokens[first + slot])
            if slot != top:
                share = rate * shares[slot]
                term = share * (excess[slot] - drift)
                C[token] += share
                A[token] += term
                total += term
        C[star] += rate
        A[star] -= total


@dataclass(frozen=True)
class OneLayerNetwork:
    """The one-layer model by E, p and v; ``scale`` multiplies its logits."""

    scale: float = 1.0

    def at(self, corpus: Corpus, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> Evaluation:
        """Evaluate the model."""
        return evaluate_arrays(corpus, E @ p, E @ v, self.scale)

    def pulls(
        self, point: Evaluation, names: Iterable[str], E: np.ndarray, p: np.ndarray, v: np.ndarray
    ) -> dict[str, Pull]:
        """Return minus the gradients by some of E, p and v."""
        pulls = {}
        if "p" in names:
            pulls["p"] = Pull(-(E.T @ point.A_hat), point.log_scale)
        if "v" in names:
            pulls["v"] = Pull(-(E.T @ point.C_hat), point.log_scale_C)
        if "E" in names:
            top = max(point.log_scale, point.log_scale_C)
            share_A, share_C = math.exp(point.log_scale - top), math.exp(point.log_scale_C - top)
            shares = np.column_stack([point.A_hat * -share_A, point.C_hat * -share_C])
            pulls["E"] = Pull(shares @ np.vstack([p, v]), top)
        return pulls

    def measured(self, corpus: Corpus, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> tuple[float, float]:
        """Return the loss, and the mean over sequences of the largest share of attention of a token."""
        return measures(corpus, E @ p, E @ v, self.scale)


def measures(corpus: Corpus, a: np.ndarray, c: np.ndarray, scale: float) -> tuple[float, float]:
    """Return the loss, and the mean over sequences of the largest share of attention of a token."""
    shares = np.maximum.reduceat(token_mass(corpus, scale * a), corpus.offsets[:-1])
    return evaluate(corpus, a, c, scale).loss, float(shares.mean())


@dataclass(frozen=True, eq=False, repr=False)
class TokenRun(Run):
    """A training by steps in which the risk, |p|, the logits a and the values c were observed at ``times``.

    ``beta`` is set where E is fixed: p = p(0) + E' beta, with sum(beta) = 0 (A-RED-4).
    """

    beta: np.ndarray | None = field(kw_only=True)  # (S,)

    @property
    def a(self) -> np.ndarray:
        """E p at every recorded step, (R, S)."""
        return self.observed["a"]

    @property
    def c(self) -> np.ndarray:
        """E v at every recorded step, (R, S)."""
        return self.observed["c"]


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddingDescent(TokenRun):
    """Training of E, p and v by steps; E is too large to keep on the way, so ``points`` is None.

    >>> import numpy as np, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> model = corpus.model(start=(np.eye(3), [0, 0, 0], [1, -1, 0]), blocks=("E", "p"))
    >>> run = hm.train(model, hm.optim.GD(0.5), steps=50)
    >>> bool((np.diff(run.losses) < 0).all()), run.a[-1].round(3).tolist(), run.selection
    (True, [1.02, 1.02, -2.039], (0, 0))
    """

    E: np.ndarray = field(kw_only=True)  # (S, d)
    v: np.ndarray = field(kw_only=True)  # (d,)


@check_arguments
def descend_embeddings(
    corpus: Corpus,
    E: Any,
    p: Any,
    v: Any,
    *,
    rate: float | Optimizer | Mapping[str, Optimizer],
    steps: int | None,
    train: Iterable[str] = ("E", "p"),
    scale: Scale = None,
    **options: Any,
) -> EmbeddingDescent:
    """Train the blocks in ``train`` by steps on the corpus, all at once; the others stay fixed.

    ``rate`` is that of plain gradient descent, or an optimizer, or one for each block. A step
    costs two products with E and, if E is trained, one of rank two. ``scale`` is as in `train_embeddings`;
    the other options are those of `StepOptions`.
    """
    vectors = read_vectors(corpus, E, p, v)
    network = OneLayerNetwork(read_scale("scale", scale, vectors[0].shape[1]))
    plan, beta = StepOptions.read(corpus.n, steps=steps, **options), np.zeros(corpus.S)
    trainer = VectorTrainer(network, corpus, vectors, read_names(train), rate, plan, beta)

    def observe() -> dict[str, Any]:
        E, p, v = trainer.vectors.values()
        return {"losses": trainer.point.loss, "norms": np.linalg.norm(p), "a": E @ p, "c": E @ v}

    trainer.run(observe, partial(trainer.identify, "one layer", scale=network.scale))
    E, _, v = trainer.vectors.values()
    beta_is_known = "E" not in trainer.blocks and ("p" not in trainer.blocks or trainer.along_p is not None)
    source = partial(corpus.problem, E, v, scale=network.scale)
    return EmbeddingDescent(source, **trainer.result, beta=beta if beta_is_known else None)


class VectorTrainer(BlockTrainer):
    """Steps on some of E, p and v, of one layer or two, by any optimizers.

    Args:
        network: the model: ``at`` evaluates it, and ``pulls`` are minus its gradients.
        corpus: the sequences.
        start: E, p and v, which are copied.
        names: the blocks that are trained.
        rate: that of gradient descent, or an optimizer, or one for each block.
        options: how many steps, on which sequences.
        beta: receives the coefficients of p where it moves along its gradient.
    """

    def __init__(
        self,
        network: Any,
        corpus: Corpus,
        start: Iterable[np.ndarray],
        names: Iterable[str],
        rate: Any,
        options: StepOptions,
        beta: np.ndarray | None = None,
    ) -> None:
        self.network, self.corpus, self.beta = network, corpus, beta
        self.vectors = {name: np.array(x) for name, x in zip(BLOCKS, start, strict=True)}
        moving = {name: x for name, x in self.vectors.items() if name in names}
        more = {} if beta is None else {"beta": beta}
        super().__init__(moving, by_block(rate, moving), options, self.evaluate, self.pulls, more)
        self.vectors |= self.blocks
        rules = [rule for name, rule in zip(moving, self.rules, strict=True) if name == "p"]
        self.along_p = rules[0] if rules and rules[0].kind == ALONG else None

    def evaluate(self, inputs: np.ndarray | None) -> Any:
        """Return the model at E, p and v for some sequences, or for all of them (None)."""
        part = self.corpus if inputs is None else take(self.corpus, inputs)
        return self.network.at(part, *self.vectors.values())

    def pulls(self, point: Any, step: int) -> dict[str, Pull]:
        """Return a `Pull` for each block."""
        if self.beta is not None and self.along_p is not None:
            self.beta -= self.along_p.rates[step] * point.A
        return self.network.pulls(point, self.blocks, *self.vectors.values())

    def step_on(self, batch: Corpus) -> float:
        """Take one step on a batch; returns its loss before it, nan where the blocks overflowed."""
        self.corpus = batch
        return float(self._last[1].loss) if self.take_step() else math.nan

    def identify(self, model: str, **scales: float) -> dict[str, Any]:
        """Return the values that a checkpoint of the same training must share."""
        return training_identity(model, self.corpus, self.vectors, self.blocks, **scales)

    @property
    def result(self) -> dict[str, Any]:
        """The fields of the run that all models share."""
        E, p, v = self.vectors.values()
        return {
            "clock": "step",
            "times": np.array(self.times),
            "points": None,
            "event": self.event,
            "method": self.name,
            "observed": self.observed,
            "end": p,
            "E": E,
            "v": v,
        }


def by_block(rate: Any, names: Iterable[str]) -> dict[str, Optimizer]:
    """An optimizer for each block: a separate one, the same for all, or gradient descent at a rate."""
    if isinstance(rate, Mapping):
        if not rate or not set(rate) <= set(names):
            raise ValueError(f"optimizer must have some of the blocks {', '.join(names)}, got {tuple(rate)}")
        return {name: need_optimizer(rate[name], f"optimizer of {name}") for name in names if name in rate}
    return dict.fromkeys(names, rate if isinstance(rate, Optimizer) else GD(expect.positive("rate", rate)))


def read_names(train: Iterable[str]) -> frozenset[str]:
    """Return the names of the trained blocks, some of "E", "p" and "v"."""
    names = frozenset(train)
    if not names or not names <= {*BLOCKS}:
        raise ValueError(f'train must name some of "E", "p", "v", got {sorted(names)}')
    return names


def training_identity(
    model: str, corpus: Corpus, start: Mapping[str, np.ndarray], blocks: Iterable[str], **scales: float
) -> dict[str, Any]:
    """Return the values that a checkpoint of the same training must share."""
    data = digest(corpus.tokens, corpus.counts, corpus.offsets, corpus.labels)
    vectors = digest(*start.values())
    return {"model": model, "blocks": sorted(blocks), "corpus": data, "start": vectors, **scales}


def take(corpus: Corpus, chosen: np.ndarray) -> Corpus:
    """The chosen sequences, in that order."""
    sizes = corpus.offsets[chosen + 1] - corpus.offsets[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    slots = np.arange(offsets[-1]) + np.repeat(corpus.offsets[chosen] - offsets[:-1], sizes)
    tokens, counts = corpus.tokens[slots], corpus.counts[slots]
    return Corpus(tokens, counts, offsets, corpus.labels[chosen], corpus.S, corpus.vocabulary, corpus.written)
