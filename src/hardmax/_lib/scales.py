"""The factor before the logits of a softmax, as a user gives it."""

from __future__ import annotations

import math

from hardmax._lib import expect

Scale = float | str | None
BY_WIDTH = "1/sqrt(d)"

LARGEST = 1e30  # float32 holds logits of this size


def read_scale(name: str, value: Scale, d: int | None) -> float:
    """Return the factor before the logits of a softmax: 1 for None, a positive number, or "1/sqrt(d)".

    Where no width is known d is None, and only a number will do.

    >>> from hardmax._lib.scales import read_scale
    >>> read_scale("scale", None, 64), read_scale("scale", "1/sqrt(d)", 64), read_scale("scale", 0.5, 64)
    (1.0, 0.125, 0.5)
    """
    if value is None:
        return 1.0
    if isinstance(value, str):
        if value == BY_WIDTH and d is not None:
            return 1.0 / math.sqrt(d)
        words = "" if d is None else f' or "{BY_WIDTH}"'
        where = " where inner products have no width" if value == BY_WIDTH else ""
        raise ValueError(f"{name} must be a positive number{words}{where}, got {value!r:.40}")
    factor = expect.positive(name, value)
    if factor > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g}, got {factor:g}; scale the embeddings instead")
    return factor
