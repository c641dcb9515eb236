"""Re-check a saved certificate with rational arithmetic, sharing no code with the solver.

Taken on trust, and said so: the labels of rows, which are names, and that a Gram matrix, where one is given
instead of tokens, is semidefinite."""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from hardmax.margin.certificates.norms import Vector, ball_of

LARGEST = 2**26  # bytes of a file
MOST_NUMBERS = 10_000_000  # of all rows together
MOST_DIGITS = 4_300  # of a numerator or a denominator, which is also where Python stops
LABELS = "labels: they name the rows for a reader; the proof is about the rows by their numbers"
GRAM = "gram: that it is positive semidefinite"
_UNREADABLE = (
    OSError,
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_KINDS = ("certified exact", "certified float", "infeasible exact", "undecided float")


def certify(certificate: Any) -> dict[str, Any]:
    """Check a certificate (a path or its dictionary): ``valid``, ``what`` is proved, and the ``violations``.

    ``trusted`` names what no check looks at.

    >>> from hardmax.margin.certificates.checking import certify
    >>> certify({"schema": "hardmax.certificate/1"})["valid"]
    False
    """
    try:
        if not isinstance(certificate, dict):
            with Path(certificate).open("rb") as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise ValueError(f"more than {LARGEST:,} bytes")
            certificate = json.loads(content.decode("utf-8-sig"))
        what, checks = _check(certificate)
        violations = [name for name, passed in checks.items() if not passed]
        trusted = [LABELS] if certificate["gram"] is None else [LABELS, GRAM]
    except _UNREADABLE as error:
        what, trusted = "", []
        said = f"{error!s:.200}"
        why = f"it has no {said}" if isinstance(error, KeyError) else f"{type(error).__name__}: {said}"
        violations = [f"not a readable certificate: {why}"]
    what = "nothing" if violations else what
    return {"valid": not violations, "what": what, "violations": violations, "trusted": trusted}


def _vector(texts: list[str]) -> Vector:
    return [Fraction(float.fromhex(x)) if "0x" in x else _fraction(x) for x in texts]


def _fraction(text: str) -> Fraction:
    """A fraction or a decimal number; one of a billion digits, which 1e999999999 is, would take for ever."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > 2 * MOST_DIGITS + 2 or (exponent and not abs(float(exponent)) <= MOST_DIGITS):
        raise ValueError(f"expected numbers of at most {MOST_DIGITS:,} digits, got {text[:20]!r} and so on")
    return Fraction(text)


def _shown(x: Fraction) -> str:
    long = x.numerator.bit_length() + x.denominator.bit_length() > 1_000
    return "a fraction of more than 300 digits" if long else str(x)


def _dot(x: Vector, y: Vector) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True) if a and b), Fraction(0))


def _minus(x: Vector, y: Vector) -> Vector:
    return [a - b for a, b in zip(x, y, strict=True)]


class _Rows:
    """The rows as exact vectors, with their inner product: a Gram matrix's or the usual one."""

    def __init__(self, c: dict[str, Any]) -> None:
        self.gram = None if c["gram"] is None else [_vector(row) for row in c["gram"]]
        if self.gram is None:
            table = [_vector(row) for row in c["table"]]
        else:
            if self.gram != [list(column) for column in zip(*self.gram, strict=True)]:
                raise ValueError("the Gram matrix is not symmetric")
            table = [[Fraction(i == j) for j in range(len(self.gram))] for i in range(len(self.gram))]
        zero = [Fraction(0)] * (len(table[0]) if table else 0)
        table.append(zero)  # minus = -1
        if not all(0 <= token < len(table) - 1 for token in (*c["plus"], *c["minus"]) if token != -1):
            raise ValueError("a row names a token that does not exist")
        self.width, factor = len(zero), len(c["right"][0]) if c["right"] else 1
        if len(c["plus"]) * self.width * factor > MOST_NUMBERS:
            raise ValueError(f"expected rows of at most {MOST_NUMBERS:,} numbers together, got more")
        self.rows = [_minus(table[a], table[b]) for a, b in zip(c["plus"], c["minus"], strict=True)]
        if c["right"] is not None:
            right = [_vector(row) for row in c["right"]]
            factors = [right[i] for i in c["right_of"]]
            self.rows = [[x * y for x in row for y in f] for row, f in zip(self.rows, factors, strict=True)]
            self.width *= len(right[0]) if right else 0

    def inner(self, x: Vector, y: Vector) -> Fraction:
        return _dot(x, y if self.gram is None else [_dot(row, y) for row in self.gram])

    def reach(self, p: Vector) -> Vector:
        dual = p if self.gram is None else [_dot(row, p) for row in self.gram]
        return [_dot(row, dual) for row in self.rows]

    def combine(self, weights: Vector) -> Vector:
        total = [Fraction(0)] * self.width
        for row, weight in zip(self.rows, weights, strict=True):
            total = [a + weight * b for a, b in zip(total, row, strict=True)] if weight else total
        return total

    def correct(self, p: Vector, chosen: list[int], h: Vector) -> Vector:
        """The point nearest to p at which the chosen rows meet their bounds exactly, by elimination."""
        rows = [self.rows[i] for i in chosen]
        system = [
            [*(self.inner(row, other) for other in rows), self.inner(row, p) - h[i]]
            for i, row in zip(chosen, rows, strict=True)
        ]
        for k in range(len(rows)):
            pivot = next((i for i in range(k, len(rows)) if system[i][k]), None)
            if pivot is None:
                raise ValueError("dependent rows to be met exactly in a float certificate prove nothing")
            system[k], system[pivot] = system[pivot], system[k]
            system[k] = [x / system[k][k] for x in system[k]]
            for i in range(len(rows)):
                if i != k and system[i][k]:
                    system[i] = _minus(system[i], [system[i][k] * x for x in system[k]])
        weight = dict(zip(chosen, (line[-1] for line in system), strict=True))
        return _minus(p, self.combine([weight.get(j, Fraction(0)) for j in range(len(self.rows))]))


def _check(c: dict[str, Any]) -> tuple[str, dict[str, bool]]:
    content = json.dumps({k: c[k] for k in c if k != "digest"}, sort_keys=True, separators=(",", ":"))
    space, h, equal = _Rows(c), _vector(c["h"]), c["equal"]
    infeasible, exact = c["status"] == "infeasible", c["certificate"] == "exact"
    factors = c.get("factors") and [
        [_vector(row) for row in c["factors"][side]] for side in ("left", "right")
    ]
    ball = ball_of(c, factors, space.width)
    weights = _vector(c["farkas"] if infeasible else c["multipliers"])
    u, gain = space.combine(weights), _dot(weights, h)
    lower, upper = (float.fromhex(x) for x in c["margin_interval"])
    low, high = (x if x == math.inf else Fraction(x) ** 2 for x in (lower, upper))
    signs = list(zip(weights, h, equal, strict=True))
    checks = {
        "schema: expected hardmax.certificate/1": c["schema"] == "hardmax.certificate/1",
        "digest: the file was changed": c["digest"] == hashlib.sha256(content.encode()).hexdigest(),
        "margin_interval: expected 0 <= lower <= upper": 0 <= lower <= upper,
        "h: expected bounds >= 0 on inequalities": all(b >= 0 or e for _, b, e in signs),
        "a weight of an inequality is negative": all(w >= 0 or e for w, _, e in signs),
        "multipliers, farkas: expected one of them": c["multipliers" if infeasible else "farkas"] is None,
        "norm_squared: for exact solutions only": (c["norm_squared"] is None) == (infeasible or not exact),
        "p: not if infeasible or in Gram form": (c["p"] is None) == (infeasible or c["gram"] is not None),
        "labels: expected one text for each row": len(c["labels"]) == len(space.rows)
        and all(isinstance(label, str) for label in c["labels"]),
        "status, certificate: expected known words": f"{c['status']} {c['certificate']}" in _KINDS,
        "norm_name: expected l2 in Gram form": ball.power == 2 or c["gram"] is None,
    }
    if infeasible:
        checks["farkas: the rows do not cancel"] = space.inner(u, u) == 0
        checks["farkas: the bounds do not add up to more than 0"] = gain > 0
        checks["margin_interval: expected [0, 0]"] = lower == upper == 0
        return f"infeasible: the Farkas vector combines rows into 0 >= {_shown(gain)}", checks
    p = u if c["p"] is None else _vector(c["p"])
    if ball.power not in (1, 2, math.inf):
        checks["certificate: expected float in this norm"] = not exact or not any(p)
    if exact and ball.power != 2:
        size, other = ball.length(p), ball.dual.length(u)
        slack = zip(_minus(space.reach(p), h), equal, strict=True)
        checks["p violates a row"] = all(s == 0 or (s > 0 and not e) for s, e in slack)
        # every p that meets the rows has gain <= u.p <= |u|* |p|
        proved = size == 0 or (gain > 0 and size * other == gain)
        checks["the multipliers do not prove that p is shortest"] = proved
        checks["norm_squared is not |p|^2"] = _vector([c["norm_squared"]]) == [size**2]
        checks["margin_interval misses 1/|p|"] = (
            low * size**2 <= 1 <= high * size**2 if size else low == math.inf
        )
        return f"p is a solution of least {ball.name} norm, |p| = {_shown(size)}", checks
    if exact:
        Mp, square, rest = space.reach(p), space.inner(p, p), _minus(p, u)
        checks["p is not the combination of the rows"] = space.inner(rest, rest) == 0
        slack = zip(_minus(Mp, h), equal, strict=True)
        checks["p violates a row"] = all(s == 0 or (s > 0 and not e) for s, e in slack)
        checks["a slack row has a multiplier"] = _dot(weights, _minus(Mp, h)) == 0
        checks["norm_squared is not |p|^2"] = _vector([c["norm_squared"]]) == [square]
        checks["margin_interval misses 1/|p|"] = (
            low * square <= 1 <= high * square if square else low == math.inf
        )
        return f"p is the minimum-norm solution, |p|^2 = {_shown(square)}", checks
    near, loose, again = p, [j for j, row in enumerate(space.rows) if equal[j] and any(row)], lower > 0
    fixed = any(b for b, e in zip(h, equal, strict=True) if e)  # then p cannot be scaled, only moved
    while again:  # such rows are met to rounding only: move p onto them
        p = space.correct(near, loose, h)
        broken = [j for j, v in enumerate(space.reach(p)) if (h[j] == 0 or fixed) and v < h[j]]
        loose, again = loose + broken, bool(broken)
    reach = min((v / b for v, b in zip(space.reach(p), h, strict=True) if b > 0), default=0)
    if fixed:
        left = zip(_minus(space.reach(p), h), equal, strict=True)
        reach = int(all(s == 0 or (s > 0 and not e) for s, e in left))
    proved = 0 < lower < math.inf and reach > 0 and ball.at_most(p, reach / Fraction(lower), space.inner)
    checks["margin_interval: p does not prove the lower end"] = lower == 0 or proved
    proved = upper == math.inf or (
        upper > 0 and gain > 0 and ball.dual.at_most(u, Fraction(upper) * gain, space.inner)
    )
    checks["margin_interval: the multipliers do not prove the upper end"] = proved
    narrow = lower > 0 and upper - lower <= 1e-8 * upper
    checks["status: too wide an interval to be certified"] = narrow or c["status"] == "undecided"
    named = "margin" if ball.power == 2 else f"{ball.name} margin"
    return f"the {named} lies in [{lower!r}, {upper!r}]", checks
