"""C-DEF-COLL: n(x), the next token of the one-token sentence [x]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.samples import Samples
from hardmax.nexttoken.trie import Trie

MISSING = -1


def collocation(data: Samples | Trie) -> NDArray[np.int64]:
    """n(x) for every token x, -1 where no sentence begins with x or where [x] has several next tokens.

    >>> from hardmax.nexttoken import Samples, collocation
    >>> collocation(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).tolist()
    [1, 2, 3, 0]
    >>> collocation(Samples.from_sentences(["a b", "a c", "b c"])).tolist()
    [-1, 2, -1]
    """
    trie = data.trie if isinstance(data, Samples) else data
    pairs = np.flatnonzero(trie.depth == 2)
    x = trie.token[trie.parent[pairs]]
    n = np.full(trie.V, MISSING, dtype=np.int64)
    n[x] = trie.token[pairs]
    n[np.bincount(x, minlength=trie.V) > 1] = MISSING
    return n


def never_first(trie: Trie) -> NDArray[np.int64]:
    """The tokens that begin no sentence of two tokens or more.

    >>> from hardmax.nexttoken import Sentences, Trie
    >>> from hardmax.nexttoken.collocation import never_first
    >>> never_first(Trie.build(Sentences.from_lists(["a b", "c"]))).tolist()
    [1, 2]
    """
    first = trie.token[trie.parent[trie.depth == 2]]
    return np.setdiff1d(np.arange(trie.V), first)


def complete(n: NDArray[np.int64]) -> NDArray[np.int64]:
    """n with every missing token sent to a token that nothing goes to yet, in order of their numbers.

    An injective n becomes a permutation. If every sample of the data has a token that leads to its target,
    the orders do not change: the tokens given away here are never next tokens.

    >>> import numpy as np
    >>> from hardmax.nexttoken import complete
    >>> complete(np.array([1, 2, -1])).tolist()
    [1, 2, 0]
    """
    missing = np.flatnonzero(n == MISSING)
    free = np.setdiff1d(np.arange(len(n)), n[n != MISSING])
    whole = n.copy()
    whole[missing] = free[: len(missing)]
    return whole
