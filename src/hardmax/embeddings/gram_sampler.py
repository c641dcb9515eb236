"""Inner products of Gaussian vectors of any dimension, drawn without the vectors (A-RED-3).

E0_s and p0 have independent N(0, 1/d) entries and v is a unit vector. Rotate v to a coordinate of its own:
along it the S + 1 vectors have independent N(0, 1/d) components, and what is left of them has, by Bartlett's
decomposition, the Gram matrix of a lower-triangular L with N(0, 1/d) below the diagonal and independent
chi_(d-1-i) / sqrt(d) on it. The distribution is exact, and d may be an integer that no float holds.
"""

from __future__ import annotations

import math

import numpy as np

from hardmax import _inputs
from hardmax.embeddings.structured import StructuredState

# From here on chi is drawn as its deviation from the mean, by the cube-root normal approximation, whose error
# in the distribution is far below what a sample of any size could tell; below, the difference of a drawn chi
# from 1 keeps eleven digits.
MANY_DEGREES = 10**8


def draw_initial(S: int, d: int, *, rng: int | np.random.Generator) -> StructuredState:
    """E0, p0 and v of A-DEF-4 at width d, any positive Python integer, in S + 2 coordinates.

    >>> from hardmax.embeddings.gram_sampler import draw_initial
    >>> state = draw_initial(5, 10**60, rng=0)
    >>> bool(abs(state.c).max() < 1e-29), state.E.shape
    (True, (5, 7))
    >>> draw_initial(5, 3, rng=0).gram.matrix.shape
    (7, 7)
    """
    S, d, rng = _inputs.whole("S", S, 1), _inputs.whole("d", d, 1), _inputs.generator(rng)
    size = math.exp(-0.5 * math.log(d))
    along = rng.normal(size=S + 1) * size
    noise = np.tril(rng.normal(size=(S + 1, S + 1)), -1) * size
    # In fewer than S + 2 dimensions the columns without degrees of freedom are empty.
    noise[:, d - 1 :] = 0.0
    noise[np.diag_indices(S + 1)] = [chi_deviation(d - 1 - i, d, rng) for i in range(S + 1)]
    return StructuredState(noise, along[:-1], float(along[-1]))


def chi_deviation(degrees: int, d: int, rng: np.random.Generator) -> float:
    """A draw of chi_degrees / sqrt(d) - 1; -1 where no degree of freedom is left.

    >>> import numpy as np
    >>> from hardmax.embeddings.gram_sampler import chi_deviation
    >>> abs(chi_deviation(10**80 - 3, 10**80, np.random.default_rng(0))) < 1e-39
    True
    """
    if degrees <= 0:
        return -1.0
    if degrees < MANY_DEGREES:
        return math.sqrt(rng.chisquare(degrees) / d) - 1.0
    spread = math.exp(0.5 * (math.log(2) - math.log(9) - math.log(degrees)))
    cube_root = math.log1p(rng.normal() * spread - spread * spread)
    return math.expm1(1.5 * cube_root + 0.5 * math.log1p((degrees - d) / d))
