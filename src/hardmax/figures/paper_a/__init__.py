"""The figures of the trained-embeddings paper; importing this folder enters them, in order."""

from hardmax.figures.paper_a import (  # noqa: I001  in the order of the paper
    lemma2 as lemma2,  # L2, ours
    theorem5 as theorem5,  # T5, ours
)
