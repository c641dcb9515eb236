"""hardmax: the laboratory for the implicit bias of attention."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> where it lives. Nothing is imported before it is asked for.
_EXPORTS = {
    "AssumptionB": "hardmax.directions.assumptions",
    "AssumptionC": "hardmax.directions.assumptions",
    "AssumptionD": "hardmax.directions.assumptions",
    "Check": "hardmax.theory.check",
    "Claim": "hardmax.figures.claims",
    "Constraints": "hardmax.margin.constraints",
    "Corpus": "hardmax.data.corpora.corpus",
    "Direction": "hardmax.directions.direction",
    "Enumeration": "hardmax.directions.enumerate",
    "FeasibleSelection": "hardmax.directions.enumerate",
    "Figure": "hardmax.figures.figure",
    "GeneralPosition": "hardmax.directions.position",
    "Gradient": "hardmax.train.gradient",
    "InterpolatedMaxMargin": "hardmax.directions.joint_margins",
    "JointPath": "hardmax.limits.joint_path",
    "LateComparison": "hardmax.limits.late",
    "LateResidual": "hardmax.limits.late",
    "LinearHead": "hardmax.problem.heads",
    "LocalConstants": "hardmax.directions.constants",
    "LocalPath": "hardmax.limits.cone",
    "Loss": "hardmax.problem.losses",
    "MaxMargin": "hardmax.margin.solution",
    "Neighbours": "hardmax.directions.neighbours",
    "NonlinearHead": "hardmax.problem.heads",
    "PhaseDisplay": "hardmax.trials.display",
    "PlaneDisplay": "hardmax.directions.display",
    "Problem": "hardmax.problem",
    "RegularizationPath": "hardmax.limits.global_path",
    "Reproduction": "hardmax.figures.reproduce",
    "Run": "hardmax.train.run",
    "Scores": "hardmax.problem.heads",
    "Selection": "hardmax.problem.selection",
    "SetMaxMargin": "hardmax.margin.sets",
    "SignedLog": "hardmax.train.measures",
    "Smoothness": "hardmax.train.measures",
    "Sweep": "hardmax.trials.results",
    "assumption_b": "hardmax.directions.assumptions",
    "assumption_c": "hardmax.directions.assumptions",
    "assumption_d": "hardmax.directions.assumptions",
    "attention": "hardmax.train.measures",
    "basin_boundary": "hardmax.limits.basins",
    "certify": "hardmax.margin.certify",
    "check": "hardmax.theory.check",
    "checks": "hardmax.theory.check",
    "critical_directions": "hardmax.directions.critical",
    "data": "hardmax.data",
    "defect": "hardmax.train.measures",
    "descend": "hardmax.train.descent",
    "descend_batch": "hardmax.train.descent",
    "descend_joint": "hardmax.train.joint",
    "descend_weights": "hardmax.train.weights",
    "directional_margin": "hardmax.directions.direction",
    "embeddings": "hardmax.embeddings",
    "excess_risk": "hardmax.train.measures",
    "feasible_selections": "hardmax.directions.enumerate",
    "figure": "hardmax.figures.figure",
    "flow": "hardmax.train.flow",
    "general_position": "hardmax.directions.position",
    "global_max_margins": "hardmax.margin.att_svm",
    "gradient": "hardmax.train.gradient",
    "hessian": "hardmax.train.gradient",
    "in_cone": "hardmax.directions.direction",
    "interpolated_max_margin": "hardmax.directions.joint_margins",
    "is_globally_optimal": "hardmax.problem.selection",
    "is_locally_optimal": "hardmax.directions.neighbours",
    "joint_path": "hardmax.limits.joint_path",
    "label_max_margin": "hardmax.directions.joint_margins",
    "late_residual": "hardmax.limits.late",
    "local_constants": "hardmax.directions.constants",
    "local_path": "hardmax.limits.cone",
    "locally_optimal": "hardmax.directions.enumerate",
    "max_margin": "hardmax.margin.att_svm",
    "max_margin_batch": "hardmax.margin.att_svm",
    "misalignment": "hardmax._lib.arrays",
    "neighbours": "hardmax.directions.neighbours",
    "nexttoken": "hardmax.nexttoken",
    "optimal_tokens": "hardmax.problem.selection",
    "path_offset": "hardmax.limits.offset",
    "regularization_path": "hardmax.limits.global_path",
    "relaxed_max_margin": "hardmax.directions.joint_margins",
    "reproduce": "hardmax.figures.reproduce",
    "risk": "hardmax.train.measures",
    "run_one": "hardmax.trials.results",
    "score_gap": "hardmax.directions.neighbours",
    "selected_tokens": "hardmax.problem.selection",
    "set_max_margin": "hardmax.margin.sets",
    "smoothness": "hardmax.train.measures",
    "soft_sparsity": "hardmax.train.measures",
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
