"""D-FIG-OPTIMISERS: every optimizer goes to the max margin of its own norm, and may select other tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import draw_lines, name_axes
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.geometry.figures.methods import COLORS, NAMES, at, deficits, marks

STEPS = {"quick": 10_000, "paper": 100_000}
DATA = {
    "triple": "(a) three inputs in space",
    "skew": "(b) two inputs in the plane",
    "space-a": "(c) two inputs in space",
}
FLOOR = 1e-6  # what is less is drawn on the lower edge
PALE = "#DDDDDD"


@dataclass(frozen=True)
class Method:
    """An optimizer of the figure: its rule, and how its line is drawn."""

    step: hm.optim.Optimizer
    dashes: tuple[float, ...] = ()
    color: str | None = None  # that of the norm, if none


METHODS = {
    "coordinate": Method(hm.optim.Coordinate(0.1)),
    "normalised": Method(hm.optim.Normalized(0.1)),
    "with momentum": Method(hm.optim.Momentum(0.01), (4, 1.2)),
    "steepest": Method(hm.optim.Normalized(0.1, norm="l3")),
    "mirror": Method(hm.optim.Mirror(0.1, 3.0), (4, 1.2)),
    "sign": Method(hm.optim.Sign(0.1)),
    "sign, falling": Method(hm.optim.Sign(0.1, decay=0.5), (4, 1.2)),
    "Signum": Method(hm.optim.Signum(0.01), (1, 1)),
    "RMSprop": Method(hm.optim.RMSprop(0.001, 0.99, eps=0.0), (4, 1.2), PURPLE),
    "Adam": Method(hm.optim.Adam(0.01, (0.9, 0.99), eps=0.0), (), PURPLE),
}


def draw_optimizers(tables: Tables, canvas: Canvas) -> None:
    """Deficits on three data sets in a row, and below them what is selected on the third, step by step."""
    above, below = canvas.subfigures(2, 1, squeeze=False, height_ratios=(1.15, 1.0))[:, 0]
    curves = tables["deficits"]
    span = (1, curves["step"].max())
    panels = above.subplots(1, 3, sharey=True)
    for panel, (data, title) in zip(panels, DATA.items(), strict=True):
        rows = {**part(curves, "data", data)}
        rows["deficit"] = np.maximum(rows["deficit"], FLOOR / 100)
        draw_lines(panel, rows, "method", "step", "deficit", {name: _look(name) for name in METHODS})
        name_axes(panel, title, "step", "", "xy", ylim=(FLOOR, 3), xlim=span)
    panels[0].set_ylabel("deficit in its own norm")
    panels[0].annotate(
        "sign, rate 0.1: 1/16", (span[1], 1 / 16), (span[1], 0.34), color=RED, fontsize=6.5, ha="right"
    )
    panels[1].text(8, 1.8 * FLOOR, "sign and Signum: exactly 0", color=RED, fontsize=6.5)
    panels[2].text(4.5, 1.8 * FLOOR, r"all of $\ell_\infty$: 0 in the end", color=RED, fontsize=6.5)
    _timeline(below.subplots(gridspec_kw={"left": 0.2}), tables["selections"], span)


def _timeline(panel: Axes, selections: Table, span: tuple[float, float]) -> None:
    """A bar for every method, colored by what is selected; its names are the legend of the other panels."""
    colors = {"0 2": BLUE, "0 1": RED}
    frame = panel.get_yaxis_transform()
    for height, name in enumerate(reversed(METHODS)):
        rows = part(selections, "method", name)
        change = np.flatnonzero(np.append(True, rows["selected"][1:] != rows["selected"][:-1]))
        ends = np.append(rows["step"][change[1:]], span[1])
        for start, end, tokens in zip(rows["step"][change], ends, rows["selected"][change], strict=True):
            panel.barh(height, end - start, 0.62, start, color=colors.get(str(tokens), PALE), alpha=0.8)
        panel.plot([-0.07, -0.012], [height, height], transform=frame, clip_on=False, **_look(name))
        norm = NAMES[METHODS[name].step.norm]
        label = f"{name.replace('normalised', 'normalized')}  {norm}"
        panel.text(-0.082, height, label, transform=frame, ha="right", va="center", fontsize=7)
    panel.set(xscale="log", xlim=span, ylim=(-0.6, len(METHODS) - 0.4), yticks=[], xlabel="step")
    panel.set_title("(d) tokens selected on the way, data of (c)")
    panel.spines["left"].set_visible(False)
    for height, text in ((len(METHODS) - 1, "(0, 2), the best tokens"), (4, "(0, 1)")):
        panel.text(
            0.985, height, text, transform=frame, ha="right", va="center_baseline", color="white", fontsize=7
        )


def _look(name: str) -> dict[str, Any]:
    """Color by norm, dashes by method."""
    method = METHODS[name]
    line = (0, method.dashes) if method.dashes else "-"
    return {"color": method.color or COLORS[method.step.norm], "linestyle": line, "linewidth": 1.0}


@recipe(
    "D-FIG-OPTIMISERS",
    "Each optimizer goes to the max margin of its norm, and may select other tokens",
    draw=draw_optimizers,
    size=(7.0, 4.6),
    errata=("D-ERR-1", "D-ERR-5"),
    claims="""
    tokens-linf | on space-a sign, Signum, RMSprop and Adam select (0, 1) | (0, 1) each
    tokens-others | on space-a all others select the best tokens | (0, 2) each
    digits | deficits after 10,000 steps over those of the spec | 1.0 ± 0.02
    stuck | sign descent with rate 0.1 on triple stays 1/16 short | 1/16 ± 1e-4
    falling | with a falling rate it does not | ≤ 0.003
    exact | sign, with a constant and a falling rate, and Signum on skew: exactly 0 | 0.0 ± 0.0
    own-norm | deficit of all but sign, mirror, Adam and RMSprop at the end | ≤ 0.03
    """,
)
def fig_optimizers(setting: Setting) -> Findings:
    """Ten rules on three data sets from the origin: deficits, and on space-a what is selected."""
    last = STEPS[setting.scale]
    record = marks(last)
    curves, timeline = [], []
    ends: dict[tuple[str, str], tuple[tuple[int, ...], float]] = {}
    late: dict[tuple[str, str], float] = {}
    for place, data in enumerate(DATA):
        problem = hm.data.example(data)
        for name, method in METHODS.items():
            run = train_quietly(problem, method.step, steps=last, record=record)
            tokens = run.selection.tokens
            steps, found = deficits(run, hm.max_margin(problem, tokens, norm=method.step.norm))
            ends[data, name] = tokens, float(found[-1])
            late[data, name] = at(steps, found, 10_000)
            curves.append({"data": data, "method": name, "step": steps, "deficit": found})
            if data == "space-a":
                late_points = range(len(run.times) - len(steps), len(run.times))
                chosen = [str(run.selection_at(s)) for s in late_points]
                timeline.append({"method": name, "step": steps, "selected": chosen})
        setting.progress((place + 1) / len(DATA))
    linf = [name for name, method in METHODS.items() if method.step.norm == "linf"]
    others = [name for name in METHODS if name not in linf]
    oracle = {  # of the spec's runs, at 10,000 steps
        ("triple", "normalised"): 1.44e-4,
        ("triple", "coordinate"): 1.846e-4,
        ("triple", "sign"): 0.06254,
        ("skew", "coordinate"): 1.6e-4,
        ("space-a", "normalised"): 2.072e-3,
    }
    selected = {name: list(ends["space-a", name][0]) for name in METHODS}
    constant = {"sign", "mirror", "Adam", "RMSprop"}
    claims = {
        "tokens-linf": (
            all(selected[each] == [0, 1] for each in linf),
            {each: selected[each] for each in linf},
        ),
        "tokens-others": (
            all(selected[each] == [0, 2] for each in others),
            {each: selected[each] for each in others},
        ),
        "digits": [late[each] / value for each, value in oracle.items()],
        "stuck": ends["triple", "sign"][1],
        "falling": ends["triple", "sign, falling"][1],
        "exact": [ends["skew", each][1] for each in ("sign", "sign, falling", "Signum")],
        "own-norm": [gap for (_, each), (_, gap) in ends.items() if each not in constant],
    }
    tables = {"deficits": stacked(curves), "selections": stacked(timeline)}
    notes = (
        "The data sets are triple, skew and space-a. Rates: 0.1, with momentum 0.01, RMSprop 0.001, Adam "
        "0.01 with beta2 = 0.99; epsilon = 0.",
        "Falling: the rate at step t is 0.1/sqrt(t + 1). Mirror and steepest descent are those of l3.",
    )
    return Findings(tables, claims, notes)
