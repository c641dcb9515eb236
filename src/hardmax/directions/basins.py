"""Basins of attraction in the plane: which selection training from each start ends at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.plotting import INPUTS, axes_of
from hardmax.directions.enumerate import attractors
from hardmax.dynamics.optim import Normalized
from hardmax.dynamics.train import train_quietly
from hardmax.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = 400  # of length a tenth of the picture: enough to leave it


@check_arguments
def plot_basins(problem: Problem, ax: Any = None, *, reach: float = 4.0, cells: int = 40) -> Axes:
    """Draw from which starts normalized gradient descent selects which tokens.

    Args:
        problem: with keys in two dimensions.
        ax: matplotlib axes to draw on; new ones by default.
        reach: the picture shows p from -reach to reach.
        cells: starts along each side.

    Returns:
        The axes.

    >>> import hardmax as hm
    >>> ax = hm.plot_basins(hm.data.example("B-FIG-8"), cells=8)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['tokens 0 0', 'tokens 0 1']
    """
    ax = axes_of(ax)
    if problem.shape != (2,):
        raise ValueError(
            f"problem must have keys in 2 dimensions, got {problem.shape}; train from your starts"
        )
    reach, cells = expect.positive("reach", reach), expect.whole("cells", cells, 2)
    if reach > 1e100:
        raise ValueError(f"reach must be at most 1e100, got {reach:g}; scale the keys instead")
    sides = reach * ((2.0 * np.arange(cells) + 1.0 - cells) / cells)
    optimizer = Normalized(reach / 10.0)
    ends = [
        train_quietly(problem, optimizer, steps=STEPS, start=[x, y], record=()).selection
        for y in sides
        for x in sides
    ]
    several = sorted({end for end in ends if not end.is_unique}, key=str)
    names = sorted({end for end in ends if end.is_unique}) + several
    colors = [INPUTS[k % len(INPUTS)][0] for k in range(len(names))]
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    numbers = np.array([names.index(end) for end in ends]).reshape(cells, cells)
    extent, limits = (-reach, reach, -reach, reach), {"vmin": -0.5, "vmax": len(names) - 0.5}
    ax.imshow(numbers, ListedColormap(colors), origin="lower", extent=extent, alpha=0.55, **limits)
    for attractor in attractors(problem):
        if attractor.direction is not None and attractor.attracts.verdict:
            ax.plot(*np.outer(attractor.direction, [0.0, reach]), color="black", linewidth=1.2)
    legend = [
        Patch(color=color, alpha=0.55, label=f"tokens {name}")
        for color, name in zip(colors, names, strict=True)
    ]
    ax.legend(handles=legend, fontsize=8, loc="upper left")
    ax.set(
        xlim=(-reach, reach),
        ylim=(-reach, reach),
        aspect="equal",
        xlabel="p, coordinate 0",
        ylabel="p, coordinate 1",
        title="what training selects, by its start",
    )
    return ax
