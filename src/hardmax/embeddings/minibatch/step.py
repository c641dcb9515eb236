"""Training steps of the one-layer model, in one pass over the rows of E that a batch needs.

The model sees E only through a = E p and c = E v, and the gradient of a row is A_s p + C_s v (A-LEM-7,
A-RED-0), so no gradient of E is stored. AdamW also moves the rows of tokens that a batch does not hold, but
nothing reads them before the next batch that does: a row is brought up to date then, through all the steps it
missed. Those without a gradient are one polynomial of what the row holds (`kernels.extend_rests`), exact to
rounding; where its series is too short, which is early in training, they are taken one by one. So a step
reads and writes the rows of its own tokens only.

The gradients of p and v are sums over rows, but column by column: a tile of columns can finish one step (the
sums, then p and v) and bring its part of the next batch's rows up to date, while other tiles are elsewhere.
So a step ends when the next begins, threads meet once a step, and each tile is one thread's: the result does
not depend on their number. It takes time to wake a thread, so the other threads start on the end of a step at
once, while the first prepares the next batch. The kernels are serial and release the interpreter's lock;
plain threads run them. Numba's own threading layers are not used: OpenMP's waiting threads spin, and it
breaks after fork; workqueue aborts on concurrent calls (both are set for the whole process, which is the
caller's choice).
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
from numba import intp, njit

from hardmax._lib.compiled import INDEX, OUT_INDEX
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.minibatch.kernels import REST, TILE, advance_tile, extend_rests, finish_tile
from hardmax.embeddings.one_layer import evaluate
from hardmax.train.steps import SGD, AdamW

REMEMBERED = 128  # steps whose p, v and scalars are kept; then all rows are brought up to date
NARROW = 128  # columns of a tile at least, where there are so many
PAGE, LARGE_PAGE = 2**12, 2**21  # bytes


class OneLayerModel:
    """E, p and v with their moments, in tiles of columns; arrays change in place.

    p and v of a tile lie one behind the other, at a distance that is known when the kernels are compiled.
    """

    def __init__(
        self, E: np.ndarray, p: np.ndarray, v: np.ndarray, rule: AdamW | SGD, kind: str, workers: int
    ) -> None:
        S, self._d = E.shape
        self._width = min(self._d, TILE, max(NARROW, 16 * math.ceil(self._d / 32)))
        tiles = math.ceil(self._d / self._width)
        self.steps, self.rule, self._adaptive = 0, rule, isinstance(rule, AdamW)
        self._E, self._E_first, self._E_second = (
            _zeros((tiles, S, width), kind) for width in (self._width, self._width, self._used(self._width))
        )
        # Half a page away from the rows of E: the processor takes two addresses that agree in their last
        # twelve bits for one, and lets a load wait for the store before it.
        self._pv, self._pv_first, self._pv_second = (
            _zeros((tiles, 2 * TILE), kind, PAGE // 2) for _ in range(3)
        )
        # Steps are counted from the last time that all rows were up to date.
        self._now, self._pending, self._done = 0, False, np.zeros(S, np.intp)
        self._pv_at = _zeros((tiles, REMEMBERED, 2 * TILE), kind, PAGE // 2)
        self._k_at = np.zeros((REMEMBERED, rule.scalars(1, 0.0).size))
        self._rests = np.zeros((REMEMBERED, REST))
        self._low_k_at, self._low_rests = self._k_at.astype(kind), self._rests.astype(kind)  # for the kernels
        self._A, self._C = np.zeros(S, kind), np.zeros(S, kind)
        self._moving = np.empty(0, np.intp)  # rows with a gradient in the pending step
        self._parts = np.empty((tiles, 2, S), kind)
        self._workers = min(workers, tiles)
        self._pool = ThreadPoolExecutor(self._workers - 1) if self._workers > 1 else None
        self._others: list[Future[None]] = []  # what other threads were given: after a step, the end of it
        self._cut = False
        self._put(self._E, E)
        self._put(_pairs(self._pv), np.array([p, v]))

    def __enter__(self) -> OneLayerModel:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    @property
    def E(self) -> np.ndarray:
        """The embeddings (S, d), as `observe` left them."""
        return self._taken(self._E, self._d)

    @property
    def vectors(self) -> np.ndarray:
        """p and v as rows, as `observe` left them."""
        return self._taken(_pairs(self._pv), self._d)

    def step(self, batch: Corpus, rate: float) -> float:
        """One step on a batch; returns the batch's loss before it, nan where the parameters overflowed.

        The gradients of p and v are left to the next step, or to `observe`. Other threads begin with their
        part at once.
        """
        with self._whole():
            return self._step(batch, rate)

    def _step(self, batch: Corpus, rate: float) -> float:
        if self._now == REMEMBERED:
            self._catch_up()
        rows, tokens = renumbered(batch.tokens, batch.S)
        a, c = self._advance(rows)
        if not (np.isfinite(a).all() and np.isfinite(c).all()):
            return float("nan")
        point = evaluate(replace(batch, tokens=tokens, S=rows.size, vocabulary=None, written=None), a, c)
        gradients = np.array([point.A, point.C], self._A.dtype)
        gradients[np.abs(gradients) < np.finfo(gradients.dtype).tiny] = 0  # arithmetic with these is slow
        self._A[rows], self._C[rows] = gradients
        self._moving = rows[gradients.any(axis=0)]
        self.steps += 1
        self._low_k_at[self._now] = self._k_at[self._now] = self.rule.scalars(self.steps, rate)
        if self._adaptive:
            extend_rests(self._k_at, self._now, self._rests)
            self._low_rests[: self._now + 1] = self._rests[: self._now + 1]
        self._now += 1
        self._pending = True
        self._give(self._finish)
        return point.loss

    def observe(self) -> tuple[np.ndarray, np.ndarray]:
        """a and c of all tokens."""
        with self._whole():
            a, c = self._catch_up()
        return a.astype(float), c.astype(float)

    def arrays(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the number of steps; `observe` comes first. Moments not used are empty."""
        used = self._used(self._d)
        return {
            "E": self.E,
            "E_first": self._taken(self._E_first, self._d),
            "E_second": self._taken(self._E_second, used),
            "vectors": self.vectors,
            "first": self._taken(_pairs(self._pv_first), self._d),
            "second": self._taken(_pairs(self._pv_second), used),
            "steps": np.array(self.steps),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `arrays` returned, also after a step that was cut short."""
        self._cut = True  # until all is restored
        wait(self._others)  # whether they failed or not
        self._others = []
        self._put(self._E, arrays["E"])
        self._put(self._E_first, arrays["E_first"])
        self._put(self._E_second, arrays["E_second"])
        self._put(_pairs(self._pv), arrays["vectors"])
        self._put(_pairs(self._pv_first), arrays["first"])
        self._put(_pairs(self._pv_second), arrays["second"])
        self.steps, self._pending = int(arrays["steps"]), False
        self._begin_anew()
        self._cut = False

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Refuse a model whose last step was cut short."""
        # An interrupt, or an error in any thread, leaves some tiles a step ahead of others, and nothing tells
        # which: to go on would skip the step there or take it twice.
        if self._cut:
            raise RuntimeError("a step was cut short by an error or an interrupt; `restore` the model first")
        self._cut = True
        yield
        self._cut = False

    def _give(self, task: Callable[[int], None]) -> None:
        """Let each other thread begin with a task."""
        if self._pool is not None:
            for thread in range(1, self._workers):  # noted one by one: `restore` waits for all that began
                self._others.append(self._pool.submit(task, thread))

    def _used(self, columns: int) -> int:
        """Columns of second moments."""
        return columns if self._adaptive else 0

    def _put(self, tiles: np.ndarray, rows: np.ndarray) -> None:
        for t, tile in enumerate(tiles):
            part = rows[:, t * self._width : (t + 1) * self._width]
            tile[:, : part.shape[1]] = part

    def _taken(self, tiles: np.ndarray, columns: int) -> np.ndarray:
        """The rows of tiles as a matrix, when no other thread writes to them."""
        wait(self._others)
        parts = [tile[:, : self._size(t, columns)] for t, tile in enumerate(tiles)]
        return np.concatenate(parts, axis=1)

    def _size(self, t: int, columns: int) -> int:
        """Columns that tile t has."""
        return max(0, min(self._width, columns - t * self._width))

    def _catch_up(self) -> tuple[np.ndarray, np.ndarray]:
        found = self._advance(np.arange(self._done.size))
        self._begin_anew()
        return found

    def _begin_anew(self) -> None:
        """Count steps from here on, where all rows are up to date."""
        self._now = 0
        for each in (self._done, self._A, self._C):
            each[:] = 0

    def _finish(self, thread: int) -> None:
        """The thread's part of p and v takes the pending step."""
        for t in range(thread, len(self._E), self._workers):
            finish_tile(
                self._E[t],
                self._size(t, self._d),
                self._moving,
                self._A,
                self._C,
                self._pv[t],
                self._pv_first[t],
                self._pv_second[t],
                self._pv_at[t],
                self._low_k_at,
                self._now - 1,
                self._adaptive,
            )

    def _advance(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finish the pending step and bring some rows up to date; returns their a and c."""
        ending = tuple(self._others)

        def work(thread: int) -> None:
            if self._pending and thread:
                ending[thread - 1].result()
            elif self._pending:
                self._finish(thread)
            for t in range(thread, len(self._E), self._workers):
                advance_tile(
                    self._E[t],
                    self._E_first[t],
                    self._E_second[t],
                    self._size(t, self._d),
                    rows,
                    self._done,
                    self._A,
                    self._C,
                    self._pv[t],
                    self._pv_at[t],
                    self._low_k_at,
                    self._low_rests,
                    self._now,
                    self._adaptive,
                    self._parts[t, 0],
                    self._parts[t, 1],
                )

        self._give(work)
        work(0)
        for other in self._others:
            other.result()
        self._others, self._pending = [], False
        self._done[rows] = self._now
        a, c = np.add.reduce(self._parts[:, :, : rows.size], axis=0)
        return a, c


def _zeros(shape: tuple[int, ...], kind: str, offset: int = 0) -> np.ndarray:
    """Zeros that begin so many bytes into a page of memory."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    page = LARGE_PAGE if size >= LARGE_PAGE else PAGE
    raw = _memory(offset + size + page, large=page == LARGE_PAGE)
    begin = offset + -raw.ctypes.data % page
    return raw[begin : begin + size].view(kind).reshape(shape)


def _memory(size: int, *, large: bool) -> np.ndarray:
    """Bytes that are zero, in large pages where they are asked for and the system (Linux) has them.

    Memory of the heap lies in large pages or not by what was there before; without them a step took 1.3 times
    as long.
    """
    if not (large and hasattr(mmap, "MADV_HUGEPAGE")):
        return np.zeros(size, np.uint8)
    raw = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel that was built without them
        raw.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(raw, np.uint8)


def _pairs(tiles: np.ndarray) -> np.ndarray:
    """Tiles of p and v as rows of two."""
    return tiles.reshape(-1, 2, TILE)


def renumbered(tokens: np.ndarray, S: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct tokens in ascending order, and the place of each token among them.

    >>> import numpy as np
    >>> rows, places = renumbered(np.array([5, 2, 5, 7]), 9)
    >>> rows.tolist(), places.tolist()
    ([2, 5, 7], [1, 0, 1, 2])
    """
    rows, places = np.empty(min(S, tokens.size), np.intp), np.empty(tokens.size, np.intp)
    return rows[: _renumber(tokens, np.full(S, -1), rows, places)], places


@njit(intp(INDEX, OUT_INDEX, OUT_INDEX, OUT_INDEX), cache=True, nogil=True)
def _renumber(tokens, place, rows, places):  # type: ignore[no-untyped-def]
    for token in tokens:
        place[np.uintp(token)] = 0
    count = 0
    for s in range(place.size):
        if place[s] == 0:
            place[s] = count
            rows[count] = s
            count += 1
    for slot in range(tokens.size):
        places[slot] = place[np.uintp(tokens[slot])]
    return count
