"""Pictures of tokens, runs and directions in one plane, on matplotlib axes of the caller's or new ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.arguments import WrongType
from hardmax._lib.notebook import picture
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, TEAL, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INPUTS = list(zip((BLUE, ORANGE, GREEN, PURPLE, TEAL, INK), "os^DvP", strict=True))
CIRCLE = np.linspace(0.0, 2.0 * math.pi, 200)


def plane_of(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Return the plane that pictures show, (2, d): of the largest differences of keys within inputs.

    It is the identity for keys in two dimensions.

    >>> plane_of([np.array([[0.0, 0.0, 5.0], [3.0, 0.0, 5.0], [0.0, 1.0, 5.0]])]).round(1).tolist()
    [[1.0, -0.2, 0.0], [0.2, 1.0, 0.0]]
    """
    d = keys[0].shape[1]
    if d <= 2:
        return np.eye(2, d)
    rows = np.concatenate([points - points.mean(axis=0) for points in keys])
    axes = np.linalg.svd(np.concatenate([rows, np.zeros((2, d))]), full_matrices=False)[2][:2]
    largest = axes[np.arange(2), np.abs(axes).argmax(axis=1)]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0)[:, None])


def axes_of(ax: Axes | None) -> Axes:
    """Return the axes given, or new ones in the house style."""
    if ax is not None:
        from matplotlib.axes import Axes

        if not isinstance(ax, Axes):
            raise WrongType(
                f"ax must be matplotlib Axes, got {type(ax).__name__}; make them with plt.subplots"
            )
        return ax
    with style():
        axes: Axes = picture((4.0, 4.0)).subplots()
    return axes


def log_radius(points: np.ndarray, plane: np.ndarray) -> np.ndarray:
    """Return p in the plane with the length log10(1 + |p|) times the share of p in the plane.

    >>> log_radius(np.array([[0.0, 0.0], [0.0, 99.0]]), np.eye(2)).tolist()
    [[0.0, 0.0], [0.0, 2.0]]
    """
    sizes = np.linalg.norm(points, axis=1)
    factors = np.divide(np.log10(1.0 + sizes), sizes, out=np.zeros_like(sizes), where=sizes > 0)
    return np.asarray(factors[:, None] * points @ plane.T)


def _named(ax: Axes, d: int, what: str) -> None:
    names = ("coordinate 0", "coordinate 1") if d <= 2 else ("first component", "second component")
    ax.set(xlabel=names[0], ylabel=names[1], title=what, aspect="equal")


def draw_tokens(ax: Axes, keys: Sequence[np.ndarray], best: Sequence[Sequence[int]]) -> Axes:
    """Draw the tokens of every input; those with the best score are filled."""
    plane, d = plane_of(keys), keys[0].shape[1]
    for i, tokens in enumerate(keys):
        color, marker = INPUTS[i % len(INPUTS)]
        points = tokens @ plane.T
        faces = [color if t in best[i] else "white" for t in range(len(tokens))]
        label = f"input {i}" if len(keys) <= len(INPUTS) else None
        ax.scatter(
            points[:, 0], points[:, 1], c=faces, edgecolors=color, marker=marker, label=label, zorder=3
        )
    if len(keys) <= len(INPUTS):
        ax.legend(fontsize=8, frameon=False)
    _named(ax, d, "tokens; filled: best score")
    return ax


def draw_path(ax: Axes, points: np.ndarray, plane: np.ndarray) -> Axes:
    """Draw p along a run with a logarithmic radius; rings mark powers of ten."""
    path = log_radius(points, plane)
    most = float(np.log10(1.0 + np.linalg.norm(points, axis=1)).max())
    step = max(1, round(most / 4))
    for k in range(step, math.floor(most) + 1, step):
        r = math.log10(1.0 + 10.0**k)
        ax.plot(r * np.cos(CIRCLE), r * np.sin(CIRCLE), color=GRAY, linewidth=0.5, zorder=0)
        ax.annotate(f"$|p| = 10^{{{k}}}$", (0.0, r), color=GRAY, fontsize=7, ha="center", va="bottom")
    ax.plot(path[:, 0], path[:, 1], color=BLUE, linewidth=1.4)
    ax.plot(*path[0], marker="o", color=BLUE, markersize=4)
    ax.plot(*path[-1], marker="D", color=BLUE, markersize=4)
    _named(ax, points.shape[1], "p, with log radius")
    return ax


def draw_directions(ax: Axes, directions: Sequence[Any], plane: np.ndarray) -> Axes:
    """Draw directions as arrows from the origin: red where they attract, dashed for the best scores."""
    for row in directions:
        if row.direction is None:
            continue
        end = plane @ row.direction
        attracts = row.attracts.verdict is True
        line = "--" if row.is_best else "-"
        ax.plot([0.0, end[0]], [0.0, end[1]], line, color=RED if attracts else GRAY, linewidth=1.6, zorder=2)
        tokens = " ".join(map(str, row.selection))
        words = tokens if len(tokens) <= 12 else tokens[:9] + "..."
        ax.annotate(words, 1.08 * end, fontsize=7, ha="center", va="center")
    ax.plot(np.cos(CIRCLE), np.sin(CIRCLE), color=GRAY, linewidth=0.5, zorder=0)
    _named(ax, plane.shape[1], "directions: red attract, dashed is best")
    return ax
