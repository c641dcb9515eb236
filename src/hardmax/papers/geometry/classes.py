"""Linear classifiers and next tokens with soft labels.

The gradient bounds the margin (D-THM-13), logits tend to log-odds (D-THM-14), and next to them W follows a
max margin (D-THM-15). D-FIG-CLASSES judges a classifier of five optimizers by the margin in every norm;
D-FIG-SOFT shows the letters that follow j, q, x and z in Shakespeare.
"""

from __future__ import annotations

import lzma
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax._lib.style import BLUE, GREEN, INK, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, statement
from hardmax.papers.figures.claims import Claims, on_stand_in
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Canvas, Tables, name_axes, part, stacked
from hardmax.papers.geometry.common import ROUNDING, STEPS, deficits, marks
from hardmax.papers.geometry.split import LATE, NEAR, decomposed
from hardmax.problem import Problem

POINTS = 20  # at which both bounds are computed
LOGITS = 12.0  # largest gap of two logits there


def cross_entropy(problem: Problem) -> Hypothesis:
    """The hypothesis that the loss is minus the log of the attention on one label token per input."""
    one = problem.loss.name == "log" and hm.best_tokens(problem).is_unique
    return Hypothesis("log loss, one label token per input", one)


def shares(problem: Problem) -> np.ndarray:
    """Return the weight of every input in the loss."""
    return np.full(problem.n, 1 / problem.n) if problem.weights is None else problem.weights


@statement(
    "D-THM-13",
    "The gradient bounds the margin",
    "With the log loss and one label token per input, every W bounds the max margin of its norm from both "
    "sides: the smallest margin of W over |W| from below, and the dual norm of the gradient over the mean "
    "attention off the labels from above.",
    data="labels",
    label="derived",
)
def gradient_bounds_margin(problem: Problem, *, norm: str = "l2", rng: int = 0) -> Outcome:
    """Compare both bounds at random points, where logits differ by up to 12, with the certified interval."""
    hypotheses = need(cross_entropy(problem))
    best = hm.max_margin(problem, norm=norm)
    hypotheses.need(Hypothesis("labels separate", best.is_certified or best.is_feasible, best.status))
    rows = best.constraints.rows()
    inputs, tokens = np.array([best.constraints.label(j)[:2] for j in range(len(rows))]).T
    low, high = best.margin_interval
    chance = generator(rng)
    below, above = [], []
    for size in np.geomspace(0.1, LOGITS, POINTS):
        p = best.need().ravel() * chance.uniform() + chance.normal(size=rows.shape[1]) / best.p_norm
        p *= size / np.abs(rows @ p).max()
        s = hm.attention(problem, p)
        off_label = shares(problem)[inputs] * np.array([s[i][t] for i, t in zip(inputs, tokens, strict=True)])
        below.append(float((rows @ p).min()) / hm.margin.norm(norm).value(p.reshape(problem.shape)))
        pull = (rows.T @ off_label).reshape(problem.shape)
        above.append(hm.margin.norm(norm).dual.value(pull) / float(off_label.sum()))
    slack = min(high - max(below), min(above) - low) / high
    measured = {"margin": high, "best lower bound": max(below), "best upper bound": min(above)}
    return Outcome(hypotheses, slack + ROUNDING, measured)


class Soft(NamedTuple):
    """Contexts of a problem: inputs that have the same keys, and the label tokens that follow them."""

    decomposition: hm.limits.Decomposition
    rows: np.ndarray  # a row for each next token of a context after its first: difference of keys
    log_odds: np.ndarray  # of the first against the other, one for each row
    entropy: float  # conditional entropy of the next token


