"""Paper C: next-token prediction. Sentences, their samples, and what a realizable dataset is."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in, with a dot in front if that is in another package.
_NAMES = {
    "Analysis": "analysis",
    "Generated": "generators",
    "NextTokenModel": "models",
    "Orders": "relations",
    "Prediction": "predict",
    "Predictor": "predict",
    "Samples": ".data.sentences.samples",
    "Sentences": ".data.sentences.sentences",
    "Training": "training",
    "Violation": "checking.witnesses",
    "analyze": "analysis",
    "generate": "generators",
    "named_sentences": "generators",
    "read_sentences": ".data.sentences.reading",
    "write_sentences": ".data.sentences.reading",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
