"""Labels as they are written, as +1, -1 or none: words, 0 and 1, signs, stars (A-DATA-4, A-DATA-5)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

WORDS = {"positive": 1, "pos": 1, "negative": -1, "neg": -1, "neutral": None}
_TRUTH = {"true": 1, "false": 0}
STARS = {1: -1, 2: -1, 3: None, 4: 1, 5: 1}
# The one number of a text such as "Review Stars: 4.0".
_NUMBER = re.compile(r"(?:[^\d+-]*:)?\s*([+-]?\d+(?:\.\d+)?)\s*")

_SAY = "say what they mean, such as signs={'1': -1, '2': 1}"

Scale = Mapping[Any, int | None]


def plain(value: Any) -> Any:
    """A label as a whole number or a lower-case word; None for a blank."""
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        if found is None:
            word = value.strip().lower()
            return _TRUTH.get(word, word or None)
        value = float(found[1])
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return int(value) if value.is_integer() else value
    return int(value) if isinstance(value, (bool, int)) else value if value is None else repr(value)


class Labels:
    """The signs of a column's labels, understood from those met so far; ``own`` is the user's reading."""

    def __init__(self, column: str, first: Sequence[Any], own: Scale | None) -> None:
        self.column, self.own = column, own
        self._written: list[Any] = list(first)
        self._signs: dict[Any, int | None] = {None: None}
        self._scale = _scale_of(column, self._written) if own is None else own

    def sign(self, value: Any) -> int | None:
        """+1, -1 or None; a label that would turn the meaning of an earlier one is refused."""
        label = plain(value)
        if label in self._signs:
            return self._signs[label]
        if label not in self._scale:
            if self.own is not None:
                raise ValueError(f"signs must say what each label means, it lacks {value!r:.40}")
            self._written.append(value)
            self._scale = _scale_of(self.column, self._written)
            for known, sign in self._signs.items():
                if known is not None and self._scale.get(known) != sign:
                    raise ValueError(
                        f"the column {self.column!r} holds {value!r}, after which {known} would mean "
                        f"something else; {_SAY}"
                    )
        self._signs[label] = self._scale[label]
        return self._signs[label]


def _scale_of(column: str, values: Sequence[Any]) -> Scale:
    """What labels mean, by their column's name and their values.

    They are stars by the name of the column or if the highest star is among them: 1 to 3 and 0 to 2 are more
    often classes, with the neutral one in the middle.
    """
    seen = {plain(value) for value in values} - {None}
    if seen <= WORDS.keys():
        return WORDS
    starry = re.search("star|rating", column, re.IGNORECASE) or any(
        isinstance(value, str) and "star" in value.lower() for value in values
    )
    if seen <= STARS.keys() and (starry or 5 in seen):
        return STARS
    if seen <= {0, 1}:
        return {1: 1, 0: -1}
    if seen <= {-1, 0, 1}:
        return {1: 1, 0: None, -1: -1}
    if {0, 4} <= seen <= {0, 1, 2, 3, 4}:  # stars counted from zero
        return {stars - 1: sign for stars, sign in STARS.items()}
    shown = ", ".join(sorted(map(repr, seen))[:8])
    raise ValueError(
        f"the column {column!r} must hold positive and negative, 0 and 1, -1 and 1, or 1 to 5 stars; it "
        f"holds {shown}, whose meaning is not clear; name another column by label=, or {_SAY}"
    )


def own_scale(signs: Mapping[Any, int | None]) -> Scale:
    """The user's own reading: a sign for each label, None or 0 for a label that is left out."""
    if not isinstance(signs, Mapping) or not signs or not set(signs.values()) <= {1, -1, 0, None}:
        raise ValueError(f"signs must map labels to 1, -1 or None, such as {{'good': 1}}, got {signs!r:.60}")
    return {plain(label): sign or None for label, sign in signs.items()}
