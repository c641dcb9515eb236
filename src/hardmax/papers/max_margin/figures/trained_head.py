"""B-FIG-3a, 3b, 3c: attention vector p and head v trained together."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, RED
from hardmax.dynamics.gradient import settle_at, with_readout
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Table, Tables, part
from hardmax.papers.max_margin.figures import plane

# The paper's start; v starts at the head of the named data, (-1, 0).
START = (0.0, -1.0)
BEST = (1, 1, 1)
TIMES = (0, 10, 20, 30, 50, 75, 100)


def train(name: str) -> hm.Run:
    """Joint training under the paper's protocol, every step kept."""
    step = hm.optim.Normalized(plane.RATE)
    return hm.train(hm.data.example(name).joint(), step, steps=plane.STEPS, start=START, record=1)


def _tokens(problem: hm.Problem) -> Table:
    assert problem.readout.labels is not None
    return {
        **plane.tokens_table(problem, BEST),
        "label": np.repeat(problem.readout.labels, problem.sizes).astype(int),
    }


def _paths(path: hm.Run) -> Table:
    assert path.v_points is not None
    p, v = path.points[: plane.SHOWN + 1], path.v_points[: plane.SHOWN + 1]
    return {"step": np.arange(plane.SHOWN + 1), "p1": p[:, 0], "p2": p[:, 1], "v1": v[:, 0], "v2": v[:, 1]}


def _draw(panel: Axes, tables: Tables) -> None:
    plane.frame(panel, (-1.9, 6.2), (-2.5, 4.6))
    rays, colors = tables["directions"], {"p_relax": RED, "p_mm": GRAY, "v_mm": BLUE}
    for name in rays["direction"]:
        plane.draw_ray(panel, plane.vector_of(rays, str(name)), colors[str(name)])
    plane.draw_path(panel, tables["paths"], RED)
    plane.draw_path(panel, tables["paths"], BLUE, ("v1", "v2"))
    plane.draw_tokens(panel, tables["tokens"], best="*")
    stars = part(tables["tokens"], "best", True)
    for x, y, label in zip(stars["x"], stars["y"], stars["label"], strict=True):
        panel.text(x, y + 0.25, f"${label:+d}$", fontsize=6.5, ha="center")
    panel.text(0.12, -1.35, "$p(0)$", fontsize=7, va="center")
    panel.text(-1.1, -0.3, "$v(0)$", fontsize=7, ha="center")
    panel.text(0.12, 4.2, "$v^{mm}$", color=BLUE)
    panel.set(xlabel="first coordinate", ylabel="second coordinate")


def draw_3a(tables: Tables, canvas: Canvas) -> None:
    """Tokens, the trajectories of p and v and their directions."""
    panel = canvas.subplots()
    _draw(panel, tables)
    panel.text(6.1, 1.9, "$p^{mm} = p^{relax}$", color=RED, ha="right")


@recipe(
    "B-FIG-3a",
    "Joint training: all inputs are support vectors of the head",
    draw=draw_3a,
    size=(3.4, 3.1),
    errata=("B-ERR-13",),
    claims="""
    v-mm | label SVM of the best tokens | 0.0, 1.0 ± 1e-9
    support | all three inputs are tight in it | all three
    p-mm | p_mm and the relaxed p are (4/3, 1/3) | 4/3, 1/3, 4/3, 1/3 ± 1e-9
    p-200 | cosine of p to p_mm after 200 steps | ≥ 0.9998
    v-200 | cosine of v to v_mm after 200 steps | ≥ 0.9999
    p-1000 | cosine of p to p_mm after 1,000 steps | ≥ 0.99999
    v-1000 | cosine of v to v_mm after 1,000 steps | ≥ 0.99999
    p-end | p after 1,000 steps | 95.2930, 23.4802 ± 5e-5
    v-end | v after 1,000 steps | 0.22192, 99.78082 ± 5e-6
    """,
)
def fig_3a(setting: Setting) -> Findings:
    """The data of B-FIG-3a: p goes to p_mm and v to v_mm."""
    problem = hm.data.example("B-FIG-3a")
    best, label = hm.max_margin(problem, BEST), hm.directions.label_max_margin(problem, BEST)
    relaxed = hm.directions.relaxed_max_margin(problem, BEST)
    path = train("B-FIG-3a")
    assert path.v_points is not None
    claims = {
        "v-mm": label.need(),
        "support": (label.support == ((0,), (1,), (2,)), label.support),
        "p-mm": [best.need(), relaxed.need()],
        **_cosines(path, best, label),
        "p-end": path.p,
        "v-end": path.v_points[-1],
    }
    tables = {
        "tokens": _tokens(problem),
        "paths": _paths(path),
        "directions": plane.directions_table({"p_relax": relaxed.need(), "v_mm": label.need()}),
    }
    notes = (
        "A support vector is an input whose constraint is tight; the third input's multiplier can be 0 "
        "(B-ERR-13).",
    )
    return Findings(tables, claims, notes)


