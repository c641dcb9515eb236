"""ATT-SVM over partial selections, solved in blocks: the tree that enumeration walks.

A node fixes the tokens of the first inputs. What is pruned is proved, never guessed: a contradiction found in
floats counts if it survives any rounding (`contradicts`), and goes to exact arithmetic otherwise. A node kept
by mistake only costs time, because every leaf is certified by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from hardmax._lib.arrays import exponent
from hardmax.margin.att_svm import AttentionRows
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.kernel import CONTRADICTION, FOUND, active_sets
from hardmax.margin.measure import EPS, rounding
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem

_TINY = 1e-30  # rows shorter than this, keys being near 1, are left to `solve`, which scales each row
_NUMBERS = 2_000_000  # in the rows of one block


def contradicts(A: Floats, y: Floats) -> Bools:
    """Whether weights near y > 0 combine the d+1 rows A, (B, d+1, d), to exactly zero: a Farkas vector.

    With X a right inverse of A' up to E = I - A'X, |E| < 1, the residual r = A'y is removed by a change of y
    of at most |X| |r| / (1 - |E|), in the largest entry. Bounds allow for rounding, also that of the rows.
    """
    At = np.swapaxes(A, 1, 2)
    proved = np.zeros(len(A), dtype=bool)
    with np.errstate(all="ignore"), contextlib.suppress(np.linalg.LinAlgError):
        # any X will do; this one costs a sixth of the pseudo-inverse, and is as good for most rows
        proved = _cancels(At, y, A @ np.linalg.inv(At @ A))
    left = np.flatnonzero(~proved)
    if len(left):
        proved[left] = _cancels(At[left], y[left], np.linalg.pinv(At[left]))
    return proved


def _cancels(At: Floats, y: Floats, X: np.ndarray) -> Bools:
    """What a right inverse X proves of A'y."""
    d = At.shape[1]
    error = rounding(2 * d)
    E = np.abs(np.eye(d) - At @ X) + error * (np.abs(At) @ np.abs(X))
    r = np.abs((At @ y[..., None])[..., 0]) + error * (np.abs(At) @ np.abs(y)[..., None])[..., 0]
    rest = 1 - E.sum(axis=2).max(axis=1)
    change = np.abs(X).sum(axis=2).max(axis=1) * r.max(axis=1)
    least = y.min(axis=1)
    proved: Bools = (rest > 0.5) & (least > 1e-60) & (least * rest > change * (1 + error))
    return proved


@dataclass(frozen=True, eq=False)
class NodeBlock:
    """Nodes of one depth: tokens of the first inputs, p and multipliers (keys scaled), margin from above."""

    tokens: Ints  # (B, depth)
    p: Floats  # (B, d)
    weights: Floats  # (B, m)
    upper: Floats  # (B,)
    share: Floats  # (B,) of the tree's leaves, for progress

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """Inputs whose token is fixed."""
        return self.tokens.shape[1]

    def take(self, which: Ints | Bools | slice) -> NodeBlock:
        """Some of the nodes."""
        return NodeBlock(
            self.tokens[which], self.p[which], self.weights[which], self.upper[which], self.share[which]
        )

    @staticmethod
    def join(blocks: list[NodeBlock]) -> NodeBlock:
        """Nodes of one depth together."""
        columns = ([getattr(b, field.name) for b in blocks] for field in fields(NodeBlock))
        return NodeBlock(*(np.concatenate(column) for column in columns))


