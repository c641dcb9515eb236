"""Paper A, trained embeddings: corpora, models, the first step, and dynamics in any dimension.

`Corpus.model` makes what `hm.train` and `hm.flow` take.
"""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in, with a dot in front if that is in another package.
_NAMES = {
    "Assumption4": ".data.corpora.statistics",
    "Corpus": ".data.corpora.corpus",
    "EmbeddingDescent": "one_layer",
    "EmbeddingModel": "models",
    "EmbeddingTraining": "minibatch",
    "FirstStep": "first_step",
    "GramDescent": "gram",
    "GramFlow": "gram",
    "GramState": "gram",
    "KLevel": ".data.corpora.generators",
    "TextCorpus": ".data.text",
    "TextReport": ".data.text",
    "TokenSelection": "patterns",
    "TwoLayerDescent": "two_layer",
    "TwoLayerGram": "two_layer",
    "assumption_4": ".data.corpora.statistics",
    "assumption_4_corpus": ".data.corpora.generators",
    "imdb_corpus": ".data.text",
    "initial_vectors": "first_step",
    "pattern_max_margin": "patterns",
    "take_first_step": "first_step",
    "text_corpus": ".data.text",
    "token_selection": "patterns",
    "yelp_corpus": ".data.text",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
