"""The figures of the trained-embeddings paper; importing this folder enters them, in order."""

from hardmax.figures.paper_a import (  # noqa: I001  in the order of the paper
    two_layers as two_layers,  # 1
    synthetic as synthetic,  # 2
    one_layer as one_layer,  # 3
    two_layers_yelp as two_layers_yelp,  # 4
    lemma2 as lemma2,  # L2, ours
    theorem5 as theorem5,  # T5, ours
)
