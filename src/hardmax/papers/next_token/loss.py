"""Theorem 2, how fast the loss falls, and Theorem 3, tokens never compared lie in between.

C-FIG-BOUNDS compares the printed bounds with the truth, and shows when they become informative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, RED
from hardmax.nexttoken import Samples, named_sentences, training
from hardmax.nexttoken.observables import (
    log_excess_loss,
    log_excess_losses,
    log_off_masses,
    loss,
    target_masses,
)
from hardmax.nexttoken.training import FIRST_RATE, Training, train_by_flow
from hardmax.papers.checking.check import Hypothesis, Outcome, statement
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import (
    DASHED,
    DOTTED,
    Axes,
    Canvas,
    Table,
    Tables,
    name_axes,
    part,
    stacked,
)
from hardmax.papers.next_token import common, printed
from hardmax.papers.next_token.common import RELATIVE, STEPS, Subject, sizes_of
from hardmax.papers.next_token.convergence import SLIGHT, late_run
from hardmax.papers.next_token.instances import DRAWN
from hardmax.papers.next_token.stage2 import StageRun, run_of
from hardmax.problem.readouts import OutputValue, best_loss

RATE = 0.01  # relative error of the late slope of log(L - L*)


def log_best_loss(W_ov: OutputValue) -> float:
    """Return log L*, also where L* underflows."""
    assert W_ov.margin is not None
    small = math.log(W_ov.V - 1) - W_ov.margin
    return small if small < -37 else math.log(best_loss(W_ov.V, W_ov.margin))


@statement(
    "C-THM-2",
    "Theorem 2: attention and loss converge",
    "At every t the loss of a sentence is at most (V-1) exp(-Delta (2 m_* - 1)), Delta = T eta0/|W_ov*|; the "
    "loss tends to L* = log(1 + (V-1) exp(-Delta)) > 0, and log(L - L*) falls by eta/|W_kq*| per step. The "
    "paper bounds the weight m_* by 1/(1 + L_max exp(-C_1 t)) and the loss by (4), for T and t beyond reach.",
    kind="limit",
    label="derived",
    errata=("C-ERR-08", "C-ERR-09", "C-ERR-11", "C-ERR-18", "C-ERR-19"),
)
def loss_converges(data: Subject, *, steps: int = STEPS, rate: float | None = None) -> Outcome:
    """Test the recorded points of a run, and the paper's two bounds there, whatever T and t it requires."""
    hypotheses = common.legal(data)
    run = common.run_of(data, steps, rate=rate)
    pairs, W_ov = run.pairs, run.W_ov
    assert W_ov.margin is not None
    sizes, Delta = common.sizes_of(run, least_frequency=False), W_ov.margin
    floor, tight, weight, loss = log_best_loss(W_ov), math.inf, math.inf, math.inf
    excess: list[float] = []
    for t, a in zip(run.times.tolist(), run.points, strict=True):
        off = np.exp(log_off_masses(pairs, a))
        above = log_excess_losses(pairs, W_ov, a)
        # the log of (V - 1) exp(-Delta (2 m_* - 1)) with m_* = 1 - off
        room = math.log(W_ov.V - 1) - Delta * (1 - 2 * off) - np.logaddexp(floor, above)
        tight = min(tight, float(room.min()))
        weight = min(weight, 1 - float(off.max()) - printed.theorem_2_weight(sizes, t, run.rate))
        excess.append(float(np.logaddexp.reduce(pairs.log_weight + above)))
        total = float(np.logaddexp(floor, excess[-1]))  # constant sentences have L* from the start
        loss = min(loss, printed.theorem_2_log_loss(sizes, t, run.rate, Delta) - total)
    enough, middle = common.late_from(run)
    slope = (excess[-1] - excess[middle]) / float(run.times[-1] - run.times[middle])
    assert run.late is not None
    predicted = run.late.excess_rate(run.rate)
    end = float(run.times[-1])
    last = printed.theorem_2_log_loss(sizes, end, run.rate, Delta)
    measured = {
        "late slope of log(L - L*)": slope,
        "predicted": predicted,
        "predicted over C_1": -predicted / printed.attention_rate(sizes, run.rate),
        "least log of bound over loss of a sentence": tight,
        "log L*": floor,
        "least weight over its printed bound": weight,
        "least log of (4) over the loss": loss,
        "log of (4)": last,
        "t": end,
        "asked of t": printed.steps_asked_of_stage_2(sizes, run.rate),
    }
    trivial = last >= math.log(printed.loss_at_start(sizes))
    trivial &= printed.theorem_2_weight(sizes, end, run.rate) <= 1 / sizes.L
    hypotheses.append(enough)
    return Outcome(
        hypotheses,
        min(tight + RELATIVE, 1 - abs(slope / predicted - 1) / RATE),
        measured,
        paper_slack=min(weight, loss) + RELATIVE,
        paper_vacuous=trivial,
    )


