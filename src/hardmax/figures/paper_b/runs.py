"""Training runs from several starts, as tables, and where one kind of start ends and another begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

import hardmax as hm
from hardmax.figures.tables import Table

# The paper's protocol: normalised descent with this step, this long.
STEPS, RATE = 1000, 0.1


def train(problem: hm.Problem, starts: Sequence[Sequence[float]]) -> dict[str, hm.Run]:
    """Every step of normalised descent from each start, named after it."""
    paths = [hm.descend(problem, STEPS, RATE, start=start, record=1) for start in starts]
    return {f"({x:g}, {y:g})": path for (x, y), path in zip(starts, paths, strict=True)}


def ends_table(paths: Mapping[str, hm.Run], targets: Sequence[hm.MaxMargin]) -> Table:
    """Cosine to the target after 200 and 1,000 steps, and where each run ends."""
    ends = [
        (path.misalignment(best, 200), path.misalignment(best), path.norm, *path.p)
        for path, best in zip(paths.values(), targets, strict=True)
    ]
    gap_200, gap, norm, p1, p2 = np.array(ends).T
    tokens = [" ".join(map(str, path.selection().tokens)) for path in paths.values()]
    return {
        "run": np.array(list(paths)), "selected": np.array(tokens), "cosine_200": 1 - gap_200,
        "cosine_1000": 1 - gap, "norm_1000": norm, "p1_1000": p1, "p2_1000": p2,
    }  # fmt: skip


def cosines_table(paths: Mapping[str, hm.Run], target: hm.MaxMargin) -> Table:
    """The cosine to one direction at every step of every run."""
    columns = [1 - path.misalignments(target) for path in paths.values()]
    steps = len(columns[0])
    return {
        "run": np.repeat(list(paths), steps),
        "step": np.tile(np.arange(steps), len(columns)),
        "cosine": np.concatenate(columns),
    }


def goes_to_best(problem: hm.Problem, x: float, y: float, steps: int = STEPS) -> bool:
    """Whether normalised descent from (x, y) selects token 0 of every input."""
    path = hm.descend(problem, steps, RATE, start=[x, y], record=())
    return path.selection().sets == ((0,),) * problem.n


def bisect(is_above: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """Where a condition that fails at ``low`` and holds at ``high`` begins to hold.

    >>> from hardmax.figures.paper_b.runs import bisect
    >>> bisect(lambda x: x * x > 2, 0.0, 2.0, 1e-9).__round__(6)
    1.414214
    """
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return 0.5 * (low + high)
