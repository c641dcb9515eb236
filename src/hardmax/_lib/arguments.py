"""One check at the entry of public functions: arguments are held against the annotations.

The annotations are read at the first call, so that importing stays light. What only the function can judge
(shapes, ranges, combinations) it checks itself with `expect`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from hardmax._lib.refusals import AnyInteger, WrongType

__all__ = ["AnyInteger", "WrongType", "check_arguments"]

P = ParamSpec("P")
R = TypeVar("R")


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a public function against its annotations before it starts.

    A wrong type raises `WrongType`, which is a TypeError and a ValueError; not-a-number, and integers beyond
    64 bits, raise a ValueError. The message has the name of the argument. A number of another library, as
    Fraction or Decimal, is passed on as a float where the annotation is float.

    >>> from hardmax._lib.arguments import check_arguments
    >>> @check_arguments
    ... def double(rate: float, steps: int = 1) -> float:
    ...     return 2 * rate * steps
    >>> double(1.5)
    3.0
    >>> double(1.5, steps="x")
    Traceback (most recent call last):
    hardmax._lib.refusals.WrongType: steps must be an integer, got 'x'
    """
    names: tuple[str, ...] = ()
    readers: dict[str, Callable[[Any], Any]] | None = None

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal names, readers
        if readers is None:
            from hardmax._lib.annotations import readers_of

            names, readers = readers_of(function)
        values = list(args)
        for i, (name, value) in enumerate(zip(names, args, strict=False)):
            if name in readers:
                values[i] = readers[name](value)
        for name, value in kwargs.items():
            if name in readers:
                kwargs[name] = readers[name](value)
        return function(*values, **kwargs)  # type: ignore[arg-type]

    return entry
