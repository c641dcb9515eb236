"""Kernels are compiled on their first use, once, for the signature that they declare."""

import gc

import numba
import numpy as np
import pytest
from numba import float64, int64

from hardmax._lib.compiled import VECTOR, compile_declared, njit

pytestmark = pytest.mark.compiled


def test_a_declared_kernel_is_compiled_when_it_is_first_called():
    @njit(float64(VECTOR))
    def twice(x):
        return 2.0 * x[0]

    assert twice.signatures == []
    with pytest.raises(TypeError, match="No matching definition"):
        twice(np.ones(1, dtype=np.float32))
    assert [twice(np.array([3.0])), twice(x=np.array([4.0]))] == [6.0, 8.0]
    assert len(twice.signatures) == 1
    compile_declared(twice)
    assert len(twice.signatures) == 1


def test_a_kernel_inside_another_is_compiled_once_whatever_constant_it_is_called_with():
    @njit()
    def inner(x, k):
        return x[k]

    @njit(float64(VECTOR))
    def outer(x):
        total, k = 0.0, 0
        while k < x.size:  # for numba k is the constant 0 at first
            total += inner(x, k)
            k += 1
        return total + inner(x, k=1)

    assert outer(np.array([1.0, 2.0, 4.0])) == 9.0
    assert inner.signatures == [(VECTOR, int64)]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was_after_compiling(enabled):
    seen = []

    @njit()
    def root(x):
        return np.sqrt(x)

    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        assert root(4.0) == 2.0
        seen.append(gc.isenabled())
        with pytest.raises(numba.core.errors.TypingError):
            root("four")
        seen.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [enabled, enabled]
