"""Max-margin problems in norms other than l2: the norm itself, and a solver for each kind of ball."""

from hardmax.margin.norms.definition import Norm, norm

__all__ = ["Norm", "norm"]
