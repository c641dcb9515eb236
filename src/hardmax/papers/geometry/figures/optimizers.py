"""D-FIG-OPTIMISERS, D-FIG-STEPS, D-FIG-ADAM and D-FIG-CYCLES: optimizers, their rates, and what they select.

Every optimizer goes to the max margin of its own norm, and may select other tokens. Beyond a critical step
size only l2 keeps its direction (D-THM-5, D-THM-6). Adam turns to linf only after a waiting time, has a speed
limit, and may run away (D-THM-9). Where labels contradict, normalized steps slow down, and sign descent and
Adam go astray (D-THM-8). Rates may lie beyond a threshold on purpose, so figures train by `train_quietly`,
without the warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, TEAL
from hardmax.dynamics.train import train_quietly
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import draw_lines, name_axes, name_lines
from hardmax.papers.figures.tables import Tables, part, stacked

COLORS = {"l1": ORANGE, "l1.5": TEAL, "l2": BLUE, "l3": GREEN, "linf": RED}
NAMES = {
    "l1": r"$\ell_1$",
    "l1.5": r"$\ell_{1.5}$",
    "l2": r"$\ell_2$",
    "l3": r"$\ell_3$",
    "linf": r"$\ell_\infty$",
}


def marks(last: int, number: int = 60) -> list[int]:
    """Steps evenly spaced in their logarithm, with the powers of ten, up to the last one."""
    spread = np.geomspace(1, last, number).round().astype(int)
    return np.union1d(spread, 10 ** np.arange(int(np.log10(last)) + 1)).tolist()


def deficits(run: hm.Run, best: hm.MaxMargin) -> tuple[np.ndarray, np.ndarray]:
    """The recorded steps after the start, and how far p was from the max margin at each."""
    late = np.flatnonzero(np.asarray(run.points).any(axis=1))
    return run.times[late].astype(int), np.array([max(best.margin_gap(run.points[at]), 0.0) for at in late])


def at(steps: np.ndarray, values: np.ndarray, step: int) -> float:
    """The value recorded at that step."""
    return float(values[steps == step][0])


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
        rows = part(curves, "data", data)
        rows["deficit"] = np.maximum(rows["deficit"], FLOOR / 100)
        draw_lines(panel, rows, "method", "step", "deficit", {name: _look(name) for name in METHODS})
        name_axes(panel, title, "step", "", "xy", ylim=(FLOOR, 3), xlim=span)
    panels[0].set_ylabel("deficit in its own norm")
    panels[0].annotate(
        "sign, rate 0.1: 1/16", (span[1], 1 / 16), (span[1], 0.34), color=RED, fontsize=6.5, ha="right"
    )
    panels[1].text(8, 1.8 * FLOOR, "sign and Signum: exactly 0", color=RED, fontsize=6.5)
    panels[2].text(4.5, 1.8 * FLOOR, r"all of $\ell_\infty$: 0 in the end", color=RED, fontsize=6.5)
    # a bar for every method, colored by what is selected; its names are the legend of the other panels
    panel, selections = below.subplots(gridspec_kw={"left": 0.2}), tables["selections"]
    colors = {"0 2": BLUE, "0 1": RED}
    frame = panel.get_yaxis_transform()
    for height, name in enumerate(reversed(METHODS)):
        rows = part(selections, "method", name)
        change = np.flatnonzero(np.append(True, rows["selected"][1:] != rows["selected"][:-1]))
        ends = np.append(rows["step"][change[1:]], span[1])
        for start, end, tokens in zip(rows["step"][change], ends, rows["selected"][change], strict=True):
            panel.barh(height, end - start, 0.62, start, color=colors.get(str(tokens), PALE), alpha=0.8)
        panel.plot([-0.07, -0.012], [height, height], transform=frame, clip_on=False, **_look(name))
        label = f"{name.replace('normalised', 'normalized')}  {NAMES[METHODS[name].step.norm]}"
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
            steps, gaps = deficits(run, hm.max_margin(problem, tokens, norm=method.step.norm))
            ends[data, name] = tokens, float(gaps[-1])
            late[data, name] = at(steps, gaps, 10_000)
            curves.append({"data": data, "method": name, "step": steps, "deficit": gaps})
            if data == "space-a":
                points = range(len(run.times) - len(steps), len(run.times))
                chosen = [str(run.selection_at(s)) for s in points]
                timeline.append({"method": name, "step": steps, "selected": chosen})
        setting.progress((place + 1) / len(DATA))
    oracle = {  # of the spec's runs, at 10,000 steps
        ("triple", "normalised"): 1.44e-4,
        ("triple", "coordinate"): 1.846e-4,
        ("triple", "sign"): 0.06254,
        ("skew", "coordinate"): 1.6e-4,
        ("space-a", "normalised"): 2.072e-3,
    }
    selected = {name: list(ends["space-a", name][0]) for name in METHODS}
    linf = {name: tokens for name, tokens in selected.items() if METHODS[name].step.norm == "linf"}
    others = {name: tokens for name, tokens in selected.items() if name not in linf}
    constant = {"sign", "mirror", "Adam", "RMSprop"}
    claims = {
        "tokens-linf": (all(tokens == [0, 1] for tokens in linf.values()), linf),
        "tokens-others": (all(tokens == [0, 2] for tokens in others.values()), others),
        "digits": [late[key] / value for key, value in oracle.items()],
        "stuck": ends["triple", "sign"][1],
        "falling": ends["triple", "sign, falling"][1],
        "exact": [ends["skew", name][1] for name in ("sign", "sign, falling", "Signum")],
        "own-norm": [gap for (_, name), (_, gap) in ends.items() if name not in constant],
    }
    tables = {"deficits": stacked(curves), "selections": stacked(timeline)}
    notes = (
        "The data sets are triple, skew and space-a. Rates: 0.1, with momentum 0.01, RMSprop 0.001, Adam "
        "0.01 with beta2 = 0.99; epsilon = 0.",
        "Falling: the rate at step t is 0.1/sqrt(t + 1). Mirror and steepest descent are those of l3.",
    )
    return Findings(tables, claims, notes)


RATES = {"quick": 26, "paper": 90}
RULES = {"l1": "coordinate", "l1.5": "steepest", "l2": "normalized", "l3": "steepest", "linf": "sign"}
CRITICAL = {"l1.5": 0.5946458703, "l2": 0.4040610178, "l3": 0.3294955545}
STUCK = {("l3", 1.0): 0.0387, ("l1.5", 1.0): 0.0606, ("linf", 0.1): 0.0625, ("linf", 0.3): 0.15625,
         ("linf", 1.0): 0.2031}  # fmt: skip
LABEL_PLACES = {"l1": (0.0115, 0.0034), "l1.5": (1.05, 0.045), "l2": (0.8, 5e-5), "l3": (0.075, 0.022),
          "linf": (0.065, 0.085)}  # fmt: skip
LEAST = 1e-5  # what is less is drawn on the lower edge


def draw_rates(tables: Tables, canvas: Canvas) -> None:
    """Deficit at the end against the rate, a line for each norm, with the critical rates marked."""
    panel = canvas.subplots()
    curves, critical = tables["deficits"], tables["critical"]
    for name, rule in RULES.items():
        rows = part(curves, "norm", name)
        panel.plot(rows["rate"], np.maximum(rows["deficit"], LEAST), color=COLORS[name], linewidth=1.1)
        cycles = np.isnan(rows["deficit"])
        panel.plot(rows["rate"][cycles], np.full(cycles.sum(), 0.72), "x", color=COLORS[name], markersize=3.2)
        panel.text(*LABEL_PLACES[name], f"{rule} {NAMES[name]}", color=COLORS[name], fontsize=7)
    for name, rate in zip(critical["norm"], critical["rate"], strict=True):
        panel.axvline(rate, color=COLORS[str(name)], linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=0)
        panel.plot(rate, LEAST, "^", color=COLORS[str(name)], markersize=4, clip_on=False)
    panel.text(0.29, 1.3 * LEAST, r"$\eta_c$", ha="right", color=INK)
    panel.text(3.1, 0.52, "trapped in a cycle", ha="right", va="top", color=COLORS["l1"], fontsize=6.5)
    limits = {"xlim": (curves["rate"].min(), 3.2), "ylim": (LEAST, 1.0)}
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
    jumps = [0.055, 0.06, *(f * rate for rate in critical.values() for f in (0.99, 1.02, 1.1, 1.3))]
    rates = np.union1d(np.geomspace(0.01, 3.0, RATES[setting.scale]), jumps)
    ends: dict[str, list[float]] = {}
    for done, name in enumerate(RULES):
        ends[name] = [_deficit(_run(problem, name, rate, last), best[name]) for rate in rates]
        setting.progress((done + 1) / (len(RULES) + 1))
    stuck = [_deficit(_run(problem, name, rate, last), best[name]) for name, rate in STUCK]
    swings: dict[float, list[float]] = {0.98: [], 1.02: []}
    for factor, shares in swings.items():  # by how much two steps differ at the end, as a share of the rate
        for name in CRITICAL:
            rate = factor * critical[name]
            points = _run(problem, name, rate, last, list(range(last - 4, last + 1))).points[-4:]
            shares.append(float(np.abs(np.diff(points, 2, axis=0)).max() / rate))
    cycle = _run(problem, "l1", 1.0, 100)
    claims = {
        "critical": list(critical.values()),
        "calm": swings[0.98],
        "swinging": swings[1.02],
        "stuck": stuck,
        "euclidean": last * _deficit(_run(problem, "l2", 3.0, last), best["l2"]),
        "sign-small": last * _deficit(_run(problem, "linf", 0.055, last), best["linf"]),
        "cycle": (cycle.event == "cycle", str(cycle.event)),
    }
    tables = {
        "deficits": stacked({"norm": norm, "rate": rates, "deficit": gaps} for norm, gaps in ends.items()),
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


RATE = 0.01
ADAM_STEPS = {"quick": 100_000, "paper": 10_000_000}
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
    about = {factor: _run_adam(problem, factor * edge, AWAY, LATE, marks(LATE, 200)) for factor in AROUND}
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


CYCLES = {"cycle": "(b) one cycle: direction", "two-scc": "(c) two cycles: direction"}
CYCLE_RULES = {
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
CYCLE_LABELS = {
    "sign": "sign",
    "Adam": "Adam",
    "normalised": "normalized",
    SPLIT: "normalized, $p_{fin}$ fixed",
}
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
    name_lines(left, {text: LOOKS[name]["color"] for name, text in CYCLE_LABELS.items()}, 0.96, 0.075)
    for panel, (data, title) in zip(panels, CYCLES.items(), strict=True):
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
    curves, astray = [], []
    ends: dict[tuple[str, str], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    splits = {data: hm.decompose(hm.data.example(data)) for data in CYCLES}
    for place, (data, split) in enumerate(splits.items()):
        problem = hm.data.example(data)
        rules = CYCLE_RULES.items()
        runs = {name: train_quietly(problem, rule, steps=last, record=record) for name, rule in rules}
        runs[SPLIT] = hm.train(split.remainder, CYCLE_RULES["normalised"], steps=last, record=record)
        for name, run in runs.items():
            norm = CYCLE_RULES["normalised" if name == SPLIT else name].norm
            best = split.max_margin(norm)
            steps, gaps = deficits(run, best)
            angles = run.cosine_distances(best)[-len(steps) :]
            sizes = np.linalg.norm(run.points[-len(steps) :], np.inf if norm == "linf" else 2, axis=1)
            ends[data, name] = steps, sizes, gaps
            row = {"data": data, "method": name, "step": steps}
            curves.append({**row, "norm": sizes, "deficit": gaps, "misalignment": angles})
        astray.append(runs[SPLIT].cosine_distance(split.p_mm))
        setting.progress((place + 1) / len(CYCLES))
    length = float(np.linalg.norm(DIVERGING["cycle"]))
    steps, sizes, _ = ends["cycle", "normalised"]
    statuses = [split.status for split in splits.values()]
    claims = {
        "finite": np.concatenate([split.p_fin for split in splits.values()]),
        "diverging": np.concatenate([split.p_mm for split in splits.values()]),
        "certified": (set(statuses) == {"certified"}, statuses),
        "norms": [at(steps, sizes, 1000), at(steps, sizes, 10_000)],
        "slope": (at(steps, sizes, 10_000) - at(steps, sizes, 1000)) / (length * np.log(10)),
        "sign": [at(*ends[data, "sign"][::2], 1000) for data in CYCLES],
        "astray": [ends["cycle", rule][2][-1] for rule in ("sign", "Adam")],
        "order": [ends["two-scc", rule][2][-1] for rule in ("sign", "Adam")],
        "split": [last**2 * gap for gap in astray],
    }
    spread = np.geomspace(10, last, 40)
    law = {"step": spread, "norm": sizes[-1] + length * np.log(spread / last)}
    tables = {"runs": stacked(curves), "law": law}
    notes = (
        "Log loss of labels; rates 0.1, Adam 0.01 with beta2 = 0.99.",
        "One cycle is the data set cycle: the label is a and not b three times, b and not a once, and once a "
        "and not c. Two cycles are the data set two-scc.",
        "The max margin is the one in the rule's own norm that ties the bound rows.",
        "With p_fin fixed: hm.train(hm.decompose(problem).remainder, ...).",
    )
    return Findings(tables, claims, notes)