def draw_3b(tables: Tables, canvas: Canvas) -> None:
    """Draw B-FIG-3b: tokens, p and v, and the max-margin direction of all inputs in gray."""
    panel = canvas.subplots()
    _draw(panel, tables)
    panel.text(6.1, -0.35, "$p^{relax}$", color=RED, ha="right", va="top")
    panel.text(6.1, 1.35, "$p^{mm}$", color=GRAY, ha="right")


@recipe(
    "B-FIG-3b",
    "Joint training: one input is not a support vector of the head",
    draw=draw_3b,
    size=(3.4, 3.1),
    errata=("B-ERR-02",),
    claims="""
    v-mm | label SVM of the best tokens | 0.0, 1.0 ± 1e-9
    support | inputs 0 and 1 are tight in it, input 2 is not | inputs 0 and 1
    p-relax | relaxed p | 1.0, 0.0 ± 1e-9
    p-mm | p_mm of all inputs | 5/4, 1/4 ± 1e-9
    p-200 | cosine of p to the relaxed p after 200 steps | ≥ 0.9998
    v-200 | cosine of v to v_mm after 200 steps | ≥ 0.9999
    p-1000 | cosine of p to the relaxed p after 1,000 steps | ≥ 0.99999
    v-1000 | cosine of v to v_mm after 1,000 steps | ≥ 0.99999
    p-mm-cosine | cosine of p to p_mm after 200 and 1,000 steps | 0.9837, 0.9812 ± 5e-5
    p-end | p after 1,000 steps | 98.11237, 0.30130 ± 5e-6
    v-end | v after 1,000 steps | 0.0, 99.81314 ± 5e-6
    rho-star | least ratio of rates with the relaxed limit (the paper runs at ratio 1) | 1.0 ± 1e-9
    """,
)
def fig_3b(setting: Setting) -> Findings:
    """The data of B-FIG-3b: p goes to the relaxed direction, at the least ratio of rates that does it."""
    problem = hm.data.example("B-FIG-3b")
    best, label = hm.max_margin(problem, BEST), hm.directions.label_max_margin(problem, BEST)
    relaxed = hm.directions.relaxed_max_margin(problem, BEST)
    path = train("B-FIG-3b")
    assert path.v_points is not None
    away = [1 - path.cosine_distance(best, t) for t in (200, 1000)]
    claims = {
        "v-mm": label.need(),
        "support": (label.support == ((0,), (1,)), label.support),
        "p-relax": relaxed.need(),
        "p-mm": best.need(),
        **_cosines(path, relaxed, label),
        "p-mm-cosine": away,
        "p-end": path.p,
        "v-end": path.v_points[-1],
        "rho-star": hm.directions.interpolated_max_margin(problem, 1.0, BEST).rho_star,
    }
    tables = {
        "tokens": _tokens(problem),
        "paths": _paths(path),
        "directions": plane.directions_table(
            {"p_mm": best.need(), "p_relax": relaxed.need(), "v_mm": label.need()}
        ),
    }
    notes = (
        "Equal rates are exactly the critical ratio rho* = 1: with a smaller rate for v the limit of p lies "
        "between the two directions (B-FIG-RHO).",
    )
    return Findings(tables, claims, notes)


