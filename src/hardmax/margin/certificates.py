"""Re-check a saved certificate with rational arithmetic, sharing no code with the solver.

Two things are taken on trust, and reported as such: the labels of rows, which are names, and that a Gram
matrix, where one is given instead of tokens, is semidefinite. The layout of a file, types and shapes of all
its fields, is checked before any arithmetic. Nothing but the standard library is used.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

Vector = list[Fraction]
Inner = Callable[[Vector, Vector], Fraction]
DIGITS = 60  # of powers that are not rational, in units of the power
SMALL = decimal.Decimal("1e-40")  # the error of r ln(ratio) must be below
WIDE: Any = {"Emin": decimal.MIN_EMIN, "Emax": decimal.MAX_EMAX, "capitals": 1, "clamp": 0, "traps": []}
MOST_SIDE = 100  # rows or columns of a matrix
BITS = 90  # of a bound, in the units that matrices are rounded to


class Ball(ABC):
    """The protocol of a certificate's norm; `hm.margin.register` takes one for a custom norm.

    >>> import hardmax as hm
    >>> sorted(hm.margin.Ball.__abstractmethods__)
    ['at_most', 'dual']
    """

    name: str
    euclidean = False  # it is l2, of which inner products prove an optimum
    rational = False  # `length` has the norm of any vector of fractions

    @property
    @abstractmethod
    def dual(self) -> Ball:
        """The dual norm."""

    @abstractmethod
    def at_most(self, x: Vector, bound: Fraction, inner: Inner) -> bool:
        """Whether the norm of x is proved to be at most the bound; False does not prove the contrary."""

    def length(self, x: Vector) -> Fraction:
        """The norm of x, where it is rational: zero of zero."""
        if any(x):
            raise ValueError(f"expected a float certificate in the norm {self.name}")
        return Fraction(0)


BALLS: dict[str, Ball] = {}  # norms that are neither powers nor of matrices, by name


def ball_of(c: dict[str, Any], factors: list[list[Vector]] | None, width: int) -> Ball:
    """The norm that a certificate names: that of vectors, or one of matrices, with their factors."""
    name = c.get("norm_name", "l2")
    if name in BALLS:
        return BALLS[name]
    if name not in ("nuclear", "spectral"):
        return PowerBall(name)
    d, e = c["shape"]
    if not (isinstance(d, int) and isinstance(e, int) and d * e == width and 0 < max(d, e) <= MOST_SIDE):
        raise ValueError(f"expected a shape of {width} numbers, at most {MOST_SIDE} a side, got {d} x {e}")
    return MatrixBall(name, name == "nuclear", (d, e), factors)


class PowerBall(Ball):
    """l_r of the entries, r a fraction or infinite."""

    def __init__(self, name: str, power: Any = None) -> None:
        text = name.removeprefix("l")
        if power is None and (text == name or not re.fullmatch(r"inf|\d+(\.\d+)?(e[+-]?\d+)?", text)):
            raise ValueError(f"expected a norm l1, l2, linf or a power such as l1.5, got {name[:20]!r}")
        self.name = name
        self.power: Any = power if power is not None else math.inf if text == "inf" else Fraction(float(text))
        if not self.power >= 1:
            raise ValueError(f"expected a norm of a power of at least 1, got {name[:20]!r}")
        self.euclidean, self.rational = self.power == 2, self.power in (1, math.inf)

    @property
    def dual(self) -> Ball:
        """l_r' with 1/r + 1/r' = 1."""
        if self.rational:
            return PowerBall(self.name, math.inf if self.power == 1 else Fraction(1))
        return PowerBall(self.name, self.power / (self.power - 1))

    def length(self, x: Vector) -> Fraction:
        """The norm of x for l1 and linf, exactly."""
        if not self.rational:
            return super().length(x)
        return max(map(abs, x)) if self.power == math.inf else sum(map(abs, x), Fraction(0))

    def at_most(self, x: Vector, bound: Fraction, inner: Inner) -> bool:
        """Whether the norm of x is at most the bound: exactly, or by decimals rounded away from yes."""
        if self.power == 2:
            return inner(x, x) <= bound**2
        if self.rational:
            return self.length(x) <= bound
        if any(abs(v) >= bound for v in x):
            return [abs(v) for v in x if v] == [bound]
        # r multiplies the errors of logarithms: as many digits more as r has
        digits = DIGITS + len(str(math.ceil(self.power)))
        with decimal.localcontext(decimal.Context(digits, decimal.ROUND_HALF_EVEN, **WIDE)):
            unit = decimal.Decimal(10) ** (2 - DIGITS)
            r = decimal.Decimal(self.power.numerator) / decimal.Decimal(self.power.denominator)
            total = decimal.Decimal(0)
            for ratio in (abs(v) / bound for v in x if v):
                up, down = (decimal.Decimal(v).ln() for v in ratio.as_integer_ratio())
                # ln, the quotient r, the difference and the product: each is correctly rounded
                error = unit * (10 + up + down)
                if not error < SMALL:
                    return False
                total += (r * (up - down) + error).exp() + unit
            return bool(total * (1 + (10 + len(x)) * unit) <= 1)


class MatrixBall(Ball):
    """The nuclear or the spectral norm of a matrix that is read row by row; r is its smaller side.

    Nuclear: the certificate has factors K and Q, and |X| <= (|K|^2 + |Q|^2)/2 + sqrt(r) |X - KQ'|, with the
    Frobenius norm on the right. Any K and Q prove something, good ones prove it well.
    Spectral: |X| <= c if c^2 - X'X is semidefinite.
    Numbers are first rounded to integers, in units far below the bound, which pays for that.
    """

    def __init__(
        self, name: str, nuclear: bool, shape: tuple[int, int], factors: list[list[Vector]] | None
    ) -> None:
        self.name, self.nuclear, self.shape, self.factors = name, nuclear, shape, factors
        if factors is not None:
            ranks = {len(row) for factor in factors for row in factor}
            if [*map(len, factors)] != [*shape] or len(ranks) != 1 or max(ranks) > MOST_SIDE:
                raise ValueError(f"expected two factors of {shape[0]} and {shape[1]} rows of one length")

    @property
    def dual(self) -> Ball:
        """Nuclear and spectral are dual to each other."""
        return MatrixBall(self.name, not self.nuclear, self.shape, self.factors)

    def at_most(self, x: Vector, bound: Fraction, inner: Inner) -> bool:
        """By the factors in the nuclear norm, by elimination in the spectral one."""
        d, e = self.shape
        if bound <= 0 or (self.nuclear and self.factors is None):
            return not any(x)
        size = bound.numerator.bit_length() - bound.denominator.bit_length()
        if not self.nuclear:
            unit = Fraction(2) ** (BITS - size)
            whole = [_whole(x[k * e : (k + 1) * e], unit) for k in range(d)]
            columns = whole if d < e else [list(column) for column in zip(*whole, strict=True)]
            return _shorter(columns, math.floor(bound * unit) - max(d, e))
        unit = Fraction(2) ** (BITS - size // 2)
        K, Q = ([_whole(row, unit) for row in factor] for factor in self.factors or ())
        rows = [_whole(x[k * e : (k + 1) * e], unit**2) for k in range(d)]
        squares = sum(v * v for row in (*K, *Q) for v in row)
        room = math.floor(bound * unit**2) - squares // 2 - 1 - max(d, e) ** 2
        rest = sum((rows[i][j] - _times(k, q)) ** 2 for i, k in enumerate(K) for j, q in enumerate(Q))
        return room >= 0 and room**2 >= min(d, e) * rest


def _whole(values: Vector, unit: Fraction) -> list[int]:
    return [math.floor(v * unit) for v in values]


def _times(x: list[int], y: list[int]) -> int:
    return sum(a * b for a, b in zip(x, y, strict=True))


def _shorter(columns: list[list[int]], top: int) -> bool:
    """Whether |Xv| <= top |v| for all v, X given by its columns (or rows, which have the same norm)."""
    if top <= 0 or max(max(map(abs, column)) for column in columns) > top:
        return False
    gap = [[-_times(u, v) for v in columns] for u in columns]
    for k, line in enumerate(gap):
        line[k] += top**2
    return semidefinite(gap)


def semidefinite(M: list[list[int]]) -> bool:
    """Whether a symmetric integer matrix is positive semidefinite, by elimination without fractions."""
    M, before = [list(row) for row in M], 1
    for k, line in enumerate(M):
        pivot = line[k]
        if pivot < 0 or (pivot == 0 and any(line[k:])):
            return False
        if pivot == 0:
            continue
        for row in M[k + 1 :]:
            factor = row[k]
            row[k:] = [(pivot * v - factor * w) // before for v, w in zip(row[k:], line[k:], strict=True)]
        before = pivot
    return True


LARGEST = 2**26  # bytes of a file
MOST_BITS = 2**16  # of a sum of fractions
MOST_TIED = 128  # rows that p is moved onto,
MOST_ROUNDS = 10  # in as many rounds
MOST_DIGITS = 4_300  # of a numerator or a denominator, which is also where Python stops
LABELS = "labels: they name the rows for a reader; the proof is about the rows by their numbers"
GRAM = "gram: that it is positive semidefinite"
_UNREADABLE = (OSError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
_KINDS = ("certified exact", "certified float", "infeasible exact", "undecided float")


def certify(certificate: Any) -> dict[str, Any]:
    """Check a certificate (a path or its dictionary): ``valid``, ``what`` is proved, and the ``violations``.

    ``trusted`` names the parts that no check covers.
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
        text = f"{error!s:.200}"
        why = f"it has no {text}" if isinstance(error, KeyError) else f"{type(error).__name__}: {text}"
        violations = [f"not a readable certificate: {why}"]
    what = "nothing" if violations else what
    return {"valid": not violations, "what": what, "violations": violations, "trusted": trusted}


