"""What the parts of a walk found, put together."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.checking.walking import LEAST, MOST, NOWHERE, SHOWN
from hardmax.nexttoken.relations import Orders

Ints = NDArray[np.int64]


class Total:
    """What the parts of a walk found, together; in which order they come changes nothing."""

    def __init__(self, V: int) -> None:
        self.V = V
        self.tally = np.zeros(7, dtype=np.int64)
        self.tally[LEAST] = NOWHERE
        self.shares = [2.0, 0.0]
        self.torn: list[int] = []
        self.lost: list[int] = []
        self.heavy: list[int] = []
        self._pairs: list[Ints] = []
        self._keys: list[Ints] = []
        self._places: list[Ints] = []

    def add(self, tally: Ints, shares: Any, *found: Ints) -> None:
        torn, lost, heavy, pairs, keys, places = found
        least, most = min(self.tally[LEAST], tally[LEAST]), max(self.tally[MOST], tally[MOST])
        self.tally += tally
        self.tally[LEAST], self.tally[MOST] = least, most
        self.shares = [min(self.shares[0], float(shares[0])), max(self.shares[1], float(shares[1]))]
        for mine, its in ((self.torn, torn), (self.lost, lost), (self.heavy, heavy)):
            mine[:] = sorted([*mine, *its[its < NOWHERE].tolist()])[:SHOWN]
        self._pairs.append(pairs)
        self._keys.append(keys)
        self._places.append(places)

    @cached_property
    def pairs(self) -> Ints:
        return np.concatenate(self._pairs, axis=1)

    def orders(self) -> Orders:
        keys, places = np.concatenate(self._keys), np.concatenate(self._places)
        order = np.lexsort((places, keys))
        keys, first = np.unique(keys[order], return_index=True)
        pair, below = np.divmod(keys, self.V)
        query, above = np.divmod(pair, self.V)
        return Orders(self.V, query, above, below, places[order][first])
