"""Max-margin problems of patterns: Lemmas 3, 20 and 21, Lemma 19, Definition 16 and Lemma 17.

The closed form of Lemma 3 where there is one; why the hypothesis of Lemma 19 fails, as patterns with ties are
cheaper (A-ERR-5); Definition 16 compared with the max-margin paper's local optimality, and dominant pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat  # type: ignore[import-untyped, unused-ignore]

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.directions.enumerate import selections
from hardmax.directions.neighbors import row_gaps, score_gap, tight_rows
from hardmax.dynamics.flow import flow
from hardmax.embeddings import one_layer, patterns
from hardmax.embeddings.first_step import infinite_width, initial_event, take_first_step
from hardmax.embeddings.patterns import (
    Pattern,
    TokenSelection,
    distinct_tokens,
    pattern_max_margin,
    realizable,
    realizable_patterns,
)
from hardmax.margin.att_svm import max_margin
from hardmax.margin.closed_forms import ImportantOnly, important_only, kq_column
from hardmax.margin.rationals import integer_rows
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import EXACT_ROWS, solve
from hardmax.papers.checking.check import Hypothesis, Outcome, need, printed, statement, unmet, unsaid
from hardmax.papers.checking.common import fixed_scores
from hardmax.papers.checking.proof import RATIONAL
from hardmax.papers.trained_embeddings import common
from hardmax.papers.trained_embeddings.common import DELTA, Rate, Width, fixed_embeddings
from hardmax.papers.trained_embeddings.first_step import power_of_width
from hardmax.problem import Problem

EQUAL = 1e-9  # relative distance up to which two solutions are one


def all_tight(best: MaxMargin) -> np.ndarray:
    """Return the paper's closed form M^+ 1, which takes every constraint to be tight and drops the ties."""
    rows = best.constraints.rows()[~best.constraints.equal]
    solution: np.ndarray = np.linalg.pinv(rows) @ np.ones(len(rows))
    return solution


def pattern_hypotheses(corpus: Corpus, selection: Sequence[Iterable[int]], E: np.ndarray) -> list[Hypothesis]:
    """Return the hypotheses that some p makes the pattern and that it leaves a token out (A-ERR-16)."""
    sets = [set(z) for z in selection]
    out = any(set(tokens) - z for tokens, z in zip(distinct_tokens(corpus), sets, strict=True))
    return [
        Hypothesis("some p makes the pattern", realizable(corpus, selection, E)),
        Hypothesis("the pattern leaves a token out", out, erratum="A-ERR-16"),
    ]


def solved_pattern(
    corpus: Corpus, selection: Sequence[Iterable[int]] | None, E: Any, first_rate: Rate
) -> tuple[list[Hypothesis], MaxMargin | None]:
    """Return the conditions on a pattern, by default the important tokens, and its solution if they hold."""
    hypotheses, chosen = common.pattern_or_important(corpus, selection)
    if E is None:
        E, _ = common.fixed_embeddings(corpus, first_rate=first_rate)
    else:
        E = common.of_moderate_size("E", expect.finite_array("E", E, (corpus.S, None)))
    hypotheses += pattern_hypotheses(corpus, chosen, E)
    best = None if unmet(hypotheses) else pattern_max_margin(corpus, chosen, E)
    return hypotheses, None if best is None or not best.is_certified else best


@statement(
    "A-LEM-3",
    "Lemma 3: the max-margin solution of a pattern",
    "A pattern that some p makes and that leaves a token out has exactly one max-margin solution; the proof "
    "in the paper makes every constraint tight, with the solution M^+ 1.",
    draws=("selection",),
    errata=("A-ERR-7", "A-ERR-8", "A-ERR-9", "A-ERR-16"),
)
def one_solution(
    corpus: Corpus,
    *,
    selection: Sequence[Iterable[int]] | None = None,
    E: Any = None,
    first_rate: Rate = None,
) -> Outcome:
    """Solve the problem in two ways, which must agree to rounding, and compare M^+ 1 with the solution.

    Where M^+ 1 is another vector, it is compared with the solution in rational numbers.
    """
    hypotheses, best = solved_pattern(corpus, selection, E, first_rate)
    if best is None:
        return Outcome(hypotheses)
    p_hat = best.need()
    again, closed = second_solution(best), all_tight(best)
    if again is None:
        return Outcome(hypotheses)
    distance, off = (float(np.linalg.norm(x - p_hat)) / best.p_norm for x in (again, closed))
    measured = {
        "|p_hat|^2": best.p_norm**2,
        "distance of two solutions": distance,
        "distance of M^+ 1": off,
        "|M^+ 1|^2": float(closed @ closed),
        "largest margin": float(row_margins(best).max()),
    }
    paper: Any = 1 - off / EQUAL
    if paper < 0 and (exactly := in_rationals(best)) is not None:
        paper = 0.0 if is_all_tight(exactly) else (paper, RATIONAL)
    return Outcome(hypotheses, 1 - distance / EQUAL, measured, p_hat, paper_slack=paper)


