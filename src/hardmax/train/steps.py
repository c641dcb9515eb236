"""Step rules: how an optimiser turns minus the gradient into a move. Public as `hm.steps`.

A rule sees minus the gradient as ``direction`` times exp(``exponents``), coordinate by coordinate, because at
large norms the gradient itself is no float64. It may keep numbers between steps in ``state``. A rule of your
own is one class with `update` in plain Python (docs/dynamics.md); one that comes with hardmax also has a
``kernel``, the same in a compiled function (train/updates.py), so that no loop has to know it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect

__all__ = ["GD", "SGD", "AdamW", "Normalized", "Step"]

Rate = float | str | Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Step:
    """A step rule: a ``rate`` (a number, one per step, or "1/L_p") and an update.

    ``norm`` is the norm whose steepest descent the rule is. ``in_span`` says whether moves are combinations
    of gradients, and turn with them: then p stays in p(0) + span of the keys, and coordinates of that span
    will do. ``memory`` is the number of rows of ``state``.

    >>> import numpy as np, hardmax as hm
    >>> class Sign(hm.steps.Step):
    ...     norm = "linf"
    ...     def update(self, direction, exponents, state, rate, step):
    ...         return rate * np.sign(direction)
    >>> hm.descend(hm.data.named("B-FIG-8"), Sign(0.5), steps=4).p.tolist()
    [0.0, 2.0]
    """

    rate: Rate

    norm: ClassVar[str] = "l2"
    memory: ClassVar[int] = 0
    title: ClassVar[str] = ""

    def __post_init__(self) -> None:
        rate = self.rate
        if isinstance(rate, str):
            if rate != "1/L_p":
                raise ValueError(f'rate must be a positive number, a list of them or "1/L_p", got {rate!r}')
        elif np.ndim(rate) == 0:
            expect.positive("rate", rate)

    @property
    def in_span(self) -> bool:
        """Whether p stays in p(0) + span of the keys."""
        return False

    @property
    def name(self) -> str:
        """What a run calls this training."""
        return self.title or type(self).__name__

    @property
    def kernel(self) -> Any:
        """The update as a compiled function, as train/updates.py has them; None for plain Python."""
        return None

    @property
    def constants(self) -> tuple[float, ...]:
        """The numbers other than the rate, which the kernel receives."""
        return tuple(float(getattr(self, each.name)) for each in fields(self) if each.name != "rate")

    def begin(self, x: np.ndarray) -> np.ndarray:
        """The state before the first step, from the start x: (memory, d)."""
        return np.zeros((self.memory, x.size))

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, rate: float, step: int
    ) -> np.ndarray:
        """The move of step 0, 1, ..., where minus the gradient is direction * exp(exponents).

        ``state`` is changed in place.
        """
        if self.kernel is None:
            raise ValueError(f"{type(self).__name__} has no update: write one, as hm.steps.Step shows")
        move = np.empty_like(direction)
        self.kernel(direction, exponents, np.array(self.constants), state, rate, step, move)
        return move


@dataclass(frozen=True)
class GD(Step):
    """Gradient descent: a step is the rate times minus the gradient.

    >>> import hardmax as hm
    >>> hm.descend(hm.data.named("B-FIG-8"), hm.steps.GD("1/L_p"), steps=10)
    Run(gradient descent to step = 10, |p| = 0.109799, event=None)
    """

    title: ClassVar[str] = "gradient descent"

    @property
    def in_span(self) -> bool:
        """Always."""
        return True

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, rate: float, step: int
    ) -> np.ndarray:
        """Rate times minus the gradient."""
        return rate * np.exp(exponents) * direction


@dataclass(frozen=True)
class Normalized(Step):
    """Normalised gradient descent: steps of length ``rate`` along minus the gradient, right at any norm.

    ``epsilon`` is added to the gradient's norm as some public notebooks do; it stalls the path (B-ERR-11) and
    is zero unless asked for.

    >>> import hardmax as hm
    >>> hm.descend(hm.data.named("B-FIG-8"), hm.steps.Normalized(0.1), steps=10)
    Run(normalised gradient descent to step = 10, |p| = 0.944391, event=None)
    """

    epsilon: float = 0.0

    title: ClassVar[str] = "normalised gradient descent"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect.nonnegative("epsilon", self.epsilon)

    @property
    def in_span(self) -> bool:
        """Always."""
        return True

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, rate: float, step: int
    ) -> np.ndarray:
        """Rate times the unit vector of minus the gradient."""
        top = exponents.max()
        V = np.exp(exponents - top) * direction
        return rate * V / (np.linalg.norm(V) + self.epsilon * math.exp(min(-top, 700.0)))


@dataclass(frozen=True)
class SGD(Step):
    """Gradient descent with a heavy ball, in the order of operations of torch.optim.SGD.

    ``weight_decay`` is added to the gradient. On a whole problem there is nothing stochastic about it; the
    name is that of the mini-batch trainer.

    >>> import hardmax as hm
    >>> hm.descend(hm.data.named("B-FIG-8"), hm.steps.SGD(0.1, momentum=0.9), steps=100).selection().tokens
    (0, 0)
    """

    momentum: float = 0.0
    weight_decay: float = 0.0

    memory: ClassVar[int] = 2
    title: ClassVar[str] = "gradient descent with momentum"

    def __post_init__(self) -> None:
        super().__post_init__()
        _fraction("momentum", self.momentum)
        expect.nonnegative("weight_decay", self.weight_decay)

    @property
    def in_span(self) -> bool:
        """Without weight decay, which would also shrink the rest of the start."""
        return self.weight_decay == 0.0

    @property
    def kernel(self) -> Any:
        """`updates.heavy_ball`."""
        from hardmax.train.updates import heavy_ball

        return heavy_ball

    def begin(self, x: np.ndarray) -> np.ndarray:
        """A copy of the parameters, and no velocity."""
        return np.stack([x, np.zeros(x.size)])

    def scalars(self, step: int, rate: float) -> np.ndarray:
        """What the trainer's loop needs: decay, momentum, rate; the same at every step.

        >>> import hardmax as hm
        >>> hm.steps.SGD(1.0, weight_decay=0.1, momentum=0.9).scalars(step=1, rate=0.5).tolist()
        [0.1, 0.9, 0.5]
        """
        return np.array([self.weight_decay, self.momentum, rate])


@dataclass(frozen=True)
class AdamW(Step):
    """Decoupled weight decay, then a step along the corrected first moment over the root of the second.

    In `descend` the moments carry exponents of their own, and ``epsilon=0`` is allowed: steps are right
    however small the gradient is. Nothing that is proved of gradient descent holds for it.

    >>> import hardmax as hm
    >>> round(hm.descend(hm.data.named("B-FIG-8"), hm.steps.AdamW(0.1, epsilon=0.0), steps=10_000).norm)
    37
    """

    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    norm: ClassVar[str] = "linf"
    memory: ClassVar[int] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.betas, tuple | list) or len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers from 0 to below 1, got {self.betas!r}")
        for beta in self.betas:
            _fraction("betas", beta)
        object.__setattr__(self, "betas", tuple(self.betas))
        expect.nonnegative("epsilon", self.epsilon)
        expect.nonnegative("weight_decay", self.weight_decay)

    @property
    def constants(self) -> tuple[float, ...]:
        """Both betas, epsilon, weight decay."""
        return (*self.betas, self.epsilon, self.weight_decay)

    @property
    def kernel(self) -> Any:
        """`updates.adam`."""
        from hardmax.train.updates import adam

        return adam

    def begin(self, x: np.ndarray) -> np.ndarray:
        """A copy of the parameters, and moments that are zero, with their exponents."""
        zero, nothing = np.zeros(x.size), np.full(x.size, -np.inf)
        return np.stack([x, zero, nothing, zero, nothing])

    def scalars(self, step: int, rate: float) -> np.ndarray:
        """What the trainer's loop needs at step 1, 2, ...: decay, weights of moments, rate, 1/root, epsilon.

        >>> import hardmax as hm
        >>> hm.steps.AdamW(1.0, weight_decay=0.1).scalars(step=1, rate=0.01).round(4).tolist()
        [0.999, 0.1, 0.999, 0.001, 0.1, 31.6228, 0.0]
        """
        beta1, beta2 = self.betas
        first, second = 1.0 - beta1**step, 1.0 - beta2**step
        keep = 1.0 - rate * self.weight_decay
        weights = [1.0 - beta1, beta2, 1.0 - beta2]
        return np.array([keep, *weights, rate / first, 1.0 / math.sqrt(second), self.epsilon])


def settings(step: Step) -> dict[str, Any]:
    """Name and constants of a rule, its rate apart, as a checkpoint keeps them."""
    return {"step": type(step).__name__, **{name: x for name, x in asdict(step).items() if name != "rate"}}


def _fraction(name: str, x: Any) -> float:
    """A number from 0 to below 1."""
    x = expect.nonnegative(name, x)
    if x >= 1.0:
        raise ValueError(f"{name} must be from 0 to below 1, got {x:g}")
    return float(x)
