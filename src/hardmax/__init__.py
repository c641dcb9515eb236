"""hardmax: the laboratory for the implicit bias of attention."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> where it lives. Nothing is imported before it is asked for.
_EXPORTS = {
    "AssumptionB": "hardmax.margin.assumptions",
    "AssumptionC": "hardmax.margin.assumptions",
    "AssumptionD": "hardmax.margin.assumptions",
    "Check": "hardmax.theory.check",
    "Claim": "hardmax.figures.claims",
    "Constraints": "hardmax.margin.constraints",
    "Corpus": "hardmax.embeddings.corpus",
    "Direction": "hardmax.selection.direction",
    "Enumeration": "hardmax.margin.enumerate",
    "FeasibleSelection": "hardmax.margin.enumerate",
    "Figure": "hardmax.figures.figure",
    "GeneralPosition": "hardmax.selection.position",
    "Gradient": "hardmax.dynamics.gradient",
    "InterpolatedMaxMargin": "hardmax.margin.joint",
    "JointPath": "hardmax.paths.joint",
    "LateComparison": "hardmax.paths.late",
    "LateResidual": "hardmax.paths.late",
    "LinearHead": "hardmax.heads",
    "LocalConstants": "hardmax.margin.constants",
    "LocalPath": "hardmax.paths.cone",
    "Loss": "hardmax.heads",
    "MaxMargin": "hardmax.margin.maxmargin",
    "Neighbours": "hardmax.margin.neighbours",
    "NonlinearHead": "hardmax.heads",
    "PhaseDisplay": "hardmax.trials.display",
    "PlaneDisplay": "hardmax.margin.display",
    "Problem": "hardmax.problem",
    "RegularizationPath": "hardmax.paths.globally",
    "Reproduction": "hardmax.figures.reproduce",
    "Scores": "hardmax.heads",
    "Selection": "hardmax.selection",
    "SetMaxMargin": "hardmax.margin.several",
    "SignedLog": "hardmax.dynamics.measures",
    "Smoothness": "hardmax.dynamics.measures",
    "Sweep": "hardmax.trials.results",
    "Trajectory": "hardmax.dynamics.trajectory",
    "TrajectoryDisplay": "hardmax.dynamics.display",
    "WeightTrajectory": "hardmax.dynamics.weights",
    "assumption_b": "hardmax.margin.assumptions",
    "assumption_c": "hardmax.margin.assumptions",
    "assumption_d": "hardmax.margin.assumptions",
    "attention": "hardmax.dynamics.measures",
    "basin_boundary": "hardmax.paths.basins",
    "certify": "hardmax.margin.certify",
    "check": "hardmax.theory.check",
    "checks": "hardmax.theory.check",
    "critical_directions": "hardmax.margin.critical",
    "data": "hardmax.data",
    "defect": "hardmax.dynamics.measures",
    "descend": "hardmax.dynamics.descent",
    "descend_batch": "hardmax.dynamics.descent",
    "descend_joint": "hardmax.dynamics.joint",
    "descend_weights": "hardmax.dynamics.weights",
    "directional_margin": "hardmax.selection.direction",
    "embeddings": "hardmax.embeddings",
    "excess_risk": "hardmax.dynamics.measures",
    "feasible_selections": "hardmax.margin.enumerate",
    "figure": "hardmax.figures.figure",
    "flow": "hardmax.dynamics.flow",
    "general_position": "hardmax.selection.position",
    "global_max_margins": "hardmax.margin.attention",
    "gradient": "hardmax.dynamics.gradient",
    "hessian": "hardmax.dynamics.gradient",
    "in_cone": "hardmax.selection.direction",
    "interpolated_max_margin": "hardmax.margin.joint",
    "is_globally_optimal": "hardmax.selection.optimal",
    "is_locally_optimal": "hardmax.margin.neighbours",
    "joint_path": "hardmax.paths.joint",
    "label_max_margin": "hardmax.margin.joint",
    "late_residual": "hardmax.paths.late",
    "local_constants": "hardmax.margin.constants",
    "local_path": "hardmax.paths.cone",
    "locally_optimal": "hardmax.margin.enumerate",
    "max_margin": "hardmax.margin.attention",
    "max_margin_batch": "hardmax.margin.attention",
    "misalignment": "hardmax.dynamics.trajectory",
    "neighbours": "hardmax.margin.neighbours",
    "nexttoken": "hardmax.nexttoken",
    "optimal_tokens": "hardmax.selection.optimal",
    "path_offset": "hardmax.margin.residual",
    "regularization_path": "hardmax.paths.globally",
    "relaxed_max_margin": "hardmax.margin.joint",
    "reproduce": "hardmax.figures.reproduce",
    "risk": "hardmax.dynamics.measures",
    "run_one": "hardmax.trials.results",
    "score_gap": "hardmax.margin.neighbours",
    "selected_tokens": "hardmax.selection",
    "set_max_margin": "hardmax.margin.several",
    "smoothness": "hardmax.dynamics.measures",
    "soft_sparsity": "hardmax.dynamics.measures",
    "sweep": "hardmax.trials.sweep",
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
