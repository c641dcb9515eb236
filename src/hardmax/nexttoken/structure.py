"""C-THM-STRUCT: a legal dataset is a permutation, one lag for each query, and a length for each start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.analysis import Analysis
from hardmax.nexttoken.orders import MISSING

Ints = NDArray[np.int64]
NO_LAG = -1


@dataclass(frozen=True, eq=False)
class Structure:
    """All that a legal dataset is: ``n``, ``lag`` (-1 if the query has only its own sentence), ``length``.

    ``length[s]`` is that of the longest raw sentence that begins with s, 0 if none does.

    >>> from hardmax.nexttoken import analyze, structure
    >>> svop = structure(analyze(["S V O P", "V O P", "O P P", "P S V"]))
    >>> svop.lag.tolist(), svop.length.tolist()
    ([0, 0, 0, 1], [4, 3, 3, 3])
    >>> svop.sentences()
    [[0, 1, 2, 3], [1, 2, 3], [2, 3, 3], [3, 0, 1]]
    """

    n: Ints
    lag: Ints
    length: Ints

    @property
    def optimal(self) -> Ints:
        """The token o_q = n^(-lag)(q) that decides under each query, -1 where there is none."""
        return optimal_tokens(self.n, self.lag)

    def sentences(self) -> list[list[int]]:
        """The longest raw sentence of every start, regenerated; the samples are those of the dataset.

        >>> from hardmax.nexttoken import analyze, structure
        >>> structure(analyze(["a b b", "b a"])).sentences()
        [[0, 1, 1], [1, 0]]
        """
        n, optimal = self.n.tolist(), self.optimal.tolist()
        return [chain(n, optimal, s, most) for s, most in enumerate(self.length.tolist()) if most]


def structure(analysis: Analysis) -> Structure:
    """Permutation, lags and lengths of a legal dataset.

    >>> from hardmax.nexttoken import analyze, structure
    >>> structure(analyze(["a b", "b a"])).lag.tolist()
    [-1, -1]
    """
    if not analysis.legal:
        kinds = ", ".join(each.kind for each in analysis.violations if each.kind != "assumption3")
        raise ValueError(f"analysis must be of a legal dataset, got one with violations: {kinds}")
    trie, n = analysis.trie, analysis.n.tolist()
    lag = np.full(trie.V, NO_LAG, dtype=np.int64)
    for q, o in zip(*(column.tolist() for column in analysis.orders.of_type("optimal")), strict=True):
        lag[q] = _steps(n, o, q)
    length, starts = np.zeros(trie.V, dtype=np.int64), trie.sentences.offsets[:-1]
    np.maximum.at(length, trie.sentences.tokens[starts], np.diff(trie.sentences.offsets))
    return Structure(analysis.n, lag, length)


def chain(n: list[int], optimal: list[int], start: int, length: int, *, balanced: bool = False) -> list[int]:
    """The sentence of at most `length` tokens that begins with `start`: x_2 = n(x_1), then n(o_q).

    It ends early when o_q is not in it, and if `balanced` before a token outnumbers the deciding one
    (Assumption 3).

    >>> from hardmax.nexttoken.structure import chain
    >>> chain([1, 2, 3, 0], [0, 1, 2, 2], start=2, length=5)
    [2, 3, 3, 3, 3]
    >>> chain([1, 2, 3, 0], [0, 1, 2, 2], start=2, length=5, balanced=True)
    [2, 3, 3]
    """
    sentence, counts = [start], {start: 1}
    while len(sentence) < length:
        decides = start if len(counts) == 1 else optimal[sentence[-1]]
        if decides not in counts or (balanced and max(counts.values()) > counts[decides]):
            break
        sentence.append(n[decides])
        counts[n[decides]] = counts.get(n[decides], 0) + 1
    return sentence


def optimal_tokens(n: Ints, lag: Ints) -> Ints:
    """o_q = n^(-lag[q])(q) for a permutation n; -1 where lag is -1.

    >>> import numpy as np
    >>> from hardmax.nexttoken.structure import optimal_tokens
    >>> optimal_tokens(np.array([1, 2, 0]), np.array([0, 1, -1])).tolist()
    [0, 0, -1]
    """
    back = np.empty_like(n)
    back[n] = np.arange(len(n))
    tokens = np.arange(len(n))
    for step in range(int(lag.max(initial=0))):
        tokens = np.where(lag > step, back[tokens], tokens)
    return np.where(lag == NO_LAG, MISSING, tokens)


def _steps(n: list[int], start: int, end: int) -> int:
    count = 0
    while start != end:
        start, count = n[start], count + 1
    return count
