"""The papers: a folder for each with its statements and figures, and what checks, draws and hunts them."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in.
_NAMES = {
    "Check": "checking.check",
    "Claim": "figures.claims",
    "Figure": "figures.figure",
    "Hypothesis": "checking.check",
    "Outcome": "checking.check",
    "Paper": "registry",
    "Statement": "checking.check",
    "statement": "checking.check",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
