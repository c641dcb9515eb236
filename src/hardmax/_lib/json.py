"""Values as JSON can hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Reduce arrays to lists and numbers that JSON lacks (infinite, undefined) to None.

    >>> from hardmax._lib.json import plain
    >>> plain({"margin": float("inf"), "selection": (0, 2)})
    {'margin': None, 'selection': [0, 2]}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