def soft_labels(problem: Problem) -> tuple[Conditions, Soft]:
    """Return the conditions of D-THM-14 and the contexts."""
    entropy = cross_entropy(problem)
    need(entropy)
    split = decomposed(problem)
    keys, labels, weights = problem.split(problem.keys[problem.tokens]), split.selection, shares(problem)
    contexts: dict[bytes, dict[int, float]] = {}
    example: dict[bytes, int] = {}
    for i in range(problem.n):
        name = keys[i].tobytes()
        example.setdefault(name, i)
        counts = contexts.setdefault(name, {})
        counts[labels[i]] = counts.get(labels[i], 0.0) + float(weights[i])
    rows, odds, total = [], [], 0.0
    for name, counts in contexts.items():
        k, (first, *others) = keys[example[name]], counts
        whole = sum(counts.values())
        total -= sum(count * math.log(count / whole) for count in counts.values())
        rows += [k[first] - k[other] for other in others]
        odds += [math.log(counts[first] / counts[other]) for other in others]
    stacked = np.array(rows).reshape(len(rows), problem.d)
    independent = bool(rows) and int(np.linalg.matrix_rank(stacked)) == len(rows)
    follows = {name: set(counts) for name, counts in contexts.items()}
    inside = {(i, t) for i in range(problem.n) for t in follows[keys[i].tobytes()] - {labels[i]}}
    hypotheses = need(
        entropy,
        Hypothesis("several tokens follow a context", bool(rows), len(rows)),
        Hypothesis("log-odds can be fitted", independent, len(rows)),
        Hypothesis("only tokens that follow are bound", set(split.bound) == inside, len(split.bound)),
    )
    if split.p_fin is None or split.p_mm is None:
        hypotheses.need(Hypothesis("both parts of W are known", None))
    return hypotheses, Soft(split, stacked, np.array(odds), total)


@statement(
    "D-THM-14",
    "Soft labels: finite logits are log-odds",
    "If the log-odds of the tokens that follow each context can be fitted and the others separate from them, "
    "the infimum of the cross-entropy is the conditional entropy, and the finite part of W has the log-odds.",
    data="labels",
    label="derived",
)
def finite_logits(problem: Problem) -> Outcome:
    """Logits of the finite part against log-odds of the counts, and the infimum against the entropy."""
    hypotheses, soft = soft_labels(problem)
    risk = float(np.asarray(soft.decomposition.inf_risk))
    off = float(np.abs(soft.rows @ np.asarray(soft.decomposition.p_fin) - soft.log_odds).max())
    measured = {"log-odds": soft.log_odds, "off by": off, "infimum": risk, "entropy": soft.entropy}
    return Outcome(hypotheses, 1 - max(off, abs(risk - soft.entropy)) / 1e-7, measured)


@statement(
    "D-THM-15",
    "Soft labels: the rest follows a max margin",
    "Orthogonal to the finite part, gradient flow tends to the shortest W that ties the tokens which follow "
    "a context and puts each of them at least 1 above every token that does not.",
    kind="limit",
    data="labels",
    label="derived",
)
def diverging_direction(problem: Problem) -> Outcome:
    """Check the optimality of that W by nonnegative least squares, and the direction of a flow."""
    hypotheses, soft = soft_labels(problem)
    partition, best = soft.decomposition.partition, np.asarray(soft.decomposition.p_mm)
    others = partition.constraints.rows()[~np.array(partition.bound, dtype=bool)]
    margins = others @ best
    tight = others[margins < 1 + 1e-6]
    _, residual = nnls(np.vstack([tight, soft.rows, -soft.rows]).T, best)
    run = hm.flow(problem, until_log_time=LATE)
    hypotheses.append(Hypothesis("the flow is late", bool(run.times[-1] > LATE - 1e-6) or None, run.event))
    gap = hm.cosine_distance(soft.decomposition.parts(run.p)[1], best)
    measured = {
        "smallest margin": float(margins.min()),
        "largest tie": float(np.abs(soft.rows @ best).max()),
        "optimality residual": residual / float(np.linalg.norm(best)),
        "1 - cos of the flow": gap,
    }
    errors = (1 - measured["smallest margin"], measured["largest tie"], measured["optimality residual"])
    return Outcome(hypotheses, min(1 - max(errors) / 1e-6, 1 - gap / NEAR), measured)


