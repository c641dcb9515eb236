"""Mirror maps: the dual points of mirror descent and mirror flow, and the way back."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.margin.constraints import Bools, Floats

# Where the rate of a power would be infinite it is about this at most, for numbers of order one.
FASTEST = 1e6


class MirrorMap(ABC):
    """A mirror map, coordinate by coordinate: the dual point xi is the gradient of a convex potential at p.

    Mirror flow is dxi/dt = F, minus the gradient, so dp/dt = F dp/dxi. The potential is homogeneous of
    ``degree``: the flow of c p is that of p in c^degree times the time. To write are ``degree``, `dual`,
    `image` and `log_rate`; a map whose rate depends on p also has `bend`.

    >>> import hardmax as hm
    >>> cube = hm.margin.norm("l3").mirror
    >>> cube.degree, cube.dual([-2.0]).tolist(), cube.image([-4.0]).tolist()
    (3.0, [-4.0], [-2.0])
    """

    degree: float

    @abstractmethod
    def dual(self, p: Floats) -> Floats:
        """The dual point xi of p."""

    @abstractmethod
    def image(self, xi: Floats) -> Floats:
        """The point p of a dual point."""

    @abstractmethod
    def log_rate(self, p: Floats) -> Floats:
        """The log of dp/dxi at p."""

    def bend(self, speed: Floats, p: Floats) -> Floats:
        """The derivative of speed = F dp/dxi by p, for a fixed F."""
        return np.zeros(len(p))

    def inner(self, p: Floats) -> Bools:
        """The coordinates that a flow follows by their xi, because p is at rest near where they are."""
        return np.zeros(len(p), dtype=bool)

    def slope(self, xi: Floats) -> Floats:
        """The rate dp/dxi at a dual point, read for `inner` coordinates only."""
        return np.exp(self.log_rate(self.image(xi)))


@dataclass(frozen=True)
class PowerMap(MirrorMap):
    """The map of |p|_r^r/r: xi = sign(p)|p|^(r-1), p = sign(xi)|xi|^(q-1), dp/dxi = (q-1)|p|^(2-r) (3.7).

    With r > 2 p is infinitely fast where it crosses zero: nearer to it than ``near``, which is 1e-6 in l3,
    |p|^power is (p^2 + near^2)^(power/2). With r < 2 it would be at rest at p_k = 0, so a coordinate with
    |p_k| < 1 is followed by its xi_k, which passes through zero like any number.
    """

    degree: float

    @property
    def q(self) -> float:
        """The dual power, 1/r + 1/q = 1."""
        return self.degree / (self.degree - 1.0)

    @cached_property
    def near(self) -> float:
        """The distance from zero within which the rate is rounded off."""
        return FASTEST ** (-1.0 / (self.degree - 2.0)) if self.degree > 2.0 else 0.0

    def dual(self, p: Floats) -> Floats:
        """sign(p) |p|^(r-1)."""
        return _signed(p, self.degree - 1.0)

    def image(self, xi: Floats) -> Floats:
        """sign(xi) |xi|^(q-1)."""
        return _signed(xi, self.q - 1.0)

    def log_rate(self, p: Floats) -> Floats:
        """log((q-1) |p|^(2-r)), rounded off."""
        return math.log(self.q - 1.0) + (2.0 - self.degree) * np.log(np.hypot(p, self.near))

    def bend(self, speed: Floats, p: Floats) -> Floats:
        """(2-r) speed/p, rounded off."""
        return (2.0 - self.degree) * speed * p / np.hypot(p, self.near) ** 2

    def inner(self, p: Floats) -> Bools:
        """Small coordinates, with r < 2."""
        return (np.abs(p) < 1.0) & (self.degree < 2.0)

    def slope(self, xi: Floats) -> Floats:
        """(q-1) |xi|^(q-2)."""
        return np.asarray((self.q - 1.0) * np.abs(xi) ** (self.q - 2.0))


def _signed(x: Floats, power: float) -> Floats:
    return np.asarray(np.sign(x) * np.abs(x) ** power)
