"""Readouts, which turn the attention weights of an input into a signed prediction.

Training needs two things of a readout at an attention s: the prediction u_i of every input, and the scores
h_it = du_i/ds_it of every slot (only their differences within an input matter). With fixed scores both follow
from these; other readouts compute them in `Readout.attend`, the one method that a new readout needs.
``values`` is a table with one row per token of the problem's key table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hardmax._lib import expect
from hardmax._lib.arrays import half_square
from hardmax.problem.losses import LOG, LOSSES, LossFunction, as_loss

if TYPE_CHECKING:
    from hardmax.problem.problem import Problem, Slots


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OutputValue:
    """B = W_ov E, a table B[v, x]: ``margin`` times W_ov*, or ``entries`` if margin is None.

    A token without an n(x) has a zero column in W_ov*: no sample of stage 1 moves it.
    """

    collocation: Ints
    margin: float | None
    entries: Floats | None = None

    @classmethod
    def aligned(cls, collocation: Any, margin: float) -> OutputValue:
        """Make the table ``margin`` times W_ov*."""
        if not (math.isfinite(margin) and margin >= 0.0):
            raise ValueError(f"margin must be a number >= 0, got {margin!r}")
        return cls(checked(collocation), float(margin))

    @classmethod
    def of_table(cls, collocation: Any, table: Any) -> OutputValue:
        """Make an output value of any table B[v, x]."""
        n = checked(collocation)
        return cls(n, None, expect.finite_array("table", table, (len(n), len(n))))

    @property
    def V(self) -> int:
        """Size of the vocabulary."""
        return len(self.collocation)

    @cached_property
    def table(self) -> Floats:
        """The V x V table B[v, x]."""
        if self.entries is not None:
            return self.entries
        assert self.margin is not None
        return self.margin * star_table(self.collocation)

    @property
    def norm(self) -> float:
        """Frobenius norm of the table."""
        if self.margin is not None:
            return self.margin * star_norm(self.collocation)
        return float(np.linalg.norm(self.table))

    @property
    def misalignment_ov(self) -> float:
        """1 - cos to W_ov*; nan for zero weights."""
        if self.norm == 0.0:
            return math.nan
        if self.margin is not None:
            return 0.0
        star = star_table(self.collocation) / star_norm(self.collocation)
        return half_square(self.table / self.norm, star)

    @property
    def stage_1_loss(self) -> float:
        """L_0, a sum over the tokens that have an n(x)."""
        n = self.collocation
        if self.margin is not None:
            return int((n >= 0).sum()) * best_loss(self.V, self.margin)
        from scipy.special import logsumexp

        followed = np.flatnonzero(n >= 0)
        z = np.array(self.table[:, followed])
        right = n[followed], np.arange(len(followed))
        z_y = z[right].copy()
        z[right] = -np.inf
        return float(np.logaddexp(0.0, -(z_y - logsumexp(z, axis=0))).sum())


def star_norm(collocation: Any) -> float:
    """|W_ov*| = sqrt(V - 1) if every token has an n(x)."""
    n = checked(collocation)
    return math.sqrt(int((n >= 0).sum()) * (1.0 - 1.0 / len(n)))


def star_table(collocation: Any) -> Floats:
    """W_ov* in float64; `hardmax.margin.closed_forms.ov_star` has the fractions."""
    n = checked(collocation)
    followed = np.flatnonzero(n >= 0)
    table = np.zeros((len(n), len(n)))
    table[:, followed] = -1.0 / len(n)
    table[n[followed], followed] += 1.0
    return table


def best_loss(V: int, margin: float) -> float:
    """L* = log(1 + (V - 1) e^-margin): the loss of a sentence that attends to the right token only."""
    return float(np.logaddexp(0.0, math.log(V - 1) - margin))


def checked(collocation: Any) -> Ints:
    """A collocation as numbers, or a ValueError."""
    n = expect.whole_array("collocation", collocation)
    if n.shape == (1,):
        raise ValueError("collocation: with one token there is no wrong next token and nothing to learn")
    if n.ndim != 1 or len(n) < 2 or n.min() < -1 or n.max() >= len(n):
        raise ValueError(
            f"collocation must list n(x) in 0..V-1, or -1, for V >= 2 tokens, got {collocation!r:.80}"
        )
    return n


__all__ = ["Attention", "CrossEntropy", "LinearReadout", "NonlinearReadout", "Readout", "Scores"]


class ScoresMove(ValueError):
    """Fixed scores were requested from a readout whose scores move with the attention."""


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of every input: shares of the slots of each input, which sum to 1.

    Tokens of an input with one key are one slot here; `rows` returns a row of a table for each slot, `mean`
    its average under the attention, `per_slot` repeats a number of each input on its slots.

    >>> import numpy as np, hardmax as hm
    >>> at = hm.readouts.Attention(np.array([1, 0]), np.array([0, 2]), np.array([0.25, 0.75]), np.array([1]))
    >>> at.mean(at.rows(np.array([[8.0], [4.0]]))).tolist()
    [[7.0]]
    """

    tokens: np.ndarray  # (L,) row of the token table at every slot of the problem
    offsets: np.ndarray  # (n + 1,) slots of each input
    shares: np.ndarray  # (M,)
    tops: np.ndarray  # (n,) the slot of each input with the largest logit
    slots: Slots | None = None  # how L slots became M; None if they are the same

    def rows(self, table: np.ndarray) -> np.ndarray:
        """Rows of a table over the tokens, one for each slot."""
        return table[self.tokens] if self.slots is None else self.slots.merge(table[self.tokens])

    def mean(self, rows: np.ndarray) -> np.ndarray:
        """sum_t s_it row_it of every input."""
        return np.add.reduceat(self.shares[:, None] * rows, self.offsets[:-1], axis=0)

    def per_slot(self, x: np.ndarray) -> np.ndarray:
        """Return a number of each input, repeated on its slots."""
        return np.repeat(x, np.diff(self.offsets), axis=0)


