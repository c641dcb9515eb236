"""Leaves of the search: full selections, each certified on its own rows, with what their scores decide.

Most of a leaf is made for a whole block at once; thousands of selections share their rows and score gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hardmax.directions.neighbors import known_gap
from hardmax.directions.search import Block, Tree
from hardmax.margin.att_svm import RESOLUTION
from hardmax.margin.constraints import Floats, Ints
from hardmax.margin.measure import Tight, enclose, measure
from hardmax.margin.norms import Norm
from hardmax.margin.norms.in_norm import solve_in
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import kept, proves
from hardmax.problem.selection import slot_gaps


@dataclass(frozen=True, eq=False)
class Leaf:
    """A feasible selection with its certified solution, and the score gap of every row of it."""

    tokens: tuple[int, ...]
    best: MaxMargin
    gaps: Floats
    known: float | None = None  # the least gap over its tight rows, where there is no doubt

    @property
    def gap(self) -> float:
        """The least gap over its tight rows."""
        return known_gap(self.best, self.gaps) if self.known is None else self.known


class Leaves:
    """What a tree ends in."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._own_gaps: dict[tuple[int, int], Floats] = {}
        self._every_gap: dict[int, list[Floats]] = {}  # of all inputs that select this token

    @cached_property
    def inputs(self) -> list[int]:
        """Inputs with a choice, as the problem orders them; their rows stand in this order."""
        return sorted(self.tree.order)

    def of(self, block: Block) -> Iterator[Leaf]:
        """Full selections of a block that are feasible, each certified on its own rows."""
        if not len(block):
            return
        tree, inputs = self.tree, self.inputs
        tokens = block.tokens[:, np.argsort(tree.order)]
        A = np.concatenate([tree.rows_of(i, tokens[:, j]) for j, i in enumerate(inputs)], axis=1)
        weights = block.weights[:, self._row_order()]
        norms = np.sqrt(np.einsum("bmd,bmd->bm", A, A))
        Mp = np.einsum("bmd,bd->bm", A, block.p)
        u = np.einsum("bmd,bm->bd", A, weights)
        norm_p, norm_u, gap = (np.sqrt(np.einsum("bd,bd->b", x, x)) for x in (block.p, u, block.p - u))
        h, equal = np.ones_like(Mp), np.zeros(Mp.shape, dtype=bool)
        measured = measure(Mp, h, equal, weights, norms, norm_p, norm_u, gap, tree.problem.d)
        good = proves(measured)
        if tree.problem.gram is not None:
            good &= measured.lower > RESOLUTION * norms.max(axis=1)
        # Slacks are enclosed here, for a block at once; the rows of a Gram matrix carry its rounding, too.
        tight = enclose(A, h, equal, weights, block.p) if tree.problem.gram is None else None
        with np.errstate(over="ignore", under="ignore"):
            p, multipliers = np.ldexp(block.p, -tree.power), np.ldexp(weights, -2 * tree.power)
            lower, upper = (np.ldexp(x, tree.power).tolist() for x in (measured.lower, measured.upper))
        good &= kept(block.p, p) & kept(weights, multipliers)
        residuals = measured.kkt.tolist()
        gaps = np.concatenate([self._gaps(i, tokens[:, j]) for j, i in enumerate(inputs)], axis=1)
        known = _least(gaps, tight)
        selections = map(tuple, self._named(tokens).tolist())
        every = zip(selections, tree.rows.each(inputs, tokens), good.tolist(), strict=True)
        for b, (selection, constraints, is_good) in enumerate(every):
            if is_good:
                best = MaxMargin(
                    constraints,
                    "certified",
                    "float",
                    p[b],
                    multipliers[b],
                    (lower[b], upper[b]),
                    residuals[b],
                    selection=selection,
                )
                if tight is not None:
                    best.__dict__["enclosure"] = Tight(tight.certain[b], tight.possible[b])
                yield Leaf(selection, best, gaps[b], known[b])
                continue
            best = replace(tree.decide(inputs, tokens[b]), selection=selection)
            if best.is_certified and best.slack is not None:
                yield Leaf(selection, best, gaps[b])
            elif not best.is_certified and best.is_feasible is not False:
                tree.undecided.append(selection)

    def in_norm(self, leaves: Iterator[Leaf], norm: Norm, goes_on: Callable[[], bool]) -> Iterator[Leaf]:
        """The same selections, because feasibility knows no norm, each solved in this one."""
        for leaf in leaves:
            if not goes_on():
                return
            self.tree.qps += 1
            best = solve_in(leaf.best.constraints, norm)
            if best.is_certified:
                yield Leaf(leaf.tokens, best.selecting(leaf.tokens), leaf.gaps)
            else:
                self.tree.undecided.append(leaf.tokens)

    def nothing_to_select(self) -> Leaf:
        """The one selection of a problem whose inputs have one token each: p is zero."""
        tokens = (0,) * self.tree.problem.n
        return Leaf(tokens, replace(self.tree.rows.solve([]), selection=tokens), np.zeros(0))

    def _named(self, tokens: Ints) -> Ints:
        """Selections by the numbers of the problem, inputs without a choice included."""
        named = np.zeros((len(tokens), self.tree.problem.n), dtype=np.int64)
        for j, i in enumerate(self.inputs):
            named[:, i] = self.tree.rows.names[i][tokens[:, j]]
        return named

    def _gaps(self, i: int, chosen: Ints) -> Floats:
        """Score gaps of the rows of one input, for each of these tokens of it."""
        used = sorted(set(chosen.tolist()))
        return np.stack([self._gaps_to_rivals(i, t) for t in used])[np.searchsorted(used, chosen)]

    def _gaps_to_rivals(self, i: int, t: int) -> Floats:
        """Of one token; kept, because thousands of selections share them."""
        if (i, t) not in self._own_gaps:
            problem, names = self.tree.problem, self.tree.rows.names[i]
            token = int(names[t])
            if token not in self._every_gap:
                same = np.minimum(token, problem.sizes - 1)
                self._every_gap[token] = problem.split(slot_gaps(problem, same))
            self._own_gaps[i, t] = self._every_gap[token][i][names[names != token]]
        return self._own_gaps[i, t]

    def _row_order(self) -> Ints:
        """Where the rows of each input, in the problem's order, stand in the order of the search."""
        order = self.tree.order
        sizes = {i: len(self.tree.others[i]) - 1 for i in order}
        first = dict(zip(order, np.cumsum([0, *(sizes[i] for i in order)]).tolist(), strict=False))
        return np.concatenate([first[i] + np.arange(sizes[i]) for i in self.inputs])


def _least(gaps: Floats, tight: Tight | None) -> list[float | None]:
    """The least gap over the tight rows of each leaf; None where rows in doubt matter to it."""
    if tight is None:
        return [None] * len(gaps)
    least, most = (np.where(rows, gaps, np.inf).min(axis=1) for rows in (tight.possible, tight.certain))
    same = (least == most).tolist()
    return [gap if sure else None for gap, sure in zip(least.tolist(), same, strict=True)]
