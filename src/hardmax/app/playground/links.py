"""A state of the page as the end of a link, and what the page may be asked to open with."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

from hardmax.app.playground.protocol import MOST_BYTES
from hardmax.nexttoken import read_sentences
from hardmax.problem import Problem

LONGEST_LINK = 60_000  # letters, as in state.js; a longer state stays on the server


def encoded(state: dict[str, Any]) -> str:
    """Return the part of a link from # on: the state's JSON in base64url."""
    content = json.dumps(state, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    return "#" + base64.urlsafe_b64encode(content).decode().rstrip("=")


def decoded(link: str) -> dict[str, Any]:
    """Return the state in a link, or in the part of one from # on."""
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
    """Return the state to open with, of a planar problem, a file of one, a link, or a list of sentences."""
    from hardmax.app.playground.scenes import plane_state

    if what is None:
        return None
    if isinstance(what, str | os.PathLike):
        path = os.fspath(what)
        # a link, not a file, whose name may contain # too: base64url has no dots, and such files have one
        if "#" in path and "." not in path.rpartition("#")[2] and not os.path.exists(path):
            return decoded(path)
        if path.endswith(".txt"):
            text = read_sentences(path)
            return state_of([" ".join(text.words(i)) for i in range(text.n)])
        what = Problem.load(path)
    if isinstance(what, list | tuple) and all(isinstance(sentence, str) for sentence in what):
        return {"scene": "sentences", "sentences": list(what), "prompt": ""}
    if not isinstance(what, Problem):
        kinds = "a Problem, a file of one, a link or a list of sentences"
        raise ValueError(f"problem must be {kinds}, got {type(what).__name__}")
    if what.shape != (2,):
        raise ValueError(
            f"problem must have keys in 2 dimensions, got {what.d}; hm.solve lists its directions"
        )
    return plane_state(what)


def opening(what: Any) -> tuple[str, dict[str, Any] | None]:
    """Return the end of the page's address, or the state if it is too long for an address."""
    state = state_of(what)
    if state is None:
        return "", None
    link = encoded(state)
    if len(link) <= LONGEST_LINK:
        return link, None
    size = len(json.dumps(state, ensure_ascii=False).encode())
    if size > MOST_BYTES:
        raise ValueError(
            f"the playground must open with at most {MOST_BYTES:,} bytes, got {size:,}; choose a smaller file"
        )
    return "", state
