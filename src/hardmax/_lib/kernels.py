"""Kernels that are compiled when there is enough for them to do.

Importing numba takes half a second and compiling a kernel several, once per user, so a process that
asks for little is answered by the same source as plain Python; a command also next to numba, as long as the
cache does not have the kernel. Nobody can tell by the result: a kernel that may run either way computes in
one order only, and both give the same bits.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import numpy as np

from hardmax._lib.compiling import Compiled

LITTLE = 200_000  # elementary steps that a process takes without the compiler, some tenths of a second


def kernel(
    cost: Callable[..., float] | None = None, signature: Callable[[], Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a serial function that releases the GIL, with numba's options, when it is called.

    ``cost`` estimates the elementary steps of a call from its arguments, infinite if plain Python would not
    give the same bits; without it the function runs compiled only. ``signature`` makes the one signature of
    a function that is called in different ways.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(cast(FunctionType, function), cost, signature, options)

    return decorate


class Kernel:
    """A function that is compiled when it is called, or runs plain while all that is asked is little."""

    _lock = threading.RLock()
    _taken = 0.0  # steps of plain kernels so far, in this process

    def __init__(
        self,
        function: FunctionType,
        cost: Callable[..., float] | None,
        signature: Callable[[], Any] | None,
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._cost, self._signature, self._options = cost, signature, options
        self._missing: bool | None = None
        self._plain: Callable[..., Any] | None = None
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            return self._compiled(*arguments)
        if self._is_little(arguments):
            with np.errstate(all="ignore"):  # compiled arithmetic does not warn
                return _boxed(self.plain(*arguments))
        return self.compiled(*arguments)

    def _is_little(self, arguments: tuple[Any, ...]) -> bool:
        if self._cost is None or ("numba" in sys.modules and not (Compiled.hurries and self._is_missing())):
            return False
        Kernel._taken += self._cost(*arguments)
        return Kernel._taken <= LITTLE

    def _is_missing(self) -> bool:
        """Whether the cache has no compilation of this function."""
        if self._missing is None:
            from hardmax._lib.caching import has_kernel

            self._missing = not has_kernel(self._function)
        return self._missing

    @property
    def has_signature(self) -> bool:
        """Whether the function can be compiled before it is called."""
        return self._signature is not None

    @property
    def plain(self) -> Callable[..., Any]:
        """The function and all kernels that it calls, as Python runs them."""
        if self._plain is None:
            self._plain = self._with(lambda inner: inner.plain)
        return self._plain

    @property
    def compiled(self) -> Callable[..., Any]:
        """The function as numba compiles it, or finds it in its cache."""
        with self._lock:
            if self._compiled is None:
                from hardmax._lib.compiled import njit

                signature = () if self._signature is None else (self._signature(),)
                function = self._with(lambda inner: inner.compiled)
                self._compiled = njit(*signature, cache=True, nogil=True, **self._options)(function)
        return self._compiled

    def _with(self, form: Callable[[Kernel], Callable[..., Any]]) -> FunctionType:
        """A copy of the function that finds the kernels it calls in a given form."""
        function = self._function
        names = function.__globals__
        called = {name: names.get(name) for name in function.__code__.co_names}
        inner = {name: form(value) for name, value in called.items() if isinstance(value, Kernel)}
        return FunctionType(function.__code__, names | inner, function.__name__, function.__defaults__)


def _boxed(result: Any) -> Any:
    """Return numbers of numpy as those of Python, as a compiled function does."""
    if isinstance(result, tuple):
        return tuple(map(_boxed, result))
    return result.item() if isinstance(result, np.generic) else result
