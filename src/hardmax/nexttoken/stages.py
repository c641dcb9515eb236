"""The two stages: W_ov in closed form and step by step, and W_kq in the (token, query) pairs it can move.

Stage 1 has the gradient (5) of the loss L_0. G[x, q] of stage 2 is zero unless x and q occur together in a
sentence with query q and another token next to x (C-DEF-INDEX), so W_kq is stored as one number per such
pair: nothing here grows with |V|^2 or d. Stage 2 is a problem like any other; this file has its gradient and
steps in the pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib import archive, expect
from hardmax._lib.arguments import check_arguments
from hardmax.data.sentences.samples import Samples
from hardmax.dynamics.blocks import BlockTrainer, Pull, StepOptions
from hardmax.dynamics.checkpoint import digest
from hardmax.dynamics.edges import EdgeSteps, StepsTaken
from hardmax.dynamics.forces import STATIONARY
from hardmax.dynamics.loop import EVENTS
from hardmax.dynamics.optim import Normalized, Optimizer
from hardmax.dynamics.run import Run
from hardmax.nexttoken.relations import collocation
from hardmax.problem import Problem
from hardmax.problem.readouts import OutputValue, checked, star_norm

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs (``token[p]``, ``query[p]``), sorted by query, and the sentences with two tokens or more.

    Sentence k holds the entries ``offsets[k]:offsets[k+1]``: pair ``pair[e]`` with multiplicity ``count[e]``,
    those with n(x) = next token first, then by n(x). ``sample`` is its number among the merged ``samples``.
    """

    samples: Samples
    collocation: Ints
    token: Ints
    query: Ints
    sample: Ints
    offsets: Ints
    pair: Ints
    count: Floats
    log_weight: Floats
    target: Ints

    @classmethod
    def of(cls, samples: Samples, n: Ints | None = None) -> Pairs:
        """Merge equal sentences, drop the constant ones, and number the others.

        `n` replaces the collocation of the data, for example by a completed one.
        """
        _need_samples(samples)
        n = collocation(samples) if n is None else n
        if np.shape(n) != (samples.V,):
            raise ValueError(f"n must be {samples.V} tokens, one per word, got shape {np.shape(n)}")
        samples = samples.merged()
        sizes = np.diff(samples.offsets)
        sample = np.flatnonzero(sizes > 1)
        sample = sample[np.argsort(samples.query[sample], kind="stable")]
        size = sizes[sample]
        offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        row = np.repeat(np.arange(len(sample)), size)
        entry = np.arange(offsets[-1]) - offsets[row] + samples.offsets[sample][row]
        output = n[samples.tokens[entry]]
        is_wrong = output != samples.target[sample][row]
        order = np.lexsort((samples.tokens[entry], output, is_wrong, row))
        entry = entry[order]
        key = samples.query[sample][row] * samples.V + samples.tokens[entry]
        keys, pair = np.unique(key, return_inverse=True)
        return cls(
            samples,
            n,
            keys % samples.V,
            keys // samples.V,
            sample,
            offsets,
            pair.astype(np.int64),
            samples.counts[entry].astype(np.float64),
            np.log(samples.weight[sample]),
            samples.target[sample],
        )

    @property
    def P(self) -> int:
        """The number of pairs."""
        return len(self.token)

    @property
    def n(self) -> int:
        """The number of merged sentences with two tokens or more."""
        return len(self.sample)

    @cached_property
    def row(self) -> Ints:
        """The sentence of every entry."""
        return np.repeat(np.arange(self.n), np.diff(self.offsets))

    @cached_property
    def is_optimal(self) -> NDArray[np.bool_]:
        """Whether an entry's token is continued by the sentence's next token."""
        return self.collocation[self.token[self.pair]] == self.target[self.row]

    @cached_property
    def is_reachable(self) -> bool:
        """Every token of these sentences has an n(x), and each sentence a token with n(x) = next token."""
        has_next = self.collocation[self.token] >= 0
        return bool(has_next.all() and self.is_optimal[self.offsets[:-1]].all())

    @cached_property
    def position(self) -> dict[tuple[int, int], int]:
        """Number of the pair (token, query)."""
        return {pair: p for p, pair in enumerate(zip(self.token.tolist(), self.query.tolist(), strict=True))}

    @property
    def digest(self) -> str:
        """A digest of all that stage 2 sees of the dataset."""
        return archive.digest(
            "\n".join(self.samples.vocabulary),
            self.collocation,
            self.token,
            self.query,
            self.offsets,
            self.pair,
            self.count,
            self.target,
            self.log_weight,
            self.samples.weight,
        )

    def table(self, values: Floats) -> Floats:
        """Values of the pairs as the V x V table A[x, q]."""
        A = np.zeros((self.samples.V, self.samples.V))
        A[self.token, self.query] = values
        return A

    def values(self, table: Floats) -> Floats:
        """The pairs' entries of a V x V table A[x, q]."""
        return np.ascontiguousarray(np.asarray(table, dtype=np.float64)[self.token, self.query])


