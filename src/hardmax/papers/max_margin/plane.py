"""The plane of keys and of p: its tables, how they are drawn, and training runs from several starts.

Keys and p live in one plane, as in the paper. Trajectories show their first 200 steps with an arrow every 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import GRAY, GREEN, INK, ORANGE, TEAL
from hardmax.papers.figures.tables import Axes, Table, Tables, part, stacked

Window = tuple[tuple[float, float], tuple[float, float]]  # limits of both axes

SHOWN, ARROW = 200, 10
HEAD = 0.055  # length of an arrow head in inches

# Inputs by color and marker; their best token is filled.
INPUTS = ((GREEN, "o"), (TEAL, "s"), (ORANGE, "^"))


def tokens_table(problem: hm.Problem, best: Sequence[int] | None = None) -> Table:
    """Every token: its input, its key, its score and whether it is the ``best``, by score, of its input."""
    keys = problem.keys[problem.tokens]
    chosen = hm.best_tokens(problem).tokens if best is None else best
    return {
        "input": np.repeat(np.arange(problem.n), problem.sizes),
        "token": np.concatenate([np.arange(size) for size in problem.sizes]),
        "x": keys[:, 0],
        "y": keys[:, 1],
        "score": np.array(problem.scores),
        "best": np.concatenate([np.arange(n) == t for n, t in zip(problem.sizes, chosen, strict=True)]),
    }


def paths_table(paths: Mapping[str, hm.Run], shown: int = SHOWN) -> Table:
    """The first steps of every run, by its name; ``paths`` recorded at every step."""
    steps = np.arange(shown + 1)
    return stacked(
        {"run": name, "step": steps, "p1": path.points[steps, 0], "p2": path.points[steps, 1]}
        for name, path in paths.items()
    )


def directions_table(directions: Mapping[str, Any]) -> Table:
    """Directions by name, as unit vectors."""
    vectors = np.array([np.asarray(vector, dtype=float) for vector in directions.values()])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return {"direction": np.array(list(directions)), "x": vectors[:, 0], "y": vectors[:, 1]}


def plane_tables(
    problem: hm.Problem, paths: Mapping[str, hm.Run], ends: Table, directions: Mapping[str, Any]
) -> dict[str, Table]:
    """The tables of a figure with tokens, trajectories, their ends and directions."""
    return {
        "tokens": tokens_table(problem),
        "paths": paths_table(paths),
        "ends": ends,
        "directions": directions_table(directions),
    }


def vector_of(table: Table, name: str) -> np.ndarray:
    """A direction of a `directions_table`."""
    row = part(table, "direction", name)
    return np.array([row["x"][0], row["y"][0]])


def frame(panel: Axes, xlim: tuple[float, float], ylim: tuple[float, float]) -> None:
    """A window on the plane with equal units and thin lines through the origin."""
    panel.set(xlim=xlim, ylim=ylim, aspect="equal")
    for line in (panel.axhline, panel.axvline):
        line(0.0, color="#E6E6E6", linewidth=0.6, zorder=0)


def draw_tokens(panel: Axes, table: Table, size: float = 4.5, best: str | None = None) -> None:
    """Keys, one color and marker per input; the best token of an input is filled, and drawn as ``best``."""
    for i in np.unique(table["input"]):
        rows = part(table, "input", i)
        color, marker = INPUTS[int(i) % len(INPUTS)]
        for x, y, is_best in zip(rows["x"], rows["y"], rows["best"], strict=True):
            # An open token is larger and lies below, so that a best one in the same place is seen inside it.
            shape = (best or marker) if is_best else marker
            look: dict[str, Any] = {"markersize": 1.3 * size, "markeredgewidth": 1.0, "zorder": 6}
            if is_best:
                larger = 2.0 if shape == "*" else 1.0
                look = {"markersize": larger * size, "markeredgewidth": 0.4, "zorder": 6.5}
            panel.plot(x, y, shape, color=color, markerfacecolor=color if is_best else "white", **look)


def draw_ray(panel: Axes, vector: Sequence[float] | np.ndarray, color: str, **line: Any) -> None:
    """A dashed ray from the origin to the window's edge."""
    reach = 2.0 * max(map(abs, (*panel.get_xlim(), *panel.get_ylim())))
    end = reach * np.asarray(vector) / np.linalg.norm(vector)
    look: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.3, "zorder": 3} | line
    panel.plot([0, end[0]], [0, end[1]], color=color, **look)


