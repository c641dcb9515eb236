"""One training step in two passes over E: a read for the gradients of p and v, and the fused update.

The model sees E only through a = E p and c = E v, and the gradient of a row is A_s p + C_s v (A-LEM-7,
A-RED-0). So no gradient of E is stored: the second pass forms it tile by tile, updates the row and its
moments, and takes the next a_s and c_s while the row is still in the cache.

Rows are cut into a fixed number of blocks, and sums over blocks are added in their order: the result does
not depend on the number of threads. The kernels are serial and release the interpreter's lock; plain threads
run them. Numba's own threading layers are not used: OpenMP's waiting threads spin, and it breaks after fork;
workqueue aborts on concurrent calls (both are set for the whole process, which is the caller's choice).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from hardmax.embeddings.corpus import Corpus
from hardmax.embeddings.one_layer import evaluate
from hardmax.embeddings.trainer.kernels import gradients_of_vectors, update_adamw, update_rows, update_sgd
from hardmax.embeddings.trainer.optimisers import SGD, AdamW

BLOCKS = 16


@dataclass(eq=False)
class State:
    """Parameters, their moments, and a = E p, c = E v; ``vectors`` holds p and v as rows.

    Arrays change in place. Moments that the optimiser does not use have no columns.
    """

    E: np.ndarray  # (S, d)
    E_first: np.ndarray  # (S, d)
    E_second: np.ndarray  # (S, d) or (S, 0)
    vectors: np.ndarray  # (2, d)
    first: np.ndarray  # (2, d)
    second: np.ndarray  # (2, d) or (2, 0)
    a: np.ndarray  # (S,)
    c: np.ndarray  # (S,)
    steps: int = 0

    @classmethod
    def start(cls, E: np.ndarray, p: np.ndarray, v: np.ndarray, optimiser: AdamW | SGD, kind: str) -> State:
        """Moments zero, everything in the floating-point type ``kind``."""
        E, vectors = E.astype(kind, order="C"), np.array([p, v], dtype=kind)
        (S, d), used = E.shape, E.shape[1] if optimiser.adaptive else 0
        a, c = vectors.astype(float) @ E.astype(float).T
        moments = np.zeros((S, d), kind), np.zeros((S, used), kind)
        small = np.zeros((2, d), kind), np.zeros((2, used), kind)
        return cls(E, *moments, vectors, *small, a.astype(kind), c.astype(kind))


class Stepper:
    """Takes optimiser steps on a state, with a number of threads that changes nothing but the time."""

    def __init__(self, state: State, optimiser: AdamW | SGD, threads: int) -> None:
        self.state, self.optimiser = state, optimiser
        S, d = state.E.shape
        edges = np.linspace(0, S, BLOCKS + 1).astype(int)
        self._blocks = [(b, int(edges[b]), int(edges[b + 1])) for b in range(BLOCKS)]
        self._parts = np.empty((BLOCKS, 2, d), state.E.dtype)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def __enter__(self) -> Stepper:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def step(self, batch: Corpus, rate: float) -> float:
        """One step on a batch; returns the batch's loss before it."""
        state = self.state
        kind = state.E.dtype
        point = evaluate(batch, state.a, state.c)
        A, C = point.A.astype(kind), point.C.astype(kind)
        state.steps += 1
        k = self.optimiser.scalars(state.steps, rate).astype(kind)

        def gather(b: int, lo: int, hi: int) -> None:
            gradients_of_vectors(state.E, A, C, lo, hi, self._parts[b])

        self._on_blocks(gather)
        old = state.vectors.copy()
        update = update_adamw if self.optimiser.adaptive else update_sgd
        for i, g in enumerate(np.add.reduce(self._parts, axis=0)):
            update(state.vectors[i], g, state.first[i], state.second[i], k)

        moments = state.E_first, state.E_second

        def move(b: int, lo: int, hi: int) -> None:
            update_rows(
                state.E, *moments, A, C, old, state.vectors, k, self.optimiser.adaptive,
                lo, hi, state.a, state.c,
            )  # fmt: skip

        self._on_blocks(move)
        return point.loss

    def _on_blocks(self, work: Callable[[int, int, int], None]) -> None:
        """Each thread takes a contiguous share of the blocks; the calling thread takes one too."""
        if self._pool is None:
            for block in self._blocks:
                work(*block)
            return
        shares = [self._blocks[t * BLOCKS // self._threads : (t + 1) * BLOCKS // self._threads]
                  for t in range(self._threads)]  # fmt: skip

        def run(share: list[tuple[int, int, int]]) -> None:
            for block in share:
                work(*block)

        others = [self._pool.submit(run, share) for share in shares[1:]]
        run(shares[0])
        for other in others:
            other.result()
