"""Values as JSON can hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any


def plain(value: Any) -> Any:
    """Reduce arrays to lists, numbers of any kind to JSON's, and anything that JSON lacks to its text.

    Infinite and undefined numbers, and those beyond the range of a double, become None.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, AbstractSet):
        return sorted(map(plain, value), key=_order)
    if hasattr(value, "__float__"):
        try:
            near = float(value)
        except (OverflowError, ValueError):  # a fraction or an int beyond doubles; a signaling NaN
            return None
        if not math.isfinite(near):
            return None
        return int(value) if hasattr(value, "__index__") else near
    return str(value)


def attributes(thing: Any, *names: str) -> dict[str, Any]:
    """Return attributes of an object by name, as JSON objects have them under the same names."""
    return {name: getattr(thing, name) for name in names}


def _order(item: Any) -> tuple[float, str]:
    """Order numbers by size, then everything else by its text."""
    return (item, "") if isinstance(item, int | float) else (math.inf, repr(item))
