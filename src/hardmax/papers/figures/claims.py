"""Claim: one sentence about a figure, with the expected and the measured number; and tables of claims."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from textwrap import dedent
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Claim:
    """A claim about a figure: ``expected`` in words, the ``measured`` value, and whether they agree.

    ``paper`` is the paper's own number or wording where there is one to compare with ours. ``stand_in`` marks
    a claim about data that replace the paper's, which is not evidence about those.

    >>> from hardmax.papers.figures.claims import at_least
    >>> at_least("B-FIG-1a.cos", "cosine to p_mm after 1,000 steps", 0.9998, 0.9997).holds
    True
    """

    id: str
    text: str
    expected: str
    measured: Any
    holds: bool
    paper: str | None = None
    stand_in: bool = False


def at_least(id: str, text: str, measured: Any, bound: float, *, paper: str | None = None) -> Claim:
    """Claim that every measured number is at least ``bound``; the least one is reported.

    >>> from hardmax.papers.figures.claims import at_least
    >>> least = at_least("x", "least of two", [2.0, 1.0], 1.5)
    >>> least.expected, least.measured, least.holds
    ('≥ 1.5', 1.0, False)
    """
    least = _least(measured)
    return Claim(id, text, f"≥ {_number(bound)}", least, bool(least >= bound), paper)


def at_most(id: str, text: str, measured: Any, bound: float, *, paper: str | None = None) -> Claim:
    """Claim that every measured number is at most ``bound``; the greatest one is reported."""
    greatest = -_least(-np.asarray(measured, dtype=float))
    return Claim(id, text, f"≤ {_number(bound)}", greatest, bool(greatest <= bound), paper)


def between(id: str, text: str, measured: Any, low: float, high: float, *, paper: str | None = None) -> Claim:
    """Claim that every measured number is in [low, high]; the least and the greatest are reported."""
    values = np.atleast_1d(np.asarray(measured, dtype=float)).ravel()
    holds = bool(values.size and np.all((values >= low) & (values <= high)))
    shown = [_least(values), -_least(-values)] if values.size > 1 else _least(values)
    return Claim(id, text, f"{_number(low)} to {_number(high)}", shown, holds, paper)


def near(
    id: str, text: str, measured: Any, expected: Any, tolerance: float, *, paper: str | None = None
) -> Claim:
    """Claim that every measured number is within ``tolerance`` of its expected value.

    >>> from hardmax.papers.figures.claims import near
    >>> near("x", "an angle in degrees", 11.974, 11.97, 0.005).expected
    '11.97 ± 0.005'
    """
    values, targets = np.broadcast_arrays(
        np.asarray(measured, dtype=float), np.asarray(expected, dtype=float)
    )
    holds = bool(values.size and np.all(np.abs(values - targets) <= tolerance))
    numbers = ", ".join(map(_number, np.ravel(expected)))
    return Claim(id, text, f"{numbers} ± {_number(tolerance)}", values.tolist(), holds, paper)


def true(id: str, text: str, holds: Any, measured: Any, expected: str, *, paper: str | None = None) -> Claim:
    """Make a claim that is not a comparison of numbers; ``expected`` describes the test in words."""
    return Claim(id, text, expected, measured, bool(holds), paper)


def read_rows(table: str) -> list[list[str]]:
    r"""Return the rows of a text table, cut at each " | "; a row may continue on deeper lines.

    >>> from hardmax.papers.figures.claims import read_rows
    >>> read_rows("cosine | to p_mm | ≥ 0.9\nnorm | of p\n  at the end | ≥ 1")
    [['cosine', 'to p_mm', '≥ 0.9'], ['norm', 'of p at the end', '≥ 1']]
    """
    rows = re.sub(r"\n +", " ", dedent(table)).split("\n")
    return [row.split(" | ") for row in rows if row.strip()]


class Claims:
    """The claims about a figure as a table, in the words and signs that a reader sees.

    A row is ``name | sentence | expected``, and ``| the paper's own number or wording`` where there is one.
    Rows may continue on deeper lines. ``expected`` is ≥ 1, ≤ 1, 1 to 2, a list of numbers with a tolerance
    (1/3, 0.5 ± 1e-6), or words.

    >>> from hardmax.papers.figures.claims import Claims
    >>> table = Claims("B-FIG-0", "cosine | cosine to p_mm | ≥ 0.9")
    >>> [(claim.id, claim.measured, claim.holds) for claim in table.judge({"cosine": [0.99, 0.85]})]
    [('B-FIG-0.cosine', 0.85, False)]
    """

    def __init__(self, figure: str, *tables: str) -> None:
        self.figure = figure
        self.rows = {name: rest for table in tables for name, *rest in read_rows(table)}

    def judge(self, measured: Mapping[str, Any]) -> tuple[Claim, ...]:
        """Compare measured values, by name, with the table.

        Where the table expects words, the value is a pair: whether the claim holds, and what was measured.
        A value that is a Claim already stays as it is. None leaves a claim out.
        """
        missing = [name for name in self.rows if name not in measured]
        if missing:
            raise AssertionError(f"{self.figure}: nothing was measured for {', '.join(missing)}")
        return tuple(
            value if isinstance(value, Claim) else self._claim(name, value)
            for name, value in measured.items()
            if value is not None
        )

    def _claim(self, name: str, measured: Any) -> Claim:
        text, expected, *rest = self.rows[name]
        paper = rest[0] if rest else None
        id = f"{self.figure}.{name}"
        if expected.startswith(("≥ ", "≤ ")):
            bounded = at_least if expected.startswith("≥") else at_most
            return bounded(id, text, measured, _parse(expected[2:]), paper=paper)
        if " ± " in expected:
            numbers, tolerance = expected.split(" ± ")
            targets = list(map(_parse, numbers.split(", ")))
            target = targets[0] if len(targets) == 1 else np.reshape(targets, np.shape(measured))
            return near(id, text, measured, target, _parse(tolerance), paper=paper)
        limits = re.fullmatch(rf"({_NUMBER}) to ({_NUMBER})", expected)
        if limits:
            return between(id, text, measured, _parse(limits[1]), _parse(limits[2]), paper=paper)
        holds, shown = measured
        return true(id, text, holds, shown, expected, paper=paper)


_NUMBER = r"-?[\d./]+(?:e[-+]?\d+)?"


def _parse(number: str) -> float:
    return float(Fraction(number)) if "/" in number else float(number)


def listed(values: Any) -> str:
    """Write numbers as a table of claims has them."""
    return ", ".join(map(str, np.ravel(values).tolist()))


def on_stand_in(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Mark claims as being about data that stand in for the paper's."""
    return tuple(replace(claim, stand_in=True) for claim in claims)


def failed(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that do not hold."""
    return [claim for claim in claims if not claim.holds]


def _least(measured: Any) -> float:
    """Return the least value; nan if there is none or any is nan, so that no claim holds for lack of data."""
    values = np.asarray(measured, dtype=float)
    return float(values.min()) if values.size else float("nan")


def _number(value: Any) -> str:
    return f"{float(value):.10g}"


def shown(value: Any, digits: int = 6) -> str:
    """Write a measured value for a reader.

    >>> from hardmax.papers.figures.claims import shown
    >>> shown([0.99970123, 1.0]), shown([[0, 2], True])
    ('0.999701, 1', '(0, 2), True')
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {shown(item, digits)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        parts = ((shown(item, digits), isinstance(item, list | tuple)) for item in value)
        return ", ".join(f"({part})" if is_list else part for part, is_list in parts)
    return str(value)
