"""Many trials: a function of (parameters, seed) over a grid, on a laptop or a cluster."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {"PhaseDisplay": "display", "run_one": "results", "sweep_file": ".app.results.sweep"}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
