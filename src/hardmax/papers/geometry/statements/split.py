"""Data that do not separate: which rows are bound (D-THM-11), where training goes (D-THM-8, D-THM-12).

Two conjectures are about other norms (D-CONJ-4), and about scores, where tokens may survive (D-CONJ-5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import cast

import numpy as np

import hardmax as hm
from hardmax.limits.cycles import inside_components
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import fixed_scores, unit_length
from hardmax.papers.geometry.statements.common import ROUNDING, trained

MOST = 60  # rows that are tried one by one
EARLY, LATE = 12.0, 20.0  # log t between which the growth of a flow is measured
SETTLED = 1e-3  # how far the part in S may still be from p_fin, over |p_fin| + |p_mm|
GROWTH = 0.05  # measured over predicted growth, less one
NEAR = 0.05  # of 1 - cos orthogonal to S, at the end


def decomposed(problem: hm.Problem) -> hm.limits.Decomposition:
    """The decomposition of the rows of the best tokens; the test ends if it has none."""
    need(fixed_scores(problem))
    best = hm.best_tokens(problem)
    need(Hypothesis("one best token per input", best.is_unique, best.sets))
    found = hm.decompose(problem)
    need(Hypothesis("a token competes", found.partition.constraints.count > 0, 0))
    return found


def convex_and_mixed(problem: hm.Problem) -> tuple[Conditions, hm.limits.Decomposition]:
    """The conditions of D-THM-12: log loss, one label token per input, rows bound and rows separable."""
    found = decomposed(problem)
    hypotheses = need(
        Hypothesis("log loss, one label token per input", not found.is_local),
        Hypothesis("some rows bound, some separable", found.kind == "mixed", found.kind),
        Hypothesis("decomposition certified", found.status == "certified" or None, found.status),
    )
    return hypotheses, found


def is_won(rows: np.ndarray, j: int) -> bool | None:
    """Whether some p that loses no row wins row j, by a separate linear program."""
    from scipy.optimize import linprog

    if not rows[j].any():
        return False  # every p ties a row of zeros
    scale = np.abs(rows).max()
    found = linprog(
        -rows[j] / scale,
        A_ub=np.vstack([-rows, rows[j]]) / scale,
        b_ub=np.append(np.zeros(len(rows)), 1.0),
        bounds=(None, None),
        method="highs",
    )
    return None if found.status != 0 else bool(-found.fun > 0.5)


def _proved(
    rows: Sequence[Sequence[Fraction]], bound: Sequence[bool], found: hm.limits.Decomposition
) -> bool | None:
    """Whether both certificates hold in fractions: one p wins the others and ties these, which cancel."""
    p, weights = found.witness, list(found.circulation)
    if p is None:
        return None
    reach = [sum((a * b for a, b in zip(row, p, strict=True)), Fraction(0)) for row in rows]
    wins = all(r == 0 if b else r >= 1 for r, b in zip(reach, bound, strict=True))
    own = [row for row, b in zip(rows, bound, strict=True) if b]
    if len(own) != len(weights) or any(y < 1 for y in weights):
        return False
    columns = zip(*own, strict=True)
    sums = (sum((y * x for y, x in zip(weights, each, strict=True)), Fraction(0)) for each in columns)
    return wins and all(total == 0 for total in sums)


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
def partition_of_rows(problem: hm.Problem) -> Outcome:
    """Check both certificates in fractions, and solve a linear program for each row, up to 60."""
    found = decomposed(problem)
    constraints = found.partition.constraints
    # which rows no p wins that loses none
    rows, bound = constraints.rows(), [bool(each) for each in found.partition.bound]
    few = Hypothesis("at most 60 rows", len(rows) <= MOST or None, len(rows))
    exact = [[Fraction(x) for x in row] for row in _differences(problem, found)]
    proved = _proved(exact, bound, found)
    won = [is_won(rows, j) for j in range(min(len(rows), MOST))]
    agree = all(each is None or each != b for each, b in zip(won, bound, strict=False))
    cycles = inside_components(constraints)[0]
    other = [constraints.label(j) for j in np.flatnonzero(cycles != np.array(bound)).tolist()]
    told = {
        "bound": sum(bound),
        "separable": len(bound) - sum(bound),
        "certificates stand": proved,
        "linear programs agree": agree,
        "bound outside components": other,
    }
    known = Hypothesis("fractions are at hand", proved is not None or None)
    slack = 1.0 if proved and agree else -1.0
    paper_slack = (-1.0, "fractions" if proved else None) if other else 1.0
    return Outcome((few, known), slack, told, found.circulation, paper_slack=paper_slack)


def _differences(problem: hm.Problem, found: hm.limits.Decomposition) -> list[list[Fraction]]:
    """The rows as differences of keys in fractions; as floats they are rounded."""
    keys = problem.split(problem.keys[problem.tokens])
    made = []
    for j in range(found.partition.constraints.count):
        i, t = cast(tuple[int, int], found.partition.constraints.label(j))
        chosen, other = keys[i][found.selection[i]], keys[i][t]
        made.append([Fraction(float(a)) - Fraction(float(b)) for a, b in zip(chosen, other, strict=True)])
    return made


def log_growth(found: hm.limits.Decomposition, ratio: float) -> float:
    """Return by how much p grows orthogonally to S while t grows by a factor."""
    assert found.p_mm is not None
    return float(np.linalg.norm(found.p_mm)) * math.log(ratio)


@statement(
    "D-THM-12",
    "Gradient flow on data that do not separate",
    "With the log loss and one label token per input, the part of p in the span S of the bound rows tends to "
    "p_fin, and orthogonally to it p grows like p_mm log t.",
    kind="limit",
    data="labels",
    label="derived",
)
def finite_and_diverging(problem: hm.Problem) -> Outcome:
    """Gradient flow to log t = 20, and how it grew since log t = 12."""
    hypotheses, found = convex_and_mixed(problem)
    if found.p_fin is None or found.p_mm is None:
        return Outcome(hypotheses)
    run = hm.flow(problem, until_log_time=LATE)
    times = np.asarray(run.times)
    hypotheses.need(Hypothesis("the flow is late", bool(times[-1] > LATE - 1e-6) or None, run.event))
    at = int(np.abs(times - EARLY).argmin())
    size = float(np.linalg.norm(found.p_fin) + np.linalg.norm(found.p_mm))
    off = float(np.linalg.norm(found.parts(run.p)[0] - found.p_fin)) / size
    end, begin = (found.parts(run.points[k])[1] for k in (-1, at))
    grown = float(np.linalg.norm(end) - np.linalg.norm(begin)) / log_growth(
        found, math.exp(times[-1] - times[at])
    )
    gap = hm.cosine_distance(end, found.p_mm)
    told = {"off p_fin": off, "growth over |p_mm| log t": grown, "1 - cos to p_mm beside S": gap}
    slack = min(1 - off / SETTLED, 1 - abs(grown - 1) / GROWTH, 1 - gap / NEAR)
    return Outcome(hypotheses, slack, told)


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
def normalized_on_bound_rows(
    problem: hm.Problem, *, rate: float | None = None, steps: int = 10_000
) -> Outcome:
    """The growth over the last decade of steps; the deficit of sign descent in linf is reported too."""
    hypotheses, found = convex_and_mixed(problem)
    if found.p_fin is None or found.p_mm is None:
        return Outcome(hypotheses)
    pace = 0.1 * unit_length(problem) if rate is None else rate
    run = trained(problem, hm.optim.Normalized(pace), steps=steps, record=[steps // 10])
    end, begin = (float(np.linalg.norm(found.parts(run.points[k])[1])) for k in (-1, -2))
    grown = (end - begin) / log_growth(found, 10.0)
    swing = float(np.linalg.norm(found.parts(run.p)[0] - found.p_fin)) / pace
    told = {"growth over |p_mm| log 10": grown, "swing over the rate": swing, "|p|": run.p_norm}
    best = found.max_margin("linf")
    if best.is_certified:
        told["deficit of sign descent in linf"] = trained(
            problem, hm.optim.Sign(pace), steps=steps
        ).margin_gap(best)
    arrived = Hypothesis("the part in S has arrived", swing < 3 or None, swing)
    swings = Hypothesis("it swings there", swing > ROUNDING, swing)  # at rest, as by symmetry, it does not
    return Outcome((*hypotheses, arrived, swings), 1 - abs(grown - 1) / (4 * GROWTH), told)


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
def plain_steepest(problem: hm.Problem, *, norm: str = "linf", steps: int = 100_000) -> Outcome:
    """The deficit after all steps and after a hundredth of them."""
    hypotheses, found = convex_and_mixed(problem)
    best = found.max_margin(norm)
    hypotheses.need(Hypothesis("max margin certified", best.is_certified or None, best.status))
    dual = hm.margin.norm(norm).dual
    longest = max(dual.value(row) for row in found.partition.constraints.rows())
    run = trained(problem, hm.optim.GD(longest**-2.0, norm=norm), steps=steps, record=[steps // 100])
    early, late = (abs(best.margin_gap(run.points[k])) for k in (-2, -1))
    told = {"deficit after a hundredth of the steps": early, "deficit": late, "margin": best.margin}
    return Outcome(hypotheses, 1 - late / max(FALL * early, SMALL), told)


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
def survivors(problem: hm.Problem) -> Outcome:
    """Gradient flow to log t = 30; survivors have attention above 1e-3, others below 1e-6, or it is early.

    It is early, too, where p orthogonal to S has not yet outgrown its offset: see `offset_beside`.
    """
    need(fixed_scores(problem))
    run = hm.flow(problem, until_log_time=SURVIVAL)
    shares = hm.attention(problem, run.p)
    between = max((float(x) for each in shares for x in each if LOST < x < KEPT), default=0.0)
    settled = Hypothesis("no token is in between", between == 0 or None, between)
    sets = [np.flatnonzero(each >= KEPT) for each in shares]
    several = Hypothesis("several tokens survive in an input", any(s.size > 1 for s in sets))
    some_lost = Hypothesis(
        "some token is lost", any(s.size < x.size for s, x in zip(sets, shares, strict=True))
    )
    hypotheses = need(several, some_lost, settled)
    left, lost = kept_and_lost(problem, sets)
    tied = [row for own in left.split(left.keys[left.tokens]) for row in own[0] - own[1:]]
    best = hm.max_margin(hm.Constraints.dense([row for row, _, _ in lost], E=tied))
    hypotheses.need(Hypothesis("survivors separable from the others", best.is_certified or None, best.status))
    S = np.linalg.svd(np.array(tied).T, full_matrices=False)
    span = S[0][:, S[1] > 1e-9 * S[1][0]] if S[1][0] > 0 else S[0][:, :0]
    beside = run.p - span @ (span.T @ run.p)
    goal = best.need()
    offset, faint = offset_beside(left, lost, best, span, run)
    growth = run.times[-1] * goal
    off, kept = hm.cosine_distance(growth + offset, goal), float(1 + offset @ goal / (growth @ goal))
    outgrown = (off < ALIGNED / 2 and kept > HALF and faint < FAINT) or None
    measured = {"expected 1 - cos": off, "share of the growth": kept, "pull of other rows": faint}
    hypotheses.need(Hypothesis("p beside S has outgrown its offset", outgrown, measured))
    pull = hm.gradient(left, run.p)
    # in S, survivors balance what the lost tokens pull: at most multipliers times lengths, over t
    assert best.multipliers is not None
    most = float(best.multipliers[: len(lost)] @ np.linalg.norm([d for d, _, _ in lost], axis=1))
    balance = 2 * most * math.exp(-run.times[-1])
    rest = math.exp(pull.log_norm) if pull.direction.any() else 0.0
    gap = hm.cosine_distance(beside, goal)
    told = {"survivors": [s.tolist() for s in sets], "1 - cos beside S": gap, "gradient of survivors": rest}
    return Outcome(hypotheses, min(1 - gap / ALIGNED, 1 - rest / max(STILL, balance)), told)


Lost = list[tuple[np.ndarray, int, float]]  # a row, its input and the score of the token that it leaves


def kept_and_lost(problem: hm.Problem, sets: Sequence[np.ndarray]) -> tuple[hm.Problem, Lost]:
    """The problem of the survivors, and the rows from the first of them to the others of its input."""
    keys, scores = (problem.split(x) for x in (problem.keys[problem.tokens], problem.scores))
    left = hm.Problem(
        [own[s] for own, s in zip(keys, sets, strict=True)],
        [own[s] for own, s in zip(scores, sets, strict=True)],
        problem.loss,
    )
    lost = [
        (keys[i][inside[0]] - keys[i][t], i, float(scores[i][t]))
        for i, inside in enumerate(sets)
        for t in range(len(keys[i]))
        if t not in inside
    ]
    return left, lost


def offset_beside(
    left: hm.Problem, lost: Lost, best: hm.MaxMargin, span: np.ndarray, run: hm.Run
) -> tuple[np.ndarray, float]:
    """Return w of p = p_mm log t + w orthogonal to S, as p in S sets it, and the pull of other rows.

    A row d to a lost token pulls with a e^(-d.p): a is the slope of the loss, times how much the token scores
    below what the survivors predict, times its attention there. The flow turns to p_mm as its rows
    pull like their multipliers, which is where d.w = log(a/multiplier). Before log t outgrows w, p may go
    anywhere: a token that S alone puts e^80 behind is not felt before log t = 80. The second number is what
    rows without a multiplier pull at that w and the end of the run, over the sum of the multipliers.
    """
    assert best.multipliers is not None
    inside = span @ (span.T @ run.p)
    shares, logits = hm.attention(left, inside), left.split(left.keys[left.tokens] @ inside)
    predicted = np.array([s @ own for s, own in zip(shares, left.split(left.scores), strict=True)])
    slopes = left.loss.log_slopes(predicted)
    with np.errstate(divide="ignore"):  # a token that scores what is predicted pulls nowhere
        falls = np.log([abs(predicted[i] - score) / left.n for _, i, score in lost])
    behind = [d @ inside + np.logaddexp.reduce(logits[i]) - logits[i][0] for d, i, _ in lost]
    pulls = slopes[[i for _, i, _ in lost]] + falls - behind
    weights, rows = best.multipliers[: len(lost)], np.array([d for d, _, _ in lost])
    own = (weights > NONE * weights.max()) & np.isfinite(pulls)
    across = rows - rows @ span @ span.T
    w = np.linalg.lstsq(across[own], pulls[own] - np.log(weights[own]), rcond=None)[0]
    others = pulls[~own] - across[~own] @ w - run.times[-1] * (rows[~own] @ best.need() - 1)
    return w, float(np.exp(np.logaddexp.reduce(others, initial=-np.inf)) / weights.sum())
