"""Arrays: lengths at any scale, equal rows of a table of tokens, rows with given inner products."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.kernels import kernel


def _signature() -> Any:
    from numba import float64, intp, types

    table, index = types.Array(float64, 2, "C", readonly=True), types.Array(intp, 1, "C", readonly=True)
    return intp[::1](table, index, index, table)


def _pairs(keys: Any, tokens: Any, offsets: np.ndarray, marks: Any) -> float:
    return float(np.sum(np.square(np.diff(offsets).astype(np.float64))))


@kernel(cost=_pairs, signature=_signature)
def find_leaders(keys: np.ndarray, tokens: np.ndarray, offsets: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Return for every slot the first slot of its input with the same key and row of marks (may be empty)."""
    leader = np.empty(tokens.size, np.intp)
    for slot in range(tokens.size):
        leader[slot] = slot
    for i in range(offsets.size - 1):
        for slot in range(offsets[i], offsets[i + 1]):
            for other in range(offsets[i], slot):
                if leader[other] != other:
                    continue
                same = True
                for j in range(marks.shape[1]):
                    if marks[slot, j] != marks[other, j]:
                        same = False
                        break
                if same and tokens[slot] != tokens[other]:
                    for j in range(keys.shape[1]):
                        if keys[tokens[slot], j] != keys[tokens[other], j]:
                            same = False
                            break
                if same:
                    leader[slot] = other
                    break
    return leader


def isometric_keys(gram: np.ndarray) -> np.ndarray:
    """Return rows with the given inner products, from eigenvectors (stable for a singular Gram matrix)."""
    values, vectors = np.linalg.eigh(gram)
    floor = len(gram) * np.finfo(float).eps * max(values[-1], 0.0)
    if values[0] < -10 * floor:
        raise ValueError(f"gram must be positive semidefinite, got an eigenvalue {values[0]:.3g}")
    positive = values > floor
    return np.ascontiguousarray(vectors[:, positive] * np.sqrt(values[positive]))


def exponent(x: np.ndarray) -> int:
    """Return k with 2^(k-1) <= max|x| < 2^k, and 0 for zeros; a power of two changes no digit."""
    return int(np.frexp(np.abs(x).max(initial=0.0))[1])


def lengths(rows: np.ndarray) -> np.ndarray:
    """Return Euclidean lengths along the last axis, also where squares leave the range of float64."""
    shift = np.frexp(np.abs(rows).max(axis=-1, initial=0.0))[1]
    return np.ldexp(np.linalg.norm(np.ldexp(rows, -shift[..., None]), axis=-1), shift)


def length(vector: np.ndarray) -> float:
    """Return the Euclidean norm of all entries without overflow or underflow of the squares."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = vector / largest
    return largest * float(np.sqrt(np.sum(scaled * scaled)))


def polar(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths along the last axis and unit vectors, without overflow; zero vectors stay zero."""
    largest = np.abs(vectors).max(axis=-1, initial=0.0, keepdims=True)
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    lengths = np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    units = np.divide(scaled, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return (largest * lengths)[..., 0], units


def as_matrix(p: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return p, read row by row, as the matrix W of this shape; a ValueError if what is trained is a vector.

    >>> import numpy as np
    >>> from hardmax._lib.arrays import as_matrix
    >>> as_matrix(np.arange(4.0), (2, 2)).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    if len(shape) != 2:
        raise ValueError(
            f"W must be that of a problem with queries (Problem.from_queries), got a vector p of {p.size} "
            "numbers; use p"
        )
    return p.reshape(shape)


def half_square(a: np.ndarray, b: np.ndarray) -> float:
    """Return 1 - cos of two unit vectors in full precision: half the square of their distance."""
    off = np.ravel(a - b)
    return 0.5 * float(off @ off)


def half_squares(rows: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return 1 - cos of each row, a unit vector, and one unit vector, as `half_square` does."""
    return 0.5 * np.square(rows - unit).sum(axis=1)


@check_arguments
def cosine_distance(p: Any, other: Any) -> float:
    """Return 1 - cos of the angle between two directions, accurate below 1e-16.

    >>> import hardmax as hm
    >>> f"{hm.cosine_distance([1.0, 0.0], [1.0, 1e-10]):.6g}"
    '5e-21'
    """
    a, b = _unit("p", p), _unit("other", other)
    if a.shape != b.shape:
        raise ValueError(f"other must have {a.size} numbers as p, got {b.size}")
    return half_square(a, b)


def _unit(name: str, x: Any) -> np.ndarray:
    x = expect.detached(x)
    vector = x if isinstance(x, (np.ndarray, list, tuple)) else getattr(x, "direction", x)
    if vector is None:
        raise ValueError(f"{name} has no direction: it is zero, infeasible or undecided")
    with suppress(TypeError, ValueError):  # lists of several lengths are refused below, by name
        vector = np.ravel(vector)
    array = expect.finite_array(name, vector, (None,))
    largest = np.abs(array).max(initial=0.0)
    if largest == 0.0:
        raise ValueError(f"{name} is zero and has no direction")
    array = array / largest
    return array / np.linalg.norm(array)