def in_rationals(best: MaxMargin) -> MaxMargin | None:
    """Solve the problem of a solution in rational numbers; None if it has too many rows."""
    if best.exact is not None:
        return best
    return solve(best.constraints, exact=True) if best.constraints.count <= EXACT_ROWS else None


def is_all_tight(best: MaxMargin) -> bool:
    """Whether a rational solution is M^+ 1: every inequality is tight, and their rows alone span it."""
    assert best.exact is not None
    assert best.exact.p is not None
    beats = np.flatnonzero(~best.constraints.equal).tolist()
    return all(best.exact.tight[j] for j in beats) and is_spanned(best, beats, best.exact.p)


def is_spanned(best: MaxMargin, chosen: list[int], p: Sequence[Fraction]) -> bool:
    """Whether p is a combination of the chosen rows, in rational numbers."""
    rows, _, _ = integer_rows(best.constraints)
    table = [[fmpq(rows[j, i]) for i in range(rows.ncols())] for j in chosen]
    vector = [fmpq(x.numerator, x.denominator) for x in p]
    return bool(fmpq_mat(table).rank() == fmpq_mat([*table, vector]).rank())


def second_solution(best: MaxMargin) -> np.ndarray | None:
    """Solve the problem of a solution in another way: in rational numbers, or with the rows reversed."""
    few = best.constraints.count <= EXACT_ROWS
    rows = best.constraints if few else best.constraints.subset(np.arange(best.constraints.count)[::-1])
    again = solve(rows, exact=few)
    return again.p if again.is_certified else None


@statement(
    "A-LEM-20",
    "Lemma 20: some constraint is tight",
    "The max-margin solution of a pattern that leaves a token out has least margin exactly 1.",
    errata=("A-ERR-16",),
)
def some_constraint_is_tight(
    corpus: Corpus,
    *,
    selection: Sequence[Iterable[int]] | None = None,
    E: Any = None,
    first_rate: Rate = None,
) -> Outcome:
    """Measure the least margin of the certified solution."""
    hypotheses, best = solved_pattern(corpus, selection, E, first_rate)
    if best is None:
        return Outcome(hypotheses)
    margins, proof = row_margins(best), None
    if abs(float(margins.min()) - 1) > EQUAL and (exactly := in_rationals(best)) is not None:
        margins, proof = row_margins(exactly), RATIONAL
    slack = 1 - abs(float(margins.min()) - 1) / EQUAL
    return Outcome(hypotheses, slack, {"margins": margins}, best.p, proof=proof if slack < 0 else None)


def row_margins(best: MaxMargin) -> np.ndarray:
    """Return p_hat.(E_s - E_s') of every inequality."""
    assert best.slack is not None
    margins: np.ndarray = 1 + best.slack[~best.constraints.equal]
    return margins


@statement(
    "A-LEM-3P",
    "Lemma 3 fixed: when every constraint is tight",
    "Under Assumption 4 and for d to infinity, M^+ 1 of the important-only pattern has the closed form by "
    "components of the co-occurrence graph, has no part along v, and is p_hat exactly if Gale's condition "
    "|N(J)|/n_c >= |J|/n_r holds.",
    label="derived",
    errata=("A-ERR-7",),
)
def when_all_is_tight(corpus: Corpus, *, first_rate: Rate = None) -> Outcome:
    """Compare the closed form with M^+ 1 and the certified solution, at infinite width."""
    hypotheses, important = common.important_tokens(corpus)
    form = important_only(distinct_tokens(corpus), important)
    if not form.coefficients:
        return unsaid(hypotheses)
    weights = np.array([float(form.coefficients.get(s, 0)) for s in range(corpus.S)])
    E, _ = common.fixed_embeddings(corpus, first_rate=first_rate)
    best = pattern_max_margin(corpus, [[s] for s in important], E)
    if not best.is_certified:
        return Outcome(hypotheses)
    tight, full = all_tight(best), np.append(weights, 0.0)
    off = float(np.linalg.norm(tight - full) / np.linalg.norm(full))
    distance = float(np.linalg.norm(best.need() - full)) / best.p_norm
    norm = abs(float(full @ full) / float(form.norm_squared) - 1)
    agrees = 1 - distance / EQUAL if form.is_max_margin else distance / EQUAL - 1
    measured = {
        "Gale's condition": form.is_max_margin,
        "|M^+ 1|^2": form.norm_squared,
        "|p_hat|^2": best.p_norm**2,
        "closed form to M^+ 1": off,
        "closed form to p_hat": distance,
        "v.M^+ 1": float(tight[-1]),
    }
    slack: Any = min(1 - max(off, norm) / EQUAL, agrees)
    if slack < 0 and (right := is_right(corpus, important, form)) is not None:
        slack = 0.0 if right else (slack, RATIONAL)
    return Outcome(hypotheses, slack, measured, form.witness)


