"""ATT-SVM over partial selections, solved in blocks: the tree that enumeration walks.

A node fixes the tokens of the first inputs. Pruning is proved, never guessed: a contradiction found in
floats counts if it survives any rounding (`contradicts`), and goes to exact arithmetic otherwise. A node kept
by mistake only costs time, because every leaf is certified by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax._lib.arrays import exponent
from hardmax.directions.neighbors import known_gap
from hardmax.margin.att_svm import RESOLUTION, AttentionRows
from hardmax.margin.constraints import Bools, Floats, Ints
from hardmax.margin.kernel import CONTRADICTION, FOUND, active_sets
from hardmax.margin.measure import EPS, Tight, enclose, rounding
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import kept, measured_each, proves, shifted_outwards
from hardmax.problem import Problem
from hardmax.problem.selection import slot_gaps

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
    rest = np.flatnonzero(~proved)
    if len(rest):
        proved[rest] = _cancels(At[rest], y[rest], np.linalg.pinv(At[rest]))
    return proved


def _cancels(At: Floats, y: Floats, X: np.ndarray) -> Bools:
    """Whether a right inverse X proves that A'y can be made zero."""
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


class Leaf(NamedTuple):
    """A feasible selection with its certified solution, and the score gap of every row of it."""

    tokens: tuple[int, ...]
    best: MaxMargin
    gaps: Floats
    least: float | None = None  # the least gap over its tight rows, where there is no doubt

    @property
    def gap(self) -> float:
        """The least gap over its tight rows."""
        return known_gap(self.best, self.gaps) if self.least is None else self.least


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
        slots = problem.split(self.rows.slots)
        # rows of the key table of the tokens of every input
        self.places = [rows[names] for rows, names in zip(slots, self.rows.names, strict=True)]
        entries = np.abs(problem.keys[self.rows.slots])
        self.power = exponent(entries)
        # A power of two changes no digit unless small entries underflow; then `solve` decides everything.
        self.is_faithful = bool((np.ldexp(entries[entries > 0], -self.power) > 1e-290).all())
        self.table = problem.table.over(self.power)
        self.least = float(np.ldexp(min_margin, -self.power))
        sizes = [len(places) for places in self.places]
        # for each token the other ones, (T, T-1)
        self.others = [np.nonzero(~np.eye(T, dtype=bool))[1].reshape(T, T - 1) for T in sizes]
        self.options = [np.arange(T) for T in sizes]
        self.order = [i for i, T in enumerate(sizes) if T > 1]
        self._gaps: dict[tuple[int, int], Floats] = {}
        self._gaps_by_token: dict[int, list[Floats]] = {}  # of all inputs that select this token

    @cached_property
    def inputs(self) -> list[int]:
        """Inputs with a choice, as the problem orders them; the rows of leaves are in this order."""
        return sorted(self.order)

    @property
    def depth(self) -> int:
        """Inputs to decide: those with more than one token."""
        return len(self.order)

    def root(self, goes_on: Callable[[], bool] = lambda: True) -> NodeBlock:
        """The node that fixes nothing; tokens infeasible by themselves go, fewest choices come first.

        ``goes_on`` is called before each input; where it returns False there is nothing to search.
        """
        complete = True
        for i in self.order:
            complete = goes_on()
            if not complete:
                break
            self.options[i] = self._solve(self.options[i][:, None], [i]).tokens[:, 0]
        self.order.sort(key=lambda i: len(self.options[i]))
        count = int(complete and all(len(self.options[i]) for i in self.order))
        none, one = np.zeros((count, 0)), np.ones(count)
        return NodeBlock(none.astype(np.int64), np.zeros((count, self.problem.d)), none, one * np.inf, one)

    def room(self, depth: int) -> int:
        """How many nodes of a depth to expand at once."""
        m = sum(len(self.others[i]) - 1 for i in self.order[: depth + 1])
        return max(1, min(256, _NUMBERS // (m * self.problem.d * len(self.options[self.order[depth]]))))

    def expand(self, block: NodeBlock) -> NodeBlock:
        """The children of a block that are not proved infeasible or below the least margin."""
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
        todo, possible, share = np.ones(C, dtype=bool), np.ones(C, dtype=bool), np.ones(C)
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
            possible[short[~A[short, row].any(axis=1)]] = False  # a twin of the selected key requires 0 >= 1
        doubtful = todo & possible & (tiny.any(axis=1) | (not self.is_faithful))
        run = np.flatnonzero(todo & possible & ~doubtful)
        if len(run):
            verdicts, ones = np.full(len(run), FOUND), np.ones((len(run), A.shape[1]))
            ends, multipliers = np.empty((len(run), d)), np.empty((len(run), A.shape[1]))
            active_sets(A[run], ones, ones < 0, norms[run], ends, multipliers, verdicts)
            p[run] = np.where((verdicts == FOUND)[:, None], ends, 0.0)
            weights[run] = np.where((verdicts == FOUND)[:, None], multipliers, 0.0)
            # d+1 rows may prove a contradiction in floats; fewer rows are a case for exact numbers
            proved = (verdicts == CONTRADICTION) & ((multipliers > 0).sum(axis=1) == d + 1)
            full = np.flatnonzero(proved)
            if len(full):
                used = np.nonzero(multipliers[full] > 0)[1].reshape(len(full), d + 1)
                y = np.take_along_axis(multipliers[full], used, axis=1)
                proved[full] = contradicts(np.take_along_axis(A[run][full], used[..., None], axis=1), y)
            possible[run[proved]] = False
            doubtful[run[(verdicts != FOUND) & ~proved]] = True
        self.qps += len(run)
        for b in np.flatnonzero(doubtful):
            p[b], weights[b] = 0.0, 0.0
            possible[b] = self.decide(inputs, tokens[b]).is_feasible is not False
        A, norms, weights = A[possible], norms[possible], weights[possible]
        # the margin from above by the multipliers, |sum l row| / sum l; infinite without any
        u, total = np.einsum("bmd,bm->bd", A, weights), weights.sum(axis=1)
        waste = 4 * rounding(weights.shape[1]) * np.einsum("bm,bm->b", norms, weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = (np.sqrt(np.einsum("bd,bd->b", u, u)) + waste) / total * (1 + 64 * EPS)
        upper = np.where(total > 0, bound, np.inf)
        block = NodeBlock(tokens[possible], p[possible], weights, upper, share[possible])
        return block.take(upper >= self.least)

    def rows_of(self, i: int, tokens: Ints) -> Floats:
        """Rows of one input for each of these tokens of it, (C, T - 1, d)."""
        places, others = self.places[i], self.others[i][tokens]
        plus = np.repeat(places[tokens], others.shape[1])
        rows = self.table.differences(plus, places[others].reshape(-1))
        return rows.reshape(*others.shape, self.problem.d)

    def decide(self, inputs: list[int], tokens: Ints) -> MaxMargin:
        """One partial selection by the solver with the last word, which may take milliseconds."""
        self.qps += 1
        pairs = zip(inputs, tokens.tolist(), strict=True)
        return self.rows.solve(sorted((i, int(self.rows.names[i][t])) for i, t in pairs))

    def leaves(self, block: NodeBlock) -> Iterator[Leaf]:
        """Full selections of a block that are feasible, each certified on its own rows."""
        if not len(block):
            return
        inputs = self.inputs
        tokens = block.tokens[:, np.argsort(self.order)]
        A = np.concatenate([self.rows_of(i, tokens[:, j]) for j, i in enumerate(inputs)], axis=1)
        # the rows of each input, in the problem's order, among those in the order of the search
        spans = np.split(np.arange(A.shape[1]), np.cumsum([len(self.others[i]) - 1 for i in self.order])[:-1])
        weights = block.weights[:, np.concatenate([spans[self.order.index(i)] for i in inputs])]
        norms = np.sqrt(np.einsum("bmd,bmd->bm", A, A))
        h, equal = np.ones_like(norms), np.zeros(norms.shape, dtype=bool)
        measured = measured_each(A, h, equal, norms, block.p, weights)
        good = proves(measured)
        gaps = np.concatenate([self._gaps_of(i, tokens[:, j]) for j, i in enumerate(inputs)], axis=1)
        least: list[float | None] = [None] * len(block)
        if self.problem.gram is None:  # slacks are enclosed here, for a block at once
            tight = enclose(A, h, equal, weights, block.p)
            low, high = (np.where(rows, gaps, np.inf).min(axis=1) for rows in (tight.possible, tight.certain))
            least = [a if a == b else None for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        else:  # the rows of a Gram matrix carry its rounding, too
            good &= measured.lower > RESOLUTION * norms.max(axis=1)
        with np.errstate(over="ignore", under="ignore"):
            p, y = np.ldexp(block.p, -self.power), np.ldexp(weights, -2 * self.power)
        good &= kept(block.p, p) & kept(weights, y)
        lower, upper = shifted_outwards(measured.lower, measured.upper, self.power)
        intervals, residuals = zip(lower.tolist(), upper.tolist(), strict=True), measured.kkt.tolist()
        names = np.zeros((len(tokens), self.problem.n), dtype=np.int64)  # inputs without a choice included
        for j, i in enumerate(inputs):
            names[:, i] = self.rows.names[i][tokens[:, j]]
        leaves = zip(map(tuple, names.tolist()), self.rows.each(inputs, tokens), intervals, strict=True)
        for b, (selection, constraints, interval) in enumerate(leaves):
            if good[b]:
                best = MaxMargin(
                    constraints, "certified", "float", p[b], y[b], interval, residuals[b], selection=selection
                )
                if self.problem.gram is None:
                    best.__dict__["enclosure"] = Tight(tight.certain[b], tight.possible[b])
                yield Leaf(selection, best, gaps[b], least[b])
                continue
            best = replace(self.decide(inputs, tokens[b]), selection=selection)
            if best.is_certified and best.slack is not None:
                yield Leaf(selection, best, gaps[b])
            elif not best.is_certified and best.is_feasible is not False:
                self.undecided.append(selection)

    def _gaps_of(self, i: int, chosen: Ints) -> Floats:
        """Score gaps of the rows of one input, for each of these tokens; thousands of leaves share them."""
        used = sorted(set(chosen.tolist()))
        problem, names = self.problem, self.rows.names[i]
        for t in used:
            if (i, t) not in self._gaps:
                token = int(names[t])
                if token not in self._gaps_by_token:
                    same = np.minimum(token, problem.sizes - 1)
                    self._gaps_by_token[token] = problem.split(slot_gaps(problem, same))
                self._gaps[i, t] = self._gaps_by_token[token][i][names[names != token]]
        return np.stack([self._gaps[i, t] for t in used])[np.searchsorted(used, chosen)]
