"""Many trials: a function of (parameters, seed) over a grid, on a laptop or a cluster."""

from hardmax._lib.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
