"""The figures of the trained-embeddings paper; importing this folder enters them, in order."""

from hardmax.figures.paper_a import (
    lemma2 as lemma2,
)
from hardmax.figures.paper_a import (
    one_layer as one_layer,
)
from hardmax.figures.paper_a import (
    synthetic as synthetic,
)
from hardmax.figures.paper_a import (
    theorem5 as theorem5,
)
from hardmax.figures.paper_a import (
    two_layers as two_layers,
)
