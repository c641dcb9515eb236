"""Lemmas 3, 20 and 21: the max-margin problem of a pattern, and its closed form where there is one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat  # type: ignore[import-untyped, unused-ignore]

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.first_step import infinite_width, initial_event, take_first_step
from hardmax.embeddings.patterns import distinct_tokens, pattern_max_margin, realizable
from hardmax.margin.closed_forms import ImportantOnly, important_only
from hardmax.margin.rationals import integer_rows
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import EXACT_ROWS, solve
from hardmax.papers.checking.check import Hypothesis, Outcome, printed, statement, unmet, unsaid
from hardmax.papers.checking.proof import RATIONAL
from hardmax.papers.trained_embeddings.statements import common
from hardmax.papers.trained_embeddings.statements.common import DELTA, Rate, Width
from hardmax.papers.trained_embeddings.statements.first_step import power_of_width

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
