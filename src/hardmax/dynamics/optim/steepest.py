"""Steepest descent in a norm, plain and normalised (D-DEF-6): of all moves as long, that which gains most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect
from hardmax.dynamics.optim.base import Optimizer, need_number, norm_name
from hardmax.margin.norms import norm


@dataclass(frozen=True)
class Mirror(Optimizer):
    """Mirror descent: the dual point moves along minus the gradient, p is its image.

    The dual point xi has p_k = sign(xi_k) |xi_k|^(1/(power - 1)). ``normalized`` steps of xi have length
    ``lr`` in the dual norm. The direction tends to the max margin in l_power at any constant rate
    (D-THM-3); power 2 is (normalised) gradient descent.

    >>> import hardmax as hm
    >>> run = hm.train(hm.data.example("B-FIG-8"), hm.optim.Mirror(0.1, power=3), steps=1000)
    >>> run.optimizer.norm, run.p.round(2).tolist()
    ('l3', [3.04, 9.89])
    """

    power: float
    normalized: bool = True

    memory: ClassVar[int] = 2
    title: ClassVar[str] = "mirror descent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if expect.positive("power", self.power) <= 1:
            raise ValueError(
                f"power must be a number above 1, got {self.power:g}; steps in l1 are those of "
                "hm.optim.Coordinate"
            )
        need_number(self)

    @property
    def norm(self) -> str:
        """That of the power."""
        return norm(float(self.power)).name

    @property
    def name(self) -> str:
        """With the norm."""
        return f"{self.title} in {self.norm}"

    @property
    def in_span(self) -> bool:
        """With power 2."""
        return self.power == 2

    @property
    def kernel(self) -> Any:
        """`updates.mirror`."""
        from hardmax.dynamics.updates import mirror

        return mirror

    def begin(self, x: np.ndarray) -> np.ndarray:
        """The start and its dual point."""
        return np.stack([x, np.sign(x) * np.abs(x) ** (self.power - 1)])


@dataclass(frozen=True)
class InNorm(Optimizer):
    """What a rule in a norm of its choice says of itself, with or without a memory."""

    @property
    def in_span(self) -> bool:
        """In l2."""
        return self.norm == "l2"

    @property
    def by_coordinate(self) -> bool:
        """In any other norm of vectors: its steps also move coordinates with next to no gradient."""
        return self.norm != "l2" and not self.of_matrix


@dataclass(frozen=True)
class Steepest(InNorm):
    """What the rules of this file share: one kernel for all powers, the step of the norm for others."""

    @property
    def has_threshold(self) -> bool:
        """In smooth norms other than l2 (D-THM-5)."""
        ball = norm(self.norm)
        round_only = ball.strictly_convex and not ball.inner_product
        return self.normalized and round_only and not self.damping

    @property
    def kernel(self) -> Any:
        """`updates.steepest` for powers; other norms are asked for their step."""
        if norm(self.norm).power is None:
            return None
        from hardmax.dynamics.updates import steepest

        return steepest

    @property
    def constants(self) -> tuple[float, ...]:
        """The power of the norm, whether steps are normalised, and epsilon."""
        return norm(self.norm).power or 0.0, float(self.normalized), self.damping

    @property
    def damping(self) -> float:
        """What is added to the gradient's norm."""
        return 0.0

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, lr: float, step: int
    ) -> np.ndarray:
        """By the kernel, or by the step of the norm."""
        if self.kernel is not None:
            return super().update(direction, exponents, state, lr, step)
        along, log_size = norm_step(self.norm, direction, exponents)
        if not self.normalized:
            return lr * math.exp(log_size) * along
        return lr / (1.0 + self.damping * math.exp(min(-log_size, 700.0))) * along