GROWTH = 0.01  # relative error of the late growth per step


def unseen(run: Training, repeats: int) -> list[tuple[list[str], str, float]]:
    """Return inputs [x_0, non-optimal tokens, q] for queries q that are non-optimal under themselves.

    Each has the next token that x_0 alone would have, and the lead of x_0 in attention. W_kq[x_0, q] is 0 for
    every x_0 that q was never trained with, so that one of them represents all.
    """
    pairs, words, n = run.pairs, run.samples.vocabulary, run.pairs.collocation
    lows: dict[int, set[int]] = {}
    for p in run.star.below.tolist():
        lows.setdefault(int(pairs.query[p]), set()).add(p)
    inputs = []
    for q, low in sorted(lows.items()):
        query = next((p for p in low if pairs.token[p] == q), None)
        comparable = set(pairs.token[pairs.query == q].tolist())
        free = next((x for x in range(run.samples.V) if x not in comparable), None)
        if query is None or free is None:
            continue
        others = [words[pairs.token[p]] for p in sorted(low) if p != query]
        for inside, used in ([], [query]), (others, sorted(low)):
            sentence = [words[free], *inside * repeats, *[words[q]] * repeats]
            gap = -float(max(run.a[p] for p in used)) - math.log(repeats)
            inputs.append((sentence, words[n[free]], gap))
    return inputs


@statement(
    "C-THM-3",
    "Theorem 3: non-comparable tokens lie in between",
    "From the first step on, W_kq[o, q] > 0 = W_kq[x_0, q] > W_kq[x, q] for optimal o, non-comparable x_0 "
    "and non-optimal x; the gaps grow by eta W_kq*/|W_kq*| per step; and an input of one x_0 and non-optimal "
    "tokens, none so often that it outweighs x_0, is continued by n(x_0). D.2 prints the gaps' growth with a "
    "negative term.",
    kind="limit",
    hunt={"steps": 100, "repeats": 3000},
    label="derived",
    errata=("C-ERR-17", "C-ERR-18"),
)
def in_between(data: Subject, *, steps: int = STEPS, rate: float | None = None, repeats: int = 1) -> Outcome:
    """Test signs at every recorded step, growth over the second half, and predictions at the end.

    ``repeats`` is how often each non-optimal token occurs in the unseen inputs.
    """
    hypotheses, run, _ = late_run(data, steps, rate)
    assert run.star.values is not None
    growth = run.rate * run.star.values / run.star.norm  # per step of every entry, late in training
    moved = np.union1d(run.star.above, run.star.below)
    inputs = unseen(run, repeats)
    beaten = min((gap for _, _, gap in inputs), default=math.inf)
    hypotheses.append(Hypothesis("no token outweighs x_0", beaten > 0, beaten, "C-ERR-17"))
    enough, middle = common.late_from(run)
    hypotheses.append(enough)
    wrong = [
        " ".join(sentence[:8]) for sentence, due, _ in inputs if run.predict(sentence).next(1)[0][0] != due
    ]
    points = zip(run.times[1:], run.points[1:], strict=True)
    ordered = float(min((np.asarray(a)[moved] / (t * growth[moved])).min() for t, a in points))
    late = (run.points[-1] - run.points[middle])[moved] / float(run.times[-1] - run.times[middle])
    off = float(np.abs(late / growth[moved] - 1).max())
    sizes, t = common.sizes_of(run, least_frequency=False), float(run.times[-1])
    gaps = np.abs(run.star.values[moved])
    bounds = [printed.theorem_3(sizes, t, run.rate, float(gap)) for gap in gaps]
    room = float((np.abs(np.asarray(run.a, dtype=np.float64)[moved]) - bounds).min()) / (t * run.rate)
    measured = {
        "least entry over its late growth, any step": ordered,
        "late growth off by": off,
        "C_0": float(np.abs(growth[moved]).min()),
        "least entry over t": float(np.abs(run.a[moved]).min()) / t,
        "inputs": len(inputs),
        "predicted otherwise": wrong,
        "least bound of D.2": min(bounds),
        "t": t,
    }
    right = -1.0 if wrong else 1.0
    certain = bool(wrong) and outweighs(repeats, t * run.rate)
    return Outcome(
        hypotheses,
        min(ordered, 1 - off / GROWTH, right),
        measured,
        wrong or None,
        paper_slack=min(room, right),
        paper_vacuous=max(bounds) <= 0,
        paper_proof=f"{repeats} copies outweigh x_0, as |W_kq| <= t eta" if certain else None,
    )


