"""What the figures of part D share: steps to record, deficits along a run, and a color for every norm.

Rates may lie beyond a threshold on purpose, so figures train by `train_quietly`, without the warning.
"""

from __future__ import annotations

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GREEN, ORANGE, RED, TEAL

COLORS = {"l1": ORANGE, "l1.5": TEAL, "l2": BLUE, "l3": GREEN, "linf": RED}
NAMES = {
    "l1": r"$\ell_1$",
    "l1.5": r"$\ell_{1.5}$",
    "l2": r"$\ell_2$",
    "l3": r"$\ell_3$",
    "linf": r"$\ell_\infty$",
}


def marks(last: int, number: int = 60) -> list[int]:
    """Steps evenly spaced in their logarithm, with the powers of ten, up to the last one."""
    spread = np.geomspace(1, last, number).round().astype(int)
    return np.union1d(spread, 10 ** np.arange(int(np.log10(last)) + 1)).tolist()


def deficits(run: hm.Run, best: hm.MaxMargin) -> tuple[np.ndarray, np.ndarray]:
    """The recorded steps after the start, and how far p was from the max margin at each."""
    late = np.flatnonzero(np.asarray(run.points).any(axis=1))
    return run.times[late].astype(int), np.array([max(best.margin_gap(run.points[at]), 0.0) for at in late])


def at(steps: np.ndarray, values: np.ndarray, step: int) -> float:
    """The value recorded at that step."""
    return float(values[steps == step][0])