@lru_cache(maxsize=4)
def pairs_of(samples: Samples) -> Pairs:
    """Return the pairs of a dataset, cached for the next gradient on the same samples."""
    return Pairs.of(samples)


def _need_samples(samples: Any) -> None:
    if not isinstance(samples, Samples):
        kind = type(samples).__name__
        raise ValueError(f"samples must be Samples, got {kind}; make them with Samples.from_sentences")


NOTHING_TO_LEARN = "collocation: stage 1 has gradient 0, no token has a next token to learn"


def gradient_ov(collocation: Any, table: Floats) -> tuple[Floats, float]:
    """Return (5) as a unit table and the log of its norm; a norm of zero has the log -inf and a zero table.

    Each column is (1 - T) times (softmax over the wrong tokens minus e_n(x)), so the right token's entry is
    never a difference of numbers close to 1.
    """
    n = checked(collocation)
    tokens = np.flatnonzero(n >= 0)
    if not len(tokens):
        return np.zeros(table.shape), -math.inf
    z = np.array(table[:, tokens], dtype=np.float64)
    right = n[tokens], np.arange(len(tokens))
    z_y = z[right]
    z[right] = -np.inf
    largest = z.max(axis=0)
    column = np.exp(z - largest)
    total = column.sum(axis=0)
    log_miss = -np.logaddexp(0.0, z_y - largest - np.log(total))
    column /= total
    column[right] = -1.0
    top = float(log_miss.max())
    unit = np.zeros(table.shape)
    unit[:, tokens] = column * np.exp(log_miss - top)
    length = float(np.linalg.norm(unit))
    return unit / length, top + math.log(length)


@check_arguments
def stage_1(collocation: Any, steps: int, rate: float) -> OutputValue:
    """Return W_ov after t steps from zero, which is exactly t rate W_ov*/|W_ov*| (C-THM-S1)."""
    length = star_norm(collocation)
    if length == 0.0:
        raise ValueError(NOTHING_TO_LEARN)
    norm = expect.whole("steps", steps) * expect.positive("rate", rate)
    return OutputValue.aligned(collocation, norm / length)


@dataclass(frozen=True, eq=False, repr=False)
class OutputRun(Run):
    """A training of W_ov alone: the loss L_0 and |W_ov| on the way, and the matrix at the end."""

    W_ov: OutputValue = field(kw_only=True)

    @property
    def table(self) -> Floats:
        """B[v, x] at the end."""
        return self.W_ov.table


def _no_problem() -> Problem:
    raise ValueError("W_ov alone is not a Problem: stage 1 has no attention; take samples.problem(run.W_ov)")


@check_arguments
def train_output(
    collocation: Any, rate: float | Optimizer, *, start: Any = None, **options: Any
) -> OutputRun:
    """Take steps of stage 1 from any ``start`` table B[v, x] (zero by default).

    ``rate`` is that of normalized descent, or an optimizer. The other options are those of `StepOptions`,
    where the inputs are the tokens that have a next token.
    """
    n = checked(collocation)
    V, tokens = len(n), np.flatnonzero(n >= 0)
    table = np.zeros((V, V)) if start is None else expect.finite_array("start", start, (V, V))
    plan = StepOptions.read(max(1, len(tokens)), **options)

    def evaluate(inputs: Any) -> tuple[Floats, float]:
        is_chosen = np.isin(np.arange(V), tokens if inputs is None else tokens[inputs])
        return gradient_ov(np.where(is_chosen, n, -1), trainer.blocks["W_ov"])

    def pulls(point: tuple[Floats, float], step: int) -> dict[str, Pull]:
        unit, log_norm = point
        return {"W_ov": Pull(-unit, log_norm, 0.0 if math.isinf(log_norm) else 1.0)}

    optimizer = rate if isinstance(rate, Optimizer) else Normalized(expect.positive("rate", rate))
    trainer = BlockTrainer({"W_ov": table}, optimizer, plan, evaluate, pulls)

    def observe() -> dict[str, Any]:
        at = trainer.blocks["W_ov"]
        return {"losses": OutputValue.of_table(n, at).stage_1_loss, "norms": np.linalg.norm(at)}

    trainer.run(observe, lambda: {"model": "W_ov", "corpus": digest(n), "start": digest(table)})
    if trainer.event == EVENTS[STATIONARY]:
        raise ValueError(NOTHING_TO_LEARN)
    end = trainer.blocks["W_ov"]
    return OutputRun(
        _no_problem,
        "step",
        np.array(trainer.times),
        None,
        trainer.event,
        method=trainer.name,
        observed=trainer.observed,
        end=end.ravel(),
        W_ov=OutputValue.of_table(n, end),
    )


