"""The base of every optimizer: a learning rate, an update, a norm, and properties that the loops use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import WrongType
from hardmax.margin.norms import NORMS, norm

Rate = float | str | Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Optimizer:
    """An optimizer: a learning rate ``lr`` (a number, one per step, or "1/L_p") and an update.

    With ``decay=a`` step 0, 1, ... has the rate over (step + 1)^a. ``norm`` is the norm whose steepest
    descent the rule is. ``in_span`` is true if moves are combinations of gradients, and turn with them:
    then p stays in p(0) + span of the keys, and coordinates of that span suffice. ``by_coordinate`` requires
    an exponent per coordinate, which a rule needs that acts on coordinates far below the largest; else all
    are the same. ``memory`` is the number of rows of ``state``.

    >>> import numpy as np, hardmax as hm
    >>> class Halved(hm.optim.Optimizer):
    ...     norm = "linf"
    ...     def update(self, direction, exponents, state, lr, step):
    ...         return 0.5 * lr * np.sign(direction)
    >>> hm.train(hm.data.example("B-FIG-8"), Halved(1.0), steps=4).p.tolist()
    [0.0, 2.0]
    """

    lr: Rate
    decay: float = field(default=0.0, kw_only=True)

    memory: ClassVar[int] = 0
    title: ClassVar[str] = ""
    kernel_name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        lr = self.lr
        if isinstance(lr, str):
            if lr != "1/L_p":
                raise ValueError(f'lr must be a positive number, a list of them or "1/L_p", got {lr!r}')
        elif np.ndim(lr) == 0:
            expect.positive("lr", lr)
        expect.finite_array("decay", self.decay, ())

    @property
    def norm(self) -> str:
        """The name of its norm."""
        return "l2"

    @property
    def of_matrix(self) -> bool:
        """Whether the norm is one of matrices: then `update` sees matrices, in the shape of the problem."""
        ball = NORMS.get(self.norm)  # a custom rule may have a name that no norm has
        return ball is not None and ball.of_matrix

    @property
    def normalized(self) -> bool:
        """Whether the length of a step does not depend on the size of the gradient."""
        return True

    @property
    def in_span(self) -> bool:
        """Whether p stays in p(0) + span of the keys."""
        return False

    @property
    def by_coordinate(self) -> bool:
        """Whether each coordinate needs a separate exponent."""
        return False

    @property
    def constant_rate(self) -> float:
        """The rate, if it is one number that does not fall; else nan."""
        constant = np.ndim(self.lr) == 0 and not isinstance(self.lr, str) and not self.decay
        return float(np.asarray(self.lr)) if constant else math.nan

    @property
    def has_threshold(self) -> bool:
        """Whether a constant rate above some threshold is known to lose the direction of the norm."""
        return False

    @property
    def name(self) -> str:
        """Name of the rule in the method of a run."""
        return self.title or type(self).__name__

    @property
    def kernel(self) -> Any:
        """The update as a compiled function of `dynamics.updates`; None where only Python has one.

        Kernels are for norms with a compiled step; other norms compute their step themselves.
        """
        if not self.kernel_name or norm(self.norm).step_constant is None:
            return None
        from hardmax.dynamics import updates

        return getattr(updates, self.kernel_name)

    @property
    def constants(self) -> tuple[float, ...]:
        """The numbers other than the rate, which the kernel receives."""
        names = (field.name for field in fields(self) if field.name not in ("lr", "decay"))
        return tuple(float(getattr(self, name)) for name in names)

    def begin(self, x: np.ndarray) -> np.ndarray:
        """The state before the first step, from the start x: (memory, d), or (memory, d_x, d_z)."""
        return np.zeros((self.memory, *x.shape))

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, lr: float, step: int
    ) -> np.ndarray:
        """The move of step 0, 1, ..., where minus the gradient is direction * exp(exponents).

        ``state`` is changed in place.
        """
        if self.kernel is None:
            raise ValueError(f"{type(self).__name__} has no update: write one, as hm.optim.Optimizer shows")
        move = np.empty_like(direction)
        self.kernel(direction, exponents, np.array(self.constants), state, lr, step, move)
        return move

    def event(self, state: np.ndarray) -> str | None:
        """Return an event that the state after the last step shows, or None."""
        return None


def need_optimizer(step: Any, name: str = "optimizer") -> Optimizer:
    """Return an optimizer, or raise an error that names the module of optimizers."""
    if not isinstance(step, Optimizer):
        raise WrongType(
            f"{name} must be an optimizer such as hm.optim.GD(lr=0.1), got {step!r:.60}; see hm.optim"
        )
    return step


def by_name(optimizers: Mapping[str, Any], blocks: tuple[str, ...]) -> tuple[Optimizer, ...]:
    """Return the optimizers of some blocks in the order of these."""
    if set(optimizers) != set(blocks):
        raise ValueError(f"optimizer must have the blocks {blocks}, got {tuple(optimizers)}")
    return tuple(need_optimizer(optimizers[name], f"optimizer of {name}") for name in blocks)


def settings(step: Optimizer) -> dict[str, Any]:
    """Return name and constants of a rule without its rate, as a checkpoint keeps them."""
    constants = {name: x for name, x in written(step).items() if name != "rate"}
    if not constants["decay"]:
        del constants["decay"]
    return {"step": type(step).__name__, **constants}


# Files keep the names that the constants had in 0.2.
WRITTEN = {"lr": "rate", "eps": "epsilon"}


def written(step: Optimizer) -> dict[str, Any]:
    """Return the constants of an optimizer by the names that files have for them."""
    return {WRITTEN.get(name, name): x for name, x in asdict(step).items()}


def norm_name(step: Optimizer) -> None:
    """Give a rule the usual name of the norm it was made with; refuse an unknown one."""
    object.__setattr__(step, "norm", norm(step.norm).name)
    need_number(step)


def need_number(step: Optimizer) -> None:
    """Refuse 1/L_p in another norm than l2."""
    if isinstance(step.lr, str) and step.norm != "l2":
        raise ValueError(f'lr must be a number in {step.norm}, got "1/L_p", which is about l2; give one')


def fraction(name: str, x: Any) -> float:
    """A number from 0 to below 1."""
    x = expect.nonnegative(name, x)
    if x >= 1.0:
        raise ValueError(f"{name} must be from 0 to below 1, got {x:g}")
    return float(x)
