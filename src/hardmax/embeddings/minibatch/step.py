"""Training steps of the one-layer model, in two passes over the rows of E that a batch needs.

The model sees E only through a = E p and c = E v, and the gradient of a row is A_s p + C_s v (A-LEM-7,
A-RED-0), so no gradient of E is stored. AdamW also moves the rows of tokens that a batch does not hold, but
nothing reads them before the next batch that does: a row is brought up to date then, through all the steps it
missed while it is in the cache. So a step reads and writes the rows of its own tokens only, and each of its
numbers is the same as if all rows moved at every step.

The first pass brings the batch's rows up to date and takes a_s and c_s; the second reads them for the
gradients of p and v. The list of rows is cut into a fixed number of blocks, and sums over blocks are added in
their order: the result does not depend on the number of threads. The kernels are serial and release the
interpreter's lock; plain threads run them. Numba's own threading layers are not used: OpenMP's waiting
threads spin, and it breaks after fork; workqueue aborts on concurrent calls (both are set for the whole
process, which is the caller's choice).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.minibatch.kernels import advance_rows, gradients_of_vectors, update_adamw, update_sgd
from hardmax.embeddings.one_layer import evaluate
from hardmax.train.steps import SGD, AdamW

BLOCKS = 16
REMEMBERED = 64  # steps whose p, v and scalars are kept; then all rows are brought up to date


class OneLayerModel:
    """E, p and v with their moments; ``vectors`` holds p and v as rows. Arrays change in place.

    Moments that the rule does not use have no columns.
    """

    def __init__(
        self, E: np.ndarray, p: np.ndarray, v: np.ndarray, rule: AdamW | SGD, kind: str, workers: int
    ) -> None:
        self.E, self.vectors = E.astype(kind, order="C"), np.array([p, v], dtype=kind)
        self._adaptive = isinstance(rule, AdamW)
        (S, d), used = E.shape, E.shape[1] if self._adaptive else 0
        self.E_first, self.E_second = np.zeros((S, d), kind), np.zeros((S, used), kind)
        self.first, self.second = np.zeros((2, d), kind), np.zeros((2, used), kind)
        self.steps, self.rule = 0, rule
        self._update = update_adamw if self._adaptive else update_sgd
        self.a, self.c = np.empty(S, kind), np.empty(S, kind)
        self._A, self._C = np.zeros(S, kind), np.zeros(S, kind)
        # Steps are counted from the last time that all rows were up to date.
        self._now, self._done = 0, np.zeros(S, np.intp)
        self._vectors_at = np.empty((REMEMBERED, 2, d), kind)
        self._k_at = np.empty((REMEMBERED, rule.scalars(1, 0.0).size), kind)
        self._parts = np.empty((BLOCKS, 2, d), kind)
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers - 1) if workers > 1 else None
        self._catch_up()

    def __enter__(self) -> OneLayerModel:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def step(self, batch: Corpus, rate: float) -> float:
        """One step on a batch; returns the batch's loss before it, nan where the parameters overflowed."""
        if self._now == REMEMBERED:
            self._catch_up()
        rows = np.flatnonzero(np.bincount(batch.tokens, minlength=batch.S))
        self._advance(rows)
        if not (np.isfinite(self.a[rows]).all() and np.isfinite(self.c[rows]).all()):
            return float("nan")
        point = evaluate(batch, self.a, self.c)
        self._A[rows], self._C[rows] = point.A[rows], point.C[rows]

        def gather(thread: int) -> None:
            gradients_of_vectors(self.E, rows, self._A, self._C, thread, self._workers, self._parts)

        self._on_threads(gather)
        self.steps += 1
        k, now = self._k_at[self._now], self._now
        k[:] = self.rule.scalars(self.steps, rate)
        self._vectors_at[now] = self.vectors
        for i, g in enumerate(np.add.reduce(self._parts, axis=0)):
            self._update(self.vectors[i], g, self.first[i], self.second[i], k)
        self._now += 1
        return point.loss

    def observe(self) -> tuple[np.ndarray, np.ndarray]:
        """a and c of all tokens."""
        self._catch_up()
        return self.a.astype(float), self.c.astype(float)

    def arrays(self) -> dict[str, np.ndarray]:
        """Parameters, moments and the number of steps; `observe` comes first."""
        names = ("E", "E_first", "E_second", "vectors", "first", "second")
        return {**{name: getattr(self, name) for name in names}, "steps": np.array(self.steps)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from what `arrays` returned."""
        for name in self.arrays():
            setattr(self, name, int(arrays[name]) if name == "steps" else arrays[name])
        self._catch_up()

    def _catch_up(self) -> None:
        self._advance(np.arange(len(self.E)))
        self._now = 0
        self._done[:] = 0

    def _advance(self, rows: np.ndarray) -> None:
        shares = np.array_split(rows, self._workers)

        def advance(thread: int) -> None:
            advance_rows(
                self.E, self.E_first, self.E_second, shares[thread], self._done, self._A, self._C,
                self._vectors_at, self._k_at, self._now, self.vectors, self._adaptive,
                self.a, self.c,
            )  # fmt: skip

        self._on_threads(advance)

    def _on_threads(self, work: Callable[[int], None]) -> None:
        """One call for each thread, the first of them here."""
        others = [self._pool.submit(work, t) for t in range(1, self._workers)] if self._pool else []
        work(0)
        for other in others:
            other.result()