def outweighs(repeats: int, walked: float) -> bool:
    """Return whether a token that occurs `repeats` times certainly has more attention than x_0.

    W_kq leaves x_0 at 0, and no entry of W_kq is below -t eta.
    """
    return bool(arb(repeats).log() > arb(walked) * (1 + arb(SLIGHT)))


END = 1e16  # beyond the times at which Theorem 1 begins to say something
SETTLED = 1e8  # attention and loss no longer change
DATASETS = {"short": BLUE, "long": ORANGE, "derangement": GREEN}
THIN: dict[str, Any] = {"color": GRAY, "linewidth": 0.7, "linestyle": DOTTED, "zorder": 0}
BOUND: dict[str, Any] = {"linestyle": DASHED, "linewidth": 1.1}


@dataclass(frozen=True)
class Bound:
    """A printed bound on one dataset: its ``value`` and the ``truth`` at the end of both stages.

    ``from_time`` is the number of steps from which on the bound says something: that a cosine is positive,
    or that its own condition is met. Numbers that do not exist are nan.
    """

    bound: str
    data: str
    value: float
    truth: float
    from_time: float


def vacuity(datasets: Mapping[str, Subject]) -> list[Bound]:
    """Return the bounds of Proposition 1, Corollary 1, Theorems 1 and 2 on datasets or on runs.

    Datasets are trained with the paper's rates and 900 steps of each stage.
    """
    rows: list[Bound] = []
    for name, data in datasets.items():
        run = common.run_of(data, training.STEPS)
        sizes = sizes_of(run, least_frequency=False)
        T, t = run.stage_1_steps, float(run.times[-1])
        if T is None or run.first_rate is None or run.W_ov.margin is None:
            raise ValueError(f"datasets must be a run with a separate stage 1, got another for {name!r}")
        aligned = 1 - run.misalignment_ov
        for constant in (printed.MAIN, printed.APPENDIX):
            value = 1 - printed.proposition_1(sizes, T, run.first_rate, constant)
            # the bound is 1 - scale log t/t; at t = e the scale is e times what it takes off
            scale = math.e * printed.proposition_1(sizes, math.e, run.first_rate, constant)
            bound = f"Proposition 1, c = {constant}: cos >="
            rows.append(Bound(bound, name, value, aligned, printed.first_time(scale, 1)))
        least = printed.steps_asked_of_stage_1(sizes, run.first_rate)
        rows.append(Bound("Corollary 1 and Theorem 2: T >=", name, math.nan, math.nan, least))
        deficit = printed.theorem_1(sizes, t, run.rate)
        positive = printed.first_time(printed.theorem_1_scale(sizes, run.rate), 2)
        rows.append(Bound("Theorem 1: 1 - cos <=", name, deficit, run.misalignment_kq, positive))
        late = printed.steps_asked_of_stage_2(sizes, run.rate)
        rows.append(Bound("Theorem 2: t >=", name, math.nan, math.nan, late))
        loss = math.exp(printed.theorem_2_log_loss(sizes, t, run.rate, run.W_ov.margin))
        rows.append(Bound("Theorem 2, (4): loss <=", name, loss, run.loss, math.nan))
    return rows


