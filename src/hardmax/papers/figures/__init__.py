"""The papers' figures: what is computed, what is claimed about it, and how it is drawn."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {"Claim": "claims", "Figure": "figure"}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
