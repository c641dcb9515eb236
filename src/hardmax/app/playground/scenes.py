"""The guided tour: six scenes, each a state of the page with a sentence; and what the page starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hardmax as hm
from hardmax.app.playground.plane import NORMS
from hardmax.app.playground.protocol import LOSS_NAMES
from hardmax.app.playground.words import sample_texts

# The paper's example in words. The last sentence of the second list contradicts the first.
_BREAD = ["we eat fresh bread", "eat fresh bread", "fresh bread bread", "bread we eat"]
_CLASH = [*_BREAD, "we eat bread"]
_AROUND = [
    [2.6, 1.4],
    [0.6, 2.9],
    [-2.2, 2.2],
    [-2.9, -0.6],
    [-1.4, -2.6],
    [1.4, -2.6],
    [2.9, -0.6],
    [0.2, 0.1],
]

_SATURATED = {
    "keys": [[[9.0, 3.0], [-6.0, 7.5], [-1.5, -9.0]], [[7.5, -4.5], [-7.5, -3.0], [1.5, 9.0]]],
    "scores": [[1.0, 0.4, 0.0], [1.0, 0.2, 0.5]],
    "loss": "logistic",
}


def plane_state(problem: hm.Problem, **settings: Any) -> dict[str, Any]:
    """Return a state of the plane, with the page's own settings where none are given."""
    keys = [own.tolist() for own in problem.split(problem.keys[problem.tokens])]
    scores = [own.tolist() for own in problem.split(problem.scores)]
    largest = max(abs(x) for own in keys for key in own for x in key)
    usual = {
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
    return {**usual, **settings}


def tour(message: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the six scenes, and examples of sentences and texts."""
    named = hm.data.example
    saturated = hm.Problem(_SATURATED["keys"], _SATURATED["scores"])
    scenes = [
        (
            "Every start agrees",
            "One input, three tokens: the best one scores 1, the other two alike. From wherever training "
            "starts, attention ends on the best token, in the one direction A that attracts.",
            plane_state(named("B-FIG-1a"), starts=_AROUND),
        ),
        (
            "Two basins",
            "The same three tokens, but the one at the origin now scores 0. A second direction attracts: "
            "starts in its basin keep a worse token forever.",
            plane_state(named("B-FIG-1b"), starts=_AROUND),
        ),
        (
            "Normalized against plain",
            "Both end in the same direction. Plain gradient descent needs time e^t for what normalized "
            "descent does in t: slide the time to e^1,000,000 and see how far flow has come.",
            plane_state(named("B-FIG-8"), rules=["flow", "gd", "normalized"], starts=[[-1.0, -1.0]]),
        ),
        (
            "Adam chooses another token",
            "Same data, same start. Gradient descent crosses to direction B, the best tokens; Adam and sign "
            "descent turn to A and keep the worse token of input 1, the square.",
            plane_state(named("B-FIG-8"), rules=["gd", "normalized", "sign", "adam"], starts=[[2.0, 0.5]]),
        ),
        (
            "The usual gradient lies",
            "Away from the center the softmax is saturated. Gray needles: the exact direction of training. "
            "Red: what the usual backward in float32 gives there; a dot is a gradient lost to zero.",
            plane_state(saturated, field=None, needles=True),
        ),
        (
            "Sentences that cannot be learnt",
            "After “we eat” one sentence wants “fresh”, another “bread”: no attention can learn both, and "
            "the page says so in your words. Remove the last sentence and watch the verdict turn.",
            {"scene": "sentences", "sentences": _CLASH, "prompt": "fresh we bread"},
        ),
    ]
    return {
        "scenes": [{"title": t, "text": x, "state": s} for t, x, s in scenes],
        "sentences": {"scene": "sentences", "sentences": _BREAD, "prompt": "fresh we bread"},
        "words": {"scene": "words", "texts": sample_texts(), "epochs": 50, "rate": 0.01, "least": 2},
        "limits": {"norms": NORMS, "losses": LOSS_NAMES},
        "version": hm.__version__,
    }
