"""C-FIG-RATE: 1 - cos falls like 1/t^2 with a known constant (C-THM-ASY); naive float64 loses its way."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import softmax

from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED
from hardmax.nexttoken import Samples, Training, named_sentences
from hardmax.nexttoken.observables import log_excess_loss, log_off_masses
from hardmax.nexttoken.training import STEPS, train
from hardmax.papers.figures.figure import Canvas, Findings, Scale, Setting, recipe
from hardmax.papers.figures.panels import DASHED, DOTTED, name_axes
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.next_token.figures.example import FIRST_RATE, RATE, SHORT
from hardmax.papers.next_token.statements.instances import DRAWN, drawn

# The datasets of C-THM-ASY; the first goes to the end at every scale.
LOOKS = {"short": BLUE, "long": ORANGE, "derangement": GREEN, "Example 1": PURPLE}
END = 1_000_000
OTHERS: Mapping[Scale, int] = {"quick": 200_000, "paper": END}
TIMES = (900, 3_000, 10_000, 30_000, 100_000, 200_000)
# The formulas as printed keep no record: every stop is the start of the next piece.
STOPS: Mapping[Scale, tuple[int, ...]] = {
    "quick": (1_000, 5_000, 8_000, 10_000, 15_000),
    "paper": (*range(1_000, 8_000, 1_000), *range(8_000, 15_001, 500)),
}
ROUNDING = -float(np.log(np.finfo(float).eps))  # 36.04: a smaller weight is lost next to 1
NAIVE: dict[str, Any] = {"color": RED, "linewidth": 0.8, "markersize": 3.6}
LOSSES = (900, 3_000, 5_000, 10_000, 30_000)


def draw_rate(tables: Tables, canvas: Canvas) -> None:
    """Draw the fall of 1 - cos with its law and the naive run; ratios to the law; the naive error."""
    first, second, third = canvas.subplots(1, 3)
    rows, naive, gaps = part(tables["curves"], "dataset", "short"), tables["naive"], tables["gap"]
    first.axvspan(1, STEPS, color=GRAY, alpha=0.15, linewidth=0, zorder=0)
    first.text(1.5, 2e-9, "the paper's\n900 steps", fontsize=7, color="#666666", va="bottom")
    first.plot(rows["t"], rows["misalignment"], color=BLUE, label="exact")
    late = rows["t"] >= 300
    first.plot(rows["t"][late], rows["law"][late], color=INK, linestyle=DASHED, linewidth=0.9, label="law")
    first.plot(naive["t"], naive["misalignment"], "x-", label="naive float64", **NAIVE)
    distance, limits = r"$1 - \cos(W_{kq}^{(t)}, W_{kq}^*)$", {"xlim": (1, END), "ylim": (1e-9, 1.5)}
    name_axes(first, "(a) fall and law, short sentences", "step $t$", distance, "xy", **limits)
    first.legend(loc="lower left", bbox_to_anchor=(0.0, 0.24), handlelength=1.4)
    for name, color in LOOKS.items():
        rows = part(tables["curves"], "dataset", name)
        late = rows["t"] >= 100
        second.plot(rows["t"][late], rows["ratio"][late], color=color, label=name)
    second.axhline(1.0, color=INK, linestyle=DASHED, linewidth=0.8, zorder=1)
    ratio = r"$(1 - \cos)\,\cdot\,2\eta^2t^2/|R_\perp|^2$"
    name_axes(second, "(b) over the law", "step $t$", ratio, "x", xlim=(100, END), ylim=(0, 1.1))
    second.legend(loc="lower right")
    end = float(np.interp(ROUNDING, gaps["gap"], gaps["t"])) / 1000
    third.axvline(end, color=GRAY, linewidth=0.7, linestyle=DOTTED, zorder=0)
    look: dict[str, Any] = {"fontsize": 7, "color": "#666666", "ha": "right", "va": "bottom", "rotation": 90}
    third.text(end - 0.25, 3e-14, r"$e^{-\mathrm{gap}} = 2^{-52}$", **look)
    third.plot(naive["t"] / 1000, naive["error"], "x-", **NAIVE)
    error, limits = r"$\max\,|W_{kq}^{naive} - W_{kq}|$", {"xlim": (0, 15.5), "ylim": (1e-15, 1e2)}
    title, ticks = "(c) error of naive float64", (0, 5, 10, 15)
    name_axes(third, title, "step $t$ (thousands)", error, "y", xticks=ticks, **limits)


@recipe(
    "C-FIG-RATE",
    "The true rate of stage 2: 1 - cos falls like 1/t^2, and naive float64 does not see it",
    draw=draw_rate,
    size=(7.0, 2.5),
    errata=("C-ERR-16", "C-ERR-18"),
    claims="""
    constant | |R_perp|^2 of the three generated datasets | 7.0995, 36.0788, 3.5995 ± 5.1e-5
    constant-example | |R_perp|^2 of Example 1 | 0.50125521643909610 ± 1e-13
    ratio-short | 1 - cos over its law at t = 900, 3,000, 10,000, 30,000, 100,000, 200,000, short
        | 0.489, 0.938, 1.0043, 1.0016, 1.0005, 1.0002 ± 5.1e-4
    ratio-long | 1 - cos over its law at t = 900, 3,000, 10,000, 30,000, 100,000, 200,000, long
        | 0.231, 0.678, 0.9755, 1.0043, 1.0013, 1.0007 ± 5.1e-4
    ratio-derangement | 1 - cos over its law at t = 900, 3,000, 10,000, 30,000, 100,000, 200,000, derangement
        | 0.452, 0.942, 1.0030, 1.0011, 1.0003, 1.0002 ± 5.1e-4
    ratio-example | the same at t = 100,000, Example 1 | 1.0000460141214267 ± 1e-9
    ratio-million | the same after a million steps, short | 1.0 ± 1e-4
    one-per-cent | the same at t = 30,000, generated datasets | 1.0 ± 0.01
    exponent | exponent of 1 - cos from t = 10,000 to 100,000, generated datasets | -2.05 to -1.95 | -1, up
        to logarithms
    exponent-late | exponent from t = 100,000 to 200,000 | -2.0004, -2.0008, -2.0002 ± 2e-4
    residual | largest distance to R_perp of the part off W_kq* at t = 200,000 | ≤ 1e-8
    norm | t eta - |W_kq| at t = 200,000 | 0.277, 0.758, 0.183 ± 5.1e-4
    excess | (L - L*) over its law at t = 900, 3,000, 5,000, short | 1.285, 1.00009, 1.00000004 ± 5.1e-4
    excess-slope | slope of log(L - L*) from t = 10,000 to 30,000, over -eta/|W_kq*| | 1.0 ± 1e-4
    eta-c | eta_c of Example 1 | 2.944 ± 5.1e-4
    below-eta-c | 1 - cos over its law at three steps about 20,000, eta = 0.97 eta_c | 1.0 ± 1e-3
    above-eta-c | least distance to the law there with eta = 1.03 eta_c | ≥ 1e-2
    period-two | change in two steps there, in units of the change in one | ≤ 1e-2
    naive-early | largest error of an entry by naive float64 after 1,000 steps | ≤ 1e-13
    naive-5000 | the same after 5,000 steps | 1e-11 to 1e-7
    naive-8000 | the same after 8,000 steps | 1e-7 to 1e-2
    naive-10000 | the same after 10,000 steps | ≥ 0.1
    naive-cosine | 1 - cos of naive float64 after 15,000 steps | ≥ 0.01
    exact-cosine | the same, exact | 1.27e-4 ± 5e-7
    naive-norm | |W_kq|/(t eta) of naive float64 there | ≤ 0.95
    """,
)
def fig_rate(setting: Setting) -> Findings:
    """Run stage 2 to a million steps on four datasets, and by the printed formulas to 15,000."""
    runs: dict[str, Training] = {}
    for name in LOOKS:
        end = END if name == "short" else OTHERS[setting.scale]
        runs[name] = _train(name, end, STOPS[setting.scale])
        setting.progress(0.15 * len(runs))
    first = runs["short"]
    naive = _naive_table(first, STOPS[setting.scale])
    # the widest gap of attention logits between the tokens of a relation, over time
    gaps = (first.points[:, first.star.above] - first.points[:, first.star.below]).max(axis=1)
    early = first.times <= 20_000
    tables = {"curves": _curves(runs), "naive": naive, "gap": {"t": first.times[early], "gap": gaps[early]}}
    at = {int(t): k for k, t in enumerate(naive["t"])}
    claims = {
        **_law(runs),
        **_excess_loss(first),
        **_about_eta_c(),
        "naive-early": naive["error"][at[1_000]],
        "naive-5000": naive["error"][at[5_000]],
        "naive-8000": naive["error"][at[8_000]],
        "naive-10000": naive["error"][at[10_000]],
        "naive-cosine": naive["misalignment"][at[15_000]],
        "exact-cosine": naive["exact"][at[15_000]],
        "naive-norm": naive["norm_ratio"][at[15_000]],
    }
    notes = (
        "Short, long, derangement: random datasets with cycle, 0.5, 3, 8, seed 0; cycle, 0.8, 4, 12, seed 2; "
        "derangement, 0.5, 3, 6, seed 1. Example 1 has its own rates, 0.025 and 20 steps of 0.1.",
        "The law (C-THM-ASY) is |R_perp|^2/(2 eta^2 t^2), below the step eta_c.",
        "The exponent is -2, not the -1 of Theorem 1; a fit on the paper's 900 steps sees a transient "
        "(C-ERR-18). R_perp stays off W_kq*, so the direction converges but not the difference "
        "(C-ERR-16).",
        "Naive float64 is formula (6) as printed: it subtracts numbers close to each other, and the "
        "direction is noise once the smaller attention weights are below the rounding of 1.",
    )
    return Findings(tables, claims, notes)


def _train(name: str, end: int, stops: tuple[int, ...]) -> Training:
    spaced = np.unique(np.geomspace(1, end, 240).astype(int)).tolist()
    options: dict[str, Any] = {"steps": end, "record": sorted({*spaced, *TIMES, *LOSSES, *stops})}
    if name in DRAWN:
        return train(drawn(name), **options)
    samples = Samples.from_sentences(named_sentences("C-EX-1"))
    return train(samples, stage1=SHORT, first_rate=FIRST_RATE, rate=RATE, **options)


def _at(run: Training, t: int) -> Any:
    """Return the point of a run after t steps."""
    return run.points[int(np.flatnonzero(run.times == t)[0])]


def _ratio(run: Training, t: int) -> float:
    """Return 1 - cos over its law."""
    assert run.late is not None
    return run.star.cosine_distance(_at(run, t)) / run.late.predicted_misalignment(run.rate * t)


def _exponent(run: Training, low: int, high: int) -> float:
    ends = [run.star.cosine_distance(_at(run, t)) for t in (low, high)]
    return float(np.log(ends[1] / ends[0]) / np.log(high / low))


def _curves(runs: Mapping[str, Training]) -> Table:
    parts = []
    for name, run in runs.items():
        assert run.late is not None
        times = run.times[1:]
        distance = np.array([run.star.cosine_distance(a) for a in run.points[1:]])
        law = np.array([run.late.predicted_misalignment(run.rate * t) for t in times])
        parts.append(
            {"dataset": name, "t": times, "misalignment": distance, "law": law, "ratio": distance / law}
        )
    return stacked(parts)


def naive_descent(
    samples: Samples, B: np.ndarray, rate: float, steps: int, start: np.ndarray | None = None
) -> np.ndarray:
    """Return the V x V table A of stage 2 after steps by (6), normalized, token by token."""
    N, V = samples.n, samples.V
    row = np.repeat(np.arange(N), np.diff(samples.offsets))
    count = np.zeros((N, V))
    count[row, samples.tokens] = samples.counts
    A = np.zeros((V, V)) if start is None else start.copy()
    for _ in range(steps):
        logit = A[:, samples.query].T
        mass = count * np.exp(logit - np.where(count > 0, logit, -np.inf).max(axis=1, keepdims=True))
        mass /= mass.sum(axis=1, keepdims=True)
        off = softmax(mass @ B.T, axis=-1)
        off[np.arange(N), samples.target] -= 1.0
        score = off @ B
        pull = samples.weight[:, None] * mass * (score - (mass * score).sum(axis=1, keepdims=True))
        G = np.zeros((V, V))
        np.add.at(G.T, samples.query, pull)
        A -= rate * G / np.linalg.norm(G)
    return A


def _naive_table(run: Training, stops: tuple[int, ...]) -> Table:
    """Follow the printed formulas to each stop: entries, direction and norm against the exact ones."""
    pairs = run.pairs
    rows = []
    A = None
    for before, t in pairwise((0, *stops)):
        A = naive_descent(run.samples, run.W_ov.table, run.rate, t - before, A)
        exact = _at(run, t)
        rows.append(
            {
                "t": float(t),
                "error": np.abs(A - pairs.table(exact)).max(),
                "misalignment": run.star.cosine_distance(pairs.values(A)),
                "exact": run.star.cosine_distance(exact),
                "norm_ratio": np.linalg.norm(A) / (run.rate * t),
            }
        )
    return stacked(rows)


def _law(runs: Mapping[str, Training]) -> dict[str, Any]:
    """Return the numbers of C-THM-ASY: the constant, ratios, exponents, the residual and the norm."""
    generated = [runs[name] for name in DRAWN]
    example = runs["Example 1"]
    lates = [(run.late, _at(run, 200_000)) for run in runs.values() if run.late is not None]
    return {
        "constant": [late.norm_squared for late, _ in lates[:3]],
        "constant-example": lates[3][0].norm_squared,
        **{f"ratio-{name}": [_ratio(runs[name], t) for t in TIMES] for name in DRAWN},
        "ratio-example": _ratio(example, 100_000),
        "ratio-million": _ratio(runs["short"], END),
        "one-per-cent": [_ratio(run, 30_000) for run in generated],
        "exponent": [_exponent(run, 10_000, 100_000) for run in generated],
        "exponent-late": [_exponent(run, 100_000, 200_000) for run in generated],
        "residual": [np.linalg.norm(late.beside(point) - late.R) for late, point in lates],
        "norm": [run.rate * 200_000 - float(np.linalg.norm(_at(run, 200_000))) for run in generated],
    }


def _excess_loss(run: Training) -> dict[str, Any]:
    """Return the law of the excess loss on the first dataset, and its slope."""
    assert run.late is not None
    logs = {t: log_excess_loss(run.pairs, run.W_ov, _at(run, t)) for t in LOSSES}
    mass = {
        t: float(np.logaddexp.reduce(run.pairs.log_weight + log_off_masses(run.pairs, _at(run, t))))
        for t in LOSSES[:3]
    }
    ratio = [float(np.exp(logs[t] - run.late.log_excess(run.W_ov, mass[t]))) for t in LOSSES[:3]]
    slope = (logs[30_000] - logs[10_000]) / 20_000
    return {"excess": ratio, "excess-slope": slope / run.late.excess_rate(run.rate)}


def _about_eta_c() -> dict[str, Any]:
    """Train on Example 1 a little below and above eta_c: the law holds, or the direction has period 2."""
    samples = Samples.from_sentences(named_sentences("C-EX-1"))
    late = train(samples, steps=0).late
    assert late is not None
    ratios, last = {}, [19_999, 20_000, 20_001]
    for part_of in (0.97, 1.03):
        rate = part_of * late.eta_c
        run = train(samples, steps=20_001, stage1=SHORT, first_rate=FIRST_RATE, rate=rate, record=last)
        ratios[part_of] = [_ratio(run, t) for t in last]
    below, above = np.array(ratios[0.97]), np.array(ratios[1.03])
    return {
        "eta-c": late.eta_c,
        "below-eta-c": below,
        "above-eta-c": np.abs(above - 1.0),
        "period-two": abs(above[2] - above[0]) / abs(above[1] - above[0]),
    }
