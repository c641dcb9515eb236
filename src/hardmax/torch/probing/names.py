"""Heads of a kind that is known: which share of the attention goes where, beside an even spread."""

from __future__ import annotations

import numpy as np

from hardmax.torch.probing.inputs import Bools, Floats, Ints

LEAST = 0.5  # mean weight from which a head has the name
KINDS = {
    "first": "the first token (a sink)",
    "last": "the last token",
    "previous": "the token before",
    "next": "the token after",
    "same": "the same token, itself or an equal one",
    "induction": "what followed the same token before",
}


def scores(weights: Floats, visible: Bools, ids: Ints | None = None) -> dict[str, float]:
    """Mean weight on the first, last, previous, next and same token, over queries that see two or more.

    A kind counts where it is something of its own: the token before is not the first, and none of them is the
    query itself. Kinds that the mask does not allow are left out.

    >>> import numpy as np
    >>> previous = np.eye(4, k=-1)[None]; previous[0, 0, 0] = 1.0
    >>> scores(previous, np.tri(4, dtype=bool)[None])["previous"]
    1.0
    """
    texts, length = weights.shape[:2]
    asks = visible.sum(axis=2) > 1
    place = np.arange(length)
    query, token = place[:, None], place[None, :]
    last = np.where(visible.any(axis=1), place, -1).max(axis=1)
    where = {
        "first": np.broadcast_to((token == 0) & (query > 0), (texts, length, length)),
        "last": (token == last[:, None, None]) & (query < last[:, None, None]),
        "previous": np.broadcast_to((token == query - 1) & (query > 1), (texts, length, length)),
        "next": np.broadcast_to(token == query + 1, (texts, length, length))
        & (query + 1 < last[:, None, None]),
        "same": np.broadcast_to(token == query, (texts, length, length)).copy(),
    }
    if ids is not None:
        where["same"] |= ids[:, :, None] == ids[:, None, :]
    found = {}
    for name, spots in where.items():
        spots = spots & visible
        counted = spots.any(axis=2) & asks
        if counted.any():
            found[name] = float((weights * spots).sum(axis=2)[counted].mean())
    return found


def induction(weights: Floats, visible: Bools, period: Ints) -> float:
    """On texts that repeat after ``period[s]`` tokens: the weight on what followed this token before."""
    total, count = 0.0, 0
    for s, step in enumerate(period):
        length = int(visible[s].any(axis=1).sum())
        here = np.arange(int(step) + 1, length)  # the first token of the copy is left out: it may be a marker
        there = here - int(step) + 1
        kept = visible[s][here, there] & (there < here)
        total += float(weights[s][here, there][kept].sum())
        count += int(kept.sum())
    return total / count if count else np.nan


def named(found: dict[str, float]) -> tuple[str, ...]:
    """The kinds with half of the weight or more, the largest first: a sink may be an induction head too.

    >>> named({"first": 0.7, "previous": 0.1, "induction": 0.8}), named({"first": 0.2})
    (('induction', 'first'), ())
    """
    return tuple(sorted((kind for kind in found if found[kind] >= LEAST), key=lambda kind: -found[kind]))
