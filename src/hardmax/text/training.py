"""Training of two numbers per token, and one more value for each further class: settings, start, passes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from hardmax._lib import archive
from hardmax.text import kernels as compiled

FORMAT = "hardmax.text-checkpoint/1"


def resumed(path: Path, identity: str, state: State) -> tuple[list[float], State]:
    """Return the losses and the state of a checkpoint, or the given state if there is no file yet."""
    if not path.exists():
        return [], state
    with archive.refused(f"checkpoint {path} must be one of a text training, got another file; delete it"):
        arrays = list(archive.read_arrays(path).values())
        head = archive.decoded(arrays[0])
        losses = [float(x) for x in head["losses"]]
        is_same = head["identity"] == identity
        archive.demand(head["format"] == FORMAT and len(arrays) == 3)
        pairs = zip(arrays[1:], state.arrays, strict=True)
        archive.demand(not is_same or all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs))
    if not is_same:
        raise ValueError(
            f"checkpoint {path} must be of the same texts and settings, got another training's; "
            "give another name, or delete it"
        )
    return losses, State(*(np.require(x, requirements=("C", "W")) for x in arrays[1:]))


SMOOTHING = 3.0  # occurrences that every token is taken to have more, in each class
SHARE = 0.8  # of a log-count ratio that goes into attention; the rest into the value
LEAST_MASS = 1e-6
LEAST_SHARE = 1e-6  # of a class, where its log is taken
BEGIN_SQUARES = 1e-5  # of Adagrad, so that a rare token does not take a whole step at once
# Passes that see a few tokens only, and their shares of the rates: each of few tokens has much attention.
TRUNCATED, TRUNCATED_RATE, TRUNCATED_ATTENTION = 2, 0.025, 0.05
ENOUGH = 20_000  # steps; a small corpus is gone through more often
MOST_EPOCHS = 100
FEW = 20  # tokens of a text on average, below which none is left out


@dataclass(frozen=True, eq=False)
class TextRows:
    """Texts as rows of a sparse matrix, with the number of each one's class and its weight."""

    data: np.ndarray  # (nnz,) float64
    indices: np.ndarray  # (nnz,) int32
    indptr: np.ndarray  # (n + 1,) int64
    columns: int

    @classmethod
    def of(cls, X: Any) -> TextRows:
        """Take the rows of a CSR matrix, in the types that the kernels are compiled for."""
        kind = np.int32 if X.shape[1] < 2**31 else np.int64
        kinds = (X.data, np.float64), (X.indices, kind), (X.indptr, np.int64)
        arrays = [array.astype(dtype, copy=False) for array, dtype in kinds]
        data, indices, indptr = (np.require(x, requirements=("C", "W")) for x in arrays)
        return cls(data, indices, indptr, X.shape[1])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, chosen: np.ndarray) -> TextRows:
        """Return some of the rows."""
        return TextRows.of(self.matrix[chosen])

    @property
    def matrix(self) -> csr_matrix:
        """The rows as a CSR matrix."""
        return csr_matrix(self.arrays, shape=(len(self), self.columns))

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three arrays of a CSR matrix."""
        return self.data, self.indices, self.indptr

    def counts(self, y: np.ndarray, weights: np.ndarray, classes: int) -> np.ndarray:
        """Count how often each class has each token, (columns, classes), by weight."""
        return np.stack([self.matrix.T @ (weights * (y == k)) for k in range(classes)], axis=1)


@dataclass(frozen=True)
class Settings:
    """Settings of a training: the rule, its rates, passes, and dropout."""

    rule: int
    rate: float  # of values
    attention_rate: float  # of logits
    epochs: int
    dropout: float
    top: int = 0  # tokens that some more passes at the end are truncated to; 0 for all
    entropy: float = 0.0
    constant: bool = False  # rates that do not fall, for `partial_fit`

    @property
    def passes(self) -> int:
        """Number of all passes, including truncated ones."""
        return self.epochs + (TRUNCATED if self.top else 0)

    def of_pass(self, k: int) -> tuple[float, float, float, float, int]:
        """Return rates of values and logits, their first and last factor, and the tokens kept, in pass k."""
        if self.constant:
            return self.rate, self.attention_rate, 1.0, 1.0, self.top
        if k < self.epochs:
            return self.rate, self.attention_rate, 1 - k / self.epochs, 1 - (k + 1) / self.epochs, 0
        at = k - self.epochs
        rates = self.rate * TRUNCATED_RATE, self.attention_rate * TRUNCATED_ATTENTION
        return *rates, 1 - at / TRUNCATED, 1 - (at + 1) / TRUNCATED, self.top


# Chosen on held-out blocks of IMDB's training half; docs/how-to/classify-texts.md has the numbers.
USUAL = {
    "sgd": Settings(compiled.SGD, 200.0, 0.1, 5, 0.3),
    "adagrad": Settings(compiled.ADAGRAD, 1.6, 0.06, 8, 0.3),
}


@dataclass(eq=False)
class State:
    """The arrays that training changes in place; the last row is the background, a token of every text."""

    table: np.ndarray  # (columns + 1, 1 + values): mass, values
    squares: np.ndarray  # as table for Adagrad, else empty

    @classmethod
    def begin(cls, rule: int, counts: np.ndarray, shares: np.ndarray) -> State:
        """Start Adagrad at equal attention and no values, SGD at the log-count ratios of the classes.

        ``shares`` are the weights of the classes, at whose log-odds the background begins.
        """
        columns, classes = counts.shape
        values = 1 if classes == 2 else classes
        table = np.zeros((columns + 1, 1 + values))
        table[:, 0] = 1.0
        logs = np.log(np.maximum(shares / shares.sum(), LEAST_SHARE))
        table[-1, 1:] = logs[1:] - logs[:1] if classes == 2 else logs - logs.mean()
        if rule == compiled.SGD:
            ratio = log_count_ratios(counts)
            size = np.sqrt(np.mean(ratio**2, axis=1, keepdims=True))
            table[:-1, :1] = np.maximum(size**SHARE, LEAST_MASS)
            table[:-1, 1:] = np.divide(ratio, size**SHARE, out=np.zeros_like(ratio), where=size > 0)
        return cls(table, np.full(table.shape if rule == compiled.ADAGRAD else (0, 0), BEGIN_SQUARES))

    def copy(self) -> State:
        """Copy the state, so that training does not change the copy."""
        return State(self.table.copy(), self.squares.copy())

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Both arrays."""
        return self.table, self.squares


