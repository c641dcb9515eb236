"""The messages between page and engine: JSON objects, versioned; others are refused with a message.

A question is ``{"v": 1, "ask": NAME, ...}``, its answer ``{"v": 1, "ok": true, "answer": {...}, "cpu": ms}``
or ``{"v": 1, "ok": false, "error": "a sentence"}``. docs/how-to/playground.md lists the questions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from hardmax._lib.json import plain
from hardmax.problem import Problem
from hardmax.problem.losses import LOSSES

VERSION = 1

# What a message may hold. A page of a few thousand short texts fits; ten megabytes do not.
MOST_BYTES = 4_000_000
MOST_DIGITS = 400
MOST_INPUTS = 24
MOST_TOKENS = 240
LARGEST = 1e6  # of a coordinate or a score

LOSS_NAMES = tuple(name for name in LOSSES if name != "log")


def read(raw: bytes) -> dict[str, Any]:
    """Return the message in some bytes; a ValueError states what is wrong with them."""
    if len(raw) > MOST_BYTES:
        raise ValueError(
            f"a message must have at most {MOST_BYTES:,} bytes, got {len(raw):,}; send less at a time"
        )
    try:
        message = json.loads(raw, parse_constant=_refuse, parse_int=_whole)
    except RecursionError:
        raise ValueError(
            "a message must be nested a few levels deep, got too many; send a flat one"
        ) from None
    except UnicodeDecodeError:
        raise ValueError("a message must be in UTF-8, got other bytes") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"a message must be JSON, got something else ({error.msg})") from None
    if not isinstance(message, dict):
        raise ValueError(f"a message must be a JSON object, got {type(message).__name__}")
    if message.get("v") != VERSION:
        raise ValueError(f"v must be {VERSION}, got {message.get('v')!r:.20}; load the page once more")
    return message


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"a message must hold finite numbers, got {name}; leave it out")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a message must hold numbers of at most {MOST_DIGITS} digits, got {len(text):,}")
    return int(text)


def pack_answer(answer: Mapping[str, Any], cpu: float = 0.0) -> bytes:
    """Return an answer as it is sent, with the milliseconds of processor time that it took."""
    content = {"v": VERSION, "ok": True, "answer": answer, "cpu": round(cpu, 3)}
    return json.dumps(plain(content), allow_nan=False).encode()


def pack_refusal(error: str) -> bytes:
    """Return a refusal as it is sent."""
    return json.dumps({"v": VERSION, "ok": False, "error": error}).encode()


# -- fields of messages ---------------------------------------------------------------------------------


def number(message: Mapping[str, Any], name: str, usual: float, least: float, most: float) -> float:
    """Return a number of a message within bounds; ``usual`` where it is left out."""
    given = message.get(name, usual)
    if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}, got {given!r:.40}")
    return float(given)


def one_of(message: Mapping[str, Any], name: str, usual: str, known: tuple[str, ...]) -> str:
    """Return a word of a message that must be one of ``known``; ``usual`` where it is left out."""
    given = message.get(name, usual)
    if not isinstance(given, str) or given not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {given!r:.40}")
    return given


def listed(given: Any, name: str, most: int) -> list[Any]:
    """Return a list that must have at least one and at most ``most`` entries."""
    if not isinstance(given, list) or not given:
        raise ValueError(f"{name} must be a list with something in it, got {given!r:.40}")
    if len(given) > most:
        raise ValueError(f"{name} must hold at most {most:,}, got {len(given):,}; take fewer")
    return given


def vector(given: Any, name: str) -> list[float]:
    """Return two numbers."""
    good = isinstance(given, list) and len(given) == 2
    if not good or not all(_is_number(x) for x in given):
        raise ValueError(f"{name} must be two numbers of size at most {LARGEST:g}, got {given!r:.40}")
    return [float(x) for x in given]


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= LARGEST


def problem_of(message: Mapping[str, Any]) -> Problem:
    """Return the planar problem of a message: ``keys``, ``scores``, ``loss``, as in a file of a problem."""
    given = message.get("problem")
    if not isinstance(given, dict):
        raise ValueError(f"problem must be an object with keys and scores, got {given!r:.40}")
    unknown = given.keys() - {"keys", "scores", "loss"}
    if unknown:
        raise ValueError(
            f"problem must hold keys, scores and loss, got {min(unknown)!r:.40} too; leave it out"
        )
    keys = listed(given.get("keys"), "keys", MOST_INPUTS)
    scores = listed(given.get("scores"), "scores", MOST_INPUTS)
    tokens = sum(len(listed(own, "the tokens of an input", MOST_TOKENS)) for own in keys)
    if tokens > MOST_TOKENS:
        raise ValueError(f"keys must hold at most {MOST_TOKENS} tokens, got {tokens:,}; take fewer")
    for own in keys:
        for key in own:
            vector(key, "each key")
    for numbers in scores:
        for score in listed(numbers, "the scores of an input", MOST_TOKENS):
            if not _is_number(score):
                raise ValueError(f"scores must be numbers of size at most {LARGEST:g}, got {score!r:.40}")
    return Problem(keys, scores, one_of(given, "loss", "logistic", LOSS_NAMES))
