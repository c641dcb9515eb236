"""Regularisation paths, and what the late phase of training looks like."""

from hardmax.paths.basins import basin_boundary
from hardmax.paths.cone import LocalPath, local_path
from hardmax.paths.globally import RegularizationPath, regularization_path
from hardmax.paths.joint import JointPath, joint_path
from hardmax.paths.late import LateComparison, LateResidual, late_residual

__all__ = [
    "JointPath",
    "LateComparison",
    "LateResidual",
    "LocalPath",
    "RegularizationPath",
    "basin_boundary",
    "joint_path",
    "late_residual",
    "local_path",
    "regularization_path",
]
