"""What a user passes to the classifier: texts, lists of words or counts; labels; weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d


def holds_texts(X: Any) -> bool:
    """Whether X is a list of texts, or of lists of words; counts otherwise."""
    if isinstance(X, str):
        raise ValueError("X must be a list of texts or a matrix of counts, got one text; put it into a list")
    if issparse(X) or not isinstance(X, Iterable):
        return False
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return len(X.columns) == 1 and any(isinstance(each, str) for each in X.iloc[:, 0])
    if getattr(X, "ndim", 1) != 1 or getattr(getattr(X, "dtype", None), "kind", "O") not in "OUT":
        return False
    return any(isinstance(each, str) or _holds_words(each) for each in X)


def _holds_words(each: Any) -> bool:
    return isinstance(each, list | tuple | np.ndarray) and any(isinstance(word, str) for word in each)


class ClassLabels(NamedTuple):
    """The classes, in order, and the number of each text's class."""

    classes: np.ndarray
    codes: np.ndarray


def read_labels(y: Any, n: int) -> ClassLabels:
    """Labels of two or more classes."""
    y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise ValueError(f"y must have {n} labels, one per text, got {len(y)}")
    if y.dtype == object:
        kinds = sorted({type(each).__name__ for each in y})
        missing = next((k for k, each in enumerate(y) if each is None or each != each), None)
        if missing is not None:
            raise ValueError(
                f"y must have a label for each text, got {y[missing]!r} at {missing}; drop that text"
            )
        if len(kinds) > 1:
            raise ValueError(
                f"y must hold labels of one type, got {' and '.join(kinds)}; make them all texts"
            )
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, got one class, {classes[0]!r}; add texts of another"
        )
    return ClassLabels(classes, codes.astype(np.int64))


def read_weights(X: Any, n: int, sample_weight: Any, class_weight: Any, labels: ClassLabels) -> np.ndarray:
    """The weight of each text: its own times that of its class, in units of their mean."""
    placeholder = np.empty((n, 1))
    weights = np.array(_check_sample_weight(sample_weight, placeholder, dtype=np.float64))
    if (weights < 0).any():
        where = int(np.argmin(weights))
        raise ValueError(f"sample_weight must be at least 0, got {weights[where]:g} at {where}")
    present = np.bincount(labels.codes, weights=weights, minlength=len(labels.classes)) > 0
    if present.sum() < 2:
        raise ValueError(
            "sample_weight must leave at least two classes, got weights above 0 for one class only"
        )
    if class_weight is not None:
        named = labels.classes[labels.codes]
        weights *= compute_class_weight(class_weight, classes=labels.classes, y=named)[labels.codes]
    return weights / weights.mean()