def _vector(texts: list[str]) -> Vector:
    return [Fraction(float.fromhex(x)) if "0x" in x else _fraction(x) for x in texts]


def _fraction(text: str) -> Fraction:
    """A fraction or a decimal number; one of a billion digits, which 1e999999999 is, would take forever."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > 2 * MOST_DIGITS + 2 or (exponent and not abs(float(exponent)) <= MOST_DIGITS):
        raise ValueError(f"expected numbers of at most {MOST_DIGITS:,} digits, got {text[:20]!r} and so on")
    return Fraction(text)


def _shown(x: Fraction) -> str:
    long = x.numerator.bit_length() + x.denominator.bit_length() > 1_000
    return "a fraction of more than 300 digits" if long else str(x)


def _short(x: Fraction) -> Fraction:
    """The sum so far; fractions of many denominators, which grow without end, are refused."""
    if x.denominator.bit_length() > MOST_BITS or x.numerator.bit_length() > MOST_BITS:
        raise ValueError(f"expected fractions whose sums have at most {MOST_BITS:,} bits, got longer ones")
    return x


def _common(denominators: set[int]) -> int:
    """The least common denominator; one of many fractions, which grows without end, is refused."""
    scale = 1
    for denominator in denominators:
        scale = math.lcm(scale, denominator)
        _short(Fraction(scale))
    return scale


def _dot(x: Vector, y: Vector) -> Fraction:
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if a and b]
    scale = _common({a.denominator for a, _ in pairs}) * _common({b.denominator for _, b in pairs})
    terms = (a.numerator * b.numerator * (scale // (a.denominator * b.denominator)) for a, b in pairs)
    return Fraction(sum(terms), scale)


def _over_one(values: Vector) -> tuple[Vector, int]:
    """Whole numbers and the denominator that they share: sums of these need no common divisors."""
    scale = _common({x.denominator for x in values})
    return [Fraction(x.numerator * (scale // x.denominator)) for x in values], scale


def _plus(x: Vector, factor: Fraction, y: Vector) -> Vector:
    return [_short(a + factor * b) if b else a for a, b in zip(x, y, strict=True)]


def _minus(x: Vector, y: Vector) -> Vector:
    return [a - b for a, b in zip(x, y, strict=True)]


class _Rows:
    """Rows table[plus] - table[minus], times right[right_of], with their inner product.

    That is a Gram matrix's or the usual one. Work is done by token, so that it grows with the file and not
    with rows times width.
    """

    def __init__(self, c: dict[str, Any]) -> None:
        self.gram = None if c["gram"] is None else [_vector(row) for row in c["gram"]]
        if self.gram is None:
            table = [_vector(row) for row in c["table"]]
        else:
            if self.gram != [list(column) for column in zip(*self.gram, strict=True)]:
                raise ValueError("the Gram matrix is not symmetric")
            table = [[Fraction(i == j) for j in range(len(self.gram))] for i in range(len(self.gram))]
        self.left = len(table[0]) if table else 0
        self.table = [*table, [Fraction(0)] * self.left]  # minus = -1
        self.ends = list(zip(c["plus"], c["minus"], strict=True))
        self.right = [[Fraction(1)]] if c["right"] is None else [_vector(row) for row in c["right"]]
        self.right_of = [0] * len(self.ends) if c["right_of"] is None else c["right_of"]
        self.side = len(self.right[0]) if self.right else 0
        self.width = self.left * self.side

    def row(self, j: int) -> Vector:
        plus, minus = self.ends[j]
        left = _minus(self.table[plus], self.table[minus])
        return [x * y for x in left for y in self.right[self.right_of[j]]]

    def inner(self, x: Vector, y: Vector) -> Fraction:
        return _dot(x, y if self.gram is None else [_dot(row, y) for row in self.gram])

    def reach(self, p: Vector) -> Vector:
        """The inner product of every row with p."""
        p, scale = _over_one(p)
        dual = p if self.gram is None else [_dot(row, p) for row in self.gram]
        lines = [dual[k : k + self.side] for k in range(0, self.width, self.side or 1)]
        images = {r: [_dot(line, self.right[r]) for line in lines] for r in set(self.right_of)}
        used = {(t, r) for ends, r in zip(self.ends, self.right_of, strict=True) for t in ends}
        value = {(t, r): _dot(self.table[t], images[r]) for t, r in used}
        both = zip(self.ends, self.right_of, strict=True)
        return [(value[a, r] - value[b, r]) / scale for (a, b), r in both]

    def combine(self, weights: Vector) -> Vector:
        """The sum of the rows, each times its weight."""
        weights, scale = _over_one(weights)
        share: dict[tuple[int, int], Fraction] = {}
        for (a, b), r, weight in zip(self.ends, self.right_of, weights, strict=True):
            if weight:
                share[r, a] = _short(share.get((r, a), Fraction(0)) + weight)
                share[r, b] = _short(share.get((r, b), Fraction(0)) - weight)
        left = {r: [Fraction(0)] * self.left for r, _ in share}
        for (r, token), weight in share.items():
            left[r] = _plus(left[r], weight, self.table[token])
        total = [Fraction(0)] * self.width
        for r, factor in left.items():
            total = _plus(total, Fraction(1), [x * y for x in factor for y in self.right[r]])
        return [x / scale for x in total]

    def correct(self, p: Vector, chosen: list[int], h: Vector) -> Vector:
        """The point nearest to p at which the chosen rows meet their bounds exactly, by elimination."""
        if len(chosen) > MOST_TIED:
            raise ValueError(
                f"expected at most {MOST_TIED} rows to be met exactly, got {len(chosen)}; "
                "save an exact certificate instead"
            )
        rows = [self.row(i) for i in chosen]
        system = [
            [*(self.inner(row, other) for other in rows), self.inner(row, p) - h[i]]
            for i, row in zip(chosen, rows, strict=True)
        ]
        whole = [[int(x) for x in _over_one(line)[0]] for line in system]
        before = 1
        for k, line in enumerate(whole):  # divisions by the pivot before leave no rest (Bareiss)
            pivot = line[k]
            if pivot == 0:  # of a Gram matrix: no exchange of rows helps
                raise ValueError("dependent rows to be met exactly in a float certificate prove nothing")
            for other in whole[k + 1 :]:
                factor = other[k]
                both = zip(other[k:], line[k:], strict=True)
                other[k:] = [(pivot * x - factor * y) // before for x, y in both]
            before = pivot
        solution = [0] * len(whole)  # times the determinant, which is the last pivot
        for k in reversed(range(len(whole))):
            rest = sum(x * y for x, y in zip(whole[k], solution, strict=False))
            solution[k] = (before * whole[k][-1] - rest) // whole[k][k]
        weight = {j: Fraction(x, before) for j, x in zip(chosen, solution, strict=True)}
        return _minus(p, self.combine([weight.get(j, Fraction(0)) for j in range(len(self.ends))]))


def _check(c: dict[str, Any]) -> tuple[str, dict[str, bool]]:
    check_layout(c)
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
        "status, certificate: expected known words": f"{c['status']} {c['certificate']}" in _KINDS,
        "norm_name: expected l2 in Gram form": ball.euclidean or c["gram"] is None,
    }
    if infeasible:
        checks["farkas: the rows do not cancel"] = space.inner(u, u) == 0
        checks["farkas: the bounds do not add up to more than 0"] = gain > 0
        checks["margin_interval: expected [0, 0]"] = lower == upper == 0
        return f"infeasible: the Farkas vector combines rows into 0 >= {_shown(gain)}", checks
    p = u if c["p"] is None else _vector(c["p"])
    if not (ball.euclidean or ball.rational):
        checks["certificate: expected float in this norm"] = not exact or not any(p)
    if exact:
        slack, rest = _minus(space.reach(p), h), _minus(p, u)
        if ball.euclidean:
            checks["p is not the combination of the rows"] = space.inner(rest, rest) == 0
        checks["p violates a row"] = _meets(slack, equal)
        if ball.euclidean:
            square = space.inner(p, p)
            checks["a slack row has a multiplier"] = _dot(weights, slack) == 0
            what = f"p is the minimum-norm solution, |p|^2 = {_shown(square)}"
        else:
            size = ball.length(p)
            square = size**2
            # every p that meets the rows has gain <= u.p <= |u|* |p|
            proved = size == 0 or (gain > 0 and size * ball.dual.length(u) == gain)
            checks["the multipliers do not prove that p is shortest"] = proved
            what = f"p is a solution of least {ball.name} norm, |p| = {_shown(size)}"
        checks["norm_squared is not |p|^2"] = _vector([c["norm_squared"]]) == [square]
        checks["margin_interval misses 1/|p|"] = (
            low * square <= 1 and (high == math.inf or high * square >= 1) if square else low == math.inf
        )
        return what, checks
    near, loose, rounds = p, [j for j, e in enumerate(equal) if e and any(space.row(j))], 0
    fixed = any(b for b, e in zip(h, equal, strict=True) if e)  # then p cannot be scaled, only moved
    broken = lower > 0
    while broken:  # such rows hold up to rounding only: move p onto them
        rounds += 1
        if rounds > MOST_ROUNDS:
            raise ValueError(f"expected p to meet its rows after {MOST_ROUNDS} corrections, it does not")
        p = space.correct(near, loose, h)
        more = [j for j, v in enumerate(space.reach(p)) if (h[j] == 0 or fixed) and v < h[j]]
        loose, broken = loose + more, bool(more)
    reach = min((v / b for v, b in zip(space.reach(p), h, strict=True) if b > 0), default=0)
    if fixed:
        reach = int(_meets(_minus(space.reach(p), h), equal))
    proved = 0 < lower < math.inf and reach > 0 and ball.at_most(p, reach / Fraction(lower), space.inner)
    checks["margin_interval: p does not prove the lower end"] = lower == 0 or proved
    proved = upper == math.inf or (
        upper > 0 and gain > 0 and ball.dual.at_most(u, Fraction(upper) * gain, space.inner)
    )
    checks["margin_interval: the multipliers do not prove the upper end"] = proved
    narrow = lower > 0 and upper - lower <= 1e-8 * upper
    checks["status: too wide an interval to be certified"] = narrow or c["status"] == "undecided"
    margin = "margin" if ball.euclidean else f"{ball.name} margin"
    return f"the {margin} lies in [{lower!r}, {upper!r}]", checks


def _meets(slack: Vector, equal: list[bool]) -> bool:
    return all(s == 0 or (s > 0 and not e) for s, e in zip(slack, equal, strict=True))


MOST_NUMBERS = 10_000_000  # of all rows together


def check_layout(c: Any) -> None:
    """Refuse a certificate unless every field has the type and the shape that its other fields require."""
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
    if "shape" in c:
        _list("shape", c["shape"], int, 2)
    factors = c.get("factors")
    if factors is not None:
        whole = type(factors) is dict and {*factors} == {"left", "right"}
        _expect(whole, "factors", "left and right", factors)
        for side in ("left", "right"):
            _table(f"factors, {side}", factors[side])


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


def _list(name: str, values: Any, kind: type, count: int | None = None) -> list[Any]:
    words = {str: "texts", int: "whole numbers", bool: "true or false"}[kind]
    _expect(type(values) is list, name, f"a list of {words}", values)
    for x in values:
        if type(x) is not kind:
            raise ValueError(f"{name}: expected a list of {words}, got {x!r:.40}")
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
