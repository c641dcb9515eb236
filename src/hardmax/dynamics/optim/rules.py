"""The optimizers of `hm.optim`: their base, with the properties that the loops use, and the rules.

Steepest descent in a norm takes, of all moves of one length, the one that gains most. Momentum, Signum and
Muon take it along a mean of past gradients, SGD is a heavy ball, and Adam, AdamW and RMSprop divide by a mean
of squared gradients. Means carry separate exponents: with that of the gradient they would overflow once they
shrink at different rates. So steps are right however small the gradient is, also without an epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import WrongType
from hardmax.margin.norms import NORMS, norm

FROZEN = 100  # steps in a row with a gradient e^-50 times the mean: it has no effect any more (D-THM-7)

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
        """The update as a compiled function of `dynamics.updates`; None where only Python has one."""
        if not self.kernel_name:
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


@dataclass(frozen=True)
class Mirror(Optimizer):
    """Mirror descent: the dual point moves along minus the gradient, p is its image.

    The dual point xi has p_k = sign(xi_k) |xi_k|^(1/(power - 1)). ``normalized`` steps of xi have length
    ``lr`` in the dual norm. The direction tends to the max margin in l_power at any constant rate
    (D-THM-3); power 2 is (normalized) gradient descent.

    >>> import hardmax as hm
    >>> run = hm.train(hm.data.example("B-FIG-8"), hm.optim.Mirror(0.1, power=3), steps=1000)
    >>> run.optimizer.norm, run.p.round(2).tolist()
    ('l3', [3.04, 9.89])
    """

    power: float
    normalized: bool = True

    memory: ClassVar[int] = 2
    title: ClassVar[str] = "mirror descent"
    kernel_name: ClassVar[str] = "mirror"

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
        """The norm of the power."""
        return norm(float(self.power)).name

    @property
    def name(self) -> str:
        """The title, with the norm."""
        return f"{self.title} in {self.norm}"

    @property
    def in_span(self) -> bool:
        """Whether the power is 2."""
        return self.power == 2

    def begin(self, x: np.ndarray) -> np.ndarray:
        """The start and its dual point."""
        return np.stack([x, np.sign(x) * np.abs(x) ** (self.power - 1)])


@dataclass(frozen=True)
class InNorm(Optimizer):
    """The base of rules in a norm of their choice, with or without a memory."""

    @property
    def kernel(self) -> Any:
        """The compiled update, for norms with a compiled step; other norms compute their step themselves."""
        return None if norm(self.norm).step_constant is None else super().kernel

    @property
    def in_span(self) -> bool:
        """Whether the norm is l2."""
        return self.norm == "l2"

    @property
    def by_coordinate(self) -> bool:
        """In any other norm of vectors: its steps also move coordinates with next to no gradient."""
        return self.norm != "l2" and not self.of_matrix


@dataclass(frozen=True)
class Steepest(InNorm):
    """Steepest descent in a norm: one kernel for all powers, the step of the norm for others."""

    damping = 0.0  # added to the gradient's norm
    kernel_name: ClassVar[str] = "steepest"

    @property
    def name(self) -> str:
        """The title, with the norm if it is not the default."""
        default = next((field.default for field in fields(self) if field.name == "norm"), self.norm)
        return self.title if self.norm == default else f"{self.title} in {self.norm}"

    @property
    def has_threshold(self) -> bool:
        """In smooth norms other than l2 (D-THM-5)."""
        ball = norm(self.norm)
        return self.normalized and not self.damping and ball.strictly_convex and not ball.inner_product

    @property
    def constants(self) -> tuple[float, ...]:
        """The constant of the norm's step, whether steps are normalized, and epsilon."""
        return norm(self.norm).step_constant or 0.0, float(self.normalized), self.damping

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, lr: float, step: int
    ) -> np.ndarray:
        """Return the move by the kernel, or by the step of the norm."""
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
    normalized = False

    def __post_init__(self) -> None:
        super().__post_init__()
        norm_name(self)


@dataclass(frozen=True)
class Normalized(Steepest):
    """Normalized descent: steps of length ``lr`` in the ``norm``, right however small the gradient is.

    ``eps`` is added to the gradient's norm as some public notebooks do; it stalls the path (B-ERR-11) and
    is zero unless asked for. In l2 the direction is right for any constant rate (D-THM-3), in other norms
    below a threshold only, `hm.limits.critical_rate` (D-THM-5).

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), steps=10)
    Run(normalized gradient descent to step = 10, |p| = 0.944391, event=None)
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1, norm="l3"), steps=10)
    Run(normalized gradient descent in l3 to step = 10, |p| = 0.96328, event=None)
    """

    eps: float = 0.0
    norm: str = "l2"

    title: ClassVar[str] = "normalized gradient descent"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect.nonnegative("eps", self.eps)
        norm_name(self)

    @property
    def damping(self) -> float:  # type: ignore[override]
        """Epsilon."""
        return self.eps


@dataclass(frozen=True)
class Sign(Steepest):
    """Sign descent: every coordinate moves by ``lr``; a coordinate whose pulls cancel to rounding rests.

    Steepest descent in linf. With a constant rate it need not end at the max margin (D-THM-6); ``decay=0.5``
    fixes that.

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Sign(0.5), steps=4).p.tolist()
    [0.0, 2.0]
    """

    title: ClassVar[str] = "sign descent"
    norm = "linf"


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
    norm = "l1"


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
    norm = "spectral"


