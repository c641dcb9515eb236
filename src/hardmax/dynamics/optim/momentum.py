"""Rules with a mean of past gradients: before a steepest step (Momentum, Signum, Muon), or as a heavy ball.

The mean m = beta m + (1 - beta) g keeps an exponent of its own: with that of the gradient it would overflow
once they shrink at different rates (D-DEF-6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect
from hardmax.dynamics.optim.base import Optimizer, fraction, norm_name
from hardmax.dynamics.optim.steepest import InNorm, norm_step
from hardmax.margin.norms import norm

FROZEN = 100  # steps in a row with a gradient e^-50 times the mean: it has no say any more (D-THM-7)


@dataclass(frozen=True)
class Averaged(InNorm):
    """What rules with a mean before a steepest step share; ``state`` holds m, its exponents and a count."""

    memory: ClassVar[int] = 3

    @property
    def fading(self) -> float:
        """Beta."""
        raise NotImplementedError

    @property
    def has_threshold(self) -> bool:
        """Above it the mean freezes (D-THM-7)."""
        return self.normalized and self.fading > 0.0

    @property
    def kernel(self) -> Any:
        """`updates.momentum` for powers; other norms are asked for their step."""
        if norm(self.norm).power is None:
            return None
        from hardmax.dynamics.updates import momentum

        return momentum

    @property
    def constants(self) -> tuple[float, ...]:
        """Beta, the power of the norm, whether steps are normalised."""
        return self.fading, norm(self.norm).power or 0.0, float(self.normalized)

    def begin(self, x: np.ndarray) -> np.ndarray:
        """No mean yet."""
        zero = np.zeros(x.shape)
        return np.stack([zero, np.full(x.shape, -np.inf), zero])

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, lr: float, step: int
    ) -> np.ndarray:
        """By the kernel, or by the step of the norm, with one exponent for the whole mean."""
        if self.kernel is not None:
            return super().update(direction, exponents, state, lr, step)
        beta = self.fading
        top = float(exponents.max())
        old = float(state[1].max()) + (math.log(beta) if beta else -math.inf)
        new = max(old, top)
        state[0] *= math.exp(old - new)
        state[0] += (1.0 - beta) * math.exp(top - new) * np.exp(exponents - top) * direction
        state[1] = new
        state[2] = state[2] + 1 if top < new - 50.0 else 0.0
        along, log_size = self.along(state[0], state[1])
        return (lr if self.normalized else lr * math.exp(log_size)) * along

    def along(self, m: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, float]:
        """The unit step for a mean, and the log of its dual norm."""
        return norm_step(self.norm, m, exponents)

    def event(self, state: np.ndarray) -> str | None:
        """Whether the mean goes on without the gradient."""
        return "frozen momentum" if state[2].flat[0] >= FROZEN else None


@dataclass(frozen=True)
class Momentum(Averaged):
    """Steepest steps along a mean of gradients, m = beta m + (1 - beta) g, in any ``norm``.

    In l2 this is normalised gradient descent with momentum, and not ``normalized`` the heavy ball. With a
    constant rate above -log(beta)/margin the mean shrinks more slowly than the gradient: the run goes on
    along it for ever, and says "frozen momentum" (D-THM-7).

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> hm.train(problem, hm.optim.Momentum(0.1), steps=1000)
    Run(momentum in l2 to step = 1000, |p| = 99.3632, event=None)
    """

    beta: float = 0.9
    norm: str = "l2"
    normalized: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("beta", self.beta)
        norm_name(self)

    @property
    def name(self) -> str:
        """With the norm."""
        return f"momentum in {self.norm}"

    @property
    def fading(self) -> float:
        """Beta."""
        return self.beta


@dataclass(frozen=True)
class Signum(Averaged):
    """Signum: every coordinate moves by ``lr`` along the sign of the mean gradient; momentum in linf.

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Signum(0.25), steps=4).p.tolist()
    [-1.0, 1.0]
    """

    beta: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("beta", self.beta)

    @property
    def norm(self) -> str:
        """linf."""
        return "linf"

    @property
    def fading(self) -> float:
        """Beta."""
        return self.beta


@dataclass(frozen=True)
class Muon(Averaged):
    """Muon on a matrix W: all singular values of the mean gradient become ``lr``; spectral momentum.

    The polar factor is exact, by singular values; ``newton_schulz=k`` takes k of the usual quintic iterations
    instead, whose constant error is then part of the steps.

    >>> import numpy as np, hardmax as hm
    >>> step, rough = hm.optim.Muon(1.0), hm.optim.Muon(1.0, newton_schulz=5)
    >>> G, same = np.diag([4.0, 2.0]), np.zeros((2, 2))
    >>> [each.update(G, same, each.begin(G), 1.0, 0).round(3).tolist() for each in (step, rough)]
    [[[1.0, 0.0], [0.0, 1.0]], [[0.689, 0.0], [0.0, 1.114]]]
    """

    beta: float = 0.9
    newton_schulz: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("beta", self.beta)
        expect.whole("newton_schulz", self.newton_schulz)

    @property
    def norm(self) -> str:
        """The largest singular value."""
        return "spectral"

    @property
    def fading(self) -> float:
        """Beta."""
        return self.beta

    def along(self, m: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, float]:
        """Exact, or by Newton and Schulz."""
        if not self.newton_schulz:
            return super().along(m, exponents)
        return newton_schulz(m, self.newton_schulz), math.nan


def newton_schulz(G: np.ndarray, steps: int) -> np.ndarray:
    """The polar factor up to some 0.3 in each singular value, as Muon is usually run.

    >>> import numpy as np
    >>> np.linalg.svd(newton_schulz(np.diag([1.0, 0.5, 1e-3]), 5))[1].round(2).tolist()
    [1.11, 0.69, 0.42]
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    X = G / np.linalg.norm(G)
    for _ in range(steps):
        A = X @ X.T
        X = a * X + (b * A + c * A @ A) @ X
    return X


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent with a heavy ball, in the order of operations of torch.optim.SGD.

    ``weight_decay`` is added to the gradient. On a whole problem there is nothing stochastic about it; the
    name is that of the mini-batch trainer. ``hm.train(..., batch=b)`` takes batches of inputs in turn.

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.SGD(0.1, momentum=0.9), steps=100).selection
    (0, 0)
    """

    momentum: float = 0.0
    weight_decay: float = 0.0

    memory: ClassVar[int] = 2
    title: ClassVar[str] = "gradient descent with momentum"

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("momentum", self.momentum)
        expect.nonnegative("weight_decay", self.weight_decay)

    @property
    def normalized(self) -> bool:
        """It is not."""
        return False

    @property
    def in_span(self) -> bool:
        """Without weight decay, which would also shrink the rest of the start."""
        return self.weight_decay == 0.0

    @property
    def kernel(self) -> Any:
        """`updates.heavy_ball`."""
        from hardmax.dynamics.updates import heavy_ball

        return heavy_ball

    def begin(self, x: np.ndarray) -> np.ndarray:
        """A copy of the parameters, and no velocity."""
        return np.stack([x, np.zeros(x.size)])

    def scalars(self, step: int, lr: float) -> np.ndarray:
        """What the trainer's loop needs: decay, momentum, rate; the same at every step.

        >>> import hardmax as hm
        >>> hm.optim.SGD(1.0, weight_decay=0.1, momentum=0.9).scalars(step=1, lr=0.5).tolist()
        [0.1, 0.9, 0.5]
        """
        return np.array([self.weight_decay, self.momentum, lr])