class Tree:
    """The inputs in the order of the search, with the tokens that can be selected at all.

    Tokens are numbered without copies here; ``rows.names`` has the numbers of the problem.
    ``qps`` counts the hard-margin problems solved; ``undecided`` collects selections too large to settle.
    """

    def __init__(self, problem: Problem, min_margin: float = 0.0) -> None:
        self.rows = AttentionRows(problem)
        self.problem = problem
        self.qps = 0
        self.undecided: list[tuple[int, ...]] = []
        every = problem.split(self.rows.slots)
        # rows of the key table of the tokens of every input
        self.places = [slots[names] for slots, names in zip(every, self.rows.names, strict=True)]
        sizes = np.abs(problem.keys[self.rows.slots])
        self.power = exponent(sizes)
        # A power of two changes no digit unless small entries underflow; then `solve` decides everything.
        self.is_faithful = bool((np.ldexp(sizes[sizes > 0], -self.power) > 1e-290).all())
        self.table = problem.table.over(self.power)
        self.least = float(np.ldexp(min_margin, -self.power))
        self.others = [_others(len(each)) for each in self.places]
        self.options = [np.arange(len(each)) for each in self.places]
        self.order = [i for i, each in enumerate(self.places) if len(each) > 1]

    @property
    def depth(self) -> int:
        """Inputs to decide: those with more than one token."""
        return len(self.order)

    def root(self, goes_on: Callable[[], bool] = lambda: True) -> NodeBlock:
        """The node that fixes nothing; tokens infeasible by themselves go, fewest choices come first.

        ``goes_on`` is asked before each input; its no leaves nothing to search.
        """
        every = 1.0
        for i in self.order:
            if not goes_on():
                every = 0.0
                break
            alone = self._solve(self.options[i][:, None], [i])
            self.options[i] = alone.tokens[:, 0]
        self.order.sort(key=lambda i: len(self.options[i]))
        every = every if all(len(self.options[i]) for i in self.order) else 0.0
        d = self.problem.d
        none = np.zeros((1, 0))
        block = NodeBlock(
            none.astype(np.int64), np.zeros((1, d)), none, np.full(1, np.inf), np.full(1, every)
        )
        return block if every else block.take(slice(0, 0))

    def room(self, depth: int) -> int:
        """How many nodes of a depth to expand at once."""
        m = sum(len(self.others[i]) - 1 for i in self.order[: depth + 1])
        return max(1, min(256, _NUMBERS // (m * self.problem.d * len(self.options[self.order[depth]]))))

    def expand(self, block: NodeBlock) -> NodeBlock:
        """The children of a block that are not proved infeasible or below the margin asked for."""
        i = self.order[block.depth]
        options = self.options[i]
        parents = np.repeat(np.arange(len(block)), len(options))
        tokens = np.column_stack([block.tokens[parents], np.tile(options, len(block))])
        return self._solve(tokens, self.order[: block.depth + 1], block, parents)

    def solve(self, tokens: Ints) -> NodeBlock:
        """Full selections, each solved from scratch; columns are the inputs in the order of the search."""
        return self._solve(tokens, self.order)

    def _solve(
        self, tokens: Ints, inputs: list[int], above: NodeBlock | None = None, parents: Ints | None = None
    ) -> NodeBlock:
        C, d = len(tokens), self.problem.d
        A = np.concatenate([self.rows_of(i, tokens[:, j]) for j, i in enumerate(inputs)], axis=1)
        norms = np.sqrt(np.einsum("bmd,bmd->bm", A, A))
        p, weights = np.zeros((C, d)), np.zeros((C, A.shape[1]))
        todo, kept = np.ones(C, dtype=bool), np.ones(C, dtype=bool)
        share = np.full(C, 1.0)
        if above is not None and parents is not None:
            # If the parent's p separates the new input as well, it is the child's solution too.
            p, old = above.p[parents], above.weights.shape[1]
            weights[:, :old] = above.weights[parents]
            reach = np.einsum("bmd,bd->bm", A[:, old:], p).min(axis=1)
            todo = reach < 1
            share = above.share[parents] / len(self.options[inputs[-1]])
        tiny = norms < _TINY
        if self.is_faithful:
            short, row = np.nonzero(tiny)
            kept[short[~A[short, row].any(axis=1)]] = False  # a twin of the selected key asks for 0 >= 1
        doubtful = todo & kept & (tiny.any(axis=1) | (not self.is_faithful))
        run = np.flatnonzero(todo & kept & ~doubtful)
        if len(run):
            verdicts, ones = np.full(len(run), FOUND), np.ones((len(run), A.shape[1]))
            found_p, found_weights = np.empty((len(run), d)), np.empty((len(run), A.shape[1]))
            active_sets(A[run], ones, ones < 0, norms[run], found_p, found_weights, verdicts)
            p[run] = np.where((verdicts == FOUND)[:, None], found_p, 0.0)
            weights[run] = np.where((verdicts == FOUND)[:, None], found_weights, 0.0)
            proved = self._proved(A[run], found_weights, verdicts == CONTRADICTION)
            kept[run[proved]] = False
            doubtful[run[(verdicts != FOUND) & ~proved]] = True
        self.qps += len(run)
        for b in np.flatnonzero(doubtful):
            p[b], weights[b] = 0.0, 0.0
            kept[b] = self.decide(inputs, tokens[b]).is_feasible is not False
        A, p, weights = A[kept], p[kept], weights[kept]
        upper = _upper(A, norms[kept], weights)
        fine = upper >= self.least
        return NodeBlock(tokens[kept][fine], p[fine], weights[fine], upper[fine], share[kept][fine])

    def rows_of(self, i: int, tokens: Ints) -> Floats:
        """Rows of one input for each of these tokens of it, (C, T - 1, d)."""
        places, others = self.places[i], self.others[i][tokens]
        plus = np.repeat(places[tokens], others.shape[1])
        rows = self.table.differences(plus, places[others].reshape(-1))
        return rows.reshape(*others.shape, self.problem.d)

    def _proved(self, A: Floats, weights: Floats, contradiction: Bools) -> Bools:
        """Contradictions that d+1 rows prove in floats; fewer rows are a case for exact numbers."""
        d = A.shape[2]
        proved = np.zeros(len(A), dtype=bool)
        full = np.flatnonzero(contradiction & ((weights > 0).sum(axis=1) == d + 1))
        if len(full):
            used = np.nonzero(weights[full] > 0)[1].reshape(len(full), d + 1)
            y = np.take_along_axis(weights[full], used, axis=1)
            proved[full] = contradicts(np.take_along_axis(A[full], used[..., None], axis=1), y)
        return proved

    def decide(self, inputs: list[int], tokens: Ints) -> MaxMargin:
        """One partial selection by the solver with the last word, which may take milliseconds."""
        self.qps += 1
        pairs = zip(inputs, tokens.tolist(), strict=True)
        return self.rows.solve(sorted((i, int(self.rows.names[i][t])) for i, t in pairs))


def _others(T: int) -> Ints:
    """For each token the other ones, (T, T-1)."""
    return np.array([[t for t in range(T) if t != a] for a in range(T)], dtype=np.int64).reshape(T, T - 1)


def _upper(A: Floats, norms: Floats, weights: Floats) -> Floats:
    """The margin from above by the multipliers, |sum l row| / sum l; infinite without any."""
    u = np.einsum("bmd,bm->bd", A, weights)
    total = weights.sum(axis=1)
    waste = 4 * rounding(weights.shape[1]) * np.einsum("bm,bm->b", norms, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound: Floats = (np.sqrt(np.einsum("bd,bd->b", u, u)) + waste) / total * (1 + 64 * EPS)
    return np.where(total > 0, bound, np.inf)