def draw_path(
    panel: Axes, rows: Table, color: str = GRAY, names: tuple[str, str] = ("p1", "p2"), every: int = ARROW
) -> None:
    """One trajectory: its line, an arrow head every few steps and a dot at the start."""
    x, y = (np.asarray(rows[name]) for name in names)
    panel.plot(x, y, color=color, linewidth=0.8, zorder=4)
    draw_heads(panel, x, y, np.arange(every, len(x), every), color)
    panel.plot(x[0], y[0], "o", color=INK, markersize=2.4, markeredgewidth=0, zorder=7)


def draw_paths(panel: Axes, table: Table, color: str = GRAY, every: int = ARROW) -> None:
    """All trajectories of a `paths_table`."""
    for run in dict.fromkeys(table["run"].tolist()):
        draw_path(panel, part(table, "run", run), color, every=every)


def draw_heads(panel: Axes, x: np.ndarray, y: np.ndarray, at: np.ndarray, color: str) -> None:
    """Arrow heads along a curve, all of one size on paper."""
    dx, dy = x[at] - x[at - 1], y[at] - y[at - 1]
    length, width = np.hypot(dx, dy), 0.012
    units: dict[str, Any] = {"angles": "xy", "scale_units": "inches", "scale": 1 / HEAD, "units": "inches"}
    head = HEAD / width
    units |= {"headwidth": 4.2, "headlength": head, "headaxislength": 0.8 * head, "minlength": 0}
    arrows = (x[at], y[at], dx / length, dy / length)
    panel.quiver(*arrows, color=color, width=width, pivot="tip", zorder=4, **units)


def draw_plane(
    panel: Axes, tables: Tables, window: Window, rays: Mapping[str, str], color: str = GRAY, size: float = 4.5
) -> None:
    """Draw a window on the plane: rays of directions in their colors, all trajectories, tokens and axes."""
    frame(panel, *window)
    for name, ray_color in rays.items():
        draw_ray(panel, vector_of(tables["directions"], name), ray_color)
    draw_paths(panel, tables["paths"], color)
    draw_tokens(panel, tables["tokens"], size)
    label_axes(panel)


def degrees(p: np.ndarray) -> np.ndarray:
    """Angles of vectors in the plane, from the first axis."""
    return np.degrees(np.arctan2(p[..., 1], p[..., 0]))


def label_axes(panel: Axes) -> None:
    """The coordinates, which are those of the keys too."""
    panel.set(xlabel="$p_1$", ylabel="$p_2$")


# The paper's protocol: normalized descent with this step, this long.
STEPS, RATE = 1000, 0.1


def descend(problem: hm.Problem, start: Any) -> hm.Run:
    """Every step of normalized descent from a start."""
    return hm.train(problem, hm.optim.Normalized(RATE), steps=STEPS, start=start, record=1)


def train(problem: hm.Problem, starts: Sequence[Sequence[float]]) -> dict[str, hm.Run]:
    """Every step of normalized descent from each start, named after it."""
    return {f"({x:g}, {y:g})": descend(problem, [x, y]) for x, y in starts}


def ends_table(paths: Mapping[str, hm.Run], targets: Sequence[hm.MaxMargin]) -> Table:
    """Cosine to the target after 200 and 1,000 steps, and where each run ends."""
    ends = [
        (path.cosine_distance(best, 200), path.cosine_distance(best), path.p_norm, *path.p)
        for path, best in zip(paths.values(), targets, strict=True)
    ]
    gap_200, gap, norm, p1, p2 = np.array(ends).T
    tokens = [" ".join(map(str, path.selection.tokens)) for path in paths.values()]
    return {
        "run": np.array(list(paths)),
        "selected": np.array(tokens),
        "cosine_200": 1 - gap_200,
        "cosine_1000": 1 - gap,
        "norm_1000": norm,
        "p1_1000": p1,
        "p2_1000": p2,
    }


def goes_to_best(problem: hm.Problem, x: float, y: float, steps: int = STEPS) -> bool:
    """Whether normalized descent from (x, y) selects token 0 of every input."""
    path = hm.train(problem, hm.optim.Normalized(RATE), steps=steps, start=[x, y], record=())
    return path.selection.sets == ((0,),) * problem.n


def bisect(is_above: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """Bisect for the point from which a condition holds that fails at ``low`` and holds at ``high``."""
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return 0.5 * (low + high)
