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
    "Selection": "hardmax.selection",
    "SignedLog": "hardmax.dynamics.measures",
    "Smoothness": "hardmax.dynamics.measures",
    "Trajectory": "hardmax.dynamics.trajectory",
    "TrajectoryDisplay": "hardmax.dynamics.display",
    "WeightTrajectory": "hardmax.dynamics.weights",
    "attention": "hardmax.dynamics.measures",
    "data": "hardmax.data",
    "defect": "hardmax.dynamics.measures",
    "descend": "hardmax.dynamics.descent",
    "descend_batch": "hardmax.dynamics.descent",
    "descend_joint": "hardmax.dynamics.joint",
    "descend_weights": "hardmax.dynamics.weights",
    "excess_risk": "hardmax.dynamics.measures",
    "flow": "hardmax.dynamics.flow",
    "gradient": "hardmax.dynamics.gradient",
    "hessian": "hardmax.dynamics.gradient",
    "misalignment": "hardmax.dynamics.trajectory",
    "risk": "hardmax.dynamics.measures",
    "selected_tokens": "hardmax.selection",
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
