"""B-FIG-4 and B-FIG-5: normalized against plain descent, and how loss and scores bend the way."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, TEAL
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import DASHED, DOTTED, draw_lines, name_axes
from hardmax.papers.figures.tables import Tables, part, stacked
from hardmax.papers.max_margin.figures import plane

DAMPING = 1e-9  # added to the gradient's norm in some public notebooks of the paper
GAPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100)
DRAWN = {1: INK, 2: GREEN, 3: TEAL, 5: ORANGE, 10: PURPLE, 100: GRAY}


def draw_4(tables: Tables, canvas: Canvas) -> None:
    """Attention on the top token and the norm of p, over the steps."""
    left, right = canvas.subplots(1, 2)
    curves = tables["curves"]
    looks = {
        "normalised": (RED, "-", r"normalized, $\eta = 0.1$"),
        "plain": (BLUE, "-", r"plain, $\eta = 1$"),
        "damped": (RED, DOTTED, r"normalized by $|\nabla L| + 10^{-9}$"),
    }
    for run, (color, line, label) in looks.items():
        rows = part(curves, "run", run)
        if run != "damped":
            left.plot(rows["step"], rows["top"], color=color, linestyle=line, label=label)
        right.plot(rows["step"], rows["norm"], color=color, linestyle=line, label=label)
    attention = "average attention on the top token"
    name_axes(left, "(a) attention", "step", attention, xlim=(0, 200), ylim=(0.1, 1.03))
    name_axes(right, "(b) norm of $p$", "step", "$|p|$", xlim=(0, 200), ylim=(0, 21))
    left.legend(loc="lower right")
    right.legend(loc="upper left")


@recipe(
    "B-FIG-4",
    "Normalized and plain descent: attention and the norm of p",
    draw=draw_4,
    size=(7.0, 2.3),
    errata=("B-ERR-06", "B-ERR-11"),
    claims="""
    attention-normalised | attention on the top token, normalized, at steps 50, 100, 200, 1,000 | 0.99308,
        0.999984, 1.0, 1.0 ± 1e-3
    attention-plain | the same for plain descent | 0.8177, 0.9338, 0.9720, 0.9950 ± 1e-3
    norm-normalised | |p| of normalized descent at the same steps | 4.972, 9.934, 19.891, 99.85 ± 1e-3
    norm-plain | |p| of plain descent at the same steps | 2.287, 3.156, 3.855, 5.240 ± 1e-3
    cosine-normalised | cosine to p_mm of normalized descent after 200 steps | 0.99956 ± 1e-3
    cosine-plain | cosine to p_mm of plain descent after 200 and 1,000 steps | 0.97711, 0.98493 ± 1e-3
    early-normalised | attention after 75 normalized steps | ≥ 0.999
    early-plain | attention after 75 plain steps | ≤ 0.91
    levels-off | growth of |p| from step 100 to 200, plain | ≤ 0.8 | the blue norm curve levels off
    top-is-optimal | difference of attention on the top and on the optimal token, both runs, from step 1 on
        | ≤ 1e-12
    damped-stalls | |p| after 1,000 steps with 1e-9 added to the gradient's norm | ≤ 25.0
    """,
)
def fig_4(setting: Setting) -> Findings:
    """Train on the data of B-FIG-1c from the origin: normalized, plain, and with a damped normalization."""
    problem = hm.data.example("B-FIG-1c")
    best = hm.max_margin(problem, [0, 0, 0])
    runs = {
        "normalised": plane.descend(problem, None),
        "plain": hm.train(problem, hm.optim.GD(1.0), steps=plane.STEPS, record=1),
        "damped": hm.train(problem, hm.optim.Normalized(plane.RATE, DAMPING), steps=plane.STEPS, record=1),
    }
    shown = np.arange(201)
    top = {
        name: 1 - np.array([path.off_top_attention(t) for t in range(plane.STEPS + 1)])
        for name, path in runs.items()
    }
    fast, slow = runs["normalised"], runs["plain"]
    attention = [[path.attention(t) for t in range(201)] for path in (fast, slow)]
    optimal = np.array([[np.mean([s[0] for s in each]) for each in run] for run in attention])
    at = [50, 100, 200, 1000]
    claims = {
        "attention-normalised": top["normalised"][at],
        "attention-plain": top["plain"][at],
        "norm-normalised": fast.p_norms[at],
        "norm-plain": slow.p_norms[at],
        "cosine-normalised": 1 - fast.cosine_distance(best, 200),
        "cosine-plain": [1 - slow.cosine_distance(best, t) for t in (200, 1000)],
        "early-normalised": top["normalised"][75],
        "early-plain": top["plain"][75],
        "levels-off": slow.p_norms[200] - slow.p_norms[100],
        "top-is-optimal": np.abs(optimal[:, 1:] - np.array([top["normalised"], top["plain"]])[:, 1:201]),
        "damped-stalls": runs["damped"].p_norm,
    }
    tables = {
        "curves": stacked(
            {"run": name, "step": shown, "top": top[name][shown], "norm": path.p_norms[shown]}
            for name, path in runs.items()
        )
    }
    notes = (
        f"With 1e-9 added to the gradient's norm, as in public notebooks, |p| is "
        f"{runs['damped'].p_norm:.1f} after 1,000 steps instead of {fast.p_norm:.1f}: it stalls (B-ERR-11).",
    )
    return Findings(tables, claims, notes)


def two_inputs(C: float, loss: str) -> hm.Problem:
    """The data of B-FIG-5: two inputs of mirrored keys, with score gaps C and 1."""
    keys = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]]]
    return hm.Problem(keys, [[0.0, float(C)], [0.0, 1.0]], loss=loss)


def draw_5(tables: Tables, canvas: Canvas) -> None:
    """Trajectories for two losses, and the angle of the very first step against the score gap."""
    first, second, third = canvas.subplots(1, 3)
    for panel, loss, letter, up in ((first, "correlation", "a", 1), (second, "logistic", "b", -1)):
        plane.frame(panel, (-0.4, 7.4), (-3.9, 3.9))
        panel.plot([0.0, 8.0], [0.0, 0.0], color=RED, linestyle=DASHED, linewidth=1.3, zorder=5)
        rows = part(tables["paths"], "loss", loss)
        for C, color in DRAWN.items():
            one = part(rows, "C", C)
            x, y = one["p1"], one["p2"]
            panel.plot(x, y, color=color, linewidth=1.0, zorder=4, label=f"$C = {C}$")
            plane.draw_heads(panel, x, y, np.arange(10, len(x), 10), color)
        for height, marker in ((1, "o"), (-1, "s")):
            panel.plot(1, height, marker, color=INK, markersize=4, zorder=6)
        panel.text(0.7, 1.15, "$C$", fontsize=7, ha="right")
        panel.text(0.7, -1.5, "1", fontsize=7, ha="right")
        panel.text(7.3, -0.25 * up, "$p^{mm}$", color=RED, ha="right", va="top" if up > 0 else "bottom")
        panel.set_title(f"({letter}) {loss} loss")
        plane.label_axes(panel)
    first.legend(loc="lower right", ncols=2, columnspacing=0.8)
    _first_steps(third, tables)


def _first_steps(panel: Axes, tables: Tables) -> None:
    panel.axhline(0.0, color="#E6E6E6", linewidth=0.6, zorder=0)
    colors = {"correlation": BLUE, "logistic": ORANGE, "exponential": GREEN}
    looks = {loss: {"color": color, "linewidth": 1.1, "label": loss} for loss, color in colors.items()}
    draw_lines(panel, tables["first_step"], "loss", "C", "degrees", looks)
    angle = "angle of the first step (degrees)"
    name_axes(panel, "(c) first step", "score gap $C$", angle, xlim=(1, 10), ylim=(-45, 45))
    panel.set(yticks=range(-45, 46, 15), xticks=range(1, 11))
    panel.legend(loc="lower left")
    panel.set_box_aspect(1)


@recipe(
    "B-FIG-5",
    "The way to p_mm bends with the loss and the scores",
    draw=draw_5,
    size=(7.0, 2.5),
    errata=("B-ERR-19",),
    claims="""
    p-mm | largest distance of the max-margin p to (1, 0), all C | ≤ 1e-12
    correlation-2 | angle at steps 20, 200, 1,000, correlation loss, C = 2 | 11.97, 1.00, 0.20 ± 5e-3
    correlation-5 | angle at steps 20, 200, 1,000, correlation loss, C = 5 | 26.57, 2.33, 0.46 ± 5e-3
    correlation-10 | angle at steps 20, 200, 1,000, correlation loss, C = 10 | 34.69, 3.36, 0.66 ± 5e-3
    correlation-100 | angle at steps 20, 200, 1,000, correlation loss, C = 100 | 43.91, 6.88, 1.33 ± 5e-3
    logistic-2 | angle at steps 20, 200, 1,000, logistic loss, C = 2 | 1.88, -0.17, -0.03 ± 5e-3
    logistic-3 | angle at steps 20, 200, 1,000, logistic loss, C = 3 | -1.82, -0.91, -0.18 ± 5e-3
    logistic-5 | angle at steps 20, 200, 1,000, logistic loss, C = 5 | -13.01, -3.00, -0.60 ± 5e-3
    logistic-10 | angle at steps 20, 200, 1,000, logistic loss, C = 10 | -33.94, -9.39, -1.84 ± 5e-3
    logistic-100 | angle at steps 20, 200, 1,000, logistic loss, C = 100 | -45.00, -45.00, -29.87 ± 5e-3
    exponential-10 | angle at steps 20, 200, 1,000, exponential loss, C = 10 | -35.94, -9.88, -1.93 ± 5e-3
    correlation-grows | least step in C of the correlation loss's angle at these steps | ≥ 1e-9 | biased to
        the high score
    logistic-falls | largest step in C, from 3 on, of the logistic angle | ≤ -1e-9 | biased to the low score
    logistic-negative | largest logistic angle for C of 3 and more from step 20 on | ≤ -1e-9
    straightens | largest change per step of |angle| from step 200 on, C up to 10 | ≤ -1e-12
    symmetric | largest |angle| for C = 1, all losses and steps | ≤ 1e-12
    first-logistic | angle of the first logistic step for C = 2, 3, 4, 5 | 9.93, 10.40, 6.63, 0.13 ± 5e-3 |
        the logistic loss is biased to the low score
    first-peak | score gap at which the first logistic step leans up the most | 2.56 ± 0.01
    """,
)
def fig_5(setting: Setting) -> Findings:
    """Two inputs with score gaps C and 1; the max-margin direction is (1, 0) for every C."""
    angles: dict[str, np.ndarray] = {}
    paths = []
    for loss in ("correlation", "logistic", "exponential"):
        runs = [plane.descend(two_inputs(C, loss), None) for C in GAPS]
        angles[loss] = np.array([plane.degrees(run.points) for run in runs])
        for C, run in zip(GAPS, runs, strict=True):
            p1, p2 = run.points[:201].T
            paths.append({"loss": loss, "C": C, "step": np.arange(201), "p1": p1, "p2": p2})
        setting.progress(0.25 + 0.25 * len(angles))
    gaps = np.linspace(1.0, 10.0, 901)
    first = {
        loss: plane.degrees(np.array([hm.gradient(two_inputs(C, loss), None).direction for C in gaps]))
        for loss in angles
    }
    tables = {
        "paths": stacked(paths),
        "angles": stacked(
            {"loss": loss, "C": GAPS, **{f"degrees_{t}": each[:, t] for t in (1, 20, 200, 1000)}}
            for loss, each in angles.items()
        ),
        "first_step": stacked({"loss": loss, "C": gaps, "degrees": each} for loss, each in first.items()),
    }
    peak = float(gaps[first["logistic"].argmax()])
    notes = (
        "The first logistic step leans to the token with the large score for C = 2 to 5, against the "
        "narrative; from C = 3 on the path has turned by step 20 (B-ERR-19).",
        f"At the origin the pull of the upper token, |l'(C/2)| C, peaks at C = {peak:.2f}.",
    )
    return Findings(tables, _measured_5(angles, peak), notes)


def _measured_5(angles: dict[str, np.ndarray], peak: float) -> dict[str, Any]:
    at = [20, 200, 1000]
    row = {C: i for i, C in enumerate(GAPS)}
    correlation, logistic, exponential = angles["correlation"], angles["logistic"], angles["exponential"]
    solutions = [hm.max_margin(two_inputs(C, "logistic"), [1, 1]).need() for C in GAPS]
    away = np.abs(np.array(solutions) - [1.0, 0.0])
    up_to_ten = [row[C] for C in GAPS if 1 < C <= 10]
    late = np.abs(np.concatenate([each[up_to_ten, 200:] for each in (correlation, logistic)]))
    return {
        "p-mm": away,
        **{f"correlation-{C}": correlation[row[C], at] for C in (2, 5, 10, 100)},
        **{f"logistic-{C}": logistic[row[C], at] for C in (2, 3, 5, 10, 100)},
        "exponential-10": exponential[row[10], at],
        "correlation-grows": np.diff(correlation[:, at], axis=0),
        "logistic-falls": np.diff(logistic[row[3] :, at], axis=0),
        "logistic-negative": logistic[row[3] :, 20:],
        "straightens": np.diff(late, axis=1),
        "symmetric": np.abs([each[0, 1:] for each in angles.values()]),
        "first-logistic": logistic[[row[C] for C in (2, 3, 4, 5)], 1],
        "first-peak": peak,
    }
