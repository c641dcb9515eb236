"""Where data comes from: generators, the figures' data sets, files."""

from hardmax._lib.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
