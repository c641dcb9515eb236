"""What compiled kernels share: the types of their arguments, the bounds of exp, a vectorised dot product."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, intp, njit, types

from hardmax._lib import compiling

compiling.listen()

# Kernels are compiled once, for read-only inputs (which writable arrays may stand in for).
VECTOR = types.Array(float64, 1, "C", readonly=True)
TABLE = types.Array(float64, 2, "C", readonly=True)
INDEX = types.Array(intp, 1, "C", readonly=True)
COUNTS = types.Array(int64, 1, "C", readonly=True)
OUT = float64[::1]
OUT_INDEX = intp[::1]
OUT_TABLE = float64[:, ::1]
SLOPE = types.FunctionType(float64(float64))

# exp(x) is zero in float64 below this.
UNDERFLOW = -745.2

# Sums may be reordered, so that they use vector registers; nothing else is relaxed.
VECTORIZED = {"reassoc", "contract"}


@njit(float64(VECTOR, VECTOR), cache=True, nogil=True, fastmath=VECTORIZED)
def dot(a: np.ndarray, b: np.ndarray) -> float:
    """a.b, with the freedom to vectorise."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total
