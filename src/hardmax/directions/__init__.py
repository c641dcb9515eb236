"""Which directions attract: neighbors, local optimality, enumeration, directions critical at infinity."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {
    "AssumptionB": "assumptions",
    "AssumptionC": "assumptions",
    "AssumptionD": "assumptions",
    "CriticalDirection": "critical",
    "CriticalDirections": "critical",
    "Direction": "direction",
    "Enumeration": "enumerate",
    "FeasibleSelection": "enumerate",
    "GeneralPosition": "position",
    "LocalConstants": "direction",
    "Neighbors": "neighbors",
    "PlaneDisplay": "display",
    "assumption_b": "assumptions",
    "assumption_c": "assumptions",
    "assumption_d": "assumptions",
    "directional_margin": "direction",
    "general_position": "position",
    "in_cone": "direction",
    "interpolated_max_margin": "joint_margins",
    "label_max_margin": "joint_margins",
    "local_constants": "direction",
    "local_optimality": "neighbors",
    "relaxed_max_margin": "joint_margins",
    "score_gap": "neighbors",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
