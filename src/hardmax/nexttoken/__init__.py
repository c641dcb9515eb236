"""Paper C: next-token prediction. Sentences, their samples, and realizable datasets."""

from hardmax._lib.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
