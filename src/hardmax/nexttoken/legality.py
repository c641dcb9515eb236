"""May one more sample join a legal dataset? Asked sample by sample, by the definition alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping


class Legality:
    """The samples so far, as far as they matter: who has been above and who below, under each query.

    `back` is the inverse of an injective collocation. With `balanced`, Assumption 3 is part of the law.

    >>> from hardmax.nexttoken.legality import Legality
    >>> law = Legality({1: 0, 0: 1})               # n swaps 0 and 1
    >>> law.join({0: 1, 1: 1}, query=1, target=1)  # the sentence 0 1 goes on with 1: 0 is above 1
    True
    >>> law.join({0: 1, 1: 1}, query=1, target=0)  # it cannot be below as well
    False
    """

    def __init__(self, back: Mapping[int, int], *, balanced: bool = False) -> None:
        self._back, self._balanced = back, balanced
        self._above: defaultdict[int, set[int]] = defaultdict(set)
        self._below: defaultdict[int, set[int]] = defaultdict(set)

    def join(self, counts: Mapping[int, int], query: int, target: int) -> bool:
        """Take in the sample whose sentence has these token counts, if it breaks nothing."""
        decides = self._back.get(target, -1)
        if decides not in counts:
            return False
        if self._balanced and max(counts.values()) > counts[decides]:
            return False
        others = counts.keys() - {decides}
        if decides in self._below[query] or others & self._above[query]:
            return False
        if others:
            self._above[query].add(decides)
            self._below[query] |= others
        return True
