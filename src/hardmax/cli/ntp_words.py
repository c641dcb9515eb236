"""Words of a user's file on a terminal."""

import sys
from typing import Any

WIDTH = 80  # of a sentence


def shown(value: Any) -> Any:
    """Words as a terminal can show them, in lists and dictionaries too: spelled out, and nothing endless."""
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    if not isinstance(value, str):
        return value
    value, half = spelled(value), WIDTH // 2 - 3
    return value if len(value) <= WIDTH else f"{value[:half]} ... {value[-half:]}"


def spelled(text: str) -> str:
    """The text with nothing invisible, nothing that steers a terminal, and nothing that it lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    known = text.encode(encoding, "replace").decode(encoding) == text
    return text if known and text.isprintable() else ascii(text)
