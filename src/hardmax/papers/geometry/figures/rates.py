"""D-FIG-STEPS: beyond a critical step size only l2 keeps its direction (D-THM-5, D-THM-6)."""

from __future__ import annotations

import numpy as np

import hardmax as hm
from hardmax._lib.style import INK
from hardmax.dynamics.train import train_quietly
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import name_axes
from hardmax.papers.figures.tables import Tables, part, stacked
from hardmax.papers.geometry.figures.methods import COLORS, NAMES

STEPS = {"quick": 10_000, "paper": 100_000}
RATES = {"quick": 26, "paper": 90}
RULES = {"l1": "coordinate", "l1.5": "steepest", "l2": "normalized", "l3": "steepest", "linf": "sign"}
CRITICAL = {"l1.5": 0.5946458703, "l2": 0.4040610178, "l3": 0.3294955545}
STUCK = {("l3", 1.0): 0.0387, ("l1.5", 1.0): 0.0606, ("linf", 0.1): 0.0625, ("linf", 0.3): 0.15625,
         ("linf", 1.0): 0.2031}  # fmt: skip
LABELS = {"l1": (0.0115, 0.0034), "l1.5": (1.05, 0.045), "l2": (0.8, 5e-5), "l3": (0.075, 0.022),
          "linf": (0.065, 0.085)}  # fmt: skip
FLOOR = 1e-5  # what is less is drawn on the lower edge


def draw_rates(tables: Tables, canvas: Canvas) -> None:
    """Deficit at the end against the rate, a line for each norm, with the critical rates marked."""
    panel = canvas.subplots()
    curves, critical = tables["deficits"], tables["critical"]
    for name, rule in RULES.items():
        rows = part(curves, "norm", name)
        panel.plot(rows["rate"], np.maximum(rows["deficit"], FLOOR), color=COLORS[name], linewidth=1.1)
        lost = np.isnan(rows["deficit"])
        panel.plot(rows["rate"][lost], np.full(lost.sum(), 0.72), "x", color=COLORS[name], markersize=3.2)
        panel.text(*LABELS[name], f"{rule} {NAMES[name]}", color=COLORS[name], fontsize=7)
    for name, rate in zip(critical["norm"], critical["rate"], strict=True):
        panel.axvline(rate, color=COLORS[str(name)], linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=0)
        panel.plot(rate, FLOOR, "^", color=COLORS[str(name)], markersize=4, clip_on=False)
    panel.text(0.29, 1.3 * FLOOR, r"$\eta_c$", ha="right", color=INK)
    panel.text(3.1, 0.52, "trapped in a cycle", ha="right", va="top", color=COLORS["l1"], fontsize=6.5)
    limits = {"xlim": (curves["rate"].min(), 3.2), "ylim": (FLOOR, 1.0)}
    name_axes(panel, "", "step size", "deficit at the end", "xy", **limits)


@recipe(
    "D-FIG-STEPS",
    "Beyond a critical step size only l2 keeps its direction",
    draw=draw_rates,
    size=(3.4, 3.0),
    errata=("D-ERR-1", "D-ERR-2"),
    claims=f"""
    critical | critical rates of l1.5, l2 and l3 | {listed(list(CRITICAL.values()))} ± 1e-9
    calm | steps of p alternate by, at 0.98 of the critical rate | ≤ 1e-9
    swinging | the same at 1.02 of it | ≥ 0.05
    stuck | deficits of l3 and l1.5 at rate 1, of sign descent at 0.1, 0.3 and 1
        | {listed(list(STUCK.values()))} ± 5e-4
    euclidean | l2 at rate 3 times steps: it goes on falling | ≤ 2.0
    sign-small | sign descent at rate 0.055, times steps | ≤ 2.0
    cycle | coordinate descent at rate 1 repeats itself | cycle
    """,
)
def fig_rates(setting: Setting) -> Findings:
    """Constant rates on triple, five norms; where a run swings, and what it loses by that."""
    problem, last = hm.data.example("triple"), STEPS[setting.scale]
    best = {name: hm.max_margin(problem, [1, 0, 0], norm=name) for name in RULES}
    critical = {name: hm.limits.critical_rate(best[name]) for name in CRITICAL}
    jumps = [0.055, 0.06, *(f * each for each in critical.values() for f in (0.99, 1.02, 1.1, 1.3))]
    rates = np.union1d(np.geomspace(0.01, 3.0, RATES[setting.scale]), jumps)
    found: dict[str, list[float]] = {}
    for done, name in enumerate(RULES):
        found[name] = [_deficit(_run(problem, name, rate, last), best[name]) for rate in rates]
        setting.progress((done + 1) / (len(RULES) + 1))
    stuck = [_deficit(_run(problem, name, rate, last), best[name]) for name, rate in STUCK]
    calm, swinging = (
        [_alternation(problem, name, factor * critical[name], last) for name in CRITICAL]
        for factor in (0.98, 1.02)
    )
    cycle = _run(problem, "l1", 1.0, 100)
    claims = {
        "critical": list(critical.values()),
        "calm": calm,
        "swinging": swinging,
        "stuck": stuck,
        "euclidean": last * _deficit(_run(problem, "l2", 3.0, last), best["l2"]),
        "sign-small": last * _deficit(_run(problem, "linf", 0.055, last), best["linf"]),
        "cycle": (cycle.event == "cycle", str(cycle.event)),
    }
    tables = {
        "deficits": stacked({"norm": norm, "rate": rates, "deficit": each} for norm, each in found.items()),
        "critical": {"norm": np.array(list(critical)), "rate": np.array(list(critical.values()))},
    }
    notes = (
        f"triple, tokens (1, 0, 0), {last:,} steps from the origin; a deficit of c/step is falling still.",
        "A cross: the run ends in a cycle of finite length and selects nothing for good.",
    )
    return Findings(tables, claims, notes)


def _run(problem: hm.Problem, norm: str, rate: float, steps: int, record: list[int] | None = None) -> hm.Run:
    step = hm.optim.Normalized(float(rate), norm=norm)
    return train_quietly(problem, step, steps=steps, record=record or [])


def _deficit(run: hm.Run, best: hm.MaxMargin) -> float:
    """Return the deficit of the last point; nan where the run repeats itself, so that p has no direction."""
    return float("nan") if run.event == "cycle" else max(best.margin_gap(run.p), 0.0)


def _alternation(problem: hm.Problem, norm: str, rate: float, steps: int) -> float:
    """Return by how much two successive steps differ at the end, as a share of the rate."""
    points = _run(problem, norm, rate, steps, list(range(steps - 4, steps + 1))).points[-4:]
    moves = np.diff(points, axis=0)
    return float(np.abs(np.diff(moves, axis=0)).max() / rate)
