"""Paper C: next-token prediction. Sentences, their samples, and what a realizable dataset is."""

from hardmax.data.sentences.reading import read_sentences, write_sentences
from hardmax.data.sentences.samples import Samples
from hardmax.data.sentences.sentences import Sentences
from hardmax.data.sentences.trie import Trie
from hardmax.nexttoken.analysis import Analysis, analyze
from hardmax.nexttoken.checking.witnesses import Violation
from hardmax.nexttoken.flow import train_by_flow
from hardmax.nexttoken.generators import (
    Generated,
    Structure,
    generate,
    generate_by_rejection,
    named_sentences,
    structure,
)
from hardmax.nexttoken.late import Late, late_of
from hardmax.nexttoken.model import Model
from hardmax.nexttoken.model_file import load_model, save_model
from hardmax.nexttoken.observables import Observables
from hardmax.nexttoken.orders import Orders, collocation, complete, components, orders
from hardmax.nexttoken.pairs import Pairs
from hardmax.nexttoken.predict import Prediction, Predictor, Regenerated, regenerate
from hardmax.nexttoken.realizable import RealizablePart, realizable_part
from hardmax.nexttoken.stages import PairGradient, StageTwo, descend_stage_1, stage_1
from hardmax.nexttoken.star import KqStar
from hardmax.nexttoken.training import Training, train
from hardmax.nexttoken.unmerged import (
    Comparison,
    Embedded,
    Unmerged,
    orthonormal_embedding,
    train_jointly,
    train_unmerged,
)
from hardmax.problem.output_value import OutputValue

__all__ = [
    "Analysis",
    "Comparison",
    "Embedded",
    "Generated",
    "KqStar",
    "Late",
    "Model",
    "Observables",
    "Orders",
    "OutputValue",
    "PairGradient",
    "Pairs",
    "Prediction",
    "Predictor",
    "RealizablePart",
    "Regenerated",
    "Samples",
    "Sentences",
    "StageTwo",
    "Structure",
    "Training",
    "Trie",
    "Unmerged",
    "Violation",
    "analyze",
    "collocation",
    "complete",
    "components",
    "descend_stage_1",
    "generate",
    "generate_by_rejection",
    "late_of",
    "load_model",
    "named_sentences",
    "orders",
    "orthonormal_embedding",
    "read_sentences",
    "realizable_part",
    "regenerate",
    "save_model",
    "stage_1",
    "structure",
    "train",
    "train_by_flow",
    "train_jointly",
    "train_unmerged",
    "write_sentences",
]
