"""D-FIG-ADAM: Adam turns to linf only after a waiting time, has a speed limit, and may run away (D-THM-9)."""

from __future__ import annotations

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import draw_lines, name_axes
from hardmax.papers.figures.tables import Tables, part, stacked
from hardmax.papers.geometry.figures.methods import at, deficits, marks

RATE = 0.01
STEPS = {"quick": 100_000, "paper": 10_000_000}
BETAS = {0.9: ORANGE, 0.98: GREEN, 0.99: BLUE, 0.995: PURPLE, 0.999: RED}
ORACLE = {(0.99, 1000): 0.07111, (0.99, 10_000): 0.0919, (0.99, 100_000): 0.0125,
          (0.999, 1000): 0.06069, (0.999, 10_000): 0.0973, (0.999, 100_000): 0.1485}  # fmt: skip
GROWTH = {0.001: 0.00227023031137, 0.003: None, 0.01: 0.00490314788244}  # by rate, with beta2 = 0.99
AWAY = (0.9, 0.5)  # betas with beta1^2 > beta2
AROUND = {0.9: BLUE, 0.98: GREEN, 1.02: ORANGE, 1.1: RED}  # rates over the one of runaway
LATE = 20_000


def draw_adam(tables: Tables, canvas: Canvas) -> None:
    """Deficits with their waiting times, growth against the rate, and the norm about the runaway rate."""
    left, middle, right = canvas.subplots(1, 3, width_ratios=(1.25, 1.0, 1.0))
    _waiting(left, tables)
    growth, law = tables["growth"], tables["law"]
    for beta, color in ((0.99, BLUE), (0.999, RED)):
        curve = part(law, "beta2", beta)
        middle.plot(curve["rate"], curve["growth"], color=color)
        middle.axhline(-0.5 * np.log(beta), color=color, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=0)
        limit = rf"$-\frac{{1}}{{2}}\log {beta:g}$"
        middle.text(0.25, -0.6 * np.log(beta), limit, color=color, ha="right", fontsize=6.5)
    middle.plot(growth["rate"], growth["measured"], "o", color=INK, markersize=3, zorder=4)
    middle.text(0.0015, 0.0019, "measured", fontsize=6.5)
    limits = {"xlim": (1e-5, 0.3), "ylim": (2e-5, 0.02)}
    name_axes(middle, "(b) speed limit", "rate", "growth of margins per step", "xy", **limits)
    looks = {factor: {"color": color} for factor, color in AROUND.items()}
    draw_lines(right, tables["norms"], "factor", "step", "norm", looks)
    right.text(410, 1e30, r"$1.1\,\eta_c$", color=RED, ha="right", fontsize=7)
    right.text(680, 1e30, r"rate $1.02\,\eta_c$", color=ORANGE, fontsize=7)
    right.text(4.8e3, 1e4, r"$0.98$ and $0.9\,\eta_c$", color=GREEN, ha="right", fontsize=7)
    limits = {"xlim": (100, 5000), "ylim": (0.1, 1e40)}
    name_axes(right, "(c) Adam runs away", "step", r"$|p|_\infty$", "xy", **limits)


def _waiting(panel: Axes, tables: Tables) -> None:
    curves, times = tables["deficits"], tables["waiting"]
    last = curves["step"].max()
    for beta, color in BETAS.items():
        rows = part(curves, "beta2", beta)
        panel.plot(rows["step"], rows["deficit"], color=color)
        tau = float(part(times, "beta2", beta)["steps"][0])
        end = float(rows["deficit"][-1])
        panel.text(last * 1.15, end, f"{beta:g}", color=color, fontsize=7, va="center")
        if tau < last:
            level = float(np.interp(np.log(tau), np.log(rows["step"]), rows["deficit"]))
            panel.plot(tau, level, "o", color=color, markersize=4, markeredgecolor="white", zorder=4)
    panel.text(last * 1.15, 0.6, r"$\beta_2$", fontsize=7, va="center")
    panel.axhline(1 / 6, color=GRAY, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=0)
    panel.text(1.3, 0.19, r"max margin of $\ell_2$", color="#777777", fontsize=6.5)
    limits = {"xlim": (1, last), "ylim": (1e-5, 1)}
    name_axes(panel, r"(a) waiting time $\tau$ (dots)", "step", r"deficit in $\ell_\infty$", "xy", **limits)


