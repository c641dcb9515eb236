"""Processes for the two tasks of `words.py`, which hold Python's lock and so gain nothing from threads."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from hardmax._lib.parallel import cores
from hardmax._lib.pool import Pool, WorkerDied
from hardmax.data.text import words


class TextWorkers:
    """``count`` processes, one for each core by default, started when there are two blocks to share."""

    def __init__(self, count: int | None) -> None:
        self.count = count or cores()
        self._pool = Pool(self.count, [sys.executable, "-P", words.__file__])

    def __enter__(self) -> TextWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()

    def run(self, task: str, blocks: Iterable[list[str]]) -> Iterator[Any]:
        """The task's answer to every block, in their order; a few blocks are taken in advance."""
        blocks = iter(blocks)
        first = list(itertools.islice(blocks, 2))
        if self.count == 1 or len(first) < 2:
            yield from map(words.TASKS[task], itertools.chain(first, blocks))
            return
        waiting: deque[Future[Any]] = deque()
        for block in itertools.chain(first, blocks):
            waiting.append(self._pool.submit((task, block)))
            if len(waiting) > 2 * self.count:
                yield _answer(waiting.popleft())
        while waiting:
            yield _answer(waiting.popleft())


def _answer(asked: Future[Any]) -> Any:
    try:
        return asked.result()
    except WorkerDied as death:
        raise OSError(
            f"a worker ended ({death}), perhaps for want of memory; what is finished is in the cache: "
            "call again, with fewer workers"
        ) from None
