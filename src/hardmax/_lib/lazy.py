"""Packages whose public names are imported when they are asked for, so that importing one is cheap."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def attach_stub(
    package: str, filename: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package from the imports in its stub.

    In contrast to `lazy_loader.attach_stub`, names may come from other packages, and modules of the package
    whose names are not public are attributes too.
    """
    stub = ast.parse(Path(filename).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    modules = {alias.name: "." * node.level + (node.module or "") for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name in modules:
            value = getattr(import_module(modules[name], package), name)
        elif find_spec(f"{package}.{name}") is not None:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    public = sorted(modules)
    return get, lambda: public, public
