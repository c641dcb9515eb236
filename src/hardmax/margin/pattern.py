"""Paper A: the max-margin problem of a selection pattern with ties (A-DEF-11), and A-LEM-3P's closed form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hardmax.margin.constraints import Constraints
from hardmax.margin.nexttoken import blocks


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
        raise ValueError(f"selection: expected one set per sequence ({len(sequences)}), got {len(selection)}")
    ties: list[tuple[int, int]] = []
    wins: dict[tuple[int, int], None] = {}
    forest = _Forest()
    for k, (tokens, chosen) in enumerate(zip(sequences, selection, strict=True)):
        inside = list(dict.fromkeys(int(s) for s in chosen))
        if not inside or not set(inside) <= set(tokens):
            raise ValueError(f"selection: expected a non-empty part of sequence {k}, got {inside}")
        ties += [(inside[0], s) for s in inside[1:] if forest.join(inside[0], s)]
        wins.update({(s, int(r)): None for s in inside for r in tokens if r not in inside})
    pairs = [*wins, *ties]
    plus, minus = [s for s, _ in pairs], [r for _, r in pairs]
    h, equal = np.repeat([1.0, 0.0], [len(wins), len(ties)]), np.repeat([False, True], [len(wins), len(ties)])
    if (embeddings is None) == (gram is None):
        raise ValueError("embeddings, gram: expected exactly one of them")
    if gram is not None:
        return Constraints.from_gram(gram, plus, minus, h, equal, labels=pairs)
    assert embeddings is not None
    return Constraints.pairs(embeddings, plus, minus, h, equal, labels=pairs)


class _Forest:
    """Union-find over tokens."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}

    def root(self, token: int) -> int:
        while self.parent.get(token, token) != token:
            token = self.parent[token]
        return token

    def join(self, a: int, b: int) -> bool:
        """Merge two classes; False if they were one already."""
        first, second = self.root(a), self.root(b)
        self.parent[second] = first
        return first != second


@dataclass(frozen=True)
class ImportantOnly:
    """A-LEM-3P for d to infinity: ``M^+ 1`` over the initial embeddings, and whether it is p_hat.

    ``is_max_margin`` is the Gale condition |N(J)|/n_c >= |J|/n_r; where it fails, ``witness`` is a set of
    important tokens with too few neighbours in its component.

    >>> important_only([[0, 2], [1, 2]], [0, 1]).norm_squared
    Fraction(2, 3)
    """

    coefficients: dict[int, Fraction]
    norm_squared: Fraction
    is_max_margin: bool
    witness: tuple[int, ...] | None


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
            f"important: expected one token per sequence ({len(sequences)}), got {len(important)}"
        )
    edges = sorted(
        {(s, int(j)) for tokens, s in zip(sequences, important, strict=True) for j in tokens if j != s}
    )
    if {s for s, _ in edges} & {j for _, j in edges}:
        raise ValueError("important: expected tokens that are irrelevant in no sequence (Assumption 4)")
    forest = _Forest()
    for s, j in edges:
        forest.join(s, j)
    coefficients: dict[int, Fraction] = {}
    norm_squared = Fraction(0)
    witness: tuple[int, ...] | None = None
    for component in dict.fromkeys(forest.root(s) for s, _ in edges):
        own = [(s, j) for s, j in edges if forest.root(s) == component]
        tops, rest = sorted({s for s, _ in own}), sorted({j for _, j in own})
        n_c, n_r = len(tops), len(rest)
        coefficients.update({s: Fraction(n_r, n_c + n_r) for s in tops})
        coefficients.update({j: Fraction(-n_c, n_c + n_r) for j in rest})
        norm_squared += Fraction(n_c * n_r, n_c + n_r)
        first = blocks(own)[0]
        if Fraction(len(first.non_optimal), len(first.optimal)) < Fraction(n_r, n_c):
            witness = witness or tuple(sorted(int(s) for s in first.optimal))  # type: ignore[call-overload]
    return ImportantOnly(coefficients, norm_squared, witness is None, witness)
