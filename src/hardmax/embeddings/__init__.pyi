"""The public names of this package: read by type checkers, and by `attach_stub` at run time."""

from ..data.corpora.corpus import Corpus as Corpus
from ..data.corpora.generators import KLevel as KLevel
from ..data.corpora.generators import assumption_4_corpus as assumption_4_corpus
from ..data.corpora.statistics import Assumption4 as Assumption4
from ..data.corpora.statistics import assumption_4 as assumption_4
from ..data.text import TextCorpus as TextCorpus
from ..data.text import TextReport as TextReport
from ..data.text import imdb_corpus as imdb_corpus
from ..data.text import text_corpus as text_corpus
from ..data.text import yelp_corpus as yelp_corpus
from .first_step import FirstStep as FirstStep
from .first_step import initial_vectors as initial_vectors
from .first_step import take_first_step as take_first_step
from .gram import GramDescent as GramDescent
from .gram import GramFlow as GramFlow
from .gram import GramState as GramState
from .minibatch import EmbeddingTraining as EmbeddingTraining
from .models import EmbeddingModel as EmbeddingModel
from .one_layer import EmbeddingDescent as EmbeddingDescent
from .patterns import TokenSelection as TokenSelection
from .patterns import pattern_max_margin as pattern_max_margin
from .patterns import token_selection as token_selection
from .two_layer import TwoLayerDescent as TwoLayerDescent
from .two_layer import TwoLayerGram as TwoLayerGram