def draw_bounds(tables: Tables, canvas: Canvas) -> None:
    """Draw four panels: both directions, attention and loss; bounds dashed, truth solid."""
    (first, second), (third, fourth) = canvas.subplots(2, 2)
    _shade(first)
    stage_1 = tables["stage1"]
    for constant, color in ((printed.MAIN, RED), (printed.APPENDIX, INK)):
        label = f"Proposition 1, $c = {constant}$"
        first.plot(stage_1["t"], stage_1[f"c_{constant}"], color=color, label=label, **BOUND)
    first.axhline(1.0, **THIN)
    first.text(1.5, 0.75, "says nothing above 1", fontsize=7, color="#666666", va="top")
    first.text(3e7, 2e-3, r"truth: $1 - \cos = 0$ for all $t \geq 1$", fontsize=7, ha="right")
    distance, limits = r"$1 - \cos(W_{ov}^{(t)}, W_{ov}^*)$", {"xlim": (1, 1e9), "ylim": (1e-3, 1e5)}
    name_axes(first, "(a) stage 1: direction", "step $t$", distance, "xy", **limits)
    first.legend(loc="upper right")
    curves = tables["curves"]
    _draw_pairs(second, curves, "direction_bound", "misalignment", END)
    second.axhline(1.0, **THIN)
    distance = r"$1 - \cos(W_{kq}^{(t)}, W_{kq}^*)$"
    ticks = {"ylim": (1e-28, 1e18), "yticks": [1e-24, 1e-16, 1e-8, 1, 1e8, 1e16]}
    name_axes(second, "(b) stage 2: direction", "step $t$", distance, "y", **ticks)
    second.text(3e15, 3e7, "Theorem 1", fontsize=7, ha="right")
    second.text(2e8, 1e-17, "truth", fontsize=7, ha="right")
    _draw_pairs(third, curves, "weight_bound", "weight", SETTLED)
    third.set(ylim=(0, 1.05), ylabel="least optimal weight")
    third.text(2.4e4, 0.52, "Theorem 2", fontsize=7, ha="right")
    third.text(250, 0.8, "truth", fontsize=7, ha="right")
    third.legend(loc="lower right", bbox_to_anchor=(1.0, 0.1))
    third.set_title("(c) stage 2: attention")
    _draw_pairs(fourth, curves, "loss_bound", "loss", SETTLED)
    fourth.axhline(float(tables["untrained"]["loss"][0]), **THIN)
    fourth.text(7e7, 2.6, r"$\log V$, before any training", fontsize=7, color="#666666", ha="right", va="top")
    fourth.set(yscale="log", ylim=(1e-3, 1e2), ylabel=r"loss $L(\theta^{(t)})$")
    fourth.text(7e7, 13.5, "Theorem 2, (4)", fontsize=7, ha="right", va="bottom")
    fourth.text(7e7, 2.1e-3, "truth", fontsize=7, ha="right", va="bottom")
    fourth.set_title("(d) stage 2: loss")


def _draw_pairs(panel: Axes, table: Table, bound: str, truth: str, end: float) -> None:
    """Draw a bound, dashed, and the truth, solid, for each dataset."""
    _shade(panel)
    for name, color in DATASETS.items():
        rows = part(table, "dataset", name)
        keep = rows["t"] <= end
        panel.plot(rows["t"][keep], rows[bound][keep], color=color, **BOUND)
        panel.plot(rows["t"][keep], rows[truth][keep], color=color, label=name)
    panel.set(xscale="log", xlim=(1, end), xlabel="step $t$")


def _shade(panel: Axes) -> None:
    panel.axvspan(1, training.STEPS, color=GRAY, alpha=0.15, linewidth=0, zorder=0)


# By dataset: 1 - cos allowed by Theorem 1 and true, the steps from which on Theorem 1 speaks and those that
# Theorem 2 requires, and the loss allowed by (4) and true.
EXPECTED = {
    "short": "1.99e9 ± 0.0051e9, 1.7e-2 ± 0.051e-2, 3.8e13 ± 0.051e13, 1.4e16 ± 0.051e16, 29.6 ± 0.051, "
    "0.0024 ± 5.1e-5",
    "long": "1.2e11 ± 0.051e11, 4.1e-2 ± 0.051e-2, 3.0e15 ± 0.051e15, 2.0e18 ± 0.051e18, 31.3 ± 0.051, "
    "0.0071 ± 5.1e-5",
    "derangement": "8.7e8 ± 0.051e8, 8.0e-3 ± 0.051e-3, 1.6e13 ± 0.051e13, 5.8e15 ± 0.051e15, 29.0 ± 0.051, "
    "0.0023 ± 5.1e-5",
}
BY_DATASET = """
    {0}-deficit | 1 - cos allowed by Theorem 1 after 900 steps, {0} | {1}
    {0}-truth | 1 - cos after 900 steps | {2}
    {0}-from | steps from which on Theorem 1 says that the cosine is positive | {3}
    {0}-asked | steps of stage 2 that Theorem 2 asks for | {4}
    {0}-loss | loss allowed by (4) after 900 steps | {5}
    {0}-true-loss | loss after 900 steps | {6}
"""


