"""Linear classifiers and next tokens with soft labels.

The gradient bounds the margin (D-THM-13), logits tend to log-odds (D-THM-14), and next to them W follows a
max margin (D-THM-15).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, statement
from hardmax.papers.geometry.statements.common import ROUNDING
from hardmax.papers.geometry.statements.split import LATE, NEAR, decomposed
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