NORMS = {"l2": "Frobenius", "linf": "largest entry", "spectral": "spectral"}
METHODS = {
    "gradient descent": (hm.optim.GD(lr=0.5), BLUE, ":"),
    "normalized descent": (hm.optim.Normalized(0.1), BLUE, "-"),
    "sign descent": (hm.optim.Sign(0.1, decay=0.5), RED, "-"),
    "Adam": (hm.optim.Adam(0.01, (0.9, 0.99), eps=0.0), PURPLE, "-"),
    "Muon": (hm.optim.Muon(0.02), GREEN, "-"),
}
EXACT = ("normalized descent", "sign descent", "Adam", "Muon")


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Twelve samples of three overlapping classes that still separate, in four dimensions."""
    y = np.arange(12) % 3
    return np.random.default_rng(3).normal(size=(12, 4)) + 1.5 * np.eye(3, 4)[y], y


def draw_classes(tables: Tables, canvas: Canvas) -> None:
    """Draw the gap of each optimizer in its own norm over the steps, and the gaps at the end in all norms."""
    left, right = canvas.subplots(1, 2, gridspec_kw={"width_ratios": (1.25, 1.0)})
    for name, (_, color, line) in METHODS.items():
        curve = part(tables["gaps"], "method", name)
        left.plot(curve["step"], curve["gap"], color=color, linestyle=line, linewidth=1.1, label=name)
    name_axes(left, "(a) Over time", "step", "margin gap in its own norm", "xy")
    left.legend(fontsize=6.5, loc="lower left")
    ends = tables["ends"]
    gaps = ends["gap"].reshape(len(METHODS), len(NORMS))
    right.imshow(np.log10(gaps), cmap="Blues_r", vmin=-3, vmax=0, aspect="auto")
    columns = [list(NORMS).index(optimizer.norm) for optimizer, _, _ in METHODS.values()]
    for row, column in np.ndindex(gaps.shape):
        weight = "bold" if column == columns[row] else "normal"
        ink = "white" if gaps[row, column] < 0.03 else "black"
        look = {"color": ink, "fontweight": weight, "ha": "center", "va": "center", "fontsize": 7}
        right.text(column, row, f"{gaps[row, column]:.3f}", **look)
    right.set_xticks(range(len(NORMS)), NORMS.values(), fontsize=7)
    right.set_yticks(range(len(METHODS)), METHODS, fontsize=7)
    right.set_title("(b) Gap at the end, by norm (own: bold)")
    right.tick_params(length=0)


@recipe(
    "D-FIG-CLASSES",
    "A linear classifier: each optimizer maximizes the margin in its own norm",
    draw=draw_classes,
    size=(7.0, 2.8),
    claims="""
    own-norm | gaps in their own norms of normalized descent, sign descent, Adam and Muon at the end | ≤ 0.04
    winner | the smallest gap in each norm is that of an optimizer of this norm | its own norm each
    slow | gap of gradient descent at the end over that of normalized descent, in l2 | ≥ 10
    labels | samples that each optimizer classifies correctly | 12, 12, 12, 12, 12 ± 0
    margins | max margins in l2, linf and the spectral norm | 0.295147, 0.758681, 0.348854 ± 1e-6
    """,
)
def fig_classes(setting: Setting) -> Findings:
    """Train one classifier with five optimizers and measure the margin of W in three norms."""
    X, y = samples()
    problem = hm.Problem.from_classes(X, y)
    best = {norm: hm.max_margin(problem, norm=norm) for norm in NORMS}
    last = STEPS[setting.scale]
    curves = []
    ends: dict[str, dict[str, float]] = {}
    correct = []
    for name, (optimizer, _, _) in METHODS.items():
        run = train_quietly(problem, optimizer, steps=last, record=marks(last))
        steps, gaps = deficits(run, best[optimizer.norm])
        curves.append({"method": name, "step": steps, "gap": gaps})
        ends[name] = {norm: run.margin_gap(best[norm]) for norm in NORMS}
        correct.append(sum(token == label for token, label in zip(run.selection, y.tolist(), strict=True)))
        setting.progress(len(correct) / len(METHODS))
    winners = {norm: min(EXACT, key=lambda name: ends[name][norm]) for norm in NORMS}
    norms = {name: METHODS[name][0].norm for name in EXACT}
    claims = {
        "own-norm": [ends[name][norms[name]] for name in EXACT],
        "winner": (all(norms[name] == norm for norm, name in winners.items()), winners),
        "slow": ends["gradient descent"]["l2"] / ends["normalized descent"]["l2"],
        "labels": correct,
        "margins": [solution.margin for solution in best.values()],
    }
    rows = [{"method": name, "norm": norm, "gap": ends[name][norm]} for name in METHODS for norm in NORMS]
    notes = (
        "Twelve samples of three classes in four dimensions, W from the origin. Sign descent has the rate "
        "0.1/sqrt(t + 1), the others a constant one; Adam has beta2 = 0.99 and epsilon = 0.",
        "The rates of convergence are measured here, not proved.",
    )
    return Findings({"gaps": stacked(curves), "ends": stacked(rows)}, claims, notes)


CONTEXTS = "jqxz"
NAMES = ("tinyshakespeare.txt", "tinyshakespeare.txt.xz")
UNTIL = {"quick": 12.0, "paper": 16.0}  # log of the time at which the flow ends
SEED = 0

CLAIMS = Claims(
    "D-FIG-SOFT",
    """
    log-odds | logits of the finite part, off the log-odds of the counts | ≤ 1e-7
    entropy | infimum of the cross-entropy, off the conditional entropy | ≤ 1e-9
    flow-logits | logits of the flow at its end, off the log-odds | ≤ 0.1
    flow-direction | 1 - cos of the rest to the max margin at the end | ≤ 0.05
    falls | 1 - cos at the end over that at log t of about 0 | ≤ 0.2
    """,
)


def bigrams(folder: Path | None) -> Counter[tuple[str, str]] | None:
    """Count the letters after j, q, x and z in the text of Shakespeare; None if the folder lacks it."""
    paths = [] if folder is None else [folder / name for name in NAMES if (folder / name).is_file()]
    if not paths:
        return None
    with (lzma.open if paths[0].suffix == ".xz" else open)(paths[0], "rt", encoding="utf-8") as file:
        text = file.read().lower()
    pairs = pairwise(text)
    return Counter((a, b) for a, b in pairs if a in CONTEXTS and "a" <= b <= "z")


def stand_in() -> Counter[tuple[str, str]]:
    """Draw counts of twelve letters after four contexts; about half of the pairs do not occur."""
    chance = np.random.default_rng(SEED)
    counts = chance.geometric(0.02, size=(4, 12)) * (chance.random((4, 12)) < 0.5)
    return Counter({(CONTEXTS[i], "abcdefghilmn"[j]): int(n) for (i, j), n in np.ndenumerate(counts) if n})


def draw_soft(tables: Tables, canvas: Canvas) -> None:
    """Draw logits against log-odds at the end of the flow, and both distances from the limit over time."""
    left, right = canvas.subplots(1, 2)
    ends, course = tables["ends"], tables["course"]
    span = [ends["log_odds"].min() - 0.5, ends["log_odds"].max() + 0.5]
    left.plot(span, span, color=INK, linewidth=0.6)
    left.plot(ends["log_odds"], ends["logit"], "o", color=BLUE, markersize=3.5, alpha=0.8)
    name_axes(
        left, "(a) Letters that follow the same letter", "log-odds of the counts", "difference of logits"
    )
    right.plot(course["log_time"], course["logits_off"], color=BLUE, label="logits: largest error")
    right.plot(course["log_time"], course["gap"], color=RED, label="the rest: 1 - cos to the max margin")
    name_axes(right, "(b) Gradient flow", "log t", "distance from the limit", "y")
    right.legend(fontsize=6.5)


@recipe(
    "D-FIG-SOFT",
    "Next letters with soft labels: finite logits are log-odds, the rest follows a max margin",
    draw=draw_soft,
    size=(7.0, 2.7),
)
def fig_soft(setting: Setting) -> Findings:
    """Integrate gradient flow on the counts of letter pairs and compare it with the decomposition."""
    real = bigrams(setting.data)
    counts = stand_in() if real is None else real
    chance = np.random.default_rng(SEED)
    features = {letter: chance.normal(size=len(CONTEXTS)) for letter in CONTEXTS}
    pairs = sorted(counts)
    problem = hm.nexttoken.linear(
        [a for a, _ in pairs], [b for _, b in pairs], [counts[pair] for pair in pairs], features=features
    )
    _, soft = soft_labels(problem)
    split = soft.decomposition
    setting.progress(0.2)
    run = hm.flow(problem, until_log_time=UNTIL[setting.scale])
    late = np.flatnonzero(np.asarray(run.times) > 0)
    off = [float(np.abs(soft.rows @ run.points[k] - soft.log_odds).max()) for k in late]
    gap = [hm.cosine_distance(split.parts(run.points[k])[1], split.p_mm) for k in late]
    claims = CLAIMS.judge(
        {
            "log-odds": float(np.abs(soft.rows @ np.asarray(split.p_fin) - soft.log_odds).max()),
            "entropy": abs(np.asarray(split.inf_risk) - soft.entropy),
            "flow-logits": off[-1],
            "flow-direction": gap[-1],
            "falls": gap[-1] / gap[0],
        }
    )
    times = np.asarray(run.times)[late]
    tables = {
        "ends": {"log_odds": soft.log_odds, "logit": soft.rows @ run.p},
        "course": {"log_time": times, "logits_off": np.array(off), "gap": np.array(gap)},
    }
    what = "a draw that replaces the text" if real is None else "Shakespeare's plays"
    notes = (
        f"Counts of letters after j, q, x and z in {what}: {len(pairs)} pairs that occur, features of four "
        "random numbers for each of the four letters.",
    )
    return Findings(tables, on_stand_in(claims) if real is None else claims, notes, SEED)
