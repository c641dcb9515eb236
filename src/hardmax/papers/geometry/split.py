"""Data that do not separate: which rows are bound (D-THM-11), where training goes (D-THM-8, D-THM-12).

Two conjectures are about other norms (D-CONJ-4), and about scores, where tokens may survive (D-CONJ-5). Where
labels contradict, normalized steps slow down, and sign descent and Adam go astray (D-FIG-CYCLES).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GREEN, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.limits.partition import inside_components
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import fixed_scores, unit_length
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Canvas, Tables, draw_lines, name_axes, name_lines, part, stacked
from hardmax.papers.geometry.common import ROUNDING, STEPS, at, deficits, marks, trained
from hardmax.problem import Problem

MOST = 60  # rows that are tried one by one
EARLY, LATE = 12.0, 20.0  # log t between which the growth of a flow is measured
SETTLED = 1e-3  # how far the part in S may still be from p_fin, over |p_fin| + |p_mm|
GROWTH = 0.05  # measured over predicted growth, less one
NEAR = 0.05  # of 1 - cos orthogonal to S, at the end


def decomposed(problem: Problem) -> hm.limits.Decomposition:
    """The decomposition of the rows of the best tokens; the test ends if it has none."""
    need(fixed_scores(problem))
    best = hm.best_tokens(problem)
    need(Hypothesis("one best token per input", best.is_unique, best.sets))
    split = hm.decompose(problem)
    need(Hypothesis("a token competes", split.partition.constraints.count > 0, 0))
    return split


def convex_and_mixed(problem: Problem) -> tuple[Conditions, hm.limits.Decomposition]:
    """The conditions of D-THM-12: log loss, one label token per input, rows bound and rows separable."""
    split = decomposed(problem)
    hypotheses = need(
        Hypothesis("log loss, one label token per input", not split.is_local),
        Hypothesis("some rows bound, some separable", split.kind == "mixed", split.kind),
        Hypothesis("decomposition certified", split.status == "certified" or None, split.status),
    )
    return hypotheses, split


def is_won(rows: np.ndarray, j: int) -> bool | None:
    """Whether some p that loses no row wins row j, by a separate linear program."""
    from scipy.optimize import linprog

    if not rows[j].any():
        return False  # every p ties a row of zeros
    scale = np.abs(rows).max()
    A, b = np.vstack([-rows, rows[j]]) / scale, np.append(np.zeros(len(rows)), 1.0)
    solution = linprog(-rows[j] / scale, A_ub=A, b_ub=b, bounds=(None, None), method="highs")
    return None if solution.status != 0 else bool(-solution.fun > 0.5)


def _is_proved(problem: Problem, bound: Sequence[bool], split: hm.limits.Decomposition) -> bool | None:
    """Whether both certificates hold in fractions: one p wins the others and ties these, which cancel.

    The rows are differences of keys in fractions; as floats they are rounded.
    """
    if split.witness is None:
        return None
    exact = np.vectorize(Fraction, otypes=[object])
    keys = [exact(part) for part in problem.split(problem.keys[problem.tokens])]
    pairs = [cast(tuple[int, int], split.partition.constraints.label(j)) for j in range(len(bound))]
    rows = np.array([keys[i][split.selection[i]] - keys[i][t] for i, t in pairs], dtype=object)
    reach = rows @ np.array(split.witness, dtype=object)
    wins = all(r == 0 if b else r >= 1 for r, b in zip(reach, bound, strict=True))
    weights = np.array(split.circulation, dtype=object)
    if sum(bound) != len(weights) or any(y < 1 for y in weights):
        return False
    return wins and (not len(weights) or not any(weights @ rows[np.array(bound)]))


@statement(
    "D-THM-11",
    "Separable and bound rows",
    "Rows split in two: one p wins all of the first part and ties the second, and the second cancels with "
    "positive weights, so that no p which loses none wins any of it. The paper's reading: the second part "
    "are the edges inside strongly connected components.",
    data="labels",
    label="derived",
    errata=("D-ERR-6",),
)
def partition_of_rows(problem: Problem) -> Outcome:
    """Check both certificates in fractions, and solve a linear program for each row, up to 60."""
    split = decomposed(problem)
    constraints = split.partition.constraints
    # which rows no p wins that loses none
    rows, bound = constraints.rows(), [bool(row) for row in split.partition.bound]
    few = Hypothesis("at most 60 rows", len(rows) <= MOST or None, len(rows))
    is_proved = _is_proved(problem, bound, split)
    verdicts = [is_won(rows, j) for j in range(min(len(rows), MOST))]
    agree = all(verdict is None or verdict != b for verdict, b in zip(verdicts, bound, strict=False))
    cycles = inside_components(constraints)[0]
    other = [constraints.label(j) for j in np.flatnonzero(cycles != np.array(bound)).tolist()]
    measured = {
        "bound": sum(bound),
        "separable": len(bound) - sum(bound),
        "certificates stand": is_proved,
        "linear programs agree": agree,
        "bound outside components": other,
    }
    conditions = (few, Hypothesis("fractions are at hand", is_proved is not None or None))
    slack = 1.0 if is_proved and agree else -1.0
    paper_slack = (-1.0, "fractions" if is_proved else None) if other else 1.0
    return Outcome(conditions, slack, measured, split.circulation, paper_slack=paper_slack)


def log_growth(split: hm.limits.Decomposition, ratio: float) -> float:
    """Return by how much p grows orthogonally to S while t grows by a factor."""
    return float(np.linalg.norm(np.asarray(split.p_mm))) * math.log(ratio)


@statement(
    "D-THM-12",
    "Gradient flow on data that do not separate",
    "With the log loss and one label token per input, the part of p in the span S of the bound rows tends to "
    "p_fin, and orthogonally to it p grows like p_mm log t.",
    kind="limit",
    data="labels",
    label="derived",
)
def finite_and_diverging(problem: Problem) -> Outcome:
    """Gradient flow to log t = 20, and how it grew since log t = 12."""
    hypotheses, split = convex_and_mixed(problem)
    if split.p_fin is None or split.p_mm is None:
        return Outcome(hypotheses)
    run = hm.flow(problem, until_log_time=LATE)
    times = np.asarray(run.times)
    hypotheses.need(Hypothesis("the flow is late", bool(times[-1] > LATE - 1e-6) or None, run.event))
    at = int(np.abs(times - EARLY).argmin())
    size = float(np.linalg.norm(split.p_fin) + np.linalg.norm(split.p_mm))
    off = float(np.linalg.norm(split.parts(run.p)[0] - split.p_fin)) / size
    end, begin = (split.parts(run.points[k])[1] for k in (-1, at))
    growth = float(np.linalg.norm(end) - np.linalg.norm(begin))
    growth /= log_growth(split, math.exp(times[-1] - times[at]))
    gap = hm.cosine_distance(end, split.p_mm)
    measured = {"off p_fin": off, "growth over |p_mm| log t": growth, "1 - cos to p_mm beside S": gap}
    slack = min(1 - off / SETTLED, 1 - abs(growth - 1) / GROWTH, 1 - gap / NEAR)
    return Outcome(hypotheses, slack, measured)


@statement(
    "D-THM-8",
    "Normalized descent on data that do not separate",
    "Where the part in S swings about p_fin, by about half the rate, the gradient does not vanish, and "
    "orthogonally to S normalized descent in l2 grows like |p_mm| log t, not like the number of steps.",
    kind="limit",
    data="labels",
    label="derived",
    errata=("D-ERR-7",),
)
def normalized_on_bound_rows(problem: Problem, *, rate: float | None = None, steps: int = 10_000) -> Outcome:
    """The growth over the last decade of steps; the deficit of sign descent in linf is reported too."""
    hypotheses, split = convex_and_mixed(problem)
    if split.p_fin is None or split.p_mm is None:
        return Outcome(hypotheses)
    pace = 0.1 * unit_length(problem) if rate is None else rate
    run = trained(problem, hm.optim.Normalized(pace), steps=steps, record=[steps // 10])
    end, begin = (float(np.linalg.norm(split.parts(run.points[k])[1])) for k in (-1, -2))
    growth = (end - begin) / log_growth(split, 10.0)
    swing = float(np.linalg.norm(split.parts(run.p)[0] - split.p_fin)) / pace
    measured = {"growth over |p_mm| log 10": growth, "swing over the rate": swing, "|p|": run.p_norm}
    best = split.max_margin("linf")
    if best.is_certified:
        sign = trained(problem, hm.optim.Sign(pace), steps=steps)
        measured["deficit of sign descent in linf"] = sign.margin_gap(best)
    arrived = Hypothesis("the part in S has arrived", swing < 3 or None, swing)
    swings = Hypothesis("it swings there", swing > ROUNDING, swing)  # at rest, as by symmetry, it does not
    return Outcome((*hypotheses, arrived, swings), 1 - abs(growth - 1) / (4 * GROWTH), measured)


class Rival(NamedTuple):
    """A token that is lost: the row that leaves it, its input and its score."""

    row: np.ndarray
    i: int
    score: float


FALL = 0.7  # of the deficit over the last two decades of steps, unless it is small
SMALL = 0.02
KEPT, LOST = 1e-3, 1e-6  # attention of a surviving token, and of one that is gone
SURVIVAL = 30.0  # log t to which a flow is followed
ALIGNED = 0.01  # of 1 - cos orthogonal to S
HALF = 0.5  # of the growth p_mm log t that its offset must leave
FAINT = 0.05  # the pull of rows without a multiplier, over that of the others, which may still be felt
STILL = 1e-6  # of the gradient of what survives
NONE = 1e-9  # of the largest multiplier


@statement(
    "D-CONJ-4",
    "Plain steepest descent on data that do not separate",
    "With steps that shrink with the gradient, steepest descent in any norm tends to the max margin in that "
    "norm among the p that tie the bound rows. What is seen: the deficit falls.",
    kind="limit",
    data="labels",
    hunt={"steps": 20000},
    label="conjecture",
)
def plain_steepest(problem: Problem, *, norm: str = "linf", steps: int = 100_000) -> Outcome:
    """The deficit after all steps and after a hundredth of them."""
    hypotheses, split = convex_and_mixed(problem)
    best = split.max_margin(norm)
    hypotheses.need(Hypothesis("max margin certified", best.is_certified or None, best.status))
    dual = hm.margin.norm(norm).dual
    longest = max(dual.value(row) for row in split.partition.constraints.rows())
    run = trained(problem, hm.optim.GD(longest**-2.0, norm=norm), steps=steps, record=[steps // 100])
    early, late = (abs(best.margin_gap(run.points[k])) for k in (-2, -1))
    measured = {"deficit after a hundredth of the steps": early, "deficit": late, "margin": best.margin}
    return Outcome(hypotheses, 1 - late / max(FALL * early, SMALL), measured)


@statement(
    "D-CONJ-5",
    "Tokens that survive together",
    "Attention with scores may keep several tokens of an input forever. Then p is, in the span of their "
    "differences, a stationary point of the risk of the survivors, and off it grows along the max margin "
    "of the survivors over the others.",
    kind="limit",
    data="labels",
    label="conjecture",
)
def surviving_tokens(problem: Problem) -> Outcome:
    """Gradient flow to log t = 30; survivors have attention above 1e-3, others below 1e-6, or it is early.

    It is early, too, where p orthogonal to S has not yet outgrown its offset: see `offset_beside`.
    """
    need(fixed_scores(problem))
    run = hm.flow(problem, until_log_time=SURVIVAL)
    shares = hm.attention(problem, run.p)
    between = max((x for x in np.concatenate(shares).tolist() if LOST < x < KEPT), default=0.0)
    sets = [np.flatnonzero(weights >= KEPT) for weights in shares]
    is_lost = any(s.size < weights.size for s, weights in zip(sets, shares, strict=True))
    hypotheses = need(
        Hypothesis("several tokens survive in an input", any(s.size > 1 for s in sets)),
        Hypothesis("some token is lost", is_lost),
        Hypothesis("no token is in between", between == 0 or None, between),
    )
    # the problem of the survivors, and the rows from the first of them to the others of its input
    keys, scores = (problem.split(x) for x in (problem.keys[problem.tokens], problem.scores))
    survivors = Problem(
        [k[s] for k, s in zip(keys, sets, strict=True)],
        [g[s] for g, s in zip(scores, sets, strict=True)],
        problem.loss,
    )
    rivals = [
        Rival(keys[i][s[0]] - keys[i][t], i, float(scores[i][t]))
        for i, s in enumerate(sets)
        for t in range(len(keys[i]))
        if t not in s
    ]
    tied = [row for k in survivors.split(survivors.keys[survivors.tokens]) for row in k[0] - k[1:]]
    best = hm.max_margin(hm.Constraints.dense([rival.row for rival in rivals], E=tied))
    hypotheses.need(Hypothesis("survivors separable from the others", best.is_certified or None, best.status))
    S = np.linalg.svd(np.array(tied).T, full_matrices=False)
    span = S[0][:, S[1] > 1e-9 * S[1][0]] if S[1][0] > 0 else S[0][:, :0]
    goal = best.need()
    offset, faint = offset_beside(survivors, rivals, best, span, run)
    growth = run.times[-1] * goal
    off = hm.cosine_distance(growth + offset, goal)
    share = float(1 + offset @ goal / (growth @ goal))
    outgrown = (off < ALIGNED / 2 and share > HALF and faint < FAINT) or None
    expected = {"expected 1 - cos": off, "share of the growth": share, "pull of other rows": faint}
    hypotheses.need(Hypothesis("p beside S has outgrown its offset", outgrown, expected))
    # in S, survivors balance what the lost tokens pull: at most multipliers times lengths, over t
    weights = np.asarray(best.multipliers)[: len(rivals)]
    balance = 2 * float(weights @ np.linalg.norm([r.row for r in rivals], axis=1)) * math.exp(-run.times[-1])
    pull = hm.gradient(survivors, run.p)
    rest = math.exp(pull.log_norm) if pull.direction.any() else 0.0
    gap = hm.cosine_distance(run.p - span @ (span.T @ run.p), goal)
    tokens = [s.tolist() for s in sets]
    measured = {"survivors": tokens, "1 - cos beside S": gap, "gradient of survivors": rest}
    return Outcome(hypotheses, min(1 - gap / ALIGNED, 1 - rest / max(STILL, balance)), measured)


def offset_beside(
    survivors: Problem, rivals: Sequence[Rival], best: hm.MaxMargin, span: np.ndarray, run: hm.Run
) -> tuple[np.ndarray, float]:
    """Return w of p = p_mm log t + w orthogonal to S, as p in S sets it, and the pull of other rows.

    A row d to a lost token pulls with a e^(-d.p): a is the slope of the loss, times how much the token scores
    below what the survivors predict, times its attention there. The flow turns to p_mm as its rows
    pull like their multipliers, which is where d.w = log(a/multiplier). Before log t outgrows w, p may go
    anywhere: a token that S alone puts e^80 behind is not felt before log t = 80. The second number is what
    rows without a multiplier pull at that w and the end of the run, over the sum of the multipliers.
    """
    p, inputs = span @ (span.T @ run.p), [rival.i for rival in rivals]  # p in S
    shares, logits = hm.attention(survivors, p), survivors.split(survivors.keys[survivors.tokens] @ p)
    predicted = np.array([s @ g for s, g in zip(shares, survivors.split(survivors.scores), strict=True)])
    slopes = survivors.loss.log_slopes(predicted)
    with np.errstate(divide="ignore"):  # a token that scores what is predicted pulls nowhere
        falls = np.log([abs(predicted[rival.i] - rival.score) / survivors.n for rival in rivals])
    behind = [row @ p + np.logaddexp.reduce(logits[i]) - logits[i][0] for row, i, _ in rivals]
    pulls = slopes[inputs] + falls - behind
    weights, rows = np.asarray(best.multipliers)[: len(rivals)], np.array([rival.row for rival in rivals])
    active = (weights > NONE * weights.max()) & np.isfinite(pulls)
    across = rows - rows @ span @ span.T
    w = np.linalg.lstsq(across[active], pulls[active] - np.log(weights[active]), rcond=None)[0]
    others = pulls[~active] - across[~active] @ w - run.times[-1] * (rows[~active] @ best.need() - 1)
    return w, float(np.exp(np.logaddexp.reduce(others, initial=-np.inf)) / weights.sum())


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