@recipe(
    "C-FIG-BOUNDS",
    "The printed bounds against the truth",
    draw=draw_bounds,
    size=(7.0, 4.4),
    errata=("C-ERR-07", "C-ERR-09", "C-ERR-11", "C-ERR-18"),
    claims=f"""
    theorem-1 | orders of magnitude from the truth to Theorem 1, least of all times | ≥ 0.0
    c5 | Proposition 1, c = 5: cos >= this after 900 steps | -257.2 ± 0.051
    c5-from | steps from which on it is positive | 4.4e5 ± 0.051e5
    c5-truth | the cosine after 900 steps | 1.0 ± 1e-12
    c12 | Proposition 1, c = 12: cos >= this after 900 steps | -618.6 ± 0.051
    c12-from | steps from which on it is positive | 1.1e6 ± 0.051e6
    c12-truth | the cosine after 900 steps | 1.0 ± 1e-12
    stage-1 | steps of stage 1 that Corollary 1 and Theorem 2 ask for | 1.04e9 ± 0.011e9
    {"".join(BY_DATASET.format(name, *row.split(", ")) for name, row in EXPECTED.items())}
    example-from | steps from which on Theorem 1 speaks on Example 1 | 1.3e10 ± 0.051e10
    law | 1 - cos at t = 1e16 over the law of C-THM-ASY | 1.0 ± 0.01
    weight | least weight minus Theorem 2's bound, least of all times | ≥ -1e-12
    weight-900 | the same over the paper's 900 steps, per dataset | 3/40, 4/117, 3/28 ± 1e-12
    loss | bound (4) over the loss, least of all times | ≥ 1.0
    loss-900 | the same over the paper's 900 steps, per dataset | 51, 26, 67 ± 0.51
    loss-vacuous | bound (4) minus the loss of a model that knows nothing, log 20 | ≥ 0.0
    faster | fall of log(L - L*) per step over C_1 of Theorem 2, per dataset | 82, 185, 69 ± 0.51
    beyond | 1 - cos at t = 1e16, where Theorem 1 has begun to speak | ≤ 1e-25
    """,
)
def fig_bounds(setting: Setting) -> Findings:
    """Compute the bounds after 900 steps, and over time next to stage 2, followed to t = 1e16."""
    runs, curves = {}, {}
    for name in DATASETS:
        runs[name] = _run(name).training
        curves[name] = _curves(runs[name])
        setting.progress(len(runs) / len(DATASETS))
    rows = vacuity({**runs, "Example 1": training.train(Samples.from_sentences(named_sentences("C-EX-1")))})
    first = runs["short"]
    sizes, first_rate = sizes_of(first, least_frequency=False), FIRST_RATE / np.sqrt(first.samples.V)
    times = np.geomspace(2, 1e9, 120)
    stage_1 = {
        f"c_{c}": np.array([printed.proposition_1(sizes, t, first_rate, c) for t in times])
        for c in (printed.MAIN, printed.APPENDIX)
    }
    tables = {
        "stage1": {"t": times, **stage_1},
        "curves": stacked({"dataset": name, **columns} for name, columns in curves.items()),
        "untrained": {"loss": np.array([printed.loss_at_start(sizes)])},
        "vacuity": stacked(map(asdict, rows)),
    }
    claims = _measured_table(rows) | _measured_curves(runs, curves)
    notes = (
        "The shaded steps are the paper's 900. Short, long, derangement: random datasets with cycle, 0.5, 3, "
        "8, seed 0; cycle, 0.8, 4, 12, seed 2; derangement, 0.5, 3, 6, seed 1. Beyond the 900 "
        "steps the truth is that of the limit of small steps, which can be followed to t = 1e16.",
        "Bounds hold at all times shown, but say nothing before the times in the table of bounds: 10^6 "
        "to 10^15 steps and more, against the 900 of the experiment (C-ERR-18). With 900 steps of stage 1 "
        "bound (4) never falls below the loss before training.",
    )
    return Findings(tables, claims, notes)


def _run(name: str) -> StageRun:
    return run_of(name, DRAWN[name]["rng"])


