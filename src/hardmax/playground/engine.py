"""The engine behind the page: one pure function from a question to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from hardmax.playground import basins, code, plane, protocol, scenes, sentences, words

Asked = Callable[[Mapping[str, Any]], dict[str, Any]]

QUESTIONS: dict[str, Asked] = {
    "tour": scenes.tour,
    "solve": plane.solve,
    "train": plane.train,
    "field": basins.field,
    "gradients": plane.gradients,
    "check": sentences.check,
    "learn": sentences.learn,
    "predict": sentences.predict,
    "words": words.train,
    "python": code.python,
    "file": code.file,
}


def answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question; a ValueError says in a sentence what is wrong with it.

    >>> from hardmax.playground.engine import answer
    >>> found = answer({"ask": "solve", "problem": {"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]]}})
    >>> found["selections"][0]["selection"], found["selections"][0]["certified"]
    ((0,), True)
    """
    name = message.get("ask")
    if not isinstance(name, str) or name not in QUESTIONS:
        raise ValueError(f"ask must be one of {', '.join(QUESTIONS)}, got {name!r:.40}")
    return QUESTIONS[name](message)


def reply(raw: bytes) -> bytes:
    """What is sent back for the bytes that came; a refusal is a reply too.

    >>> from hardmax.playground.engine import reply
    >>> reply(b"[]")
    b'{"v": 1, "ok": false, "error": "a message must be a JSON object, got list"}'
    """
    try:
        began = time.process_time()
        found = answer(protocol.read(raw))
        return protocol.told(found, 1e3 * (time.process_time() - began))
    except ValueError as error:
        return protocol.refused(str(error))
    except MemoryError:
        return protocol.refused("there is not enough memory for this question; ask for less")
