"""Paper A, trained embeddings: corpora, models, the first step, and dynamics in any dimension."""

from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.generators import KLevel, assumption_4_corpus
from hardmax.data.corpora.statistics import Assumption4, Assumption4Witness, TokenStatistics, assumption_4
from hardmax.data.text import TextCorpus, TextReport, imdb_corpus, text_corpus, yelp_corpus
from hardmax.embeddings import key_query, one_layer
from hardmax.embeddings.first_step import (
    FirstStep,
    FirstStepErrors,
    InfiniteWidth,
    InitialEvent,
    first_step_errors,
    infinite_width,
    initial_event,
    initial_event_from_gram,
    initial_vectors,
    take_first_step,
)
from hardmax.embeddings.gram import (
    GramDescent,
    GramFlow,
    GramState,
    conserved_spectrum,
    descend_gram,
    flow_gram,
)
from hardmax.embeddings.minibatch import EmbeddingTraining, train_embeddings, train_two_layer
from hardmax.embeddings.near_identity import StructuredState, draw_initial
from hardmax.embeddings.one_layer import EmbeddingDescent, descend_embeddings
from hardmax.embeddings.patterns import (
    TokenSelection,
    important_pattern,
    local_gap,
    pattern_max_margin,
    realizable,
    realizable_patterns,
    score_selection,
    token_selection,
)
from hardmax.embeddings.theorem5 import (
    StrongConditions,
    TheoremFive,
    Thresholds,
    run_theorem_5,
    strong_conditions,
    theorem_5_thresholds,
)
from hardmax.embeddings.two_layer import (
    TwoLayer,
    TwoLayerDescent,
    TwoLayerGradients,
    TwoLayerGram,
    descend_two_layer,
)

__all__ = [
    "Assumption4",
    "Assumption4Witness",
    "Corpus",
    "EmbeddingDescent",
    "EmbeddingTraining",
    "FirstStep",
    "FirstStepErrors",
    "GramDescent",
    "GramFlow",
    "GramState",
    "InfiniteWidth",
    "InitialEvent",
    "KLevel",
    "StrongConditions",
    "StructuredState",
    "TextCorpus",
    "TextReport",
    "TheoremFive",
    "Thresholds",
    "TokenSelection",
    "TokenStatistics",
    "TwoLayer",
    "TwoLayerDescent",
    "TwoLayerGradients",
    "TwoLayerGram",
    "assumption_4",
    "assumption_4_corpus",
    "conserved_spectrum",
    "descend_embeddings",
    "descend_gram",
    "descend_two_layer",
    "draw_initial",
    "first_step_errors",
    "flow_gram",
    "imdb_corpus",
    "important_pattern",
    "infinite_width",
    "initial_event",
    "initial_event_from_gram",
    "initial_vectors",
    "key_query",
    "local_gap",
    "one_layer",
    "pattern_max_margin",
    "realizable",
    "realizable_patterns",
    "run_theorem_5",
    "score_selection",
    "strong_conditions",
    "take_first_step",
    "text_corpus",
    "theorem_5_thresholds",
    "token_selection",
    "train_embeddings",
    "train_two_layer",
    "yelp_corpus",
]
