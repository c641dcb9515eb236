"""Constant steps: mirror descent proves its margin (D-THM-3), other norms may lose it (D-THM-5, 6, 10).

Every optimizer goes to the max margin of its own norm, and may select other tokens (D-FIG-OPTIMISERS). Beyond
a critical step size only l2 keeps its direction (D-FIG-STEPS).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax._lib.style import BLUE, INK, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.limits.late import period
from hardmax.papers.checking.check import Hypothesis, Outcome, need, printed, statement
from hardmax.papers.checking.common import distinct_scores, fixed_scores, unit_length
from hardmax.papers.checking.proof import BallProblem, at_precision, balls, has_balls, middle
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Canvas, Tables, draw_lines, name_axes, part, stacked
from hardmax.papers.geometry import common
from hardmax.papers.geometry.common import COLORS, NAMES, STEPS, at, deficits, marks, separable, trained
from hardmax.problem import Problem

NEAR = 0.02  # how far below and above a threshold the rate is taken
FAR = 100.0  # gaps of the logits where late runs start
KICK = 1e-3  # off the place of rest, over the rate
SETTLED = 1e-6  # a swing below this share of the rate is none
LONGEST = 60  # moves of a period that is looked for
SEEN = 240  # moves that have to repeat
MOVES = 60  # of coordinate descent, each decided in balls
CLOSE = 0.01  # how near a deficit is to that of the drift


def two_tokens(problem: Problem) -> Hypothesis:
    """The hypothesis that every input has two tokens."""
    return Hypothesis("two tokens per input", bool((problem.sizes == 2).all()), problem.sizes.tolist())


@statement(
    "D-THM-3",
    "Mirror descent proves its margin at any rate",
    "From the origin, p and the weights that the rows collected bound the max margin of l_power from both "
    "sides. Where no weight is negative the gap is the mean slack of the rows under them, over |p|.",
    label="derived",
)
def certificate_of_a_run(
    problem: Problem, *, power: float = 2.0, rate: float | None = None, steps: int = 2000
) -> Outcome:
    """Normalized mirror descent; the weights of a run that selects the better of two tokens are positive."""
    need(fixed_scores(problem))
    rule = hm.optim.Mirror(unit_length(problem) if rate is None else rate, power)
    run = trained(problem, rule, steps=steps)
    one, best = common.run_margin(problem, run, rule.norm)
    bounds, ball = run.margin_bounds(), hm.margin.norm(best.norm)
    rows, y = bounds.constraints.rows(), np.asarray(bounds.multipliers)
    y, size, margins = y / y.sum(), ball.value(run.p), rows @ run.p.ravel()
    low, high = float(margins.min()) / size, ball.dual.value(rows.T @ y)
    inside = min(best.margin / low - 1 if low > 0 else math.inf, high / best.margin - 1) + common.ROUNDING
    gap, predicted = high - low, float(y @ (margins - margins.min())) / size
    measured = {"margin": best.margin, "interval": (low, high), "gap": gap, "mean slack over norm": predicted}
    best_tokens = tuple((t,) for t in one.measured) == hm.best_tokens(problem).sets
    if not (two_tokens(problem).holds and best_tokens):
        # negative weights were left out: only the interval is claimed
        return Outcome((one,), inside, measured, vacuous=low <= 0)
    exact = 1 - abs(gap - predicted) / (common.ROUNDING * high)
    return Outcome((one,), min(inside, exact), {**measured, "identity": True})


@statement(
    "D-THM-5",
    "The rate above which steepest descent swings",
    "Late normalized steepest descent in l_p, 1 < p < infinity, settles if its rate is below "
    "2/lambda_max(H C), and swings above it.",
    kind="limit",
    label="derived",
)
def steepest_threshold(
    problem: Problem, *, norm: str = "l3", selection: Iterable[int] | None = None, steps: int = 2500
) -> Outcome:
    """A run far out near p_mm settles at half the threshold, then is kicked and goes on below and above.

    Some directions are slow to settle, and before that the threshold is another: then more steps are taken.
    """
    ball = hm.margin.norm(norm)
    smooth = Hypothesis("a norm without corners", ball.strictly_convex and not ball.of_matrix, norm)
    need(smooth)
    best = separable(problem, norm, selection)
    hypotheses = need(common.strong(problem, best))
    eta = hm.limits.critical_rate(best)
    hypotheses.need(Hypothesis("regular, with several support rows", bool(math.isfinite(eta)), eta))
    for many in (steps, 10 * steps, 100 * steps):

        def run(factor: float, start: np.ndarray, many: int = many) -> hm.Run:
            rule = hm.optim.Normalized(factor * eta, norm=norm)
            return trained(problem, rule, steps=many, start=start, record=range(many - 6, many + 1))

        at_rest = run(1 / 2, FAR * best.need())
        kicked = at_rest.p + KICK * eta * generator(0).normal(size=problem.d)
        runs = [run(factor, kicked) for factor in (1 - NEAR, 1 + NEAR)]
        goes_on = all(path.event is None for path in (at_rest, *runs))
        # how far the last steps turn back and forth
        turns = [np.abs(np.diff(np.asarray(path.points)[-5:], 2, axis=0)).max() for path in runs]
        below, above = (float(turn) / eta for turn in turns)
        measured = {"eta_c": eta, "swing over the rate, below": below, "above": above, "steps": many}
        # which of both happens is all that is claimed; nothing is said of runs that stopped
        slack = min(1 - below / SETTLED, above / SETTLED - 1) if goes_on else None
        if slack is None or slack >= 0:
            break
    return Outcome((smooth, *hypotheses), slack, measured)


@statement(
    "D-THM-6",
    "Sign and coordinate descent with a constant step need not maximize the margin",
    "At this rate the moves repeat forever, so that p grows along their mean, or not at all; and the margin "
    "of that mean is short of the largest in linf (sign) or l1 (coordinate).",
    kind="existential",
    label="derived",
    errata=("D-ERR-1", "D-ERR-2"),
)
def constant_steps(problem: Problem, *, rule: str = "sign", rate: float = 0.1, steps: int = 2000) -> Outcome:
    """The period of the late moves, their mean in fractions of the rate, and the run ten times as long.

    The rows of least margin under the mean all grow alike, so that the gradient repeats up to a factor, but
    for rows that fall behind exponentially: the moves go on if each has more room than those rows weigh.
    """
    need(fixed_scores(problem))
    step = hm.optim.Sign(rate) if rule == "sign" else hm.optim.Coordinate(rate)
    run = trained(problem, step, steps=steps, record=range(max(steps - SEEN, 0), steps + 1))
    _, best = common.run_margin(problem, run, step.norm)
    if run.event == "cycle":
        measured: dict[str, Any] = {"event": "cycle", "|p|": run.p_norm, "deficit": 1.0}
        return Outcome((Hypothesis("the run repeats itself", True, run.p),), 1.0, measured, witness=run.p)
    need(Hypothesis("the run goes on", run.event is None, run.event))
    moves = np.rint(np.diff(np.asarray(run.points)[1:], axis=0) / rate).astype(int)
    length = period(moves, min(LONGEST, len(moves) // 3), 0.0) if len(moves) else None
    hypotheses = need(Hypothesis("the moves repeat", length is not None or None, length))
    assert length is not None
    mean = [Fraction(int(total), length) for total in moves[-length:].sum(axis=0)]  # over the rate
    along, texts = np.array([float(x) for x in mean]), [str(x) for x in mean]
    deficit = best.margin_gap(along) if along.any() else 1.0
    room, behind = _room(problem, run, best, along, moves[-length:])
    hypotheses.need(
        Hypothesis("their mean is short of the max margin", deficit > common.ROUNDING, texts),
        Hypothesis("each move has room", room > behind or None, {"room": room, "others weigh": behind}),
    )
    longer = trained(problem, step, steps=10 * steps)
    later = 1.0 if longer.event == "cycle" else longer.margin_gap(best)  # in a cycle p does not grow at all
    measured = {"period": length, "deficit of the mean": deficit, "after ten times the steps": later}
    return Outcome(hypotheses, 1 - abs(later - deficit) / CLOSE, measured, witness=texts)


def _room(
    problem: Problem, run: hm.Run, best: hm.MaxMargin, along: np.ndarray, moves: np.ndarray
) -> tuple[float, float]:
    """The least share of the gradient by which a move of the period is decided; what lagging rows weigh."""
    room = math.inf
    for p, move in zip(np.asarray(run.points)[-len(moves) - 1 : -1], moves, strict=True):
        sizes = np.abs(hm.gradient(problem, p).direction)
        if best.norm == "linf":
            room = min(room, float(sizes[move != 0].min() / sizes.max()))
        else:
            others = np.sort(sizes)[::-1]
            room = min(room, float((others[0] - others[1]) / others[0]) if sizes.size > 1 else 1.0)
    rows, p = best.constraints.rows(), run.p
    pace = rows @ along
    slow = pace <= pace.min() + common.ROUNDING * abs(pace).max()
    gaps = (rows @ p)[~slow] - (rows @ p)[slow].min()
    return room, float(np.exp(-gaps.min())) * len(rows) * 10 if gaps.size else 0.0


@statement(
    "D-THM-10",
    "Normalized steps on one input at a time",
    "With two tokens per input and inputs in turn, p after a round is the rate times the sum of the steepest "
    "steps of the inputs' rows, whatever the norm: no max margin in general.",
    label="derived",
    errata=("D-ERR-3",),
)
def one_input_at_a_time(
    problem: Problem, *, norm: str = "l2", rate: float | None = None, rounds: int = 50
) -> Outcome:
    """A run in batches of one against the sum; its deficit for the best tokens is reported too."""
    need(fixed_scores(problem))
    hypotheses = need(two_tokens(problem), distinct_scores(problem))
    pace = unit_length(problem) if rate is None else rate
    run = trained(problem, hm.optim.Normalized(pace, norm=norm), steps=rounds * problem.n, batch=1)
    went = Hypothesis("the run took all its steps", run.event is None or None, run.event)
    ball, pairs = hm.margin.norm(norm), problem.split(problem.keys[problem.tokens])
    best = [int(np.argmax(scores)) for scores in problem.split(problem.scores)]
    # an input alone moves p along its better key minus the other one
    visits = [ball.step(keys[t] - keys[1 - t]) for keys, t in zip(pairs, best, strict=True)]
    off = float(ball.value(run.p - pace * rounds * np.sum(visits, axis=0))) / (pace * rounds * problem.n)
    measured = {"off, over the length of the way": off}
    solution = hm.max_margin(problem, norm=norm)
    if solution.is_certified and run.p.any() and solution.p_norm:
        measured["deficit"] = run.margin_gap(solution)
    return Outcome((*hypotheses, went), 1 - off / common.ROUNDING, measured)


@printed("D-ERR-2")
def coordinate_descent_grows(problem: Problem) -> Outcome:
    """Test the printed sentence: if the best tokens separate, coordinate descent by steps of 1 diverges.

    Its points are whole numbers. Each move is decided in balls, so that a point that comes again proves that
    the same moves come forever.
    """
    best = hm.best_tokens(problem)
    hypotheses = need(
        distinct_scores(problem),
        Hypothesis("rivals in some input", bool((problem.sizes > 1).any())),
        Hypothesis("separable", best.is_unique and hm.max_margin(problem, best.tokens).is_feasible),
        Hypothesis("a loss with balls", has_balls(problem)),
    )

    def walk() -> tuple[str, list[int]]:
        exact, p, visited = BallProblem(problem), [0] * problem.d, set()
        for _ in range(MOVES):
            if tuple(p) in visited:
                return "cycle", p
            visited.add(tuple(p))
            pull = exact.pull(balls(p))
            top = max(range(problem.d), key=lambda j: abs(middle(pull[j])))
            if pull[top].contains(0) or not all(abs(pull[top]) > abs(x) for x in np.delete(pull, top)):
                return "tie", p
            p[top] += 1 if pull[top] > 0 else -1
        return "on", p

    event, p = at_precision(256, walk)
    length = float(sum(map(abs, p)))
    if event == "tie":
        return Outcome(hypotheses, None, {"event": event})
    if event == "on":
        return Outcome(hypotheses, length / MOVES, {"|p|_1": length})
    proof = "every move decided in ball arithmetic, 256 bits"
    return Outcome(hypotheses, (-1.0, proof), {"comes again": p}, p)


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
