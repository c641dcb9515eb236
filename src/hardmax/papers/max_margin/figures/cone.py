"""B-FIG-2: the cone around a locally optimal direction, with the constants of Lemma 7, and descent in it."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.arrays import half_squares
from hardmax._lib.style import BLUE, INK, RED
from hardmax.directions.direction import LocalConstants, local_constants
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.max_margin.figures import plane

SEED, SAMPLES = 0, 200
# Where drawn runs start: the radius over R_bar and the angle over the half angle.
DRAWN = ((1.0, 1.0), (1.0, -1.0), (1.0, 0.4), (1.0, -0.5), (1.5, -0.9))
REACH, DRAWN_STEPS, ARROW = 34.0, 300, 30


def two_rivals() -> hm.Problem:
    """One input whose best token has two neighbors, one with nearly its score; p_mm is (1, 0)."""
    return hm.Problem([[[2.5, 0.0], [1.5, 0.5], [1.5, -0.5]]], [[1.0, 0.95, 0.0]])


def draw_2(tables: Tables, canvas: Canvas) -> None:
    """Two cones: one that descent never leaves, one that it leaves and comes back to."""
    upper, lower = canvas.subplots(2, 1, sharex=True)
    _draw_cone(upper, tables, "fig8")
    _draw_cone(lower, tables, "two rivals")
    upper.set_title("(a) one neighbor: the cone is never left")
    lower.set_title("(b) two neighbors: it can be left at first")
    upper.set_xlabel("")


def _draw_cone(panel: Axes, tables: Tables, name: str) -> None:
    from matplotlib.patches import Arc, Wedge

    row = part(tables["cones"], "cone", name)
    angle, radius = float(row["half_angle"][0]), float(row["R_bar"][0])
    plane.frame(panel, (0.0, REACH), (-4.4, 5.4))
    look: dict[str, Any] = {"facecolor": "#E3EEF6", "edgecolor": BLUE, "linewidth": 0.7, "zorder": 1}
    panel.add_patch(Wedge((0, 0), 2 * REACH, -angle, angle, width=2 * REACH - radius, **look))
    side = radius * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    for y in (side[1], -side[1]):
        panel.plot([0, side[0]], [0, y], color=BLUE, linewidth=0.6, linestyle=(0, (1, 2)), zorder=1)
    panel.add_patch(Arc((0, 0), 12, 12, theta1=0, theta2=angle, color=INK, linewidth=0.6))
    panel.text(4.6, 1.35, rf"${angle:.2f}°$", fontsize=7, ha="center")
    panel.plot([0, REACH], [0, 0], color=RED, linestyle=(0, (4, 2)), linewidth=1.3, zorder=3)
    panel.text(REACH + 0.4, 0, "$p^{mm}$", color=RED, va="center")
    look = {"fontsize": 7, "ha": "right", "color": BLUE}
    look["arrowprops"] = {"arrowstyle": "-", "color": BLUE, "linewidth": 0.5}
    panel.annotate(rf"$\bar R_\mu = {radius:.1f}$", (side[0], side[1]), (radius - 1.0, 3.9), **look)
    plane.draw_paths(panel, part(tables["paths"], "cone", name), "#777777", every=ARROW)
    plane.label_axes(panel)


@recipe(
    "B-FIG-2",
    "Descent from inside the cone of a locally optimal direction",
    draw=draw_2,
    size=(3.4, 2.6),
    errata=("B-ERR-08",),
    claims="""
    mu | mu of Lemma 7 at B-FIG-8's local direction | 0.015625 ± 1e-12
    half-angle | half angle of that cone in degrees | 10.14 ± 5e-3
    radius | R_bar of Lemma 7 there | 10.40 ± 5e-3
    fig-1b | half angle and R_bar at B-FIG-1b's local direction, too thin to draw | 1.425, 107.36 ± 5e-3
    stays | largest (1 - cos)/mu on the way, from 200 starts in the cone and two on its rim | ≤ 1.000000001
    rises | least rise of the cosine per step, same starts | ≥ 0.0
    freezes | (1 - cos) |p|^2 at the end over the start: the part orthogonal to p_mm stays | ≤ 1.5
    left-at-first | (1 - cos)/mu on the way from R_bar with two neighbors | ≥ 1.2 | descent from the cone
        stays in it
    stays-from-twice | the same from 2 R_bar | ≤ 1.000000001
    comes-back | (1 - cos)/mu there after 1,000 steps from R_bar | ≤ 0.1
    """,
)
def fig_2(setting: Setting) -> Findings:
    """The explicit cone of Lemma 7 for B-FIG-8's local direction, and one whose radius is too small."""
    problem = hm.data.example("B-FIG-8")
    local = hm.max_margin(problem, [0, 1])
    cone = local_constants(problem, local)
    other_figure = hm.data.example("B-FIG-1b")
    narrow = local_constants(other_figure, hm.max_margin(other_figure, [1]))
    draw = np.random.default_rng(SEED)
    gap, scale = cone.mu * draw.uniform(size=SAMPLES), draw.uniform(1.0, 2.0, size=SAMPLES)
    sides = draw.choice([-1.0, 1.0], size=SAMPLES)
    angles = np.concatenate([[1.0, -1.0], sides * np.degrees(np.arccos(1 - gap)) / cone.half_angle])
    starts = _in_cone(cone, np.concatenate([[1.0, 1.0], scale]), angles)
    worst, rise, freezes = [], [], []
    for k, start in enumerate(starts):
        path = plane.descend(problem, start)
        gaps = _gaps(path, local)
        worst.append(gaps.max() / cone.mu)
        rise.append(-np.diff(gaps).max())
        freezes.append(gaps[-1] / gaps[0] * (path.p_norm / path.p_norms[0]) ** 2)
        setting.progress(0.8 * k / len(starts))
    rivals = two_rivals()
    top = hm.max_margin(rivals, [0])
    other = local_constants(rivals, top)
    over = {factor: _overshoot(rivals, top, other, factor) for factor in (1.0, 2.0)}
    back = plane.descend(rivals, _in_cone(other, [1.0], [1.0])[0])
    claims = {
        "mu": cone.mu,
        "half-angle": cone.half_angle,
        "radius": cone.R_bar,
        "fig-1b": [narrow.half_angle, narrow.R_bar],
        "stays": worst,
        "rises": rise,
        "freezes": freezes,
        "left-at-first": over[1.0],
        "stays-from-twice": over[2.0],
        "comes-back": back.cosine_distance(top) / other.mu,
    }
    tables = {
        "cones": {
            "cone": np.array(["fig8", "two rivals"]),
            "mu": np.array([cone.mu, other.mu]),
            "half_angle": np.array([cone.half_angle, other.half_angle]),
            "R_bar": np.array([cone.R_bar, other.R_bar]),
        },
        "paths": _drawn({"fig8": (problem, cone), "two rivals": (rivals, other)}),
        "starts": {"p1": starts[:, 0], "p2": starts[:, 1], "worst": np.array(worst), "rise": np.array(rise)},
    }
    notes = (
        "The cone is drawn with the explicit constants, not enlarged.",
        "(b) is our own data: the best token (2.5, 0) has score 1, its neighbors (1.5, 0.5) and (1.5, -0.5) "
        "have 0.95 and 0. The part off p_mm tends to an offset longer than the cone is wide at R_bar, so "
        "that descent leaves the cone before it converges; from a larger radius it stays, as Theorem 3 says.",
    )
    return Findings(tables, claims, notes, SEED)


