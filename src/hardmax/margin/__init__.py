"""Hard-margin problems: constraints in, a certified solution or a proof that there is none out."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {
    "Ball": "certificates.checking",
    "Face": "norms.face",
    "FactoredPoint": "norms.factored",
    "InterpolatedMaxMargin": "label_svm",
    "Norm": "norms",
    "SetMaxMargin": "sets",
    "enclose_by": "norms.solving",
    "factored_point": "norms.factored",
    "norm": "norms",
    "register": "norms",
    "set_max_margin": "sets",
    "solve_by": "norms.solving",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
