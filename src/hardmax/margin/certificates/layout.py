"""The layout of a certificate: types and shapes of all its fields, checked before any arithmetic.

Like `certify` it shares no code with the solver, and it takes nothing but the standard library.
"""

from __future__ import annotations

from typing import Any

MOST_NUMBERS = 10_000_000  # of all rows together


def check_layout(c: Any) -> None:
    """Refuse a certificate unless every field has the type and the shape that its other fields require.

    >>> check_layout({"schema": "hardmax.certificate/1", "status": 1})
    Traceback (most recent call last):
    ValueError: status: expected a text, got int
    """
    if type(c) is not dict:
        raise ValueError(f"expected a JSON object, got {type(c).__name__}")
    for name in ("schema", "status", "certificate", "digest"):
        _expect(type(c[name]) is str, name, "a text", c[name])
    for name in ("norm_name", "norm_squared"):
        _expect(c.get(name, "") is None or type(c.get(name, "")) is str, name, "a text", c.get(name))
    width = _width(c)
    count = len(_list("plus", c["plus"], int))
    for name, kind in (("minus", int), ("h", str), ("equal", bool), ("labels", str)):
        _list(name, c[name], kind, count)
    for name in ("multipliers", "farkas"):
        if c[name] is not None:
            _list(name, c[name], str, count)
    _list("margin_interval", c["margin_interval"], str, 2)
    tokens = len(c["table"] if c["gram"] is None else c["gram"])
    _within("plus", c["plus"], 0, tokens)
    _within("minus", c["minus"], -1, tokens)
    if (c["right"] is None) != (c["right_of"] is None):
        raise ValueError("right, right_of: expected both or neither")
    if c["right"] is not None:
        width *= _table("right", c["right"])
        _within("right_of", _list("right_of", c["right_of"], int, count), 0, len(c["right"]))
    if count * width > MOST_NUMBERS:
        raise ValueError(f"expected rows of at most {MOST_NUMBERS:,} numbers together, got more")
    if c["p"] is not None:
        _list("p", c["p"], str, width)
    _check_matrix(c)


def _width(c: dict[str, Any]) -> int:
    """Numbers of a token, from a table or from the side of a Gram matrix."""
    if (c["table"] is None) == (c["gram"] is None):
        raise ValueError("table, gram: expected one of them")
    if c["gram"] is None:
        return _table("table", c["table"])
    side = _table("gram", c["gram"])
    _expect(side == len(c["gram"]), "gram", "a square matrix", c["gram"])
    if c["right"] is not None:
        raise ValueError("right: expected null in Gram form")
    return side


def _check_matrix(c: dict[str, Any]) -> None:
    """The fields of a norm of matrices."""
    if "shape" in c:
        _list("shape", c["shape"], int, 2)
    factors = c.get("factors")
    if factors is None:
        return
    _expect(type(factors) is dict and {*factors} == {"left", "right"}, "factors", "left and right", factors)
    for side in ("left", "right"):
        _table(f"factors, {side}", factors[side])


def _list(name: str, values: Any, kind: type, count: int | None = None) -> list[Any]:
    words = {str: "texts", int: "whole numbers", bool: "true or false"}[kind]
    _expect(type(values) is list, name, f"a list of {words}", values)
    wrong = next((x for x in values if type(x) is not kind), None)
    if any(type(x) is not kind for x in values):
        raise ValueError(f"{name}: expected a list of {words}, got {wrong!r:.40}")
    if count is not None and len(values) != count:
        raise ValueError(f"{name}: expected {count} entries, got {len(values)}")
    return list(values)


def _table(name: str, rows: Any) -> int:
    """The width of a list of lists of texts, all of one length."""
    _expect(type(rows) is list, name, "a list of lists", rows)
    for row in rows:
        _expect(type(row) is list and len(row) == len(rows[0]), name, "rows of one length", row)
        _list(name, row, str)
    return len(rows[0]) if rows else 0


def _within(name: str, values: list[int], least: int, end: int) -> None:
    if not all(least <= x < end for x in values):
        raise ValueError(f"{name}: expected numbers from {least} to {end - 1}, got others")


def _expect(holds: bool, name: str, what: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {what}, got {type(value).__name__}")