def _curves(run: Training) -> dict[str, np.ndarray]:
    """Return bounds and truth over time: by steps up to the paper's 900, then along the flow."""
    early = np.unique(np.geomspace(2, training.STEPS, 32).astype(int))
    late = np.unique([*np.geomspace(1000, SETTLED, 30), *np.geomspace(SETTLED, END, 12)])
    flow = train_by_flow(run.samples, END, record=late.tolist())
    sizes, rate, margin = sizes_of(run, least_frequency=False), run.rate, run.W_ov.margin
    assert margin is not None
    times, pairs = np.append(early, late), run.pairs
    points = [*run.points[early], *flow.points[1:]]
    return {
        "t": times,
        "direction_bound": np.array([printed.theorem_1(sizes, t, rate) for t in times]),
        "misalignment": np.array([run.star.cosine_distance(a) for a in points]),
        "weight_bound": np.array([printed.theorem_2_weight(sizes, t, rate) for t in times]),
        "weight": np.array([target_masses(pairs, a).min() for a in points]),
        "loss_bound": np.exp([printed.theorem_2_log_loss(sizes, t, rate, margin) for t in times]),
        "loss": np.array([loss(pairs, run.W_ov, a) for a in points]),
        "log_excess": np.array([log_excess_loss(pairs, run.W_ov, a) for a in points]),
    }


def _measured_table(rows: list[Bound]) -> dict[str, Any]:
    """Return the numbers of the table of bounds by the names of their claims."""
    by_name = {(row.bound, row.data): row for row in rows}
    measured: dict[str, Any] = {}
    for c in (printed.MAIN, printed.APPENDIX):
        row = by_name[f"Proposition 1, c = {c}: cos >=", "short"]
        measured |= {f"c{c}": row.value, f"c{c}-from": row.from_time, f"c{c}-truth": row.truth}
    measured["stage-1"] = by_name["Corollary 1 and Theorem 2: T >=", "short"].from_time
    for data in DATASETS:
        first, second = by_name["Theorem 1: 1 - cos <=", data], by_name["Theorem 2: t >=", data]
        third = by_name["Theorem 2, (4): loss <=", data]
        measured |= {
            f"{data}-deficit": first.value,
            f"{data}-truth": first.truth,
            f"{data}-from": first.from_time,
            f"{data}-asked": second.from_time,
            f"{data}-loss": third.value,
            f"{data}-true-loss": third.truth,
        }
    return measured | {"example-from": by_name["Theorem 1: 1 - cos <=", "Example 1"].from_time}


def _measured_curves(
    runs: Mapping[str, Training], curves: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, Any]:
    """Return by how much the bounds hold at every time, and how fast the loss really falls."""
    sizes = {name: sizes_of(run, least_frequency=False) for name, run in runs.items()}
    every = list(curves.values())
    law, slack, ratio, faster = [], [], [], []
    for name, run in runs.items():
        margin, losses = run.W_ov.margin, _run(name).loss
        assert run.late is not None
        assert margin is not None
        law.append(curves[name]["misalignment"][-1] / run.late.predicted_misalignment(run.rate * END))
        weights = [target_masses(run.pairs, a).min() for a in run.points]
        slack.append(
            min(w - printed.theorem_2_weight(sizes[name], t, run.rate) for t, w in enumerate(weights))
        )
        logs = [
            printed.theorem_2_log_loss(sizes[name], t, run.rate, margin) for t in range(training.STEPS + 1)
        ]
        ratio.append(float(np.exp(np.min(np.array(logs) - np.log(losses)))))
        late = curves[name]
        slope = np.diff(late["log_excess"][-2:]) / np.diff(late["t"][-2:])
        faster.append(float(-slope[0]) / printed.attention_rate(sizes[name], run.rate))
    return {
        "theorem-1": np.concatenate([np.log10(x["direction_bound"] / x["misalignment"]) for x in every]),
        "law": law,
        "weight": np.concatenate([x["weight"] - x["weight_bound"] for x in every]),
        "weight-900": slack,
        "loss": np.concatenate([x["loss_bound"] / x["loss"] for x in every]),
        "loss-900": ratio,
        "loss-vacuous": [
            x["loss_bound"].min() - printed.loss_at_start(sizes[name]) for name, x in curves.items()
        ],
        "faster": faster,
        "beyond": [x["misalignment"][-1] for x in every],
    }
