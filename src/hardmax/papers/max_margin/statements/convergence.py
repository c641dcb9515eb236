"""Theorem 2, and what is left of the belief that only locally optimal directions attract (B-ERR-21)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from flint import arb, fmpq, fmpq_mat

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax.directions.position import general_position
from hardmax.papers.checking import common
from hardmax.papers.checking.balls import BallProblem, has_balls, stationary_near
from hardmax.papers.checking.check import Hypothesis, Outcome, printed, statement, unmet, unsaid
from hardmax.papers.checking.enclosure import PROOF, selected
from hardmax.papers.checking.proof import at_precision, balls, length, vector
from hardmax.papers.max_margin.statements.lemmas import best_direction, equal_losers
from hardmax.problem import Problem

FAR = 1e4  # the flow runs at least to this many times the norm of p_mm
FARTHEST = 1e13  # margins: beyond, the rounding of p itself hides what is left of the limit
ALIGNED = 1e-6
TRANSIENT = 0.1  # share of the steps after which the cosine must only rise
EARLY = 40  # steps that are taken again in balls to prove a fall
GROWTH = 0.02  # relative error allowed in d|p| / d log t = |p_mm|


@statement(
    "B-THM-2",
    "Theorem 2: global convergence of descent",
    "Under Assumptions A and B, with separable best tokens and eta <= 1/L_p, |p| grows without bound, as "
    "|p_mm| log t; with one input the direction tends to p_mm.",
    kind="limit",
    errata=("B-ERR-01", "B-ERR-12", "B-ERR-14"),
)
def global_convergence(problem: Problem, *, start: Any = None) -> Outcome:
    """Gradient flow, which stands in for the many small steps of plain descent: late rate and limit.

    A flow that stops before it is late, for whatever reason, refutes nothing.
    """
    separable, best = common.separable_best(problem)
    hypotheses = (common.decreasing_loss(problem), equal_losers(problem), separable)
    if unmet([h for h in hypotheses if h.erratum is None]):
        return Outcome(hypotheses)
    if best is None or best.direction is None:
        if best is not None and best.is_feasible:
            return unsaid(hypotheses)
        # the paper's wording, for any start, without separable tokens: from a stationary point p never moves
        unit = common.unit_length(problem)
        path = hm.flow(problem, start=start, until_norm=FAR * unit)
        proof = None if path.event is None else stationary_near(problem, path.p, 1e-6 * unit)
        where = (None, None) if path.event is None else (path.p, (-1.0, proof))
        measured: dict[str, Any] = {"norm": path.p_norm, "event": path.event}
        return Outcome(hypotheses, measured=measured, witness=where[0], paper_slack=where[1])
    path = hm.flow(problem, start=start, until_norm=FAR * best.p_norm)
    measured = {"norm": path.p_norm, "event": path.event}
    chosen = path.selection
    if path.event is not None or not chosen.is_unique:
        return Outcome(hypotheses, None, measured)
    limit = hm.max_margin(problem, chosen.tokens)
    if limit.direction is None:
        return Outcome(hypotheses, None, measured)
    late = max(common.late_for(problem, limit), FAR * limit.p_norm)
    slack = None
    for radius in common.later(late, FARTHEST * limit.p_norm):
        if path.p_norm < radius:  # from the start again: the rate is over one clock
            path = hm.flow(problem, start=start, until_norm=radius)
        measured = {"norm": path.p_norm, "event": path.event, "late from": late, "selected": chosen.tokens}
        if path.event is not None or path.p_norm < 0.999 * radius or path.selection.sets != chosen.sets:
            return Outcome(hypotheses, None, measured)
        mid = int(np.searchsorted(path.p_norms, 0.1 * path.p_norm))
        rate = float((path.p_norms[-1] - path.p_norms[mid]) / (path.times[-1] - path.times[mid]))
        gap = path.cosine_distance(best)
        slack = 1 - abs(rate / limit.p_norm - 1) / GROWTH
        measured |= {"norm over log t": rate, "1 - cos to p_mm of the best tokens": gap}
        if problem.n == 1:
            slack = min(slack, 1 - gap / ALIGNED)
        if slack >= 0:
            break
    if slack is None or slack >= 0:
        return Outcome(hypotheses, slack, measured, paper_slack=slack)
    # with one input another limit is proved where all attention goes to a token that this one does not select
    other = selected(problem, np.zeros(problem.d) if start is None else start)
    is_other = other is not None and other not in hm.selected_tokens(problem, best.need()).sets[0]
    settled = slack, PROOF if is_other else None
    return Outcome(hypotheses, settled, measured, path.p, paper_slack=settled)


@statement(
    "B-THM-2M",
    "Section 2: the correlation with p_mm keeps rising",
    "Under Theorem 2's conditions with one input, cos(p(t), p_mm) of normalized descent rises from some "
    "step on; the paper's wording is from the start.",
    kind="limit",
    draws=("start",),
    hunt={"steps": 200},
    label="measured",
    errata=("B-ERR-12",),
)
def correlation_rises(
    problem: Problem, *, start: Any = None, steps: int = 1000, rate: float = 0.1
) -> Outcome:
    """Find the last fall of the cosine; the transient may take a tenth of the steps."""
    one = Hypothesis("n = 1", problem.n == 1, problem.n)
    hypotheses, best, _ = best_direction(problem, one, equal_losers(problem))
    # beyond the critical rate p swings about the limit forever (B-NEW-3); nan: not known
    critical = hm.limits.critical_rate(best)
    is_below = None if np.isnan(critical) else rate < critical
    hypotheses.append(Hypothesis("rate below the critical one", is_below, critical, "B-ERR-12"))
    path = hm.train(problem, hm.optim.Normalized(rate), steps=steps, start=start, record=1)
    gaps = path.cosine_distances(best)
    rises = np.diff(gaps) > 1e-15
    last = int(np.flatnonzero(rises)[-1]) + 1 if rises.any() else 0
    worst = int(np.nanargmax(gaps))
    first = 0 if path.points[0].any() else 1  # the origin has no direction
    cosines = [1 - gaps[first], 1 - gaps[worst], 1 - gaps[-1]]
    measured = {"last fall at step": last, "cosines": cosines, "worst": worst}
    clear = gaps[:-1] > 1e-10  # below, what rises and falls is rounding
    change = ((gaps[:-1] - gaps[1:]) / np.maximum(gaps[:-1], 1e-10))[clear & np.isfinite(gaps[:-1])]
    as_printed = float(change.min(initial=1.0)) if last else 1.0
    proof = _falls(problem, path, best, rate, last) if as_printed < 0 else None
    witness = {"step": worst, "p": path.points[worst]}
    slack = 1 - last / (TRANSIENT * steps)
    return Outcome(hypotheses, slack, measured, witness, paper_slack=(as_printed, proof))


def _falls(problem: Problem, path: hm.Run, best: hm.MaxMargin, rate: float, last: int) -> str | None:
    """Prove that the cosine falls at some early step: descend in balls, against p_mm in fractions."""
    exact = hm.max_margin(problem, best.selection, exact=True).exact
    if exact is None or exact.p is None or not has_balls(problem):
        return None
    target = exact.p

    def step() -> int | None:
        balls_of, point, before = BallProblem(problem), balls(path.points[0]), None
        aim = vector(arb(int(x.numerator)) / int(x.denominator) for x in target)
        for k in range(min(last, EARLY) + 1):
            if k or path.points[0].any():
                cosine = point @ aim / length(point)
                if before is not None and cosine < before:
                    return k
                before = cosine
            pull = balls_of.pull(point)
            point = point + arb(rate) * pull / length(pull)
        return None

    fallen = at_precision(256, step)
    return None if fallen is None else f"ball arithmetic, 256 bits: the cosine falls in step {fallen}"


@statement(
    "B-ERR-21",
    "Conjecture: almost every start tends to a locally optimal direction",
    "With distinct scores in every input and keys in general position: from almost every start, a gradient "
    "flow that diverges and selects one token per input tends to the max-margin direction of a locally "
    'optimal selection. The wordings without "almost" and without general position are false.',
    kind="limit",
    hunt={"count": 2},
    label="conjecture",
    errata=("B-ERR-21",),
)
def only_local_optima_attract(
    problem: Problem, *, rng: int = 0, count: int = 8, radius: float | None = None
) -> Outcome:
    """Flow from random starts until it is late for the selection that it makes.

    ``radius`` is the size of the starts, three over the longest key difference if absent. No start that is
    off its direction refutes anything: it may be late, or exceptional.
    """
    position = general_position(problem, limit=10_000, rng=0)
    hypotheses = (
        common.decreasing_loss(problem),
        common.distinct_scores(problem, "B-ERR-21"),
        Hypothesis("general position", position.holds, position.witness, "B-ERR-21"),
    )
    longest = common.longest_difference(problem)
    if unmet(hypotheses[:1]) or longest == 0:
        return unsaid(hypotheses)
    size = 3.0 / longest if radius is None else radius
    starts = size * generator(rng).normal(size=(count, problem.d))
    ends = [_where_to(problem, start) for start in starts]
    rooms = [room for _, room in ends if room is not None]
    proof = _every_start_is_false(problem)
    measured = {"ends": [end for end, _ in ends], "best tokens": hm.best_tokens(problem).sets}
    slack = min(rooms, default=1.0)
    paper_slack = (-1.0, proof) if proof else slack
    return Outcome(hypotheses, slack, measured, vacuous=not rooms, paper_slack=paper_slack)


def _where_to(problem: Problem, start: np.ndarray) -> tuple[dict[str, Any], float | None]:
    """Return the end of a flow, and how well it agrees with the conjecture; None where it says nothing."""
    path = hm.flow(problem, start=start, until_norm=FAR / common.longest_difference(problem))
    chosen = path.selection
    if path.event is not None or not chosen.is_unique:
        return {"event": path.event or "tie", "norm": path.p_norm}, None
    best = hm.max_margin(problem, chosen.tokens)
    if best.direction is None:
        return {"selected": chosen.tokens, "norm": path.p_norm}, None
    late = max(10 * common.late_for(problem, best), FAR * best.p_norm)
    if path.p_norm < late <= FARTHEST * best.p_norm:
        path = hm.flow(problem, start=path.p, until_norm=late)
    if path.event is not None or path.p_norm < 0.999 * late or path.selection.sets != chosen.sets:
        return {"event": path.event or "not late", "norm": path.p_norm}, None
    gap = hm.cosine_distance(path.p, best)
    local = hm.attracts(problem, best).verdict
    end = {"selected": chosen.tokens, "1 - cos": gap, "locally optimal": local}
    return end, None if local is None else 1 - gap / ALIGNED if local else -1.0


def _every_start_is_false(problem: Problem) -> str | None:
    """The proof that some start tends to no locally optimal direction, for one input of independent tokens.

    The start that it speaks of exists; it is not named. Basins are open, because Theorem 3's cones are and
    the flow is continuous; two of them cannot cover the space, which is connected.
    """
    if problem.n > 1 or len(set(problem.scores.tolist())) == 1:
        return None
    # if keys are affinely independent, exactly, and scores not all equal, the gradient vanishes nowhere
    keys = [[fmpq(*float(x).as_integer_ratio()) for x in row] for row in problem.keys[problem.tokens]]
    rows = [[x - y for x, y in zip(key, keys[0], strict=True)] for key in keys[1:]]
    if fmpq_mat(rows).rank() < len(rows):
        return None
    attract = (x for x in hm.attractors(problem) if x.direction is not None)
    if len(list(itertools.islice(attract, 2))) < 2:
        return None
    return (
        "no point is stationary, so every flow diverges, and the basins of two locally optimal directions "
        "are open: a start between them belongs to neither"
    )


@printed("B-ERR-14")
def no_critical_point(problem: Problem) -> Outcome:
    """Test the printed sentence: the risk has no finite critical point."""
    some = Hypothesis("scores differ in some input", bool(np.ptp(problem.scores) > 0))
    if unmet([some]):
        return Outcome((some,))
    path = hm.flow(problem, until_norm=1e3 * common.unit_length(problem))
    if path.event != "stationary point":
        measured = {"norm": path.p_norm, "event": path.event}
        return Outcome((some,), 1 / (1 + 1 / max(path.p_norm, 1e-9)), measured)
    proof = stationary_near(problem, path.p, 1e-6 * common.unit_length(problem))
    return Outcome((some,), (-1.0, proof), {"norm": path.p_norm}, path.p)
