"""A function over many cells on a backend, once each and without a store; rows come in order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hardmax._lib.pool import WorkerDied
from hardmax.trials.backends import check_place, open_backend
from hardmax.trials.provenance import load, source_hash
from hardmax.trials.work import DONE, Batch, Job

RETRIES = 2  # of a cell whose worker died


def spread(
    name: str,
    cells: Iterable[Mapping[str, Any]],
    *,
    backend: str,
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any] | None]]:
    """Each cell with the row that "module:function" makes of it, in the order of the cells.

    A cell whose worker died is tried again, RETRIES times; the row is None if that did not help, or if the
    function raised. No more are under way than workers can take, besides those that wait for their turn.

    Args:
        name: the function, of parameters and a seed, which is none of its business here.
        cells: what it is called with.
        backend: as for `sweep`.
        address: of the cluster to join.
        workers: processes, one for each core by default.
    """
    check_place(backend, address)
    pool = open_backend(backend, Job(name, source_hash(load(name)), False, 0), workers, address)
    waiting: deque[tuple[int, Mapping[str, Any]]] = deque()
    flights: dict[Any, tuple[int, Mapping[str, Any], int]] = {}
    ready: dict[int, dict[str, Any] | None] = {}
    rest = enumerate(cells)
    try:
        while True:
            while len(flights) + len(ready) < 2 * pool.capacity and (each := next(rest, None)):
                number, cell = each
                waiting.append((number, cell))
                flights[pool.submit(_batch(number, cell))] = number, cell, 0
            if not waiting:
                return
            if waiting[0][0] in ready:
                number, cell = waiting.popleft()
                yield cell, ready.pop(number)
                continue
            for handle in pool.wait(flights):
                number, cell, deaths = flights.pop(handle)
                try:
                    (outcome,) = pool.report(handle).outcomes
                except WorkerDied:
                    if deaths < RETRIES:
                        flights[pool.submit(_batch(number, cell))] = number, cell, deaths + 1
                    else:
                        ready[number] = None
                    continue
                ready[number] = json.loads(outcome.row or "") if outcome.status == DONE else None
    finally:
        pool.close()


def _batch(number: int, cell: Mapping[str, Any]) -> Batch:
    return Batch(number, dict(cell), 0, 1)
