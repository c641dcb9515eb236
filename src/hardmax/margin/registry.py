"""The protocol of a norm, and the registry of norms by name.

A norm is an object with a value and a dual, the steepest step, the max margin with its proof, and the rows
that are tight. Other modules use this protocol alone. `register` adds a custom one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import _short
from hardmax.margin.certificates import BALLS, Ball
from hardmax.margin.constraints import Bools, Constraints, Floats
from hardmax.margin.measure import EPS, Tight
from hardmax.margin.mirrors import MirrorMap

if TYPE_CHECKING:
    from hardmax.margin.norms.polyhedral import Face
    from hardmax.margin.solution import MaxMargin


class Norm(ABC):
    """A norm of p: a class with a ``name``, of which `register` makes an object known.

    To write are `dual`, `value`, `step` and `solve`; `speed` gives it flows and `mirror` mirror flows. All
    else has a default that is right for any norm of vectors.

    >>> import hardmax as hm
    >>> norm = hm.margin.norm("l1.5")
    >>> norm.dual.name, norm.strictly_convex, norm.is_polyhedral
    ('l3', True, False)
    >>> hm.margin.norm("l1").value([3.0, -4.0]), hm.margin.norm("linf").step([3.0, -4.0]).tolist()
    (7.0, [1.0, -1.0])
    """

    strictly_convex: ClassVar[bool] = True  # the ball is round: a max-margin problem has one solution
    inner_product: ClassVar[bool] = False  # N(p)^2 is a quadratic form of p
    is_polyhedral: ClassVar[bool] = False  # the ball has finitely many corners: fractions solve a problem
    ignores_zeros: ClassVar[bool] = False  # entries of zero can be left out: all else stays the same
    of_matrix: ClassVar[bool] = False  # it is one of matrices, and sees p in the shape of the problem
    tolerance: ClassVar[float] = 1e-9  # relative width of a certified interval

    if TYPE_CHECKING:  # at run time it may be a field, a property or a constant of the class

        @property
        def name(self) -> str:
            """The name by which `norm` finds it."""

    @property
    @abstractmethod
    def dual(self) -> Norm:
        """The norm N* with u.p <= N*(u) N(p), and equality for some p of every u."""

    @abstractmethod
    def value(self, p: ArrayLike) -> float:
        """N(p), without over- or underflow on the way; off by at most a relative `rounding`."""

    @abstractmethod
    def step(self, g: ArrayLike) -> Floats:
        """The steepest step: the d with N(d) = 1 that makes g.d largest; zero if g is."""

    @abstractmethod
    def solve(self, constraints: Constraints, exact: bool = False) -> MaxMargin:
        """The p of least norm, certified, or a proof that there is none; see `hm.margin.solve_by`."""

    @property
    def power(self) -> float | None:
        """The r of l_r; None for other norms."""
        return None

    @property
    def mirror(self) -> MirrorMap | None:
        """The mirror map of mirror descent and mirror flow in this norm; None where there is none."""
        return None

    @property
    def step_constant(self) -> float | None:
        """The constant of its compiled step in `dynamics.updates`; None where only `step` computes it."""
        return self.power

    def of_rows(self, rows: Floats) -> Floats:
        """N of every row of a matrix, each read as a vector; of a stack of matrices as well.

        >>> import hardmax as hm
        >>> hm.margin.norm("l1").of_rows([[1.0, -2.0], [0.0, 3.0]]).tolist()
        [3.0, 3.0]
        """
        table = np.asarray(rows, dtype=np.float64)
        norms = [self.value(row) for row in table.reshape(-1, table.shape[-1])]
        return np.array(norms, dtype=np.float64).reshape(table.shape[:-1])

    def above_rows(self, rows: Floats, shape: tuple[int, ...]) -> Floats:
        """N of every row, or more than that, where p has this shape; rounding is allowed for."""
        return self.of_rows(rows) * (1 + self.rounding(rows.shape[1]))

    def rounding(self, terms: int) -> float:
        """Relative error bound of `value` with this many numbers."""
        return 8 * (terms + 1) * EPS

    def over_l2(self, shape: tuple[int, ...]) -> float:
        """A number c with N(p) <= c |p| for every p of this shape, |p| in l2."""
        return float(np.linalg.norm(self.of_rows(np.eye(int(np.prod(shape))))))

    def refuse(self, constraints: Constraints, exact: bool = False) -> None:
        """Refuse a problem that has no solution in this norm, or none that is computed."""
        if constraints.token_gram is not None or constraints.origin is not None:
            raise ValueError(
                f'norm must be "l2" for tokens known by a Gram matrix, which has no coordinates, got '
                f"{self.name!r}; give the tokens themselves"
            )
        if self.of_matrix and len(constraints.shape) != 2:
            raise ValueError(
                f"norm must be one of vectors for a p of shape {constraints.shape}, got {self.name!r}; "
                'choose "l1", "l2", "linf" or a power such as "l1.5"'
            )
        if exact and not self.is_polyhedral:
            raise ValueError(
                f"exact must be False with norm {self.name!r}, whose solutions are not rational, got True; "
                'leave it out, or choose "l1", "l2" or "linf"'
            )

    def solve_many(
        self, problems: list[Constraints], A: Floats, h: Floats, equal: Bools, workers: int
    ) -> list[MaxMargin]:
        """`solve` of problems of one shape; rows, bounds and equalities are stacked, (B, m, d) and (B, m)."""
        return [self.solve(constraints) for constraints in problems]

    def enclose(self, best: MaxMargin) -> Tight:
        """Which rows are tight at every optimal p, and which may be at some; see `hm.margin.enclose_by`."""
        none = np.zeros(best.constraints.count, dtype=bool)
        return Tight(none, ~none)

    def decide(self, best: MaxMargin) -> MaxMargin:
        """A solution that leaves less open which rows are tight, where there is one; else the given one."""
        return best

    def face(self, best: MaxMargin) -> Face | None:
        """All optimal p of a certified solution, where that is more than one and computed."""
        return None

    def certificate(self, best: MaxMargin) -> dict[str, Any]:
        """Fields that a certificate needs in addition to p and the multipliers."""
        return {}

    def speed(self, F: Floats, parts: Callable[[], Floats] | None = None) -> tuple[Floats, Floats]:
        """Return N*(F) step(F), the gradient of N*(F)^2/2, and its derivative, which a flow follows.

        ``parts`` gives, per coordinate, the sum of the sizes of the terms of F.
        """
        raise ValueError(f"norm must have a flow, got {self.name}, which has none; call hm.train instead")

    def check_flow(self) -> None:
        """Refuse a flow in a norm without one."""
        if type(self).speed is Norm.speed:
            self.speed(np.zeros(0))


NORMS: dict[str, Norm] = {}
FAMILIES: list[Callable[[Any], Norm | None]] = []  # readers of names that are many: powers


@check_arguments
def register(own: Norm, check: Ball | None = None) -> Norm:
    """Register a norm under its name, for every argument ``norm``, and return it.

    Args:
        own: the norm; its name must not be that of another norm of hardmax. Your own is replaced.
        check: decides in fractions whether the norm of a vector is at most a bound, for `hm.certify`. It must
            share no code with the solver. Without it, certificates in this norm cannot be checked.

    >>> import hardmax as hm
    >>> hm.margin.register(hm.margin.norm("l3")).name
    'l3'
    """
    if not isinstance(own.name, str) or not own.name:
        raise ValueError(f"name of a norm must be a text, got {own.name!r}; give it one")
    if not isinstance(own.mirror, MirrorMap | None):
        raise ValueError(f"mirror of {own.name} must be a MirrorMap or None, got {_short(own.mirror)}")
    same = _by_name(own.name)
    if same is not None and same != own and type(same).__module__.startswith("hardmax."):
        raise ValueError(f"norm must have a new name, got {own.name!r}, which is taken; take another")
    NORMS[own.name] = own
    if check is not None:
        BALLS[own.name] = check
    return own


def norm(name: Norm | str | float) -> Norm:
    """Return a norm by its name: "l1", "l2", "linf", a power such as "l1.5" or 1.5, or a registered one.

    >>> import hardmax as hm
    >>> [hm.margin.norm(name).name for name in ("l2", "frobenius", 3, "l1.50", "1.5")]
    ['l2', 'l2', 'l3', 'l1.5', 'l1.5']
    >>> hm.margin.norm("l0.5")
    Traceback (most recent call last):
    ValueError: norm must be a power above 1, got 'l0.5'; "l1" is the least power that gives a norm
    """
    key = name.name if isinstance(name, Norm) else name
    registered = _by_name(key)
    if isinstance(name, Norm) and registered != name:
        raise ValueError(f"norm must be known by its name, got {key!r}; call hm.margin.register first")
    if registered is None:
        names = ", ".join(f'"{word}"' for word in sorted(NORMS, key=lambda word: (len(word), word)))
        raise ValueError(
            f'norm must be {names} or a power such as "l1.5" or 1.5, got {_short(name)}; choose one of these'
        )
    return registered


def _by_name(name: Any) -> Norm | None:
    registered = NORMS.get(name) if isinstance(name, str) else None
    return registered or next(filter(None, (read(name) for read in FAMILIES)), None)
