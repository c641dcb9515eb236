"""Text: a classifier that shows which words it chose, and the vectorizer that it uses (extra ``text``)."""

from __future__ import annotations

from typing import Any

from hardmax._lib.extras import install
from hardmax._lib.lazy import lazy

_NAMES = {
    "AttentionClassifier": "classifier",
    "Explanation": "explanations",
    "NgramVectorizer": "counting.vectorizer",
    "TextStatistics": "statistics",
    "TokenRanking": "explanations",
    "TopKReport": "explanations",
    "WordMap": "explanations",
    "explain": ".app.results.text",
    "important": ".app.results.text",
    "train_classifier": ".app.results.text",
}

_get, __dir__, __all__ = lazy(__name__, _NAMES)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(("sklearn", "joblib")):
            raise
        raise ImportError(f"hm.text needs scikit-learn ({error}): {install('text')}") from error
