"""hardmax: the laboratory for the implicit bias of attention."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> where it lives. Nothing is imported before it is asked for.
_EXPORTS = {
    "Gradient": "hardmax.dynamics.gradient",
    "LinearHead": "hardmax.heads",
    "Loss": "hardmax.heads",
    "NonlinearHead": "hardmax.heads",
    "Problem": "hardmax.problem",
    "Scores": "hardmax.heads",
    "SignedLog": "hardmax.dynamics.measures",
    "Smoothness": "hardmax.dynamics.measures",
    "attention": "hardmax.dynamics.measures",
    "data": "hardmax.data",
    "defect": "hardmax.dynamics.measures",
    "excess_risk": "hardmax.dynamics.measures",
    "gradient": "hardmax.dynamics.gradient",
    "hessian": "hardmax.dynamics.gradient",
    "risk": "hardmax.dynamics.measures",
    "smoothness": "hardmax.dynamics.measures",
    "soft_sparsity": "hardmax.dynamics.measures",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'hardmax' has no attribute {name!r}")
    module = import_module(_EXPORTS[name])
    value = module if module.__name__ == f"hardmax.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
