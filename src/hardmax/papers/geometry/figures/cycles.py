"""D-FIG-CYCLES: where labels contradict, normalized steps slow down, sign and Adam go astray (D-THM-8)."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GREEN, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import draw_lines, name_axes, name_lines
from hardmax.papers.figures.tables import Tables, part, stacked
from hardmax.papers.geometry.figures.methods import at, deficits, marks

STEPS = {"quick": 10_000, "paper": 100_000}
DATA = {"cycle": "(b) one cycle: direction", "two-scc": "(c) two cycles: direction"}
RULES = {
    "normalised": hm.optim.Normalized(0.1),
    "sign": hm.optim.Sign(0.1),
    "Adam": hm.optim.Adam(0.01, (0.9, 0.99), eps=0.0),
}
SPLIT = "normalized, split"
LOOKS: dict[str, dict[str, Any]] = {
    "normalised": {"color": BLUE},
    SPLIT: {"color": GREEN},
    "sign": {"color": RED, "linestyle": (0, (4, 1.5))},
    "Adam": {"color": PURPLE},
}
LABELS = {"sign": "sign", "Adam": "Adam", "normalised": "normalized", SPLIT: "normalized, $p_{fin}$ fixed"}
FINITE = {
    "cycle": [np.log(3) / 2, -np.log(3) / 2, 0.0],
    "two-scc": [np.log(2) / 2 * s for s in (1, -1, 1, -1, 0)],
}
DIVERGING = {"cycle": [1 / 3, 1 / 3, -2 / 3], "two-scc": [0.8, 0.8, -0.2, -0.2, -1.2]}


def draw_cycles(tables: Tables, canvas: Canvas) -> None:
    """The length of p on the first data set, and deficits on both."""
    left, *panels = canvas.subplots(1, 3)
    curves, last = tables["runs"], float(tables["runs"]["step"].max())
    draw_lines(left, part(curves, "data", "cycle"), "method", "step", "norm", LOOKS)
    law = tables["law"]
    left.plot(law["step"], law["norm"], color="black", linestyle=(0, (1, 1.5)), linewidth=0.9, zorder=5)
    left.text(last / 1.2, law["norm"][-1] / 2.3, r"$|p_{mm}| \log t$", ha="right", va="top", fontsize=7)
    length = "norm of $p$, in the optimizer's norm"
    name_axes(left, "(a) one cycle: norm of $p$", "step", length, "xy", xlim=(1, last), ylim=(0.01, 3e4))
    name_lines(left, {text: LOOKS[name]["color"] for name, text in LABELS.items()}, 0.96, 0.075)
    for panel, (data, title) in zip(panels, DATA.items(), strict=True):
        draw_lines(panel, part(curves, "data", data), "method", "step", "misalignment", LOOKS)
        name_axes(panel, title, "step", "", "xy", xlim=(1, last), ylim=(1e-7, 3))
    panels[0].set_ylabel("1 − cos to the max margin")


@recipe(
    "D-FIG-CYCLES",
    "Labels in a cycle: normalized steps slow down to log t, sign descent and Adam go astray",
    draw=draw_cycles,
    size=(7.0, 2.5),
    errata=("D-ERR-7",),
    claims=f"""
    finite | p_fin of cycle and two-scc | {listed(np.concatenate([*FINITE.values()]))} ± 1e-9
    diverging | p_mm of cycle and two-scc | {listed(np.concatenate([*DIVERGING.values()]))} ± 1e-9
    certified | what is bound and what separates is proved | certified
    norms | |p| of normalized steps on cycle after 1,000 and 10,000 | 5.59, 7.45 ± 0.01
    slope | its growth in a decade over |p_mm| log 10 | 1.0 ± 0.02
    sign | deficit of sign descent after 1,000 steps: 0.495 on cycle, 0.966 on two-scc | 0.495, 0.966 ±
        0.005
    astray | deficits of sign descent and of Adam at the end, cycle | ≥ 0.45
    order | the same on two-scc: the order between components is not learnt | ≥ 0.7
    split | 1 - cos to p_mm orthogonal to the finite part after all steps, times steps squared | ≤ 60.0
    """,
)
def fig_cycles(setting: Setting) -> Findings:
    """Three rules on data with a finite part, and the first of them with that part fixed."""
    last = STEPS[setting.scale]
    record = marks(last)
    curves = []
    end: dict[tuple[str, str], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    parts: dict[str, hm.limits.Decomposition] = {}
    astray: dict[str, float] = {}
    for place, data in enumerate(DATA):
        problem = hm.data.example(data)
        parts[data] = hm.decompose(problem)
        runs = {name: train_quietly(problem, rule, steps=last, record=record) for name, rule in RULES.items()}
        runs[SPLIT] = hm.train(parts[data].remainder, RULES["normalised"], steps=last, record=record)
        for name, run in runs.items():
            norm = RULES["normalised" if name == SPLIT else name].norm
            best = parts[data].max_margin(norm)
            steps, found = deficits(run, best)
            angles = run.cosine_distances(best)[-len(steps) :]
            sizes = np.linalg.norm(run.points[-len(steps) :], np.inf if norm == "linf" else 2, axis=1)
            end[data, name] = steps, sizes, found
            named = {"data": data, "method": name, "step": steps}
            curves.append({**named, "norm": sizes, "deficit": found, "misalignment": angles})
        astray[data] = runs[SPLIT].cosine_distance(parts[data].p_mm)
        setting.progress((place + 1) / len(DATA))
    length = float(np.linalg.norm(DIVERGING["cycle"]))
    steps, sizes, _ = end["cycle", "normalised"]
    statuses = [each.status for each in parts.values()]
    claims = {
        "finite": np.concatenate([parts[data].p_fin for data in DATA]),
        "diverging": np.concatenate([parts[data].p_mm for data in DATA]),
        "certified": (set(statuses) == {"certified"}, statuses),
        "norms": [at(steps, sizes, 1000), at(steps, sizes, 10_000)],
        "slope": (at(steps, sizes, 10_000) - at(steps, sizes, 1000)) / (length * np.log(10)),
        "sign": [at(*end[data, "sign"][::2], 1000) for data in DATA],
        "astray": [end["cycle", each][2][-1] for each in ("sign", "Adam")],
        "order": [end["two-scc", each][2][-1] for each in ("sign", "Adam")],
        "split": [last**2 * each for each in astray.values()],
    }
    spread = np.geomspace(10, last, 40)
    tables = {
        "runs": stacked(curves),
        "law": {"step": spread, "norm": sizes[-1] + length * np.log(spread / last)},
    }
    notes = (
        "Log loss of labels; rates 0.1, Adam 0.01 with beta2 = 0.99.",
        "One cycle is the data set cycle: the label is a and not b three times, b and not a once, and once a "
        "and not c. Two cycles are the data set two-scc.",
        "The max margin is the one in the rule's own norm that ties the bound rows.",
        "With p_fin fixed: hm.train(hm.decompose(problem).remainder, ...).",
    )
    return Findings(tables, claims, notes)
