"""Definition 16 compared with the local optimality of the max-margin paper, and Lemma 17's dominant pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.directions.enumerate import selections
from hardmax.directions.neighbors import row_gaps, score_gap, tight_rows
from hardmax.embeddings import one_layer, patterns
from hardmax.embeddings.patterns import TokenSelection, pattern_max_margin
from hardmax.margin.att_svm import max_margin
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import fixed_scores
from hardmax.papers.trained_embeddings.statements.common import Rate, fixed_embeddings
from hardmax.problem import Problem

TIED = 1e-9  # second-best tokens that are not tight tie up to this slack
SELECTIONS = 100  # feasible selections of a problem that are looked at


def second_best_gap(problem: Problem, best: MaxMargin) -> tuple[float, bool]:
    """Return Definition 16's mu at p_mm, over second-best tokens of every input; and if all are tight.

    The max-margin paper considers only tokens whose row is tight, wherever that is.
    """
    assert best.slack is not None
    gaps, mu, tight = row_gaps(problem, best), math.inf, True
    is_tight = np.zeros(len(gaps), dtype=bool)
    is_tight[tight_rows(best)] = True
    inputs = np.array([best.constraints.label(j)[0] for j in range(best.constraints.count)])
    for i in np.unique(inputs):
        rows = inputs == i
        has_tight = bool((rows & is_tight).any())
        second = is_tight if has_tight else best.slack <= float(best.slack[rows].min()) + TIED
        mu = min(mu, float(gaps[rows & second].min()))
        tight &= has_tight
    return mu, tight


@statement(
    "A-DEF-16",
    "Definition 16 and the SVM neighbors of the max-margin paper",
    "At the max-margin direction of a selection of one token per input, Definition 16 implies local "
    "optimality in the sense of the max-margin paper, and the two agree where every input has a "
    "tight row.",
    label="derived",
)
def local_optimality_agrees(problem: Problem, *, selection: Iterable[int] | None = None) -> Outcome:
    """Test one selection, or all feasible ones, some with a tight row in every input."""
    hypotheses = need(fixed_scores(problem))
    if selection is None:
        solutions = [solution.max_margin for solution in selections(problem, limit=SELECTIONS)]
    else:
        solutions = [max_margin(problem, tuple(selection))]
    rows = [
        (*second_best_gap(problem, best), score_gap(problem, best))
        for best in solutions
        if best.is_feasible and best.p_norm
    ]
    both = sum(tight for _, tight, _ in rows)
    implied = all(ours > 0 for mu, _, ours in rows if mu > 0)
    agree = all((mu > 0) == (ours > 0) for mu, tight, ours in rows if tight)
    measured = {
        "selections": len(rows),
        "with a tight row in every input": both,
        "locally optimal by Definition 16": sum(mu > 0 for mu, _, _ in rows),
        "by the max-margin paper": sum(ours > 0 for _, _, ours in rows),
    }
    hypotheses.append(Hypothesis("every input has a tight row", both > 0, both))
    return Outcome(hypotheses, 1.0 if implied and agree else -1.0, measured)


@statement(
    "A-LEM-17",
    "Lemma 17: the dominant pairs decide",
    "For p = R p_bar, p_bar locally optimal with gaps of at least tau1, and p_hat of the same pattern with "
    "gaps of at least tau2, -p_hat.grad L is the sum over selected and second-best tokens, up to a factor 1 "
    "+- (T + T^2) C3 C4 e^(-tau1 R), C3 = 2 |p_hat| max|E_s|/tau2, C4 = 2 T max|E_s|/mu.",
    draws=("values",),
    errata=("A-ERR-14",),
)
def dominant_pairs(
    corpus: Corpus,
    *,
    scores: Any,
    E: Any = None,
    v: Any = None,
    first_rate: Rate = None,
    radii: Sequence[float] = (5.0, 10.0, 20.0, 40.0, 80.0),
) -> Outcome:
    """Compare pairs along p_bar, whose ``scores`` are exact up to scale; p_hat solves its pattern."""
    scores = expect.finite_array("scores", scores, (corpus.S,))
    E, v = fixed_embeddings(corpus, E, v, first_rate)
    chosen = patterns.score_selection(corpus, scores)
    mu = patterns.local_gap(corpus, E @ v, chosen)
    hypotheses = need(
        Hypothesis("embeddings affinely independent", patterns.scores_are_free(corpus, E)),
        Hypothesis("a token is second best", not chosen.is_everything),
        Hypothesis("locally optimal", mu > 0, mu),
    )
    # the shortest p with p.E_s equal to the scores up to a common constant
    p_bar = np.linalg.lstsq(E - E.mean(axis=0), scores - scores.mean(), rcond=None)[0]
    length = float(np.linalg.norm(p_bar))
    best = pattern_max_margin(corpus, chosen, E)
    if not best.is_certified:
        return Outcome(hypotheses)
    p_hat = best.need()
    tau1 = min(chosen.gap, chosen.second_gap) / length
    tau2 = patterns.token_selection(corpus, E, p_hat).gap
    T, longest = int(corpus.lengths.max()), float(np.linalg.norm(E, axis=1).max())
    C3, C4 = 2 * best.p_norm * longest / tau2, 2 * T * longest * float(np.linalg.norm(v)) / mu
    others = [pair_ratio(corpus, scores * (R / length), E @ v, E @ p_hat, chosen) for R in radii]
    logs = [math.log((T + T**2) * C3 * C4) - tau1 * R for R in radii]  # of the bound on |B1 + B2|/B0
    shares = [math.exp(math.log(abs(x)) - log) if x else 0.0 for x, log in zip(others, logs, strict=True)]
    bounds = [math.exp(log) for log in logs]
    measured = {"R": list(radii), "ratio - 1": others, "bound": bounds, "tau1": tau1, "mu": mu}
    return Outcome(hypotheses, 1 - max(shares), measured)


def pair_ratio(
    corpus: Corpus, a: np.ndarray, c: np.ndarray, a_hat: np.ndarray, chosen: TokenSelection
) -> float:
    """Return (B1 + B2)/B0, the other pairs over the selected and second-best ones, in the log domain."""
    log_g = one_layer.evaluate(corpus, a, c).log_g
    pairs: list[tuple[float, float, bool]] = []
    for k in range(corpus.n):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        tokens = corpus.tokens[slots].tolist()
        mass = a[tokens] + corpus.log_counts[slots]
        mass = mass - np.logaddexp.reduce(mass)
        first, second = set(chosen.selected[k]), set(chosen.second[k])
        for x, s in enumerate(tokens):
            for y, r in enumerate(tokens[x + 1 :], start=x + 1):
                if s in first and r in first:
                    continue  # tied by p_hat too
                size = (a_hat[s] - a_hat[r]) * corpus.signs[k] * (c[s] - c[r])
                dominant = (s in first and r in second) or (r in first and s in second)
                pairs.append((log_g[k] + mass[x] + mass[y], size, dominant))
    logs, sizes, leading = (np.array(column) for column in zip(*pairs, strict=True))
    terms = sizes * np.exp(logs - logs.max())
    return float(terms[~leading].sum() / terms[leading].sum())
