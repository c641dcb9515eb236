"""Problem: keys, readout, and the tokens of each input. Every solver and every training takes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect, notebook
from hardmax._lib.arguments import WrongType
from hardmax._lib.models import made
from hardmax._lib.plotting import axes_of, draw_tokens, plane_of
from hardmax.problem.files import read_problem, write_problem
from hardmax.problem.keys import Dense, Gram, Keys, outer_products
from hardmax.problem.losses import LOSSES, LossFunction, as_loss
from hardmax.problem.readouts import NonlinearReadout, Readout, linear_readout, matching, scored_readout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hardmax.dynamics.attention import AttentionModel, Link
    from hardmax.dynamics.models import Factors, Joint, Matrix


def all_slots(offsets: np.ndarray) -> np.ndarray:
    """Return the rows of a table that has a row for every slot."""
    slots = np.arange(offsets[-1])
    slots.setflags(write=False)
    return slots


@dataclass(frozen=True, eq=False)
class Slots:
    """Merged slots of a problem: table rows, offsets, counts, and the way back to the original slots."""

    table: Keys
    tokens: np.ndarray  # (M,)
    offsets: np.ndarray  # (n + 1,)
    counts: np.ndarray  # (M,) float
    leaders: np.ndarray  # (M,) original slot, the first of those that were merged
    group: np.ndarray | None = None  # (L,) merged slot of each original slot; None when nothing was merged
    own: np.ndarray | None = None  # (L,) counts of the original slots; None where all are 1

    @property
    def keys(self) -> np.ndarray:
        """The keys as a table."""
        return self.table.dense()

    def merge(self, flat: np.ndarray) -> np.ndarray:
        """Mean over each group of a per-slot quantity; copies keep their value to the last bit."""
        if self.group is None:
            return flat
        out = flat[self.leaders]
        differs = (flat != out[self.group]).reshape(len(flat), -1).any(axis=1)
        if not differs.any():
            return out
        members = np.flatnonzero(np.isin(self.group, self.group[differs]))
        members = members[np.argsort(self.group[members], kind="stable")]
        bounds = np.flatnonzero(np.diff(self.group[members])) + 1
        for rows in np.split(members, bounds):
            counts = None if self.own is None else self.own[rows].tolist()
            means = [_mean(column, counts) for column in flat[rows].reshape(len(rows), -1).T.tolist()]
            out[self.group[rows[0]]] = np.reshape(means, flat.shape[1:])
        return out

    def spread(self, flat: np.ndarray) -> np.ndarray:
        """A merged per-slot share back on the original slots, each member of a group with its part."""
        if self.group is None:
            return flat
        parts: np.ndarray = (flat / self.counts)[self.group]
        return parts if self.own is None else parts * self.own


def _mean(x: list[float], counts: list[float] | None) -> float:
    """The mean; exact where it is a float, so that scores that balance give a gradient of exactly zero."""
    if counts is None:
        near = math.fsum(x) / len(x)
        return near + math.fsum([*x, *[-near] * len(x)]) / len(x)
    total = math.fsum(counts)
    near = math.fsum(c * y for c, y in zip(counts, x, strict=True)) / total
    return near + math.fsum(c * (y - near) for c, y in zip(counts, x, strict=True)) / total


def slots_of(problem: Problem) -> Slots:
    """Return a problem with the tokens of equal keys in an input merged, as kernels take it."""
    table, counts = problem.table, problem.counts
    leader = table.leaders(problem.tokens, problem.offsets, np.empty((len(problem.tokens), 0)))
    leads = leader == np.arange(leader.size)
    if leads.all():
        ones = np.ones(leader.size)
        return Slots(
            table, problem.tokens, problem.offsets, ones if counts is None else counts, leader, None, counts
        )
    group = (np.cumsum(leads) - 1)[leader]
    sums = np.bincount(group, counts).astype(float)
    offsets = np.concatenate([[0], np.cumsum(leads)])[problem.offsets]
    return Slots(table, problem.tokens[leads], offsets, sums, np.flatnonzero(leads), group, counts)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Problem:
    """Inputs i = 1..n, each a list of tokens with keys, and a readout that scores them.

    Inputs may differ in length. The arrays are flat: slot l of all inputs in a row is row ``tokens[l]`` of
    ``keys``, and input i has the slots ``offsets[i]:offsets[i+1]``. ``counts`` are multiplicities of tokens,
    ``weights`` those of inputs in the loss (see `weighted`); without weights the loss is the mean.

    Args:
        keys: (n, T, d), or n arrays (T_i, d).
        scores: one number per token.
        loss: a name, or a `LossFunction`. With "log" scores are 1 on the tokens of an input's label and 0
            elsewhere, and the loss is minus the log of the attention on the label.

    See also: `from_values`, `from_tokens`, `from_queries`, `from_classes`, `from_psi`, `from_gram`,
    `from_readout`, `load`.

    >>> import hardmax as hm
    >>> problem = hm.Problem(keys=[[[1, 0], [0, 0]], [[-1, 1], [1, 0], [0, 2]]], scores=[[1, 0], [1, 0, 0]])
    >>> problem
    Problem(n=2, T=2..3, d=2, loss='logistic')
    >>> problem.sizes.tolist()
    [2, 3]
    """

    table: Keys  # of N tokens, in d dimensions
    tokens: np.ndarray  # (L,) row of the table at each slot
    offsets: np.ndarray  # (n + 1,)
    readout: Readout
    W: np.ndarray | None = None  # set when keys = tokens W'
    counts: np.ndarray | None = None  # (L,) multiplicities; None where all are 1
    weights: np.ndarray | None = None  # (n,) of the inputs; None for the mean over them

    # -- constructors -------------------------------------------------------------------------------------

    def __init__(self, keys: Any, scores: Any, loss: str | LossFunction = "logistic") -> None:
        table, offsets = expect.ragged("keys", keys, width=True)
        self._fill(Dense(table), all_slots(offsets), offsets, scored_readout(scores, offsets, loss))

    def _fill(self, *values: Any) -> None:
        for field, value in zip(fields(self), values, strict=False):
            object.__setattr__(self, field.name, value)

    @classmethod
    def _flat(
        cls,
        table: Keys,
        tokens: np.ndarray,
        offsets: np.ndarray,
        readout: Readout,
        W: np.ndarray | None = None,
        counts: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Problem:
        """Make a problem from its flat arrays."""
        problem = cls.__new__(cls)
        problem._fill(table, tokens, offsets, readout, W, counts, weights)
        return problem

    def _with(self, **changed: Any) -> Problem:
        """Copy the problem with some of its fields changed."""
        return self._flat(**{field.name: getattr(self, field.name) for field in fields(self)} | changed)

    @classmethod
    def from_values(
        cls, keys: Any, values: Any, labels: Any, readout: Any, loss: str | LossFunction = "logistic"
    ) -> Problem:
        """Keys and values of every token, a label per input and the readout v: scores are Y v.x.

        >>> import hardmax as hm
        >>> keys = [[[1.0, 0.0], [0.0, 0.0]]]
        >>> hm.Problem.from_values(keys, values=[[[3.0], [2.0]]], labels=[-1], readout=[1.0]).scores
        array([-3., -2.])
        """
        table, offsets = expect.ragged("keys", keys, width=True)
        linear = linear_readout(matching("values", values, offsets), offsets, labels, readout, loss)
        return cls._flat(Dense(table), all_slots(offsets), offsets, linear)

    @classmethod
    def from_tokens(
        cls, tokens: Any, labels: Any, readout: Any, W: Any = None, loss: str | LossFunction = "logistic"
    ) -> Problem:
        """Tokens x that are the values and, through k = W x, the keys; W is the identity if absent.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_tokens([[[1.0, 2.0], [0.0, 1.0]]], [1], [1.0, 0.0], W=[[0, 1], [1, 0]])
        >>> problem.keys.tolist()
        [[2.0, 1.0], [1.0, 0.0]]
        """
        table, offsets = expect.ragged("tokens", tokens, width=True)
        linear = linear_readout(table, offsets, labels, readout, loss)
        return cls._flat(Dense(table), all_slots(offsets), offsets, linear)._tied(W)

    @classmethod
    def from_queries(
        cls,
        tokens: Any,
        queries: Any,
        scores: Any = None,
        *,
        labels: Any = None,
        readout: Any = None,
        loss: str | LossFunction = "logistic",
    ) -> Problem:
        """Tokens x and a query z per input: the logit is x'Wz, and W is trained.

        p is W read row by row, of the `shape` (d_x, d_z); the keys outer(x, z).ravel() are never stored.

        Args:
            tokens: n inputs with T_i tokens of d_x numbers each.
            queries: n vectors of d_z numbers, or "first" or "last" for the first or last token of each input;
                an input that is seen with several queries is given once for each.
            scores: one number per token; leave it out to give labels and a readout instead.
            labels: +1 or -1 per input.
            readout: a vector v: the score of a token is Y v.x.
            loss: a name, or a `LossFunction`.

        >>> import hardmax as hm
        >>> tokens = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]]]
        >>> problem = hm.Problem.from_queries(tokens, "first", scores=[[1.0, 0.0], [1.0, 0.0]])
        >>> problem, problem.shape
        (Problem(n=2, T=2, d=2x2, loss='logistic'), (2, 2))
        >>> hm.max_margin(problem).W.round(12).tolist()
        [[0.5, -1.0], [-0.5, 0.0]]
        """
        x, offsets = expect.ragged("tokens", tokens, width=True)
        table = outer_products(x, offsets, queries)
        if (scores is None) == (labels is None and readout is None):
            got = "none" if scores is None else "both"
            raise ValueError(f"scores, or labels and readout, must be given, got {got}; give one of the two")
        if scores is None:
            kind: Readout = linear_readout(x, offsets, labels, readout, loss)
        else:
            kind = scored_readout(scores, offsets, loss, "tokens")
        return cls._flat(table, all_slots(offsets), offsets, kind)

    @classmethod
    def from_classes(cls, X: Any, y: Any) -> Problem:
        """Make the problem of a softmax classifier: its classes are the tokens, its samples the queries.

        The logits of a sample x are W x and the loss is the mean cross-entropy. The trained matrix W has the
        `shape` (classes, features); row c belongs to the c-th label in sorted order. `max_margin` returns the
        hard-margin SVM of Crammer and Singer. For intercepts add a column of ones to X.

        Args:
            X: (n, d), one row of features per sample.
            y: n labels, numbers or strings, of at least two classes.

        See also: `from_queries`; `hm.nexttoken.linear` for soft labels.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_classes([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], ["a", "b", "c"])
        >>> problem, round(hm.loss(problem, [[0.0, 0.0]] * 3), 6)
        (Problem(n=3, T=3, d=3x2, loss='log'), 1.098612)
        >>> round(hm.max_margin(problem).margin, 6)
        0.866025
        """
        x = expect.finite_array("X", X, (None, None))
        if not x.size:
            raise ValueError(f"X must hold samples with features, got shape {x.shape}")
        labels, numbers = expect.classes("y", y, len(x))
        one_hot = np.eye(len(labels))
        tokens = np.broadcast_to(one_hot, (len(x), *one_hot.shape))
        return cls.from_queries(tokens, x, one_hot[numbers], loss="log")

    @classmethod
    def from_psi(
        cls,
        keys: Any,
        values: Any,
        labels: Any,
        psi: Callable[[np.ndarray], np.ndarray],
        psi_gradient: Callable[[np.ndarray], np.ndarray],
        W: Any = None,
        loss: str | LossFunction = "logistic",
    ) -> Problem:
        """Keys, values, labels and a nonlinear readout psi, its gradient too, on (n, e) arrays.

        Where the keys equal the values, ``W`` maps them to the keys W x, as in `from_tokens`.

        >>> import numpy as np, hardmax as hm
        >>> x = [[[1.0], [0.0]]]
        >>> cube = hm.Problem.from_psi(x, x, [1], lambda z: z[:, 0] ** 3, lambda z: 3 * z ** 2)
        >>> round(hm.loss(cube, [0.0]), 4)
        0.6326
        """
        table, offsets = expect.ragged("keys", keys, width=True)
        value_table = matching("values", values, offsets)
        for name, function in (("psi", psi), ("psi_gradient", psi_gradient)):
            if not callable(function):
                raise ValueError(f"{name} must be a function of an (n, e) array, got {function!r}")
        signs = expect.signs("labels", labels, len(offsets) - 1)
        readout = NonlinearReadout(value_table, signs, psi, psi_gradient, as_loss(loss))
        problem = cls._flat(Dense(table), all_slots(offsets), offsets, readout)
        if np.array_equal(table, value_table):
            return problem._tied(W)
        if W is not None:
            raise ValueError("keys must equal values when W is given: the keys are then W x of the values x")
        return problem

    @classmethod
    def from_gram(
        cls, gram: Any, inputs: Sequence[Sequence[int]], scores: Any, loss: str | LossFunction = "logistic"
    ) -> Problem:
        """Inner products of N tokens and, per input, the list of its tokens: the dimension may be anything.

        ``keys`` are then coordinates in an isometric copy of the tokens' span, of dimension at most N.

        >>> import numpy as np, hardmax as hm
        >>> problem = hm.Problem.from_gram(np.eye(3), inputs=[[0, 1], [1, 2]], scores=[[1, 0], [1, 0]])
        >>> problem.n, problem.keys.shape
        (2, (3, 3))
        """
        table = Gram.of(gram)
        N = table.shape[0]
        flat, offsets = expect.ragged("inputs", inputs, width=False)
        tokens = flat.astype(np.intp)
        if (tokens != flat).any() or (tokens < 0).any() or (tokens >= N).any():
            raise ValueError(f"inputs must hold token numbers from 0 to {N - 1} (the size of gram)")
        return cls._flat(table, tokens, offsets, scored_readout(scores, offsets, loss))

    @classmethod
    def from_readout(cls, keys: Any, readout: Readout) -> Problem:
        """Keys (n, T, d), or n arrays (T_i, d), and your own readout, see `hm.readouts.Readout`.

        Row l of the readout's tables belongs to the l-th token, counted through all inputs.

        >>> import hardmax as hm
        >>> keys, scores = [[[1.0], [0.0]]], hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]]).readout
        >>> hm.loss(hm.Problem.from_readout(keys, scores), [0.0]) == hm.loss(
        ...     hm.Problem(keys, [[1.0, 0.0]]), [0.0])
        True
        """
        if not isinstance(readout, Readout):
            raise WrongType(f"readout must be a hardmax.readouts.Readout, got {type(readout).__name__}")
        table, offsets = expect.ragged("keys", keys, width=True)
        return cls._flat(Dense(table), all_slots(offsets), offsets, readout)

    @classmethod
    def load(cls, path: str | Path) -> Problem:
        """Read a problem from .npz (as `save` writes it), .json or .csv (see docs/reference/files.md).

        >>> import hardmax as hm, tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.json"
        >>> _ = file.write_text('{"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]]}')
        >>> hm.Problem.load(file).scores
        array([1., 0.])
        """
        return read_problem(cls, Path(path))

    def save(self, path: str | Path) -> None:
        """Write to .npz (flat arrays with offsets, no pickles) or .json, by the file's ending.

        >>> import hardmax as hm, tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.npz"
        >>> hm.data.sphere(n=2, T=3, d=4, rng=0).save(file)
        >>> hm.Problem.load(file).n
        2
        """
        write_problem(self, Path(path))

    # -- contents ------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        T = "..".join(str(size) for size in sorted({int(self.sizes.min()), int(self.sizes.max())}))
        d = "x".join(map(str, self.shape))
        return f"Problem(n={self.n}, T={T}, d={d}, loss={self.loss.name!r})"

    def _repr_html_(self) -> str:
        best = ["moves"] * self.n
        if not self.readout.moves:
            best = [f"{part.max():.6g}" for part in self.split(self.scores)]
        tokens = self.sizes if self.counts is None else np.add.reduceat(self.counts, self.offsets[:-1])
        columns: list[tuple[str, Sequence[Any]]] = [
            ("input", range(self.n)),
            ("tokens", [f"{T:g}" for T in tokens.tolist()]),
            ("best score", best),
        ]
        if self.weights is not None:
            columns.append(("weight", [f"{weight:.6g}" for weight in self.weights.tolist()]))
        rows = zip(*(column for _, column in columns), strict=True)
        return notebook.table(repr(self), [name for name, _ in columns], rows)

    @cached_property
    def plane(self) -> np.ndarray:
        """The plane that pictures show, (2, d): the identity where the keys have two dimensions."""
        return plane_of(self.split(self.keys[self.tokens]))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the tokens in the plane, those with the best score filled; return the matplotlib axes.

        Keys in more than two dimensions are shown in the plane of their largest differences.

        >>> import hardmax as hm
        >>> hm.data.example("B-FIG-8").plot().get_title()
        'tokens; filled: best score'
        """
        alone = self.split(self.readout.vertex_predictions(self.tokens, self.offsets))
        best = [np.flatnonzero(u == u.max()).tolist() for u in alone]
        return draw_tokens(axes_of(ax), self.split(self.keys[self.tokens]), best)

    @property
    def n(self) -> int:
        """Number of inputs."""
        return len(self.offsets) - 1

    @property
    def d(self) -> int:
        """Dimension of the keys."""
        return self.table.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of p: (d,) of a vector p, (d_x, d_z) where p is a matrix read row by row."""
        return self.table.unknown

    @property
    def keys(self) -> np.ndarray:
        """The token table, (N, d)."""
        return self.table.dense()

    @property
    def gram(self) -> np.ndarray | None:
        """(N, N) inner products, where the keys are known by these only."""
        return self.table.inner

    @property
    def sizes(self) -> np.ndarray:
        """Tokens per input, T_i."""
        return np.diff(self.offsets)

    @property
    def total(self) -> float:
        """Divisor of sums over the inputs: n for the mean, 1 where the inputs have weights."""
        return float(self.n) if self.weights is None else 1.0

    @cached_property
    def log_weights(self) -> np.ndarray:
        """Log of every input's weight relative to `total`."""
        return np.zeros(self.n) if self.weights is None else np.log(self.weights)

    def average(self, x: np.ndarray) -> float:
        """The mean over the inputs, or their sum with the weights."""
        return float(x.mean() if self.weights is None else self.weights @ x)

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """A flat per-slot array as one array per input."""
        return np.split(flat, self.offsets[1:-1])

    def vector(self, name: str, p: Any) -> np.ndarray:
        """Return p as a float64 vector of the keys' dimension; None is the origin.

        A matrix with d entries is read row by row, as keys outer(x, z).ravel() of a query z per input are.
        """
        if p is None:
            return np.zeros(self.d)
        p = expect.detached(p)
        if isinstance(p, list | tuple) and p and isinstance(p[0], list | tuple | np.ndarray):
            p = expect.finite_array(name, p, (None, None))
        if np.ndim(p) == 2 and np.size(p) == self.d:
            p = np.asarray(p).reshape(-1)
        try:
            return expect.finite_array(name, p, (self.d,))
        except ValueError as error:
            if self.gram is None:
                raise
            raise ValueError(
                f"{error}; where keys are known by inner products, make it of tokens with "
                "problem.combination(coefficients)"
            ) from None

    def combination(self, coefficients: Any) -> np.ndarray:
        """sum_j c_j k_j over the rows of the token table, as a p: a start for keys known by inner products.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_gram([[2.0, 1.0], [1.0, 2.0]], [[0, 1]], [[1.0, 0.0]])
        >>> p = problem.combination([3.0, 0.0])   # three times token 0
        >>> (problem.keys @ p).round(12).tolist(), round(float(p @ p), 9)
        ([6.0, 3.0], 18.0)
        """
        keys = self.keys
        return expect.finite_array("coefficients", coefficients, (len(keys),)) @ keys

    @property
    def loss(self) -> LossFunction:
        """The loss function of the readout."""
        return self.readout.loss

    @property
    def kernel_slope(self) -> tuple[Any, bool]:
        """log|l'| as kernels take it, and whether as a function of log u instead of u."""
        in_log = self.readout.in_log
        return (self.loss.log_slope, False) if in_log is None else (in_log.log_slope, True)

    @cached_property
    def scores(self) -> np.ndarray:
        """Score gamma of every slot; refused where the scores move with the attention."""
        return self.readout.fixed_scores(self.tokens, self.offsets)

    @cached_property
    def prediction_range(self) -> tuple[float, float]:
        """Least and largest signed prediction that one token alone gives."""
        alone = self.readout.vertex_predictions(self.tokens, self.offsets)
        return float(alone.min()), float(alone.max())

    @cached_property
    def _loss_decreases(self) -> bool:
        return LOSSES.get(self.loss.name) is self.loss or self.loss.decreases(*self.prediction_range)

    def need_decreasing_loss(self) -> None:
        """Refuse a loss that does not decrease on the range of the predictions (Assumption A).

        Gradients take the size of its slope only, so they would point uphill.
        """
        if not self._loss_decreases:
            lo, hi = self.prediction_range
            raise ValueError(
                f"loss {self.loss.name!r} must decrease on the range of the predictions, [{lo:g}, {hi:g}], "
                "and its values do not fall everywhere there (see LossFunction.decreases); give a decreasing "
                "loss, or negate the scores or labels if your loss increases"
            )

    @cached_property
    def groups(self) -> np.ndarray:
        """For every slot the slot that names its token: the lowest of its input with the same key and score.

        A token that occurs several times in an input is one token with a multiplicity. Equal means equal to
        the last bit; keys with different scores stay apart (B-ERR-15). Where the scores move with the
        attention, equal values count as equal scores.

        >>> import hardmax as hm
        >>> problem = hm.Problem([[[1.0], [0.0], [1.0], [1.0]]], [[2.0, 0.0, 2.0, 5.0]])
        >>> problem.groups.tolist()
        [0, 1, 0, 3]
        """
        marks = np.ascontiguousarray(self.readout.marks(self.tokens, self.offsets))
        groups = self.table.leaders(self.tokens, self.offsets, marks)
        groups.setflags(write=False)
        return groups

    def weighted(self, weights: Any = None, counts: Any = None) -> Problem:
        """Return the problem with weights of inputs, multiplicities of tokens (flat, by slot), or both.

        With weights the risk is sum_i weight_i loss_i, not divided by n. Counts multiply the attention of a
        slot, as copies of it would.

        >>> import hardmax as hm
        >>> problem = hm.Problem([[[1.0], [0.0]], [[0.0], [1.0]]], [[1.0, 0.0], [1.0, 0.0]])
        >>> twice = problem.weighted(weights=[2.0, 1.0], counts=[1, 1, 3, 1])
        >>> hm.attention(twice, [0.0])[1].tolist(), round(hm.loss(twice, [0.0]), 6)
        ([0.75, 0.25], 1.335025)
        """
        changed = {}
        if weights is not None:
            changed["weights"] = expect.positives("weights", weights, self.n)
        if counts is not None:
            changed["counts"] = expect.positives("counts", counts, len(self.tokens))
        return self._with(**changed) if changed else self

    def _tied(self, W: Any) -> Problem:
        """Return the problem with the keys W x of its values x."""
        values = self.readout.values
        assert values is not None
        if W is None:
            return self._with(table=Dense(values))
        W = expect.finite_array("W", W, (None, values.shape[1]))
        keys = values @ W.T
        keys.setflags(write=False)
        return self._with(table=Dense(keys), W=W)

    # -- models: what is trained, where it is not p ------------------------------------------------------

    def joint(self) -> Joint:
        """Return the model of p and the readout's v, trained together.

        >>> import hardmax as hm
        >>> model = hm.data.example("B-FIG-3a").joint()
        >>> hm.train(model, hm.optim.Normalized(lr=0.1), steps=10).v_points.shape
        (11, 2)
        """
        model: Joint = made("joint", self)
        return model

    def with_attention(self, links: Link | Sequence[Link]) -> AttentionModel:
        """Return the model of p behind another attention than softmax, or of one p for each of several.

        Args:
            links: how attention follows from logits, or a list of heads, whose predictions add up.

        >>> import hardmax as hm
        >>> hm.data.example("B-FIG-8").with_attention([hm.dynamics.Softmax()] * 2).blocks
        ('p0', 'p1')
        """
        heads = tuple(links) if isinstance(links, Sequence) else (links,)
        model: AttentionModel = made("attention", self, heads)
        return model

    def matrix(self, prompt: Any = None) -> Matrix:
        """Return the model of W, where the keys are W x, with the prompt u fixed.

        >>> import hardmax as hm
        >>> model = hm.data.sphere(n=2, T=3, d=4, rng=0).matrix(prompt=[1, 0, 0, 0])
        >>> hm.train(model, hm.optim.GD(lr=0.1), steps=10).W.shape
        (4, 4)
        """
        model: Matrix = made("matrix", self, prompt)
        return model

    def factors(self, rank: int) -> Factors:
        """Return the model of K and Q with ``rank`` columns each, where inputs have queries and W = K Q'.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0]], [[1.0, 0.0]])
        >>> start = [[0.1], [0.0]], [[0.1], [0.2]]
        >>> hm.train(problem.factors(rank=1), hm.optim.GD(lr=0.1), steps=10, start=start).K.shape
        (2, 1)
        """
        model: Factors = made("factors", self, rank)
        return model

    @property
    def key_map(self) -> np.ndarray | None:
        """W where the keys are known to be W x of the values x, else None."""
        if self.W is None and isinstance(self.table, Dense) and self.table.table is self.readout.values:
            return np.eye(self.d)
        return self.W


def need_problem(problem: Any) -> None:
    """Refuse any object but a Problem."""
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem must be a hardmax.Problem, got {type(problem).__name__}; make one with "
            "Problem(keys, scores), or read a file with Problem.load"
        )
