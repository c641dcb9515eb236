"""The one door upwards: models, which data and problems make of themselves, by the place of their class.

`problem.joint()` or `corpus.model()` makes an object of a package that is built on the package of the method.
The method names the model here; its module is imported when somebody asks for one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PLACES = {
    "joint": ("hardmax.dynamics.models", "Joint"),
    "matrix": ("hardmax.dynamics.models", "Matrix"),
    "factors": ("hardmax.dynamics.models", "Factors"),
    "attention": ("hardmax.dynamics.attention", "AttentionModel"),
    "embeddings": ("hardmax.embeddings.models", "EmbeddingModel"),
    "next tokens": ("hardmax.nexttoken.models", "NextTokenModel"),
}


def made(name: str, *arguments: Any) -> Any:
    """Return a model of that name, made with these arguments."""
    module, kind = PLACES[name]
    return getattr(import_module(module), kind)(*arguments)
