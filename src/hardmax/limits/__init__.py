"""Regularisation paths, and what the late phase of training looks like."""

from hardmax.limits.basins import basin_boundary
from hardmax.limits.cone import LocalPath, local_path
from hardmax.limits.global_path import RegularizationPath, regularization_path
from hardmax.limits.joint_path import JointPath, joint_path
from hardmax.limits.late import LateComparison, LateResidual, late_residual

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
