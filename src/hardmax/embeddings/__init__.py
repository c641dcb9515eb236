"""Paper A, trained embeddings: corpora, models, the first step, and dynamics in any dimension.

`Corpus.model` makes what `hm.train` and `hm.flow` take.
"""

from hardmax._lib.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
