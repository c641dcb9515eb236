"""Steps that remember: momentum freezes (D-THM-7), Adam grows by a law (D-THM-9), or runs away (D-THM-9b).

Adam turns to linf only after a waiting time, has a speed limit, and may run away (D-FIG-ADAM).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import fixed_scores, late_for
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Canvas, Tables, draw_lines, name_axes, part, stacked
from hardmax.papers.geometry import common
from hardmax.papers.geometry.common import at, deficits, marks, separable, strong, trained
from hardmax.problem import Problem

NEAR = 0.02  # how far below and above a threshold the rate is taken
BELOW, ABOVE = 0.8, 2.0  # shares of a threshold at which runs are taken
AHEAD = 40.0  # margin at which a late run begins at least
FARTHEST = 1e9  # margin up to which logits tell steps of a run
STEADY = 1e-3  # how much the growth may change over the last half of a run
LAW = 1e-2  # measured against predicted growth
LATE = 100.0  # log t to which a flow goes on
FALL = 0.5  # of the l2 deficit meanwhile
GROWN = 1e-6  # least relative growth of p meanwhile


@statement(
    "D-THM-7",
    "Momentum before normalization freezes",
    "With a rate below -log(beta)/margin the mean of gradients cannot outlive them. A run far above it "
    "freezes: it goes along a constant direction forever, whose margins exceed -log(beta)/rate.",
    kind="limit",
    label="derived",
    errata=("D-ERR-4",),
)
def frozen_momentum(
    problem: Problem,
    *,
    norm: str = "l2",
    beta: float = 0.9,
    selection: Iterable[int] | None = None,
    steps: int = 3000,
) -> Outcome:
    """One run at 0.8 of the threshold, one at twice the threshold.

    A gradient may be silent for thousands of steps and come back, along a move whose margins are too small to
    keep it down: what is frozen only for now leaves the claim open. So what can fail is the first half.
    """
    best = separable(problem, norm, selection)
    threshold = hm.limits.freezing_rate(best, beta)
    hypotheses = need(Hypothesis("beta > 0", math.isfinite(threshold), beta))
    rules = (hm.optim.Momentum(factor * threshold, beta, norm) for factor in (BELOW, ABOVE))
    slow, fast = (trained(problem, rule, steps=steps, record=[steps - 1]) for rule in rules)
    hypotheses.need(*(common.selects(run, best) for run in (slow, fast)))
    reached = reach(fast, best, beta)
    measured: dict[str, Any] = {"threshold": threshold}
    for name, run in (("below", slow), ("above", fast)):
        measured |= {f"{name}: event": run.event, f"{name}: deficit": run.margin_gap(best)}
    measured["above: reach"] = reached
    if frozen(slow, best, beta):
        return Outcome(hypotheses, -1.0, measured)
    settled = frozen(fast, best, beta) and slow.event is None
    return Outcome(hypotheses, reached - 1 if settled else None, measured)


def reach(run: hm.Run, best: hm.MaxMargin, beta: float) -> float:
    """Return how much the last move shrinks the gradient in a step, in units of what the mean shrinks by."""
    move = np.asarray(run.points)[-1] - np.asarray(run.points)[-2]
    return float(common.row_margins(best, move)[0]) / -math.log(beta)


def frozen(run: hm.Run, best: hm.MaxMargin, beta: float) -> bool:
    """Whether the gradient has no say any more, and never will: above 1 the reach is absorbing."""
    return run.event == "frozen momentum" and reach(run, best, beta) > 1


@statement(
    "D-THM-9",
    "The growth law of Adam with a constant rate",
    "Without epsilon, with beta1^2 < beta2 and where the growth is steady, the margins grow per step by the "
    "root of x = rate margin (1 - beta1)/(1 - beta1 e^x) sqrt((1 - beta2 e^2x)/(1 - beta2)), margin that of "
    "linf.",
    kind="limit",
    label="derived",
    errata=("D-ERR-3",),
)
def adam_grows(
    problem: Problem, *, rate: float = 0.001, betas: tuple[float, float] = (0.9, 0.99), steps: int = 30_000
) -> Outcome:
    """The growth in the last tenth of a run, once it is three waiting times old."""
    slow = Hypothesis("beta1^2 < beta2", betas[0] ** 2 < betas[1], betas)
    need(fixed_scores(problem), slow)
    record = [steps // 2, steps * 6 // 10, steps * 9 // 10]
    run = trained(problem, hm.optim.Adam(rate, betas, eps=0.0), steps=steps, record=record)
    _, best = common.run_margin(problem, run, "linf", slow)
    hypotheses = need(slow, strong(problem, best), common.no_still_coordinate(best))
    waiting = hm.limits.adam_waiting(rate, best.margin, betas)
    waited = Hypothesis("the run is three waiting times old", steps >= 3 * waiting, waiting)
    # growth of the least margin per step up to a snapshot, from the one before
    growth = np.diff(common.row_margins(best, np.asarray(run.points))) / np.diff(run.times)
    early, late = float(growth[1]), float(growth[-1])
    steady = Hypothesis("steady growth", abs(early - late) < STEADY * abs(late) or None, (early, late))
    hypotheses.need(waited, steady)
    law = hm.limits.adam_growth(rate, best.margin, betas)
    measured = {"measured growth": late, "predicted": law, "deficit": run.margin_gap(best)}
    return Outcome(hypotheses, 1 - abs(late / law - 1) / LAW, measured)


@statement(
    "D-THM-9b",
    "Adam with beta1^2 >= beta2 runs away above a rate",
    "Without epsilon the growth law has a root only up to a rate c(beta1, beta2)/margin. Late, where the "
    "rows of the margin alone shape the gradient, above it the first moment outlives the second and "
    "the steps grow without bound; below it they do not.",
    kind="limit",
    label="derived",
    errata=("D-ERR-3",),
)
def adam_runs_away(
    problem: Problem,
    *,
    betas: tuple[float, float] = (0.9, 0.5),
    selection: Iterable[int] | None = None,
    steps: int = 20_000,
) -> Outcome:
    """Two runs, 2 percent below and above the rate, from where it is late: at a margin of 40 or more.

    From the origin p may run away below it too, while other rows fall faster than those of the margin; what
    happens there is reported too.
    """
    best = separable(problem, "linf", selection)
    limit = hm.limits.runaway_rate(best.margin, betas)
    pole = Hypothesis("beta1^2 >= beta2", math.isfinite(limit), betas)
    hypotheses = need(pole, strong(problem, best), common.no_still_coordinate(best))
    # other rows weigh nothing from here on, however small their gap and however large their scores
    margin = max(AHEAD, best.margin * late_for(problem, best))
    hypotheses.need(Hypothesis("late within reach", margin <= FARTHEST or None, margin))
    ahead = margin * best.need()
    # tight rows whose score gaps are far from balanced turn a coordinate back at first, and fall faster so
    down = hm.gradient(problem, ahead).direction
    onward = bool((down * ahead > 0).all()) or None
    hypotheses.need(Hypothesis("descent goes on along it", onward, down.tolist()))
    below, above, whole = (
        trained(problem, hm.optim.Adam(factor * limit, betas, eps=0.0), steps=steps, start=start)
        for factor, start in ((1 - NEAR, ahead), (1 + NEAR, ahead), (1 - NEAR, None))
    )
    hypotheses.need(common.selects(below, best))
    measured = {
        "rate": limit,
        "margin at the start": margin,
        "below: event": below.event,
        "below: |p|": below.p_norm,
        "above: event": above.event,
        "below, from the origin: event": whole.event,
    }
    right = below.event is None and above.event == "runaway"
    return Outcome(hypotheses, 1.0 if right else -1.0, measured)


@statement(
    "D-CONJ-3",
    "Adam with epsilon > 0 tends to l2 in the end",
    "Once the gradient is far below epsilon, Adam is heavy-ball descent of rate over epsilon, and its "
    "direction goes on to the max margin in l2, not in linf.",
    kind="limit",
    hunt={"steps": 8000},
    label="conjecture",
    errata=("D-ERR-3",),
)
def adam_with_epsilon(
    problem: Problem, *, rate: float = 0.01, epsilon: float = 1e-3, steps: int = 20_000
) -> Outcome:
    """Adam until the gradient is below epsilon, then gradient flow, which a heavy ball follows."""
    positive = Hypothesis("epsilon > 0", epsilon > 0, epsilon)
    need(fixed_scores(problem), positive)
    run = trained(problem, hm.optim.Adam(rate, (0.9, 0.99), eps=epsilon), steps=steps)
    one, best = common.run_margin(problem, run, "l2", positive)
    size = math.exp(hm.gradient(problem, run.p).log_norm)
    small = Hypothesis("the gradient is below epsilon", size < epsilon or None, size)
    hypotheses = need(positive, small, strong(problem, best))
    late = hm.flow(problem, start=run.p, until_log_time=LATE)
    other = hm.max_margin(problem, one.measured, norm="linf")
    first, last = run.margin_gap(best), late.margin_gap(best)
    measured = {"l2 deficit after Adam": first, "l2 deficit late": last}
    if other.is_certified:
        deficits = {"linf deficit after Adam": run, "linf deficit late": late}
        measured |= {name: path.margin_gap(other) for name, path in deficits.items()}
    same = Hypothesis(
        "the selection is kept", common.chosen(late).measured == one.measured or None, late.event
    )
    longer = bool(late.p_norm > (1 + GROWN) * run.p_norm)  # else it is at a finite minimum
    grows = Hypothesis("p goes on", longer or None, late.p_norm)
    slack = 1 - last / (FALL * first) if first > 0 else 0.0
    return Outcome((*hypotheses, same, grows), slack, measured)


RATE = 0.01
ADAM_STEPS = {"quick": 100_000, "paper": 10_000_000}
BETAS = {0.9: ORANGE, 0.98: GREEN, 0.99: BLUE, 0.995: PURPLE, 0.999: RED}
ORACLE = {(0.99, 1000): 0.07111, (0.99, 10_000): 0.0919, (0.99, 100_000): 0.0125,
          (0.999, 1000): 0.06069, (0.999, 10_000): 0.0973, (0.999, 100_000): 0.1485}  # fmt: skip
GROWTH = {0.001: 0.00227023031137, 0.003: None, 0.01: 0.00490314788244}  # by rate, with beta2 = 0.99
AWAY = (0.9, 0.5)  # betas with beta1^2 > beta2
AROUND = {0.9: BLUE, 0.98: GREEN, 1.02: ORANGE, 1.1: RED}  # rates over the one of runaway
AWAY_STEPS = 20_000


def draw_adam(tables: Tables, canvas: Canvas) -> None:
    """Deficits with their waiting times, growth against the rate, and the norm about the runaway rate."""
    left, middle, right = canvas.subplots(1, 3, width_ratios=(1.25, 1.0, 1.0))
    curves, times = tables["deficits"], tables["waiting"]
    last = curves["step"].max()
    for beta, color in BETAS.items():
        rows = part(curves, "beta2", beta)
        left.plot(rows["step"], rows["deficit"], color=color)
        tau = float(part(times, "beta2", beta)["steps"][0])
        end = float(rows["deficit"][-1])
        left.text(last * 1.15, end, f"{beta:g}", color=color, fontsize=7, va="center")
        if tau < last:
            level = float(np.interp(np.log(tau), np.log(rows["step"]), rows["deficit"]))
            left.plot(tau, level, "o", color=color, markersize=4, markeredgecolor="white", zorder=4)
    left.text(last * 1.15, 0.6, r"$\beta_2$", fontsize=7, va="center")
    left.axhline(1 / 6, color=GRAY, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=0)
    left.text(1.3, 0.19, r"max margin of $\ell_2$", color="#777777", fontsize=6.5)
    limits = {"xlim": (1, last), "ylim": (1e-5, 1)}
    name_axes(left, r"(a) waiting time $\tau$ (dots)", "step", r"deficit in $\ell_\infty$", "xy", **limits)
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
    problem, last = hm.data.example("skew"), ADAM_STEPS[setting.scale]
    best = hm.max_margin(problem, norm="linf")
    curves: dict[float, tuple[np.ndarray, np.ndarray]] = {}
    for beta in BETAS:
        curves[beta] = deficits(_run_adam(problem, RATE, (0.9, beta), last, marks(last)), best)
        setting.progress(len(curves) / (len(BETAS) + 2))
    waiting = {beta: hm.limits.adam_waiting(RATE, best.margin, (0.9, beta)) for beta in BETAS}
    growth = {}  # of the least margin per step, over the last thousand steps
    for rate in GROWTH:
        run, rows = _run_adam(problem, rate, (0.9, 0.99), last, [last - 1000]), best.constraints.rows()
        growth[rate] = float((rows @ run.points[-1]).min() - (rows @ run.points[-2]).min()) / 1000
    rates = np.geomspace(1e-5, 0.3, 60)
    law = {
        beta: [hm.limits.adam_growth(rate, best.margin, (0.9, beta)) for rate in rates]
        for beta in (0.99, 0.999)
    }
    edge = hm.limits.runaway_rate(best.margin, AWAY)
    about = {
        factor: _run_adam(problem, factor * edge, AWAY, AWAY_STEPS, marks(AWAY_STEPS, 200))
        for factor in AROUND
    }
    events = [str(run.event) for run in about.values()]
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
        "runaway": (events == ["None", "None", "runaway", "runaway"], events),
        "regular": [float(np.abs(about[factor].p).max()) for factor in (0.9, 0.98)],
    }
    tables = {
        "deficits": stacked(
            {"beta2": beta, "step": steps, "deficit": gaps} for beta, (steps, gaps) in curves.items()
        ),
        "waiting": {"beta2": np.array(list(waiting)), "steps": np.array(list(waiting.values()))},
        "growth": {"rate": np.array(list(growth)), "measured": np.array(list(growth.values()))},
        "law": stacked({"beta2": beta, "rate": rates, "growth": rise} for beta, rise in law.items()),
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


def _run_adam(
    problem: hm.Problem, rate: float, betas: tuple[float, float], steps: int, record: list[int]
) -> hm.Run:
    """Train by Adam without epsilon."""
    return train_quietly(problem, hm.optim.Adam(rate, betas, eps=0.0), steps=steps, record=record)
