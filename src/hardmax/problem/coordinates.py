"""Units and coordinates: keys of 1e-160 or 1e160 are data like any other, and the span of their differences.

Primal: p itself. QR: p in an orthonormal basis of that span. Gram: p = p(0) + sum_r c_r rows_r, where only
the logits of the rows and their inner products are needed, so that a step does not depend on d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hardmax._lib.arrays import exponent, lengths
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.problem.problem import Slots, slots_of
from hardmax.problem.readouts import LinearReadout

Coordinates = Literal["auto", "primal", "gram", "qr"]


@dataclass(frozen=True, eq=False)
class Differences:
    """Rows that span all key differences: a slot's key is its reference plus its row, or the reference."""

    plus: np.ndarray  # (m,) token of each row
    minus: np.ndarray  # (m,) reference token of each row
    row: np.ndarray  # (M,) row of each slot, m for a reference


def differences(slots: Slots) -> Differences:
    """To each input's first token, or, where inputs share tokens a lot, all to one token of the table."""
    firsts, sizes = slots.offsets[:-1], np.diff(slots.offsets)
    n, M = len(firsts), len(slots.tokens)
    if (slots.tokens[1:] <= slots.tokens[:-1]).any():  # else no token occurs in two inputs
        used, place = np.unique(slots.tokens, return_inverse=True)
        if len(used) - 1 < M - n:
            return Differences(used[1:], np.full(len(used) - 1, used[0]), (place - 1) % len(used))
    row = np.arange(M) - np.repeat(np.arange(1, n + 1), sizes)
    row[firsts] = M - n
    others = np.delete(slots.tokens, firsts)
    return Differences(others, np.repeat(slots.tokens[firsts], sizes - 1), row)


def rows_of(slots: Slots) -> np.ndarray:
    """Return rows that span all key differences, (m, d)."""
    spans = differences(slots)
    return slots.table.differences(spans.plus, spans.minus)


def known(wanted: Coordinates) -> Coordinates:
    """Return the name of coordinates, or raise a ValueError."""
    if wanted not in ("auto", "primal", "gram", "qr"):
        raise ValueError(f'coordinates must be "auto", "primal", "gram" or "qr", got {wanted!r}')
    return wanted


def choose(wanted: Coordinates, m: int, slots: int, d: int, steps: int) -> Coordinates:
    """Return these coordinates, or for "auto" the cheaper ones, the one-off Gram matrix included.

    Measured: a Gram step takes 0.2 ns per entry, a primal one 10 + 1.5 d ns per slot on top of what both do.
    """
    if known(wanted) != "auto":
        return wanted
    return "gram" if 0.2 * m * m * (steps + d) < (10 + 1.5 * d) * slots * steps else "primal"


def orthonormal_basis(slots: Slots) -> np.ndarray:
    """(d, r) orthonormal columns that span every key difference."""
    basis, _ = np.linalg.qr(rows_of(slots).T)
    return np.ascontiguousarray(basis)


def in_basis(problem: Problem, slots: Slots, basis: np.ndarray) -> tuple[Problem, Slots]:
    """The problem and its merged slots with the keys in the coordinates of a basis (d, r)."""
    table = Dense(np.ascontiguousarray(problem.keys @ basis))
    return problem._with(table=table, W=None), replace(slots, table=table)


# Keys up to 2^64 and down to 2^-64 are left alone: their fourth powers are far inside the range.
MODERATE = 64


@dataclass(frozen=True, eq=False)
class Scale:
    """A problem with its keys divided by 2^exponent."""

    problem: Problem
    exponent: int

    @property
    def log(self) -> float:
        """Log of the divisor of the keys."""
        return self.exponent * math.log(2.0)

    def point(self, p: np.ndarray, name: str = "p") -> np.ndarray:
        """Return p in the units of the scaled problem; raise a ValueError where its logits would overflow."""
        room = 1022 - self.problem.table.exponent - self.problem.d.bit_length() - self.exponent
        if exponent(p) > room and p.any():
            raise ValueError(
                f"{name} must be at most {math.ldexp(1.0, min(room, 1023)):.1g} with these keys, "
                f"got {np.abs(p).max():.3g}: its logits would leave the range of float64"
            )
        return self.shift(p, self.exponent, name)

    def back(self, points: np.ndarray) -> np.ndarray:
        """Points of the scaled problem in the user's units, refused if their logits overflowed."""
        points = self.shift(points, -self.exponent, "p after some steps of this size")
        self.point(points, "p after some steps")
        return points

    def rates(self, rates: np.ndarray, normalized: bool, shift: int = 0) -> np.ndarray:
        """Optimizer sizes times 2^shift, for the scaled problem."""
        power = self.exponent * (1 if normalized else 2) + shift
        scaled = self.shift(rates, power, "lr is too large for keys of this size: the first step")
        if power and (scaled < np.finfo(float).tiny).any():
            raise ValueError("lr is too small for keys of this size: no step could be told from zero")
        return scaled

    @staticmethod
    def shift(x: np.ndarray, power: int, what: str) -> np.ndarray:
        """Return x 2^power, or raise a ValueError that names what leaves the range of float64."""
        if power:
            with np.errstate(over="ignore", under="ignore"):
                x = np.ldexp(x, power)
        if not np.isfinite(x).all():
            raise ValueError(f"{what} would overflow float64 (1.8e308); rescale the keys")
        return x


def moderate(power: int) -> int:
    """Half of an exponent that is far from zero: divided by that, rates, keys and p all stay in range."""
    return power // 2 if abs(power) > MODERATE else 0


def scaled(problem: Problem, *, to_one: bool = False) -> Scale:
    """The problem with keys of moderate size, or with key differences of length about one."""
    power = problem.table.exponent
    safe = divided(problem, moderate(power))
    if not to_one:
        return safe
    whole = safe.exponent + exponent(lengths(rows_of(slots_of(safe.problem))))
    return divided(problem, max(whole, power - 900))  # an input far from the others must not overflow


def divided(problem: Problem, power: int) -> Scale:
    """The problem with keys over 2^power."""
    if power == 0:
        return Scale(problem, 0)
    W = None if problem.key_map is None else np.ldexp(problem.key_map, -power)
    return Scale(problem._with(table=problem.table.over(power), W=W), power)


def scaled_readout(problem: Problem, *, to_one: bool = False) -> tuple[Scale, LinearReadout]:
    """The readout with values of moderate size, or of size one: what keys are to p, values are to v."""
    head = problem.readout.linear
    assert head is not None
    power = exponent(head.values)
    scale = divided(problem._with(table=Dense(head.values), W=None), power if to_one else moderate(power))
    return scale, replace(head, values=scale.problem.keys, v=scale.point(head.v, "head"))
