"""What compiled kernels share: the decorator, types of arguments, the bounds of exp, a dot product."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, cached_property, partial
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
from numba import float64, int64, intp, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaExperimentalFeatureWarning
from numba.extending import is_jitted

from hardmax._lib import caching

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


def njit(*signature: Any, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile as numba.njit does; ``cache`` keeps it in hardmax's cache.

    Three things that numba does take time and serve nobody here: it compiles for the signatures when a module
    is imported, where most commands use few of its kernels; it adds a wrapper for callers in C (a kernel that
    is passed as a function needs it and sets ``no_cfunc_wrapper=False``); and it compiles a kernel that is
    called with a constant, as 0 is before a loop changes it, once more for that constant.
    """
    caching.listen()
    signatures = [member for item in signature for member in (item if isinstance(item, list) else [item])]

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = numba.njit(**{"no_cfunc_wrapper": True} | options)(function)
        if not is_jitted(compiled):  # NUMBA_DISABLE_JIT
            return compiled
        if cache:
            compiled._cache = caching.KernelCache(cast(FunctionType, function), options)
        compiled.get_call_template = partial(_call_template, compiled, compiled.get_call_template)
        if signatures:
            compiled.declared = signatures
            compiled._compile_for_args = partial(_answer_first_call, compiled)
        return compiled

    return decorate


def uncounted(*signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a kernel that makes no arrays, so that references to those it is given need no counting.

    numba counts them by atomic operations, which in a small step took longer than the arithmetic.
    """
    return njit(*signature, cache=True, nogil=True, _nrt=False, **options)


def inlined(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a small kernel as a part of each kernel that calls it, and by itself only for Python.

    A kernel of its own costs a tenth of a second to compile and as much as it saves to load. Arithmetic
    follows the options of the caller.
    """
    return uncounted(inline="always", **options)


def compile_declared(compiled: Any) -> None:
    """Compile a kernel for the signatures that it was declared with, and for no other from then on."""
    with global_compiler_lock:
        declared = getattr(compiled, "declared", ())
        if declared and compiled._can_compile:
            with warnings.catch_warnings():  # it says that functions as arguments are experimental
                warnings.simplefilter("ignore", NumbaExperimentalFeatureWarning)
                for signature in declared:
                    compiled.compile(signature)
            compiled.disable_compile()


@cache
def entry_point(compiled: Any, signature: Any = None) -> Callable[..., Any]:
    """Return what calls a kernel with arguments that are known to have the types of its signature.

    numba asks every array of every tuple for its type at each call, which takes longer than a hundred steps.
    By default the signature is the only one that the kernel was declared with.
    """
    if not is_jitted(compiled):  # NUMBA_DISABLE_JIT
        return cast(Callable[..., Any], compiled)
    compile_declared(compiled)
    result = compiled.get_compile_result(signature or compiled.declared[0])
    return cast(Callable[..., Any], result.entry_point)


def _call_template(compiled: Any, resolve: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
    """Resolve a call inside a kernel by the types of its arguments, without the values of constants."""
    compile_declared(compiled)
    plain = {name: types.unliteral(value) for name, value in keywords.items()}
    return resolve(tuple(map(types.unliteral, arguments)), plain)


def _answer_first_call(compiled: Any, *_: Any, **__: Any) -> Any:
    """Return what numba is to call in place of a kernel that it has not compiled yet."""
    compile_declared(compiled)
    return compiled


class FirstClass:
    """A function of one fixed signature that other kernels take as an argument and call by its address.

    It is compiled when a kernel first takes it; a function of the user's own may have been before.
    """

    def __init__(self, function: Any, signature: Any) -> None:
        self._plain, self._signature = function, signature
        self._numba_type_ = types.FunctionType(signature)
        self._address: int | None = None

    @cached_property
    def function(self) -> Any:
        """The function as numba compiles it."""
        if is_jitted(self._plain):
            return self._plain
        options = {"error_model": "numpy", "no_cfunc_wrapper": False}
        return uncounted(self._signature, **options)(self._plain)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __wrapper_address__(self) -> int:
        if self._address is None:
            result = self.function.get_compile_result(self._signature)
            self._address = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
        return self._address


@uncounted(float64(VECTOR, VECTOR), fastmath=VECTORIZED)
def dot(a: np.ndarray, b: np.ndarray) -> float:
    """a.b, with the freedom to vectorize."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


# Assigning an array to a part of another makes numba compile the formatted errors of shapes that do not fit,
# several seconds of work, and so do its maximum and its sorting; loops do not.


@inlined()
def set_row(table, k, row):  # type: ignore[no-untyped-def]
    """table[k] = row."""
    for j in range(row.size):
        table[k, j] = row[j]


@inlined()
def fill_rows(table, first, row):  # type: ignore[no-untyped-def]
    """table[first:] = row."""
    for k in range(first, table.shape[0]):
        for j in range(row.size):
            table[k, j] = row[j]


@uncounted(float64(VECTOR))
def maximum(x):  # type: ignore[no-untyped-def]
    """Return the maximum of x, which is not empty; NaN if x holds one."""
    top = x[0]
    for value in x:
        if value > top or value != value:
            top = value
    return top
