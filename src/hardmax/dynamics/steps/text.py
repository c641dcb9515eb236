"""Rules written down: what a file keeps of a rule, and the rule that it makes again."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from hardmax.dynamics import steps
from hardmax.dynamics.steps.base import Step

RULES: dict[str, type[Step]] = {name: getattr(steps, name) for name in steps.__all__ if name != "Step"}


def as_text(step: object) -> str:
    """A rule of `hm.steps` in JSON; empty for one of a user's own, which only its class can make again.

    >>> from hardmax.steps import Sign
    >>> as_text(Sign(0.1, decay=0.5))
    '{"step": "Sign", "rate": 0.1, "decay": 0.5}'
    """
    if not isinstance(step, Step) or RULES.get(type(step).__name__) is not type(step):
        return ""
    rate = step.rate if isinstance(step.rate, str) else np.asarray(step.rate, dtype=np.float64).tolist()
    return json.dumps({"step": type(step).__name__, **asdict(step), "rate": rate})


def from_text(text: str) -> Step | None:
    """The rule that `as_text` wrote down; None of nothing.

    >>> from_text('{"step": "Sign", "rate": 0.1, "decay": 0.5}')
    Sign(rate=0.1, decay=0.5)
    """
    if not text:
        return None
    try:
        given = json.loads(text)
        return RULES[given.pop("step")](**given)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"step must be a rule of hm.steps with its constants, got {text:.60}") from None
