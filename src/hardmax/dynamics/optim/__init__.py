"""Optimizer rules: how an optimizer turns minus the gradient into a move. Public as `hm.optim`.

A rule sees minus the gradient as ``direction`` times exp(``exponents``), coordinate by coordinate, because at
large norms the gradient itself underflows. It may keep numbers between steps in ``state``. A custom rule is
one class with `update` in plain Python (docs/how-to/add-your-own.md). A built-in rule has a ``kernel``,
the same in a compiled function (dynamics/updates.py), so that no loop has to know it.
"""

from __future__ import annotations

import json

import numpy as np

from hardmax.dynamics.optim.rules import (
    GD,
    SGD,
    WRITTEN,
    Adam,
    AdamW,
    Coordinate,
    Mirror,
    Momentum,
    Muon,
    Normalized,
    Optimizer,
    RMSprop,
    Sign,
    Signum,
    Spectral,
    written,
)

__all__ = [
    "GD",
    "SGD",
    "Adam",
    "AdamW",
    "Coordinate",
    "Mirror",
    "Momentum",
    "Muon",
    "Normalized",
    "Optimizer",
    "RMSprop",
    "Sign",
    "Signum",
    "Spectral",
]

RULES: dict[str, type[Optimizer]] = {name: globals()[name] for name in __all__ if name != "Optimizer"}

NAMES = {written: name for name, written in WRITTEN.items()}


def as_text(step: object) -> str:
    """Return a rule of `hm.optim` as JSON; empty for a custom one, which only its class can make again.

    >>> from hardmax.optim import Sign
    >>> as_text(Sign(0.1, decay=0.5))
    '{"step": "Sign", "rate": 0.1, "decay": 0.5}'
    """
    if not isinstance(step, Optimizer) or RULES.get(type(step).__name__) is not type(step):
        return ""
    rate = step.lr if isinstance(step.lr, str) else np.asarray(step.lr, dtype=np.float64).tolist()
    return json.dumps({"step": type(step).__name__, **written(step), "rate": rate})


def from_text(text: str) -> Optimizer | None:
    """Return the rule that `as_text` wrote; None for an empty text.

    >>> from_text('{"step": "Sign", "rate": 0.1, "decay": 0.5}')
    Sign(lr=0.1, decay=0.5)
    """
    if not text:
        return None
    try:
        fields = json.loads(text)
        kind = RULES[fields.pop("step")]
        return kind(**{NAMES.get(name, name): value for name, value in fields.items()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(
            f"step must be an optimizer of hm.optim with its constants, got {text:.60}"
        ) from None