class Readout:
    """The base of every readout. A custom one needs a ``loss`` and `attend`; the rest has defaults.

    >>> import numpy as np, hardmax as hm
    >>> class Square(hm.readouts.Readout):  # u = z^2, z the attended value
    ...     loss = hm.Problem([[[0.0]]], [[0.0]]).loss
    ...     values = np.array([[1.0], [0.5]])
    ...     def attend(self, at):
    ...         x = at.rows(self.values)
    ...         z = at.mean(x)
    ...         return (2.0 * at.per_slot(z) * x)[:, 0], z[:, 0] ** 2
    >>> problem = hm.Problem.from_readout([[[1.0], [0.0]]], Square())
    >>> hm.gradient(problem, [0.0]).direction.tolist()
    [1.0]
    """

    loss: LossFunction
    values: np.ndarray | None = None  # (N, e), where the readout has a value of every token
    labels: np.ndarray | None = None  # (n,), where the prediction is signed by one
    moves: ClassVar[bool] = True  # whether the scores move with the attention: none are fixed
    in_log: ClassVar[LossFunction | None] = None  # the loss as a function of log u, where u may underflow

    @property
    def linear(self) -> LinearReadout | None:
        """The readout itself if its scores are Y v.x with a v that may be trained, else None."""
        return None

    @property
    def cross_entropy(self) -> CrossEntropy | None:
        """The readout itself if it is a cross-entropy of next tokens, else None."""
        return None

    def fixed_scores(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """gamma_it of every slot, for all attention."""
        raise ScoresMove("this readout has no fixed scores; give the problem scores or a linear readout")

    def attend(self, at: Attention) -> tuple[np.ndarray, np.ndarray]:
        """Scores h_it = du_i/ds_it of every slot, up to a constant in each input, and u_i of every input."""
        raise NotImplementedError("a readout whose scores move with the attention must have attend(at)")

    def vertex_predictions(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return u of every slot's input if all attention were on that slot: it makes a token the best."""
        if not self.moves:
            return self.fixed_scores(tokens, offsets)
        u, sizes = np.empty(len(tokens)), np.diff(offsets)
        for k in range(int(sizes.max())):
            chosen = offsets[:-1] + np.minimum(k, sizes - 1)
            u[chosen] = self.attend(_vertex(tokens, offsets, chosen))[1]
        return u

    def vertex_gaps(self, tokens: np.ndarray, offsets: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """h_chosen - h_t of every slot with all attention on the chosen one: what makes it attract.

        ``chosen`` is one slot of each input. Not the difference of `vertex_predictions` unless scores are
        fixed: the two may order tokens differently.
        """
        if self.moves:
            h = self.attend(_vertex(tokens, offsets, chosen))[0]
        else:
            h = self.fixed_scores(tokens, offsets)
        with np.errstate(over="ignore"):
            return np.asarray(np.repeat(h[chosen], np.diff(offsets)) - h)

    def marks(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return rows of numbers, (L, k), that tell tokens of an input with equal keys apart."""
        if not self.moves:
            return self.fixed_scores(tokens, offsets)[:, None]
        return tokens[:, None].astype(float) if self.values is None else self.values[tokens]

    def restricted(self, slots: np.ndarray) -> Readout:
        """Return the readout of some of the slots: itself, unless it holds something of each."""
        return self

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of the readout that a file of the problem must hold."""
        raise ValueError("this readout is a function and cannot be saved; save its scores instead")


def _vertex(tokens: np.ndarray, offsets: np.ndarray, chosen: np.ndarray) -> Attention:
    shares = np.zeros(len(tokens))
    shares[chosen] = 1.0
    return Attention(tokens, offsets, shares, chosen)


@dataclass(frozen=True, eq=False)
class Scores(Readout):
    """Fixed token scores gamma_it, one per slot, and a loss.

    >>> import hardmax as hm
    >>> hm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]]).readout.scores
    array([1., 0.])
    """

    scores: np.ndarray
    loss: LossFunction

    moves = False

    def fixed_scores(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return the given scores."""
        return self.scores

    def restricted(self, slots: np.ndarray) -> Scores:
        """Return the readout with the scores of these slots."""
        return replace(self, scores=self.scores[slots])

    def arrays(self) -> dict[str, Any]:
        """Return the scores for a file."""
        return {"scores": self.scores}


@dataclass(frozen=True, eq=False)
class LinearReadout(Readout):
    """Values x, labels Y and a readout v: the score of a token is Y v.x. ``v`` may be trained.

    >>> import hardmax as hm
    >>> problem = hm.Problem.from_tokens([[[2.0, 0.0], [0.0, 1.0]]], labels=[-1], readout=[1.0, 0.0])
    >>> problem.scores + 0.0
    array([-2.,  0.])
    """

    values: np.ndarray = field()  # (N, e)
    labels: np.ndarray = field()  # (n,)
    v: np.ndarray  # (e,)
    loss: LossFunction

    moves = False

    @property
    def linear(self) -> LinearReadout:
        """The readout itself."""
        return self

    def fixed_scores(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """gamma_it = Y_i v.x_it of every slot; equal values score equally, to the last bit.

        (BLAS sums the last rows of a table in another order than the first.)
        """
        return np.repeat(self.labels, np.diff(offsets)) * np.einsum("ij,j->i", self.values, self.v)[tokens]

    def arrays(self) -> dict[str, Any]:
        """Return values, labels and v for a file."""
        return {"values": self.values, "labels": self.labels, "head": self.v}


@dataclass(frozen=True, eq=False)
class NonlinearReadout(Readout):
    """Values, labels and any differentiable psi: the prediction is Y psi(z), z the attended value.

    ``psi`` maps (n, e) to (n,), ``psi_gradient`` maps (n, e) to (n, e).

    >>> import numpy as np, hardmax as hm
    >>> tokens = [[[1.0, 0.0], [0.0, 1.0]]]
    >>> problem = hm.Problem.from_psi(tokens, tokens, [1], psi=lambda z: np.tanh(z[:, 0]),
    ...     psi_gradient=lambda z: np.stack([np.cosh(z[:, 0]) ** -2, 0 * z[:, 1]], axis=1))
    >>> hm.gradient(problem, [0.0, 0.0]).direction.round(4)
    array([ 0.7071, -0.7071])
    """

    values: np.ndarray = field()
    labels: np.ndarray = field()
    psi: Callable[[np.ndarray], np.ndarray]
    psi_gradient: Callable[[np.ndarray], np.ndarray]
    loss: LossFunction

    def attend(self, at: Attention) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores Y x.psi'(z) and the predictions Y psi(z)."""
        values = at.rows(self.values)
        z = at.mean(values)
        lift = at.per_slot(self.labels[:, None] * self.psi_gradient(z))
        return (lift * values).sum(axis=1), self.labels * self.psi(z)

    def vertex_predictions(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return Y psi(x) of every slot."""
        return np.repeat(self.labels, np.diff(offsets)) * self.psi(self.values[tokens])


@dataclass(frozen=True, eq=False)
class CrossEntropy(Readout):
    """Cross-entropy of next tokens (paper C): the logistic loss of the lead u of the next one over the rest.

    With the outputs z = sum_t s_t B[:, x_t], B = ``W_ov``, and the next token y, the cross-entropy is
    log(1 + e^-u) with u = z_y - log sum_{v != y} e^{z_v}, and h_t = B[y, x_t] - sum_{v != y} r_v B[v, x_t], r
    the softmax of the outputs other than y. ``words`` are the vocabulary's tokens of the rows of the key
    table, ``targets`` the next tokens. With B = margin W_ov* the cost does not grow with the vocabulary.

    >>> import numpy as np, hardmax as hm
    >>> problem = hm.nexttoken.Samples.from_sentences(["a b b", "b a"]).problem(np.eye(2))
    >>> problem.readout.vertex_predictions(problem.tokens, problem.offsets).tolist()
    [-1.0, -1.0, 1.0, -1.0]
    """

    W_ov: OutputValue
    words: np.ndarray  # (N,)
    targets: np.ndarray  # (n,)
    queries: np.ndarray | None = None  # (N,) where keys are one-hot pairs (token, query)
    loss: LossFunction = LOSSES["logistic"]

    @property
    def cross_entropy(self) -> CrossEntropy:
        """The readout itself."""
        return self

    def attend(self, at: Attention) -> tuple[np.ndarray, np.ndarray]:
        """Return h - h_top of every slot, and u of every input."""
        if at.slots is not None:  # tokens with one key may have several outputs: each has its share
            slots = at.slots
            assert slots.group is not None
            row = np.repeat(np.arange(len(at.offsets) - 1), np.diff(at.offsets))[slots.group]
            offsets = np.searchsorted(row, np.arange(len(at.offsets)))  # of the slots of the problem
            h, u = self.attend(Attention(at.tokens, offsets, slots.spread(at.shares), slots.leaders[at.tops]))
            return slots.merge(h), u
        from hardmax.problem.kernels import attend_aligned, attend_table

        h, u = np.empty(len(at.tokens)), np.empty(len(self.targets))
        layout = (at.offsets, at.shares, at.tops, self.targets)
        words = self.words[at.tokens]
        if self.W_ov.margin is None:
            attend_table(words, *layout, self._columns, h, u)
        else:
            attend_aligned(self.W_ov.collocation[words], *layout, self.W_ov.V, self.W_ov.margin, h, u)
        return h, u

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.W_ov.table.T)

    def marks(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The number of the column of B: tokens with equal keys and columns are one token."""
        if self.W_ov.margin is not None:
            return self.W_ov.collocation[self.words[tokens]][:, None].astype(float)
        column = np.unique(self._columns, axis=0, return_inverse=True)[1].reshape(-1)
        return column[self.words[tokens]][:, None].astype(float)

    def arrays(self) -> dict[str, Any]:
        """Return W_ov, words and targets for a file."""
        W_ov = self.W_ov
        arrays: dict[str, Any] = {"collocation": W_ov.collocation, "words": self.words}
        arrays |= {"targets": self.targets, "queries": self.queries, "entries": W_ov.entries}
        arrays["margin"] = None if W_ov.margin is None else np.array(W_ov.margin)
        return {name: array for name, array in arrays.items() if array is not None}


# The log loss as a function of x = log u; log|dl/du| is -x.
IN_LOG = LossFunction(
    "log, of log u", value=lambda x: -x, log_slope=LOSSES["exponential"].log_slope, slope_rate=lambda x: -1.0
)


@dataclass(frozen=True, eq=False)
class Labels(Scores):
    """Scores 1 on the tokens of an input's label and 0 elsewhere, and the log loss."""

    loss: LossFunction = LOG

    in_log = IN_LOG


def scored(scores: np.ndarray, offsets: np.ndarray, loss: str | LossFunction) -> Scores:
    """The readout of fixed scores: `Labels` for the log loss, whose scores are 0 and 1."""
    if loss is not LOG and loss != "log":
        return Scores(scores, as_loss(loss))
    odd = np.flatnonzero((scores != 0.0) & (scores != 1.0))
    if odd.size:
        i = int(np.searchsorted(offsets, odd[0], side="right")) - 1
        raise ValueError(
            f'scores must be 1 on the tokens of the label and 0 elsewhere with loss="log", got '
            f"{scores[odd[0]]:g} in input {i}; choose another loss for other scores"
        )
    most = np.maximum.reduceat(scores, offsets[:-1])
    if not most.all():
        raise ValueError(
            f'scores must be 1 on some token of every input with loss="log", got none in input '
            f"{int(np.argmin(most))}; leave out inputs that do not hold their label"
        )
    return Labels(scores)


def matching(name: str, x: Any, offsets: np.ndarray, width: bool = True, other: str = "keys") -> np.ndarray:
    """Return a flat array with a row for each token of the argument that is called ``other``."""
    flat, sizes = expect.ragged(name, x, width)
    expect.same_tokens(name, sizes, offsets, other)
    return flat


def scored_readout(
    scores: Any, offsets: np.ndarray, loss: str | LossFunction, other: str = "keys"
) -> Readout:
    """Return the readout of a score for each token of the argument that is called ``other``."""
    return scored(matching("scores", scores, offsets, False, other), offsets, loss)


def linear_readout(values: np.ndarray, offsets: np.ndarray, labels: Any, v: Any, loss: Any) -> LinearReadout:
    """Return the readout of values, labels of -1 and 1 and a vector v."""
    signs = expect.signs("labels", labels, len(offsets) - 1)
    return LinearReadout(values, signs, expect.finite_array("readout", v, (values.shape[1],)), as_loss(loss))


def has_one_label(problem: Problem) -> bool:
    """Whether the log loss is convex: no input has label tokens with different keys."""
    if problem.readout.in_log is None:
        return False
    leaders = problem.table.leaders(problem.tokens, problem.offsets, np.empty((len(problem.tokens), 0)))
    return all(
        len(set(keys[scores == 1.0].tolist())) == 1
        for keys, scores in zip(problem.split(leaders), problem.split(problem.scores), strict=True)
    )
