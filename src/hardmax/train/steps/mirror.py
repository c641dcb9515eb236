"""Mirror descent with the potential |p|^r / r of l_r (D-DEF-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hardmax._lib import expect
from hardmax.margin.norms import norm
from hardmax.train.steps.base import Step, need_number


@dataclass(frozen=True)
class Mirror(Step):
    """Mirror descent: the dual point moves along minus the gradient, p is its image.

    The dual point xi has p_k = sign(xi_k) |xi_k|^(1/(power - 1)). ``normalized`` steps of xi have length
    ``rate`` in the dual norm. The direction tends to the max margin in l_power at any constant rate
    (D-THM-3); power 2 is (normalised) gradient descent.

    >>> import hardmax as hm
    >>> run = hm.descend(hm.data.named("B-FIG-8"), hm.steps.Mirror(0.1, power=3), steps=1000)
    >>> run.step.norm, run.p.round(2).tolist()
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
                "hm.steps.Coordinate"
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
        from hardmax.train.updates import mirror

        return mirror

    def begin(self, x: np.ndarray) -> np.ndarray:
        """The start and its dual point."""
        return np.stack([x, np.sign(x) * np.abs(x) ** (self.power - 1)])
