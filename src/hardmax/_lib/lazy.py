"""Packages whose public names are imported when they are asked for, so that importing one is cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(
    package: str, names: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from names and the files that hold them."""
    whole = dict(modules or {})

    def get(name: str) -> Any:
        if name in whole:
            value: Any = import_module(f"{package}.{whole[name]}")
        elif name in names:
            value = getattr(import_module(f".{names[name]}", package), name)
        elif find_spec(f"{package}.{name}") is not None:
            value = import_module(f"{package}.{name}")  # a module whose names are not public
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    public = sorted([*names, *whole])
    return get, lambda: public, public