def norm_step(name: str, direction: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, float]:
    """The steepest step for direction * exp(exponents), by the norm itself, and the log of its dual norm."""
    ball, top = norm(name), float(exponents.max())
    G = np.exp(exponents - top) * direction
    return ball.step(G), top + math.log(ball.dual.value(G))


@dataclass(frozen=True)
class Averaged(InNorm):
    """The base of rules that average before a steepest step; ``state`` holds m, its exponents and a count."""

    beta: float = 0.9

    memory: ClassVar[int] = 3
    kernel_name: ClassVar[str] = "momentum"

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("beta", self.beta)

    @property
    def has_threshold(self) -> bool:
        """Above it the mean freezes (D-THM-7)."""
        return self.normalized and self.beta > 0.0

    @property
    def constants(self) -> tuple[float, ...]:
        """Beta, the constant of the norm's step, whether steps are normalized."""
        return self.beta, norm(self.norm).step_constant or 0.0, float(self.normalized)

    def begin(self, x: np.ndarray) -> np.ndarray:
        """No mean yet."""
        zero = np.zeros(x.shape)
        return np.stack([zero, np.full(x.shape, -np.inf), zero])

    def update(
        self, direction: np.ndarray, exponents: np.ndarray, state: np.ndarray, lr: float, step: int
    ) -> np.ndarray:
        """Return the move by the kernel, or by the step of the norm, with one exponent for the mean."""
        if self.kernel is not None:
            return super().update(direction, exponents, state, lr, step)
        beta, top = self.beta, float(exponents.max())
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

    In l2 this is normalized gradient descent with momentum, and not ``normalized`` the heavy ball. With a
    constant rate above -log(beta)/margin the mean shrinks more slowly than the gradient: the run goes on
    along it forever, with the event "frozen momentum" (D-THM-7).

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> hm.train(problem, hm.optim.Momentum(0.1), steps=1000)
    Run(momentum in l2 to step = 1000, |p| = 99.3632, event=None)
    """

    norm: str = "l2"
    normalized: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        norm_name(self)

    @property
    def name(self) -> str:
        """The title, with the norm."""
        return f"momentum in {self.norm}"


@dataclass(frozen=True)
class Signum(Averaged):
    """Signum: every coordinate moves by ``lr`` along the sign of the mean gradient; momentum in linf.

    >>> import hardmax as hm
    >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Signum(0.25), steps=4).p.tolist()
    [-1.0, 1.0]
    """

    norm = "linf"


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

    newton_schulz: int = 0

    norm = "spectral"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect.whole("newton_schulz", self.newton_schulz)

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
    kernel_name: ClassVar[str] = "heavy_ball"
    normalized = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("momentum", self.momentum)
        expect.nonnegative("weight_decay", self.weight_decay)

    @property
    def in_span(self) -> bool:
        """Without weight decay, which would also shrink the rest of the start."""
        return self.weight_decay == 0.0

    def begin(self, x: np.ndarray) -> np.ndarray:
        """A copy of the parameters, and no velocity."""
        return np.stack([x, np.zeros(x.size)])

    def scalars(self, step: int, lr: float) -> np.ndarray:
        """Return decay, momentum and rate for the trainer's loop; they are the same at every step.

        >>> import hardmax as hm
        >>> hm.optim.SGD(1.0, weight_decay=0.1, momentum=0.9).scalars(step=1, lr=0.5).tolist()
        [0.1, 0.9, 0.5]
        """
        return np.array([self.weight_decay, self.momentum, lr])


@dataclass(frozen=True)
class Adaptive(Optimizer):
    """Adam and its kin: one kernel; ``state`` holds the parameters, m and v."""

    memory: ClassVar[int] = 5
    kernel_name: ClassVar[str] = "adam"
    norm = "linf"  # without epsilon and after a wait (D-THM-9)
    by_coordinate = True

    @property
    def is_pure(self) -> bool:
        """Whether it has neither an epsilon nor weight decay: the laws of D-THM-9 are about that."""
        _, _, epsilon, decay, _ = self.constants
        return epsilon == 0.0 == decay

    @property
    def has_threshold(self) -> bool:
        """With beta1^2 >= beta2 and without epsilon: above it p runs away (D-THM-9b)."""
        beta1, beta2 = self.constants[:2]
        return self.is_pure and beta1 > 0.0 and beta2 <= beta1**2

    @property
    def constants(self) -> tuple[float, ...]:
        """Both betas, epsilon, weight decay, and whether the moments are corrected for their start."""
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
    def constants(self) -> tuple[float, ...]:
        """Both betas, epsilon, weight decay, and one."""
        return *self.betas, self.eps, 0.0, 1.0


@dataclass(frozen=True)
class AdamW(Adam):
    """Decoupled weight decay, then a step along the corrected first moment over the root of the second.

    In `train` the moments carry separate exponents, and ``eps=0`` is allowed: steps are right
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
    def constants(self) -> tuple[float, ...]:
        """Both betas, epsilon, weight decay, and one."""
        return *self.betas, self.eps, self.weight_decay, 1.0

    def scalars(self, step: int, lr: float) -> np.ndarray:
        """Return decay, weights of moments, rate, 1/root and epsilon for the trainer's loop at step 1, 2, ...

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
    def constants(self) -> tuple[float, ...]:
        """No first moment, and nothing corrected."""
        return 0.0, self.beta, self.eps, 0.0, 0.0
