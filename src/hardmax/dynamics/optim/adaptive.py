"""Rules that divide by a mean of squared gradients: Adam, AdamW, RMSprop (D-DEF-6).

The moments carry exponents of their own, one per coordinate, so that steps are right however small the
gradient is, also without an epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect
from hardmax.dynamics.optim.base import Optimizer, fraction


@dataclass(frozen=True)
class Adaptive(Optimizer):
    """What the rules of this file share: one kernel; ``state`` holds the parameters, m and v."""

    memory: ClassVar[int] = 5

    @property
    def norm(self) -> str:
        """linf, without epsilon and after a wait (D-THM-9)."""
        return "linf"

    @property
    def by_coordinate(self) -> bool:
        """Always."""
        return True

    @property
    def is_pure(self) -> bool:
        """Whether it has neither an epsilon nor weight decay: the laws of D-THM-9 are about that."""
        _, _, epsilon, decay, _ = self.constants
        return epsilon == 0.0 == decay

    @property
    def has_threshold(self) -> bool:
        """With beta1^2 >= beta2 and without epsilon: above it p runs away (D-THM-9b)."""
        beta1, beta2 = self.moments
        return self.is_pure and beta1 > 0.0 and beta2 <= beta1**2

    @property
    def kernel(self) -> Any:
        """`updates.adam`."""
        from hardmax.dynamics.updates import adam

        return adam

    @property
    def moments(self) -> tuple[float, float]:
        """beta1 and beta2."""
        raise NotImplementedError

    @property
    def constants(self) -> tuple[float, ...]:
        """Both betas, epsilon, weight decay, and whether the moments are corrected for their start."""
        return (*self.moments, *self._others)

    @property
    def _others(self) -> tuple[float, float, float]:
        raise NotImplementedError

    def begin(self, x: np.ndarray) -> np.ndarray:
        """A copy of the parameters, and moments that are zero, with their exponents."""
        zero, nothing = np.zeros(x.size), np.full(x.size, -np.inf)
        return np.stack([x, zero, nothing, zero, nothing])


@dataclass(frozen=True)
class Adam(Adaptive):
    """A step along the corrected first moment over the root of the second, plus ``eps``.

    ``eps=0`` is allowed. Then the direction tends to the max margin in linf, though at a constant rate
    only after `hm.limits.adam_waiting` steps (D-THM-9), and with beta1^2 >= beta2 and a rate above
    `hm.limits.runaway_rate` the steps grow without bound: "runaway" (D-THM-9b).

    >>> import hardmax as hm
    >>> round(hm.train(hm.data.example("B-FIG-8"), hm.optim.Adam(0.1, eps=0.0), steps=10_000).p_norm)
    37
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.betas, tuple | list) or len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers from 0 to below 1, got {self.betas!r}")
        for beta in self.betas:
            fraction("betas", beta)
        object.__setattr__(self, "betas", tuple(self.betas))
        expect.nonnegative("eps", self.eps)

    @property
    def moments(self) -> tuple[float, float]:
        """The betas."""
        return self.betas

    @property
    def _others(self) -> tuple[float, float, float]:
        return self.eps, 0.0, 1.0


@dataclass(frozen=True)
class AdamW(Adam):
    """Decoupled weight decay, then a step along the corrected first moment over the root of the second.

    In `train` the moments carry exponents of their own, and ``eps=0`` is allowed: steps are right
    however small the gradient is. Nothing that is proved of gradient descent holds for it.

    >>> import hardmax as hm
    >>> round(hm.train(hm.data.example("B-FIG-8"), hm.optim.AdamW(0.1, eps=0.0), steps=10_000).p_norm)
    37
    """

    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        expect.nonnegative("weight_decay", self.weight_decay)

    @property
    def _others(self) -> tuple[float, float, float]:
        return self.eps, self.weight_decay, 1.0

    def scalars(self, step: int, lr: float) -> np.ndarray:
        """What the trainer's loop needs at step 1, 2, ...: decay, weights of moments, rate, 1/root, epsilon.

        >>> import hardmax as hm
        >>> hm.optim.AdamW(1.0, weight_decay=0.1).scalars(step=1, lr=0.01).round(4).tolist()
        [0.999, 0.1, 0.999, 0.001, 0.1, 31.6228, 0.0]
        """
        beta1, beta2 = self.betas
        first, second = 1.0 - beta1**step, 1.0 - beta2**step
        keep = 1.0 - lr * self.weight_decay
        weights = [1.0 - beta1, beta2, 1.0 - beta2]
        return np.array([keep, *weights, lr / first, 1.0 / math.sqrt(second), self.eps])


@dataclass(frozen=True)
class RMSprop(Adaptive):
    """A step along the gradient over the root of a mean of its square, plus ``eps``; nothing corrected.

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.RMSprop(0.01), steps=1).p.round(6).tolist()
    [-0.1, 0.1]
    """

    beta: float = 0.99
    eps: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("beta", self.beta)
        expect.nonnegative("eps", self.eps)

    @property
    def moments(self) -> tuple[float, float]:
        """No first moment."""
        return 0.0, self.beta

    @property
    def _others(self) -> tuple[float, float, float]:
        return self.eps, 0.0, 0.0
