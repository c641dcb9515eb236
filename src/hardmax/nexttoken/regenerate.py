"""C-ALG-REGEN: the next token that collocation and orders alone prescribe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax.nexttoken.collocation import MISSING
from hardmax.nexttoken.orders import Orders


@dataclass(frozen=True)
class Regenerated:
    """The prescribed ``next`` token, or None if the rule is ``ambiguous``.

    ``candidates`` are the tokens of the sentence that may decide, ``reason`` says why these.

    >>> from hardmax.nexttoken import check, regenerate
    >>> swap = check(["a b", "b a"])
    >>> regenerate(swap.n, swap.orders, [0, 0])
    Regenerated(next=1, rule='unique', candidates=(0,), reason='the sentence holds one kind of token')
    """

    next: int | None
    rule: str
    candidates: tuple[int, ...]
    reason: str


def regenerate(n: NDArray[np.int64], orders: Orders, sentence: Sequence[int]) -> Regenerated:
    """The next token of any sentence, seen or not: n of the token that decides under its last token.

    Tokens that are maximal in the sentence may decide. An optimal one goes first, then one about which
    nothing is known under this query (Theorem 3). If those left lead to different tokens, the rule is
    ``ambiguous``.

    >>> from hardmax.nexttoken import check, regenerate
    >>> svop = check(["S V O P", "V O P", "O P P", "P S V"])
    >>> regenerate(svop.n, svop.orders, [2, 0, 3]).next     # O S P: O is optimal under P
    3
    >>> regenerate(svop.n, svop.orders, [0, 1, 3]).candidates  # S V P: nothing is known of S and V
    (0, 1)
    """
    tokens = list(dict.fromkeys(int(x) for x in sentence))
    if not tokens or not all(0 <= x < orders.V for x in tokens):
        raise ValueError(f"sentence: expected one token or more, each in 0..{orders.V - 1}, got {sentence!r}")
    if len(tokens) == 1:
        return _decided(n, tokens, "the sentence holds one kind of token")
    query = int(sentence[-1])
    low, high = np.searchsorted(orders.query, [query, query + 1])
    pairs = zip(orders.above[low:high].tolist(), orders.below[low:high].tolist(), strict=True)
    beaten = {x for o, x in pairs if o in tokens}
    maximal = [x for x in tokens if x not in beaten]
    types = orders.types(query)
    for name, reason in _REASONS.items():
        some = [x for x in maximal if types[x] == name]
        if some:
            return _decided(n, some, reason)
    return Regenerated(None, "ambiguous", (), "every token stands below another one: the order has a cycle")


_REASONS = {
    "optimal": "optimal under the last token",
    "non_comparable": "never compared under the last token, and no optimal token is here",
    "confused": "confused under the last token, but nothing here stands above it",
    "non_optimal": "only non-optimal tokens are here",
}


def _decided(n: NDArray[np.int64], some: list[int], reason: str) -> Regenerated:
    following = {int(n[x]) for x in some}
    if MISSING in following:
        return Regenerated(None, "ambiguous", tuple(some), f"{reason}, but it has no known next token")
    if len(following) > 1:
        return Regenerated(None, "ambiguous", tuple(some), f"{reason}, and there are {len(some)} of them")
    return Regenerated(following.pop(), "unique", tuple(some), reason)
