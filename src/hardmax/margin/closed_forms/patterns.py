"""Paper A: the constraints of a selection pattern (A-DEF-11), and the closed form of A-LEM-3P."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from hardmax.margin.closed_forms.next_token import blocks, proved
from hardmax.margin.constraints import Constraints
from hardmax.margin.solution import MaxMargin


class Classes:
    """Tokens in classes, each alone at first; on a few tokens twice as fast as scipy's `DisjointSet`.

    >>> classes = Classes()
    >>> classes.merge(0, 1), classes.merge(1, 0), classes[0] == classes[1], classes[2]
    (True, False, True, 2)
    """

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def __getitem__(self, token: int) -> int:
        """The token that stands for its class."""
        while self._parent.get(token, token) != token:
            token = self._parent[token]
        return token

    def merge(self, a: int, b: int) -> bool:
        """Make two classes one; False if they were one already."""
        first, second = self[a], self[b]
        self._parent[second] = first
        return first != second


def pattern(
    sequences: Sequence[Sequence[int]],
    selection: Sequence[Iterable[int]],
    embeddings: ArrayLike | None = None,
    gram: ArrayLike | None = None,
) -> Constraints:
    """The constraints of A-DEF-11: selected tokens of a sequence tie, and beat its other tokens by 1.

    Give the tokens' ``embeddings`` or their ``gram`` matrix. Rows depend on token pairs only and appear
    once; labels are (s, s'). Tied tokens are merged over all sequences first, so that the equalities are a
    spanning forest (independent if the embeddings are), and each inequality between two classes appears as
    often as the sequences state it, because all are needed to report which are tight.

    >>> from hardmax.margin.solve import solve
    >>> E = [[1.0, 0.0, 0.0, 8.0], [0.0, 1.0, 0.0, -8.0], [0.0, 0.0, 1.0, 0.0]]
    >>> solve(pattern([[0, 2], [1, 2]], [[0, 2], [1]], E), exact=True).exact.norm_squared
    Fraction(22, 129)
    """
    if len(sequences) != len(selection):
        raise ValueError(f"selection must have one set per sequence ({len(sequences)}), got {len(selection)}")
    ties: list[tuple[int, int]] = []
    wins: dict[tuple[int, int], None] = {}
    forest = Classes()
    for k, (tokens, chosen) in enumerate(zip(sequences, selection, strict=True)):
        inside = list(dict.fromkeys(int(s) for s in chosen))
        if not inside or not set(inside) <= set(tokens):
            raise ValueError(f"selection must be a non-empty part of sequence {k}, got {inside}")
        ties += [(inside[0], s) for s in inside[1:] if forest.merge(inside[0], s)]
        wins.update({(s, int(r)): None for s in inside for r in tokens if r not in inside})
    pairs = [*wins, *ties]
    plus, minus = [s for s, _ in pairs], [r for _, r in pairs]
    h, equal = np.repeat([1.0, 0.0], [len(wins), len(ties)]), np.repeat([False, True], [len(wins), len(ties)])
    if (embeddings is None) == (gram is None):
        raise ValueError("embeddings, gram must be one of them and not both, got both or none")
    if gram is not None:
        return Constraints.from_gram(gram, plus, minus, h, equal, labels=pairs)
    assert embeddings is not None
    return Constraints.pairs(embeddings, plus, minus, h, equal, labels=pairs)


@dataclass(frozen=True, eq=False)
class ImportantOnly:
    """A-LEM-3P for d to infinity: ``solution`` is M^+ 1 over the initial embeddings, all rows held at 1.

    ``is_max_margin`` says whether it is p_hat, by the Gale condition |N(J)|/n_c >= |J|/n_r; where it fails,
    ``witness`` is a set of important tokens with too few neighbours in its component.

    >>> important_only([[0, 2], [1, 2]], [0, 1]).norm_squared
    Fraction(2, 3)
    """

    solution: MaxMargin
    witness: tuple[int, ...] | None

    @property
    def is_max_margin(self) -> bool:
        """Whether no row of M^+ 1 would be better met with more than 1."""
        return self.witness is None

    @cached_property
    def coefficients(self) -> dict[int, Fraction]:
        """The tokens that occur in rows, and their weights."""
        c, exact = self.solution.constraints, self.solution.exact
        assert exact is not None
        assert exact.p is not None
        return {s: exact.p[s] for s in np.union1d(c.plus, c.minus).tolist()}

    @property
    def norm_squared(self) -> Fraction:
        """|M^+ 1|^2."""
        assert self.solution.exact is not None
        return self.solution.exact.norm_squared


def important_only(sequences: Sequence[Sequence[int]], important: Sequence[int]) -> ImportantOnly:
    """The closed form when each sequence selects its one important token (Assumption 4).

    ``important[k]`` is the important token of sequence k. The bipartite graph joins it to the other tokens of
    its sequence. The Gale condition says that C-THM-BLOCK leaves each component in one block.

    >>> form = important_only([[0, 4, 5, 6], [1, 4, 5, 6], [2, 6], [3, 6]], [0, 1, 2, 3])
    >>> form.norm_squared, form.is_max_margin, form.witness
    (Fraction(12, 7), False, (2, 3))
    """
    if len(important) != len(sequences):
        raise ValueError(
            f"important must have one token per sequence ({len(sequences)}), got {len(important)}"
        )
    edges = sorted(
        {(s, int(j)) for tokens, s in zip(sequences, important, strict=True) for j in tokens if j != s}
    )
    if {s for s, _ in edges} & {j for _, j in edges}:
        raise ValueError(
            "important must be tokens that are irrelevant in no sequence (Assumption 4), got one that is"
        )
    forest = Classes()
    tree = [edge for edge in edges if forest.merge(*edge)]
    p = [Fraction(0)] * (1 + max((s for tokens in sequences for s in tokens), default=-1))
    witness: tuple[int, ...] | None = None
    for component in dict.fromkeys(forest[s] for s, _ in edges):
        own = [(s, j) for s, j in edges if forest[s] == component]
        tops, rest = sorted({s for s, _ in own}), sorted({j for _, j in own})
        n_c, n_r = len(tops), len(rest)
        for tokens, value in ((tops, Fraction(n_r, n_c + n_r)), (rest, Fraction(-n_c, n_c + n_r))):
            for s in tokens:
                p[s] = value
        first = blocks(own)[0]
        if Fraction(len(first.non_optimal), len(first.optimal)) < Fraction(n_r, n_c):
            witness = witness or tuple(sorted(int(s) for s in first.optimal))  # type: ignore[call-overload]
    carried = _on_tree(tree, dict(enumerate(p)))
    rows = Constraints.between_entries(
        (len(p),),
        np.array([s for s, _ in edges], int),
        np.array([j for _, j in edges], int),
        h=1.0,
        equal=True,
        labels=edges,
    )
    return ImportantOnly(proved(rows, p, [carried.get(edge, Fraction(0)) for edge in edges]), witness)


def _on_tree(tree: list[tuple[int, int]], p: dict[int, Fraction]) -> dict[tuple[int, int], Fraction]:
    """Multipliers of rows (s, j) that form a forest, with p their combination: a leaf has one row only."""
    near: dict[int, list[tuple[int, int]]] = {}
    for edge in tree:
        for s in edge:
            near.setdefault(s, []).append(edge)
    found: dict[tuple[int, int], Fraction] = {}
    leaves = [s for s, own in near.items() if len(own) == 1]
    while leaves:
        leaf = leaves.pop()
        if not near[leaf]:
            continue
        (edge,) = near[leaf]
        other = edge[0] + edge[1] - leaf
        found[edge] = p[leaf] if leaf == edge[0] else -p[leaf]
        p[other] += p[leaf]  # what the row gives to the one it takes from the other
        near[leaf] = []
        near[other].remove(edge)
        if len(near[other]) == 1:
            leaves.append(other)
    return found