def _cosines(path: hm.Run, p: hm.MaxMargin, v: hm.MaxMargin) -> dict[str, float]:
    """Cosines of p and v to where they go, after 200 and after 1,000 steps."""
    assert path.v_points is not None
    found = {}
    for t in (200, 1000):
        found[f"p-{t}"] = 1 - path.cosine_distance(p, t)
        found[f"v-{t}"] = 1 - hm.cosine_distance(path.v_points[t], v)
    return found


def draw_3c(tables: Tables, canvas: Canvas) -> None:
    """Attention on the optimal token, on the top token, and the probability of the label."""
    panel = canvas.subplots()
    curves = tables["curves"]
    panel.plot(curves["step"], curves["label"], color=BLUE, label="probability of the label")
    panel.plot(curves["step"], curves["optimal"], color=RED, label="attention on the optimal token")
    dotted: dict[str, Any] = {"linestyle": (0, (1, 1.4)), "linewidth": 1.0}
    panel.plot(curves["step"], curves["top"], color=RED, label="attention on the top token", **dotted)
    panel.axhline(1.0, color="#E6E6E6", linewidth=0.6, zorder=0)
    panel.set(xlim=(0, 100), ylim=(0.3, 1.03), xlabel="step", ylabel="average probability")
    panel.legend(loc="lower right")


@recipe(
    "B-FIG-3c",
    "Joint training: attention and label probability over the steps",
    draw=draw_3c,
    size=(3.4, 2.3),
    errata=("B-ERR-06",),
    claims="""
    optimal | attention on the optimal token at steps 0, 10, 20, 30, 50, 75, 100 | 0.4230, 0.3891, 0.5255,
        0.7186, 0.9316, 0.9890, 0.9982 ± 1e-3
    top | attention on the top token at steps 0, 10, 20, 30 | 0.7311, 0.8690, 0.7485, 0.7186 ± 1e-3 | the
        formula in the text
    label | probability of the label at the same seven steps | 0.5249, 0.6254, 0.7124, 0.8686, 0.9885,
        0.9993, 0.9999 ± 1e-3
    saturates | attention on the optimal token and label probability after 200 steps | ≥ 0.9999
    """,
)
def fig_3c(setting: Setting) -> Findings:
    """The run of B-FIG-3a; the paper's formula takes the top token, its curve the optimal one (B-ERR-06)."""
    path = train("B-FIG-3a")
    attention = [path.attention(t) for t in range(plane.SHOWN + 1)]
    optimal = np.array([np.mean([s[1] for s in each]) for each in attention])
    top = np.array([1 - path.off_top_attention(t) for t in range(plane.SHOWN + 1)])
    label = np.array([_label_probability(path, t) for t in range(plane.SHOWN + 1)])
    at = list(TIMES)
    claims = {
        "optimal": optimal[at],
        "top": top[at[:4]],
        "label": label[at],
        "saturates": [optimal[-1], label[-1]],
    }
    steps = np.arange(plane.SHOWN + 1)
    tables = {"curves": {"step": steps, "optimal": optimal, "top": top, "label": label}}
    notes = (
        "The text defines the red curve by the top token (dotted); the two differ until step 30 or so "
        "(B-ERR-06).",
    )
    return Findings(tables, claims, notes)


def _label_probability(path: hm.Run, at: int) -> float:
    """Mean of 1/(1 + exp(-u_i)) over the inputs, which is exp of minus the logistic loss."""
    assert path.v_points is not None
    u = settle_at(with_readout(path.problem, path.v_points[at]), path.points[at]).u
    return float(np.exp(-path.problem.loss.value(u)).mean())
