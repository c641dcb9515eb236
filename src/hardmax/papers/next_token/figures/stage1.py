"""C-FIG-2a, 2b, 2c: stage 1 follows W_ov = t eta_0 W_ov*/|W_ov*| exactly (C-THM-S1)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from hardmax._lib.style import BLUE, GRAY, INK, ORANGE, RED
from hardmax.nexttoken.relations import collocation
from hardmax.nexttoken.stages import descend_stage_1, misalignment_constant, stage_1
from hardmax.nexttoken.training import FIRST_RATE, STEPS
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import DASHED, name_axes
from hardmax.papers.figures.tables import Tables, part, stacked
from hardmax.papers.next_token.figures.runs import TICKS
from hardmax.papers.next_token.statements.instances import drawn
from hardmax.problem.readouts import OutputValue, star_norm

V = 20
RATE = FIRST_RATE / np.sqrt(V)
SPREADS, SEED = (0.1, 1.0), 0  # standard deviations of the entries of random starts
LATE = 10_000  # steps after which 1 - cos follows its law
STEP = "step $t$ of stage 1"
SAME = "Stage 1 sees only the collocation, and all permutations of 20 tokens give these curves."


@lru_cache(maxsize=8)
def descent(start_spread: float = 0.0) -> tuple[OutputValue, ...]:
    """Return W_ov after every step, taken one by one, from zero or from random entries."""
    n = collocation(drawn("short"))
    start = start_spread * np.random.default_rng(SEED).standard_normal((V, V))
    points = [OutputValue.of_table(n, start)]
    for _ in range(STEPS):
        points.append(descend_stage_1(n, 1, RATE, start=points[-1].table))
    return tuple(points)


def draw_2a(tables: Tables, canvas: Canvas) -> None:
    """Draw the loss on a logarithmic axis, with the slope that Proposition 1 prints."""
    panel = canvas.subplots()
    rows = tables["loss"]
    label = r"$\propto e^{-\eta_0 t/(4|W_{ov}^*|)}$, as printed"
    panel.plot(rows["step"], rows["printed"], color=GRAY, linestyle=DASHED, linewidth=1.0, label=label)
    panel.plot(rows["step"], rows["loss"], color=BLUE, label=r"$L_0(W_{ov}^{(t)})$")
    dots = np.arange(0, STEPS + 1, 75)
    look: dict[str, Any] = {"color": INK, "markerfacecolor": "white", "markersize": 3.2, "zorder": 5}
    label = r"$V\,\log(1 + (V{-}1)\,e^{-\eta_0 t/|W_{ov}^*|})$"
    panel.plot(rows["step"][dots], rows["closed_form"][dots], "o", clip_on=False, label=label, **look)
    panel.set(yscale="log", xlim=(0, STEPS), xticks=TICKS, ylim=(0.02, 120), xlabel=STEP, ylabel="loss $L_0$")
    panel.legend(loc="lower left")


@recipe(
    "C-FIG-2a",
    "Stage 1: the loss falls as the closed form says",
    draw=draw_2a,
    size=(3.4, 2.4),
    errata=("C-ERR-08",),
    claims="""
    start | loss before the first step, 20 log 20 | 59.9146 ± 5e-5
    end | loss after 900 steps | 0.0370843 ± 5e-8
    closed-form | largest relative distance to 20 log(1 + 19 exp(-0.01025978 t)) | ≤ 1e-9
    library | the same for the closed form that training uses | ≤ 1e-9
    falls | largest change in a step | ≤ -1e-6 | converges to its minimum value
    rate | late slope of log L_0, in units of eta_0/|W_ov*| | 1.0 ± 2e-3 | 1/4 in Proposition 1
    """,
)
def fig_2a(setting: Setting) -> Findings:
    """Take 900 steps one by one, and compare the loss with V log(1 + (V - 1) e^(-eta_0 t/|W_ov*|))."""
    steps = np.arange(STEPS + 1)
    losses = np.array([point.stage_1_loss for point in descent()])
    n = descent()[0].collocation
    slope = RATE / star_norm(n)
    exact = V * np.log1p((V - 1) * np.exp(-slope * steps))
    library = np.array([stage_1(n, t, RATE).stage_1_loss for t in range(STEPS + 1)])  # by C-THM-S1
    late = np.log(losses[-1] / losses[-101]) / 100
    claims = {
        "start": losses[0],
        "end": losses[-1],
        "closed-form": np.abs(losses / exact - 1),
        "library": np.abs(library / exact - 1),
        "falls": np.diff(losses),
        "rate": -late / slope,
    }
    printed = losses[0] * np.exp(-slope * steps / 4)
    tables = {"loss": {"step": steps, "loss": losses, "closed_form": exact, "printed": printed}}
    notes = (
        SAME,
        "The late slope of log L_0 is four times the one printed in Proposition 1 (C-ERR-08). 0.01025978 is "
        "eta_0/|W_ov*| = 0.2/sqrt(20 x 19), taken with all its digits.",
    )
    return Findings(tables, claims, notes)


def draw_2b(tables: Tables, canvas: Canvas) -> None:
    """Draw the cosine, from zero and from two random starts."""
    panel = canvas.subplots()
    looks = {0.0: (BLUE, "from zero"), 0.1: (ORANGE, None), 1.0: (RED, None)}
    for spread, (color, label) in looks.items():
        rows = part(tables["cosine"], "spread", spread)
        label = label or rf"random start, $\sigma = {spread:g}$"
        panel.plot(rows["step"], 1 - rows["misalignment"], color=color, zorder=4 - spread, label=label)
    cosine = r"$\cos(W_{ov}^{(t)}, W_{ov}^*)$"
    name_axes(panel, "", STEP, cosine, xlim=(0, STEPS), xticks=TICKS, ylim=(0, 1.05))
    panel.legend(loc="lower right")


@recipe(
    "C-FIG-2b",
    "Stage 1: the direction is W_ov* from the first step on",
    draw=draw_2b,
    size=(3.4, 2.4),
    errata=("C-ERR-07",),
    claims="""
    one | largest |cos - 1| from step 1 on | ≤ 1e-12 | converges in direction to W_ov*
    undefined | cosine before the first step, where W_ov = 0 | undefined
    random-rises | least change in a step from random entries of spread 0.1 and 1 | ≥ 0.0
    random-sums | largest change of a column's sum from there, in 900 steps | ≤ 1e-10
    random-law | 1 - cos over K/t^2 after 10,000 steps from spread 0.1 and 1 | 1.0 ± 0.02
    """,
)
def fig_2b(setting: Setting) -> Findings:
    """Measure 1 - cos to W_ov* from zero, and from random entries, where it falls like K/t^2."""
    spreads = (0.0, *SPREADS)
    off = {x: np.array([point.misalignment_ov for point in descent(x)[1:]]) for x in spreads}
    moved = [descent(x)[-1].table.sum(axis=0) - descent(x)[0].table.sum(axis=0) for x in SPREADS]
    before = descent()[0].misalignment_ov
    claims: dict[str, Any] = {
        "one": np.abs(off[0.0]),
        "undefined": (np.isnan(before), "undefined" if np.isnan(before) else 1 - before),
        "random-rises": [-np.diff(off[x]) for x in SPREADS],
        "random-sums": np.abs(moved),
        "random-law": None,
    }
    if setting.scale != "quick":  # 1 - cos against K/t^2 after 10,000 steps from the same random entries
        ratio = []
        for spread in SPREADS:
            start = descent(spread)[0]
            late = descend_stage_1(start.collocation, LATE, RATE, start=start.table)
            ratio.append(late.misalignment_ov * LATE**2 / misalignment_constant(start.table, RATE))
            setting.progress(len(ratio) / len(SPREADS))
        claims["random-law"] = ratio
    steps = np.arange(1, STEPS + 1)
    rows = ({"spread": spread, "step": steps, "misalignment": x} for spread, x in off.items())
    tables = {"cosine": stacked(rows)}
    notes = (
        SAME,
        "From zero there is nothing to converge: the first step already has the direction of W_ov*, so "
        "neither constant of Proposition 1 (5 or 12, C-ERR-07) is tested. From random entries the "
        "sums of the columns stay as they are, so that 1 - cos falls like K/t^2 in the end.",
    )
    return Findings(tables, claims, notes, SEED)


def draw_2c(tables: Tables, canvas: Canvas) -> None:
    """Draw the norm, on the upper edge of the range of Proposition 1."""
    panel = canvas.subplots()
    rows = tables["norm"]
    look: dict[str, Any] = {"color": GRAY, "alpha": 0.22, "linewidth": 0, "label": "allowed by Proposition 1"}
    panel.fill_between(rows["step"], rows["least"], rows["greatest"], **look)
    panel.plot(rows["step"], rows["norm"], color=BLUE, label=r"$|W_{ov}^{(t)}| = t\,\eta_0$")
    panel.set(xlim=(0, STEPS), xticks=TICKS, ylim=(0, 42), xlabel=STEP, ylabel=r"$|W_{ov}^{(t)}|$")
    panel.legend(loc="upper left")


@recipe(
    "C-FIG-2c",
    "Stage 1: the norm grows by eta_0 in every step",
    draw=draw_2c,
    size=(3.4, 2.4),
    claims="""
    end | norm after 900 steps | 40.2492 ± 5e-5
    line | largest relative distance to t eta_0 | ≤ 1e-12 | linear increase
    lower | least norm over the lower bound of Proposition 1 | ≥ 1.0 | at least 1
    """,
)
def fig_2c(setting: Setting) -> Findings:
    """Measure |W_ov|, which is t eta_0, the upper bound of Proposition 1."""
    steps = np.arange(STEPS + 1)
    norms = np.array([point.norm for point in descent()])
    least = RATE * steps / (2 * star_norm(descent()[0].collocation))
    claims = {
        "end": norms[-1],
        "line": np.abs(norms[1:] / (RATE * steps[1:]) - 1),
        "lower": norms[1:] / least[1:],
    }
    tables = {"norm": {"step": steps, "norm": norms, "least": least, "greatest": RATE * steps}}
    return Findings(tables, claims, (SAME,))
