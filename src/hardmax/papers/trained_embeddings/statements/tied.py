"""Lemma 19 and why its hypothesis fails: patterns with ties are cheaper (A-ERR-5)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.flow import flow
from hardmax.embeddings.first_step import infinite_width
from hardmax.embeddings.patterns import Pattern, distinct_tokens, pattern_max_margin, realizable_patterns
from hardmax.margin.closed_forms import kq_column
from hardmax.papers.checking.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.papers.checking.proof import RATIONAL
from hardmax.papers.trained_embeddings.statements import common
from hardmax.papers.trained_embeddings.statements.common import Rate

FAR = 1e8  # the flow runs to this many times |p_hat|
ALIGNED = 1e-8
ROUNDED = 1e-9  # the relative accuracy of a certified norm
PATTERNS = 1000  # a search over more patterns than this is left undecided


@statement(
    "A-LEM-19",
    "Lemma 19: important tokens only, if every other pattern costs more",
    "If every other pattern that holds the important tokens has a longer max-margin solution than the "
    "important-only pattern, the flow tends to the important-only direction. At infinite width the "
    "hypothesis fails wherever p_hat.v = 0 (A-ERR-5), so it is tested for any fixed embeddings here.",
    kind="limit",
    label="measured",
    errata=("A-ERR-5", "A-ERR-6", "A-ERR-12"),
)
def cheapest_pattern_wins(
    corpus: Corpus, *, E: Any = None, v: Any = None, first_rate: Rate = None, start: Any = None
) -> Outcome:
    """Enumerate the realizable patterns with the important tokens, and follow the flow from ``start``.

    A flow that has not come near its limit yet refutes nothing.
    """
    hypotheses, important = common.important_tokens(corpus)
    E, v = common.fixed_embeddings(corpus, E, v, first_rate)
    kappa = common.score_lead(corpus, E, v, important)
    best = pattern_max_margin(corpus, [(s,) for s in important], E)
    hypotheses += [
        Hypothesis("important tokens score highest", kappa > 0, kappa),
        Hypothesis("important tokens separable", best.is_feasible, best.margin),
    ]
    if unmet(hypotheses) or not best.p_norm:
        return unsaid(hypotheses)
    ratio, cheapest, complete = cheapest_other(corpus, E, important, best.p_norm)
    costs_more = False if ratio < 1 - ROUNDED else (True if complete and ratio > 1 + ROUNDED else None)
    hypotheses.append(Hypothesis("every other pattern costs more", costs_more, ratio))
    path = flow(corpus.problem(E, v), start=start, until_norm=FAR * best.p_norm)
    gap = path.cosine_distance(best)
    hypotheses.append(common.late_enough(path.problem, best, path.p_norm))
    measured = {"least |p_hat'| / |p_hat|": ratio, "its pattern": cheapest, "1 - cos of the flow": gap}
    return Outcome(hypotheses, 1 - gap / ALIGNED if gap <= ALIGNED else None, measured, cheapest)


def cheapest_other(
    corpus: Corpus, E: np.ndarray, important: tuple[int, ...], norm: float
) -> tuple[float, Any, bool]:
    """Return the relative norm of the cheapest other pattern, the pattern, and whether all were tried."""
    important_only = tuple((s,) for s in important)
    ratio, where, complete = math.inf, None, True
    # Those of A-ERR-5 go first, so that a search that is cut short includes the likely ones.
    patterns = chain(lone_patterns(corpus, important), realizable_patterns(corpus, E, containing=important))
    for count, chosen in enumerate(patterns):
        if count > PATTERNS:
            return ratio, where, False
        other = pattern_max_margin(corpus, chosen, E).p_norm
        complete &= not math.isnan(other)
        if (
            chosen != important_only and 0 < other < ratio * norm
        ):  # a pattern that ties everything has no direction
            ratio, where = other / norm, chosen
    return ratio, where, complete


def lone_patterns(corpus: Corpus, important: tuple[int, ...]) -> list[Pattern]:
    """Return for every important type the pattern that ties everything else."""
    sequences = distinct_tokens(corpus)
    return [
        tuple((s,) if s == star else tuple(X) for star, X in zip(important, sequences, strict=True))
        for s in sorted(set(important))
    ]


def lone_type_norm(N: int, value: Any, c: np.ndarray) -> Any:
    """Return |p_hat|^2 of the pattern that ties everything except one important type, at infinite width.

    The result is exact if the values are fractions.
    ``N`` is the number of tokens in its component, ``value`` its entry of the values c. Along v the solution
    gains value^2/(1 + |c|^2) on the (N - 1)/N of the same pattern without v.
    """
    return Fraction(int(N) - 1, int(N)) - value**2 / (1 + c @ c)


@statement(
    "A-ERR-5",
    "Erratum 5: at infinite width a pattern with ties is never longer",
    "Under Assumption 4, at infinite width and wherever p_hat.v = 0, tying everything except one important "
    "type costs at most (N - 1)/N in norm^2, N the tokens of its component, and that is at most |p_hat|^2 of "
    "the important-only pattern: there Lemma 19's hypothesis cannot be met. Nothing is proved at the lemma's "
    "finite widths, or where p_hat has a part along v. The paper's reading is that the hypothesis is met.",
    label="derived",
    errata=("A-ERR-5",),
)
def ties_are_cheaper(corpus: Corpus, *, first_rate: Rate = None) -> Outcome:
    """Evaluate closed forms in rational numbers.

    Only where p_hat has a part along v, and nothing is claimed, is a problem solved in floats.
    """
    hypotheses, important = common.important_tokens(corpus)
    edges = sorted(
        {(s, j) for s, X in zip(important, distinct_tokens(corpus), strict=True) for j in X if j != s}
    )
    if not edges:
        return unsaid(hypotheses)
    flat_solution = kq_column(edges)  # without a part along v
    tilt = sum(flat_solution[s] * int(corpus.statistics.signed[s]) for s in set(important))
    step = common.step_of(corpus, first_rate)
    square = sum((x * x for x in flat_solution.values()), Fraction(0))
    norm_squared: Any = square
    if tilt:
        limit = infinite_width(corpus, step)
        norm_squared = pattern_max_margin(corpus, [(s,) for s in important], limit.E).p_norm ** 2
    sizes = component_sizes(corpus)
    c = np.array([Fraction(step) * int(x) / (2 * corpus.n * corpus.T) for x in corpus.statistics.signed])
    lone = {s: lone_type_norm(sizes[s], c[s], c) for s in sorted(set(important))}
    cheapest = min(lone, key=lambda s: lone[s])
    flat = min(Fraction(int(sizes[s]) - 1, int(sizes[s])) for s in lone)
    hypotheses.append(Hypothesis("p_hat.v = 0", tilt == 0, float(tilt)))
    share = lone[cheapest] / norm_squared
    measured = {
        "|p_hat|^2": float(norm_squared),
        "norm^2 of the tied pattern": float(lone[cheapest]),
        "(N - 1)/N": float(flat),
        "ratio of norms": math.sqrt(share),
    }
    slack = float(min(1 - share, square - flat))
    return Outcome(
        hypotheses,
        slack,
        measured,
        witness=cheapest,
        proof=RATIONAL if slack < 0 and not tilt else None,
        paper_slack=float(share - 1),
        paper_proof=RATIONAL if share < 1 and not tilt else None,
    )


def component_sizes(corpus: Corpus) -> np.ndarray:
    """Return for every token the number of tokens in its component of the co-occurrence graph."""
    from scipy.sparse.csgraph import connected_components

    shared = corpus.matrix.T @ corpus.matrix
    _, component = connected_components(shared, directed=False)
    sizes: np.ndarray = np.bincount(component)[component]
    return sizes
