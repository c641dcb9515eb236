"""A state of the page as the end of a link, and what the page may be asked to open with."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

from hardmax.problem import Problem


def encoded(state: dict[str, Any]) -> str:
    """The part of a link from # on: the state's JSON in base64url.

    >>> from hardmax.playground.links import decoded, encoded
    >>> encoded({"scene": "words"}), decoded(encoded({"scene": "words"}))
    ('#eyJzY2VuZSI6IndvcmRzIn0', {'scene': 'words'})
    """
    content = json.dumps(state, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    return "#" + base64.urlsafe_b64encode(content).decode().rstrip("=")


def decoded(link: str) -> dict[str, Any]:
    """The state in a link, or in the part of one from # on."""
    content = link.partition("#")[2]
    try:
        state = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict) or not isinstance(state.get("scene"), str):
        raise ValueError(
            f"a link must hold a state of the playground after its #, got {link!r:.60}; copy it again"
        )
    return state


def state_of(what: Any) -> dict[str, Any] | None:
    """The state to open with: of a planar problem, a file of one, a link, or a list of sentences.

    >>> import hardmax as hm
    >>> from hardmax.playground.links import state_of
    >>> state_of(["a b", "b a"])
    {'scene': 'sentences', 'sentences': ['a b', 'b a'], 'prompt': ''}
    >>> state_of(hm.data.sphere(n=2, T=3, d=4, rng=0))
    Traceback (most recent call last):
    ValueError: problem must have keys in 2 dimensions, got 4; hm.solve lists its directions
    """
    from hardmax.playground.scenes import plane_state

    if what is None:
        return None
    if isinstance(what, str) and "#" in what:
        return decoded(what)
    if isinstance(what, str | os.PathLike):
        path = os.fspath(what)
        if path.endswith(".txt"):
            from hardmax.nexttoken import read_sentences

            text = read_sentences(path)
            return state_of([" ".join(text.words(i)) for i in range(text.n)])
        what = Problem.load(path)
    if isinstance(what, list | tuple) and all(isinstance(each, str) for each in what):
        return {"scene": "sentences", "sentences": list(what), "prompt": ""}
    if not isinstance(what, Problem):
        kinds = "a Problem, a file of one, a link or a list of sentences"
        raise ValueError(f"problem must be {kinds}, got {type(what).__name__}")
    if what.shape != (2,):
        raise ValueError(
            f"problem must have keys in 2 dimensions, got {what.d}; hm.solve lists its directions"
        )
    return plane_state(what)


def state_hash(what: Any) -> str:
    """The end of the page's address for what it opens with; empty for the tour."""
    state = state_of(what)
    return "" if state is None else encoded(state)
