"""The norms of the package, each in a file with the solver of its problems; all are registered."""

from typing import Any

from hardmax.margin.norms.matrices import Singular
from hardmax.margin.norms.polyhedral import Polyhedral
from hardmax.margin.norms.powers import Smooth, read_power
from hardmax.margin.registry import FAMILIES, NORMS, Norm, norm, register
from hardmax.margin.solve import L2

__all__ = ["NORMS", "Norm", "norm", "register"]

for ball in (Polyhedral(1.0), Polyhedral(float("inf")), Singular(True), Singular(False)):
    register(ball)
NORMS["frobenius"] = L2


def _of_power(name: Any) -> Norm | None:
    power = read_power(name)
    return L2 if power == 2 else None if power is None else Smooth(power)


FAMILIES.append(_of_power)