def is_right(corpus: Corpus, important: tuple[int, ...], form: ImportantOnly) -> bool | None:
    """Decide the claim in rational numbers, where c are the signed counts; None with too many rows."""
    E = infinite_width(corpus, 1.0).E
    E[:, -1] = corpus.statistics.signed
    best = in_rationals(pattern_max_margin(corpus, [[s] for s in important], E))
    if best is None or best.exact is None:
        return None
    full = [form.coefficients.get(s, Fraction(0)) for s in range(corpus.S)] + [Fraction(0)]
    square = sum((x * x for x in full), Fraction(0))
    edges = [(s, j) for s, X in zip(important, distinct_tokens(corpus), strict=True) for j in X if j != s]
    is_one = all(full[s] - full[j] == 1 for s, j in edges)
    is_pinv = is_one and is_spanned(best, list(range(best.constraints.count)), full)
    is_best = best.exact.p == tuple(full)
    return is_pinv and square == form.norm_squared and is_best == form.is_max_margin


@statement(
    "A-LEM-21",
    "Lemma 21: the important-only solution is short",
    "On event (14), with nearly orthogonal embeddings of norm at least 1/2, |p_hat| <= 4 n for the "
    "important-only pattern.",
    errata=("A-ERR-15",),
)
def important_only_is_short(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Solve for p_hat after a first step at width d, by default that of Theorem 5."""
    hypotheses, important = common.important_tokens(corpus)
    draw = common.draw_first_step(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    K = draw.start.gram.K
    overlap = float(np.abs(K - np.diag(K.diagonal())).max())
    shortest = float(draw.start.gram.token_norms.min())
    hypotheses.need(
        *draw.conditions,
        draw.wide_for_the_norm(),
        Hypothesis("|E_s.E_s'| <= d^(-1/4)", overlap <= power_of_width(draw.d, -0.25), overlap, "A-ERR-15"),
        Hypothesis("|E_s| >= 1/2", shortest >= 0.5, shortest, "A-ERR-15"),
    )
    best = pattern_max_margin(corpus, [[s] for s in important], draw.after.E)
    if not best.p_norm:
        return unsaid(hypotheses)
    bound = 4.0 * corpus.n
    slack: Any = 1 - best.p_norm / bound
    if slack < 0 and (exactly := in_rationals(best)) is not None and exactly.exact is not None:
        slack = slack, RATIONAL if exactly.exact.norm_squared > Fraction(bound) ** 2 else None
    measured = {"|p_hat|": best.p_norm, "bound": bound, "sqrt |S_c|": math.sqrt(len(set(important)))}
    return Outcome(hypotheses, slack, measured, paper_slack=slack)


@printed("A-ERR-15")
def short_solutions(corpus: Corpus) -> Outcome:
    """Test as printed: |p_hat| <= 4 n on event (14), whatever else the initial embeddings are."""
    hypotheses, important = common.important_tokens(corpus)
    rooms = []
    S, n, T = corpus.S, corpus.n, corpus.T
    for shrink in (1.0, 2.0**-4, 2.0**-8, 2.0**-12):
        E = np.column_stack([shrink * np.eye(S), np.zeros((S, 2))])
        p, v = np.eye(S + 2)[S:]
        if not initial_event(E, p, v, delta=0.1).holds:
            continue
        after = take_first_step(corpus, E, p, v, first_rate=4.0 * n**2 * T**2).E
        best = pattern_max_margin(corpus, [[s] for s in important], after, exact=True)
        if best.exact is not None and best.exact.norm_squared:
            longer = best.exact.norm_squared > Fraction(4 * n) ** 2
            rooms.append((float(1 - best.p_norm / (4 * n)), longer, shrink))
    if not rooms:
        return unsaid(hypotheses)
    slack, longer, shrink = min(rooms)
    proof = f"{RATIONAL}, embeddings of length {shrink:g}" if longer else None
    return Outcome(hypotheses, slack, {"|E_s|": shrink}, proof=proof)


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