def _in_cone(cone: LocalConstants, radii: object, angles: object) -> np.ndarray:
    """Points at multiples of R_bar and of the half angle; both cones point along (1, 0)."""
    turn = np.radians(cone.half_angle * np.asarray(angles, dtype=float))
    length = cone.R_bar * np.asarray(radii, dtype=float)
    return np.column_stack([length * np.cos(turn), length * np.sin(turn)])


def _gaps(path: hm.Run, best: hm.MaxMargin) -> np.ndarray:
    """1 - cos to p_mm at every step."""
    return half_squares(path.directions, np.asarray(best.direction))


def _overshoot(problem: hm.Problem, best: hm.MaxMargin, cone: LocalConstants, factor: float) -> float:
    """The largest (1 - cos)/mu on the way, from the two ends of the rim at a multiple of R_bar."""
    paths = plane.train(problem, _in_cone(cone, [factor, factor], [1.0, -1.0]).tolist()).values()
    return max(float(_gaps(path, best).max()) for path in paths) / cone.mu


def _drawn(cones: dict[str, tuple[hm.Problem, LocalConstants]]) -> Table:
    parts = []
    for name, (problem, cone) in cones.items():
        paths = plane.train(problem, _in_cone(cone, *zip(*DRAWN, strict=True)).tolist())
        parts.append({"cone": name, **plane.paths_table(paths, DRAWN_STEPS)})
    return stacked(parts)