def log_count_ratios(counts: np.ndarray) -> np.ndarray:
    """Return the log of how much more often a class has a token than other classes do, (columns, values).

    >>> import numpy as np
    >>> log_count_ratios(np.array([[0.0, 6.0], [6.0, 0.0]])).round(4).tolist()
    [[1.0986], [-1.0986]]
    """
    inside = counts + SMOOTHING
    outside = counts.sum(axis=1, keepdims=True) - counts + SMOOTHING
    ratio = np.log(inside / inside.sum(axis=0)) - np.log(outside / outside.sum(axis=0))
    return ratio[:, 1:] if counts.shape[1] == 2 else ratio


@dataclass(frozen=True, eq=False)
class TrainedPasses:
    """The final state and the loss of each pass; ``scores`` on the held-out part, if there was one."""

    state: State
    losses: tuple[float, ...]
    scores: tuple[float, ...] = ()


Report = Callable[[int, int, float | None, float | None], None]  # pass, passes, loss, held-out score


def passes(n: int, usual: int, share: float = 1.0) -> int:
    """Return the number of passes over n texts: at least the usual number, and more for few texts.

    ``share`` is that of texts that count, by their weights. Passes beyond separation undo weights: the limit
    of training depends on the texts alone.

    >>> passes(25_000, 5), passes(1000, 5), passes(10, 5), passes(2060, 5, share=0.11)
    (5, 20, 100, 1)
    """
    return max(1, round(share * min(MOST_EPOCHS, max(usual, -(-ENOUGH // max(1, n))))))


def train(
    rows: TextRows,
    y: np.ndarray,
    weights: np.ndarray,
    state: State,
    settings: Settings,
    *,
    seed: int,
    score: Callable[[State], float] | None = None,
    patience: int = 0,
    checkpoint: str | PathLike[str] | None = None,
    report: Report | None = None,
) -> TrainedPasses:
    """Go through the texts some times, in a new order each time.

    Args:
        rows: the texts.
        y: class of each text.
        weights: weight of each text.
        state: where to begin; it is changed.
        settings: rates and passes.
        seed: of the orders and of what is left out.
        score: of a held-out part; training ends with the best state, after ``patience`` passes without one.
        patience: how many.
        checkpoint: a file that gets the state after each pass, and from which training goes on.
        report: called after each pass.
    """
    losses: list[float] = []
    scores: list[float] = []
    if checkpoint is not None:
        identity = archive.digest(json.dumps([asdict(settings), seed]), *rows.arrays, y, weights)
        losses, state = resumed(Path(checkpoint), identity, state)
    best = state
    amount = float(weights.sum())
    for epoch in range(len(losses), settings.passes):
        order = np.random.default_rng([seed, epoch]).permutation(len(rows))
        *rates, top = settings.of_pass(epoch)
        rule = settings.rule, tuple(rates), settings.dropout, top, settings.entropy
        draws = (seed + 1) * 0x9E3779B97F4A7C1 % 2**62 + epoch + 1
        loss = compiled.one_pass(rows.arrays, y, weights, order, *state.arrays, *rule, draws)
        losses.append(float(loss) / amount)
        if score is not None:
            scores.append(score(state))
            if scores[-1] >= max(scores):
                best = state.copy()
        if report is not None:
            report(epoch + 1, settings.passes, losses[-1], scores[-1] if scores else None)
        if checkpoint is not None:
            head = archive.encoded({"format": FORMAT, "identity": identity, "losses": losses})
            parts = (head, *state.arrays)
            archive.write_arrays(Path(checkpoint), {f"arr_{k}": array for k, array in enumerate(parts)})
        if scores and epoch - int(np.argmax(scores)) >= patience:
            break
    return TrainedPasses(best if scores else state, tuple(losses), tuple(scores))


def printed(start: float) -> Report:
    """Return a report that prints a line per pass."""

    def report(epoch: int, total: int, loss: float | None, score: float | None) -> None:
        line = "" if loss is None else f" loss {loss:.4f},"
        held_out = "" if score is None else f" held-out score {score:.4f},"
        print(f"pass {epoch} of {total}:{line}{held_out} {time.monotonic() - start:.1f} s", flush=True)

    return report


def usual(solver: str, rows: TextRows, weights: np.ndarray, **changes: Any) -> Settings:
    """Return the settings of a solver for these texts; ``changes`` replace the usual ones.

    Adagrad begins at zero, and needs its passes whatever the weights are.
    """
    settings = USUAL[solver]
    few = len(rows.data) < FEW * len(rows)
    positive = weights[weights > 0]
    share = positive.mean() ** 2 / np.mean(positive**2) if settings.rule == compiled.SGD else 1.0
    epochs = passes(len(rows), settings.epochs, share)
    settings = replace(settings, epochs=epochs, dropout=0.0 if few else settings.dropout)
    return replace(settings, **changes)