@dataclass(frozen=True)
class GD(Steepest):
    """Gradient descent: a step is the rate times minus the gradient.

    In another ``norm`` it is plain steepest descent: the rate times the dual norm of the gradient, along the
    step of norm 1 that gains most.

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.GD("1/L_p"), steps=10)
    Run(gradient descent to step = 10, |p| = 0.109799, event=None)
    """

    norm: str = "l2"

    title: ClassVar[str] = "gradient descent"

    def __post_init__(self) -> None:
        super().__post_init__()
        norm_name(self)

    @property
    def normalized(self) -> bool:
        """It is not."""
        return False

    @property
    def name(self) -> str:
        """With the norm, if it is not l2."""
        return self.title if self.norm == "l2" else f"{self.title} in {self.norm}"


@dataclass(frozen=True)
class Normalized(Steepest):
    """Normalised descent: steps of length ``lr`` in the ``norm``, right however small the gradient is.

    ``eps`` is added to the gradient's norm as some public notebooks do; it stalls the path (B-ERR-11) and
    is zero unless asked for. In l2 the direction is right for any constant rate (D-THM-3), in other norms
    below a threshold only, `hm.limits.critical_rate` (D-THM-5).

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), steps=10)
    Run(normalised gradient descent to step = 10, |p| = 0.944391, event=None)
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1, norm="l3"), steps=10)
    Run(normalised gradient descent in l3 to step = 10, |p| = 0.96328, event=None)
    """

    eps: float = 0.0
    norm: str = "l2"

    title: ClassVar[str] = "normalised gradient descent"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect.nonnegative("eps", self.eps)
        norm_name(self)

    @property
    def name(self) -> str:
        """With the norm, if it is not l2."""
        return self.title if self.norm == "l2" else f"{self.title} in {self.norm}"

    @property
    def damping(self) -> float:
        """Epsilon."""
        return self.eps


@dataclass(frozen=True)
class Sign(Steepest):
    """Sign descent: every coordinate moves by ``lr``; a coordinate whose pulls cancel to rounding rests.

    Steepest descent in linf. With a constant rate it need not end at the max margin (D-THM-6); ``decay=0.5``
    mends that.

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Sign(0.5), steps=4).p.tolist()
    [0.0, 2.0]
    """

    title: ClassVar[str] = "sign descent"

    @property
    def norm(self) -> str:
        """linf."""
        return "linf"


@dataclass(frozen=True)
class Coordinate(Steepest):
    """Coordinate descent: the coordinate with the largest gradient moves by ``lr``, of several the first.

    Steepest descent in l1. A constant rate may be too large for it to get anywhere: then it ends in a
    "cycle" (D-THM-6).

    >>> import hardmax as hm
    >>> [hm.train(hm.data.example("B-FIG-8"), hm.optim.Coordinate(lr), steps=100) for lr in (0.1, 0.5)]
    [Run(coordinate descent to step = 100, |p| = 7.91202, event=None),
     Run(coordinate descent to step = 100, |p| = 4.74342, event='cycle')]
    """

    title: ClassVar[str] = "coordinate descent"

    @property
    def norm(self) -> str:
        """l1."""
        return "l1"


@dataclass(frozen=True)
class Spectral(Steepest):
    """Spectral descent of a matrix W: all singular values of the gradient become ``lr``.

    >>> import numpy as np, hardmax as hm
    >>> step = hm.optim.Spectral(0.5)
    >>> G = np.array([[0.0, 4.0], [-2.0, 0.0]])
    >>> step.update(G, np.full((2, 2), -9000.0), step.begin(G), lr=0.5, step=0).round(12).tolist()
    [[0.0, 0.5], [-0.5, 0.0]]
    """

    title: ClassVar[str] = "spectral descent"

    @property
    def norm(self) -> str:
        """The largest singular value."""
        return "spectral"


def norm_step(name: str, direction: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, float]:
    """The steepest step for direction * exp(exponents), by the norm itself, and the log of its dual norm."""
    ball, top = norm(name), float(exponents.max())
    G = np.exp(exponents - top) * direction
    return ball.step(G), top + math.log(ball.dual.value(G))