@recipe(
    "D-FIG-ADAM",
    "Adam turns to linf only after a waiting time, has a speed limit, and may run away",
    draw=draw_adam,
    size=(7.0, 2.5),
    errata=("D-ERR-3",),
    claims=f"""
    digits | deficits for beta2 = 0.99 and 0.999 after 1,000, 10,000 and 100,000 steps
        | {listed(list(ORACLE.values()))} ± 1e-4
    waiting | waiting times for beta2 = 0.99 and 0.999 | 3564.03, 3596400.3 ± 0.01
    after | deficit at the end, where that is ten waiting times or more | ≤ 0.02
    before | before its waiting time the deficit for beta2 = 0.999 grows | growing
    growth | growth of the least margin per step over the law, at rates 0.001 to 0.01 | 1.0 ± 1e-6
    growth-digits | the same at rates 0.001 and 0.01 | {GROWTH[0.001]}, {GROWTH[0.01]} ± 1e-9
    edge | rate of runaway for betas 0.9 and 0.5 | 0.0095782498 ± 1e-10
    runaway | beyond it Adam runs away, and only there | None, None, runaway, runaway
    regular | |p| in linf after 20,000 steps at 0.9 and 0.98 of it | 254.7, 317.4 ± 0.1
    """,
)
def fig_adam(setting: Setting) -> Findings:
    """Adam without epsilon on skew: several beta2, several rates, and rates about the one of runaway."""
    problem, last = hm.data.example("skew"), STEPS[setting.scale]
    best = hm.max_margin(problem, norm="linf")
    curves: dict[float, tuple[np.ndarray, np.ndarray]] = {}
    for beta in BETAS:
        curves[beta] = deficits(_run(problem, RATE, (0.9, beta), last, marks(last)), best)
        setting.progress(len(curves) / (len(BETAS) + 2))
    waiting = {beta: hm.limits.adam_waiting(RATE, best.margin, (0.9, beta)) for beta in BETAS}
    growth = {rate: _growth(problem, best, rate, last) for rate in GROWTH}
    rates = np.geomspace(1e-5, 0.3, 60)
    law = {
        beta: [hm.limits.adam_growth(rate, best.margin, (0.9, beta)) for rate in rates]
        for beta in (0.99, 0.999)
    }
    edge = hm.limits.runaway_rate(best.margin, AWAY)
    about = {factor: _run(problem, factor * edge, AWAY, LATE, marks(LATE, 200)) for factor in AROUND}
    spent = [beta for beta in BETAS if 10 * waiting[beta] < last]
    early = [at(*curves[0.999], step) for step in (1000, 10_000, 100_000)]
    claims = {
        "digits": [at(*curves[beta], step) for beta, step in ORACLE],
        "waiting": [waiting[0.99], waiting[0.999]],
        "after": [curves[beta][1][-1] for beta in spent],
        "before": (bool(np.all(np.diff(early) > 0)), early),
        "growth": [growth[rate] / hm.limits.adam_growth(rate, best.margin, (0.9, 0.99)) for rate in GROWTH],
        "growth-digits": [growth[0.001], growth[0.01]],
        "edge": edge,
        "runaway": (
            [run.event for run in about.values()] == [None, None, "runaway", "runaway"],
            [str(run.event) for run in about.values()],
        ),
        "regular": [float(np.abs(about[factor].p).max()) for factor in (0.9, 0.98)],
    }
    tables = {
        "deficits": stacked(
            {"beta2": beta, "step": steps, "deficit": found} for beta, (steps, found) in curves.items()
        ),
        "waiting": {"beta2": np.array(list(waiting)), "steps": np.array(list(waiting.values()))},
        "growth": {"rate": np.array(list(growth)), "measured": np.array(list(growth.values()))},
        "law": stacked({"beta2": beta, "rate": rates, "growth": each} for beta, each in law.items()),
        "norms": stacked(
            {"factor": factor, "step": run.times[1:], "norm": np.abs(run.points[1:]).max(axis=1)}
            for factor, run in about.items()
        ),
    }
    notes = (
        f"The data set skew, epsilon = 0, beta1 = 0.9; rate {RATE:g} in (a), betas {AWAY[0]} and {AWAY[1]} "
        "in (c), where the numbers are rates over the critical one.",
        "The waiting time for beta2 = 0.999 is 3.6 million steps; quick scale ends before it.",
    )
    return Findings(tables, claims, notes)


def _run(
    problem: hm.Problem, rate: float, betas: tuple[float, float], steps: int, record: list[int]
) -> hm.Run:
    """Train by Adam without epsilon."""
    return train_quietly(problem, hm.optim.Adam(rate, betas, eps=0.0), steps=steps, record=record)


def _growth(problem: hm.Problem, best: hm.MaxMargin, rate: float, last: int) -> float:
    """Return the growth of the least margin per step, over the last thousand steps."""
    run = _run(problem, rate, (0.9, 0.99), last, [last - 1000])
    rows = best.constraints.rows()
    return float((rows @ run.points[-1]).min() - (rows @ run.points[-2]).min()) / 1000
