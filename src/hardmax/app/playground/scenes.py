"""The guided tour: six scenes, each a state of the page with a sentence; and the page's defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import hardmax as hm
from hardmax.app.playground.page import template
from hardmax.app.playground.plane import NORMS
from hardmax.app.playground.protocol import LOSS_NAMES


def plane_state(problem: hm.Problem, **settings: Any) -> dict[str, Any]:
    """Return a state of the plane, with the page's defaults for missing settings."""
    keys = [tokens.tolist() for tokens in problem.split(problem.keys[problem.tokens])]
    scores = [values.tolist() for values in problem.split(problem.scores)]
    largest = max(abs(x) for tokens in keys for key in tokens for x in key)
    defaults = {
        "scene": "plane",
        "problem": {"keys": keys, "scores": scores, "loss": problem.loss.name},
        "norm": "l2",
        "rules": ["flow"],
        "rate": 0.1,
        "starts": [[0.0, 0.0]],
        "span": 3.2 if largest < 2.6 else 1.25 * largest,
        "field": "flow",
        "needles": False,
    }
    return {**defaults, **settings}


def tour(message: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the six scenes, and examples of sentences and texts."""
    content: dict[str, Any] = json.loads(template("tour.json"))
    for scene in content["scenes"]:
        if "state" not in scene:
            example, posed = scene.pop("example", None), scene.pop("problem", {})
            problem = hm.Problem(**posed) if example is None else hm.data.example(example)
            scene["state"] = plane_state(problem, **scene.pop("settings"))
    content["words"]["texts"] = json.loads(template("texts.json"))
    limits = {"norms": NORMS, "losses": LOSS_NAMES}
    return {**content, "limits": limits, "version": hm.__version__}
