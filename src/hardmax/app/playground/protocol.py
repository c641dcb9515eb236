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


def number(message: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    """Return a number of a message within bounds; ``default`` where it is left out."""
    value = message.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}, got {value!r:.40}")
    return float(value)


def one_of(message: Mapping[str, Any], name: str, default: str, choices: tuple[str, ...]) -> str:
    """Return a word of a message, one of ``choices``; ``default`` where it is left out."""
    word = message.get(name, default)
    if not isinstance(word, str) or word not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {word!r:.40}")
    return word


def listed(entries: Any, name: str, most: int) -> list[Any]:
    """Return a list that must have at least one and at most ``most`` entries."""
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{name} must be a list with something in it, got {entries!r:.40}")
    if len(entries) > most:
        raise ValueError(f"{name} must hold at most {most:,}, got {len(entries):,}; take fewer")
    return entries


def vector(pair: Any, name: str) -> list[float]:
    """Return two numbers."""
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_number, pair)):
        raise ValueError(f"{name} must be two numbers of size at most {LARGEST:g}, got {pair!r:.40}")
    return [float(x) for x in pair]


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) <= LARGEST


def problem_of(message: Mapping[str, Any]) -> Problem:
    """Return the planar problem of a message: ``keys``, ``scores``, ``loss``, as in a file of a problem."""
    posed = message.get("problem")
    if not isinstance(posed, dict):
        raise ValueError(f"problem must be an object with keys and scores, got {posed!r:.40}")
    unknown = posed.keys() - {"keys", "scores", "loss"}
    if unknown:
        raise ValueError(
            f"problem must hold keys, scores and loss, got {min(unknown)!r:.40} too; leave it out"
        )
    keys = listed(posed.get("keys"), "keys", MOST_INPUTS)
    scores = listed(posed.get("scores"), "scores", MOST_INPUTS)
    tokens = [key for rows in keys for key in listed(rows, "the tokens of an input", MOST_TOKENS)]
    if len(tokens) > MOST_TOKENS:
        raise ValueError(f"keys must hold at most {MOST_TOKENS} tokens, got {len(tokens):,}; take fewer")
    for key in tokens:
        vector(key, "each key")
    for score in (x for row in scores for x in listed(row, "the scores of an input", MOST_TOKENS)):
        if not _is_number(score):
            raise ValueError(f"scores must be numbers of size at most {LARGEST:g}, got {score!r:.40}")
    return Problem(keys, scores, one_of(posed, "loss", "logistic", LOSS_NAMES))
