"""Regularisation paths, and what the late phase of training looks like."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {
    "Decomposition": "decomposition",
    "JointPath": "head_path",
    "LateComparison": "late",
    "LateResidual": "late",
    "LocalPath": "cone",
    "RegularizationPath": "global_path",
    "Survivors": "surviving",
    "basin_boundary": "stationary",
    "decompose": "decomposition",
    "joint_path": "head_path",
    "late_residual": "late",
    "local_path": "cone",
    "path_offset": "late",
    "regularization_path": "global_path",
    "survivors": "surviving",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