@check_arguments
def descend_stage_1(
    collocation: Any, steps: int, rate: float | Optimizer, *, start: Any = None
) -> OutputValue:
    """Take the same steps as `stage_1` one by one, from any ``start`` table B[v, x] (zero by default)."""
    return train_output(collocation, rate, steps=steps, start=start, record=()).W_ov


def misalignment_constant(start: Any, rate: float) -> float:
    """Return K of 1 - cos = K/t^2 from a random start, whose column means stage 1 cannot move (C-THM-S1)."""
    table = expect.finite_array("start", start, (None, None))
    sums = table.sum(axis=0)
    return float(sums @ sums) / (2.0 * len(table) * expect.positive("rate", rate) ** 2)


@dataclass(frozen=True, eq=False)
class PairGradient:
    """The gradient (6) in the pairs: a unit vector, the log of the norm, and the method that gave it."""

    unit: Floats
    log_norm: float
    method: str

    @property
    def gradient(self) -> Floats:
        """The gradient itself, which underflows where the norm does; zero at a stationary point."""
        return self.unit * math.exp(self.log_norm)


class StageTwo:
    """Stage 2 on one dataset with one W_ov: the gradient at any point, and normalized steps from it.

    The edge form is tried first. It does not apply if W_ov is not a multiple of W_ov*, if a sentence has no
    token with n(x) = next token, or several, or where a flux changes sign (Assumption 3 violated).
    """

    def __init__(self, pairs: Pairs, W_ov: OutputValue) -> None:
        if W_ov.V != pairs.samples.V:
            raise ValueError(f"W_ov must have {pairs.samples.V} tokens as the samples, got {W_ov.V}")
        if not pairs.n:
            raise ValueError(
                "samples give attention no gradient: no sentence has two distinct tokens before its next "
                "one; pass longer sentences, or train W_ov alone (`steps=0`)"
            )
        if not W_ov.norm > 0.0:
            raise ValueError("W_ov is 0 and so is the stage-2 gradient; train stage 1 for one step or more")
        self.pairs, self.W_ov = pairs, W_ov
        self.problem = pairs.samples.problem(W_ov)
        if (self.problem.log_weights[pairs.sample] != pairs.log_weight).any():
            # A frequency of e^-100,000,000 (C-ERR-06) is not a float; its logarithm takes its place.
            log_weights = self.problem.log_weights.copy()
            log_weights[pairs.sample] = pairs.log_weight
            vars(self.problem)["log_weights"] = log_weights
        self._p = np.zeros(self.problem.d)  # the pairs' values, then those that nothing moves

    @cached_property
    def steps(self) -> EdgeSteps:
        """Gradients and steps of the problem."""
        return EdgeSteps(self.problem)

    def direction(self, a: Floats, *, method: str | None = None) -> PairGradient:
        """Return the gradient at the values a; ``method`` "structured" or "signed" insists on one form."""
        if method not in (None, "structured", "signed"):
            raise ValueError(f'method must be "structured", "signed" or None, got {method!r}')
        p = np.zeros(self.problem.d)
        p[: self.pairs.P] = a
        pull = None if method == "signed" else self.steps.along_edges(p)
        if method == "structured" and pull is None:
            raise ValueError('method: the structured form is not exact here; use "signed" or leave it out')
        name = "signed" if pull is None else "structured"
        pull = self.steps.plain(p) if pull is None else pull
        return PairGradient(-pull.direction[: self.pairs.P], pull.log_norm, name)

    def gradient(self, a: Floats) -> Floats:
        """The gradient as plain numbers; zero where it is."""
        return self.direction(a).gradient

    def descend(self, a: Floats, rate: float, steps: int) -> tuple[int, int]:
        """Take normalized steps in place, switching form by itself: how many, and how many of them signed.

        They are fewer than asked for at a gradient of exactly zero only.
        """
        result = self.train(a, rate, np.array([0, steps]))
        return result.taken, result.plain

    def train(self, a: Floats, rate: float, record: Any, **watch: Any) -> StepsTaken:
        """Take normalized steps in place and keep the points that ``record`` names; see `EdgeSteps.train`."""
        self._p[: self.pairs.P] = a
        result = self.steps.train(self._p, rate, record, **watch)
        a[:] = self._p[: self.pairs.P]
        return result._replace(points=result.points[:, : self.pairs.P])
