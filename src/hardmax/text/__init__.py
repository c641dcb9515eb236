"""Text: a classifier that shows which words it chose, and the vectorizer that it uses (extra ``text``)."""

from __future__ import annotations

from typing import Any

from hardmax._lib.extras import install
from hardmax._lib.lazy import attach_stub

_get, __dir__, __all__ = attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(("sklearn", "joblib")):
            raise
        raise ImportError(f"hm.text needs scikit-learn ({error}): {install('text')}") from error
