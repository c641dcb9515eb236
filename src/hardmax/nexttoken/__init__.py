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
    "Violation": "analysis",
    "analyze": "analysis",
    "check": ".app.results.next_token_check",
    "components": "relations",
    "generate": "generators",
    "generate_file": ".app.results.next_token_generate",
    "linear": "soft_labels",
    "named_sentences": "generators",
    "predict_next": ".app.results.next_token_predict",
    "read_sentences": ".data.sentences.reading",
    "regenerate": "predict",
    "train_file": ".app.results.next_token_train",
    "write_sentences": ".data.sentences.reading",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
