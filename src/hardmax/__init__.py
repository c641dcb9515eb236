"""hardmax: the laboratory for the implicit bias of attention."""

from __future__ import annotations

from typing import Any

import lazy_loader

__version__ = "0.3.0"

_get, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> Any:
    if name == "playground":
        from importlib import import_module

        return import_module("hardmax.app.playground")
    return _get(name)
