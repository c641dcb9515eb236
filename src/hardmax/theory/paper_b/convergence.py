"""Theorem 2, and what is left of the belief that only locally optimal directions attract (B-ERR-21)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax._inputs import generator
from hardmax.dynamics.descent import descend
from hardmax.dynamics.flow import flow
from hardmax.dynamics.trajectory import misalignment
from hardmax.margin.assumptions import assumption_b
from hardmax.margin.attention import max_margin
from hardmax.margin.neighbours import is_locally_optimal
from hardmax.problem import Problem
from hardmax.selection.optimal import optimal_tokens
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import decreasing_loss, separable_best

FAR = 1e4  # the flow runs to this many times the norm of p_mm
ALIGNED = 1e-6
TRANSIENT = 0.1  # share of the steps after which the cosine must only rise
GROWTH = 0.02  # relative error allowed in d|p| / d log t = |p_mm|


def growth_rate(best_norm: float) -> float:
    """d|p| / d log t of the late flow, whose gradient decays like exp(-margin |p|)."""
    return best_norm


@statement(
    "B-THM-2",
    "Theorem 2: global convergence of descent",
    "Under Assumptions A and B, with separable best tokens and eta <= 1/L_p, |p| grows without bound, as "
    "|p_mm| log t; with one input the direction tends to p_mm.",
    kind="limit",
    errata=("B-ERR-01", "B-ERR-12", "B-ERR-14"),
)
def global_convergence(problem: Problem, *, start: Any = None) -> Outcome:
    """Gradient flow, which stands in for the many small steps of plain descent: late rate and limit."""
    B = assumption_b(problem)
    separable, best = separable_best(problem)
    hypotheses = (decreasing_loss(problem), Hypothesis("B-ASM-B", B.holds, B.witness), separable)
    if unmet([h for h in hypotheses if h.erratum is None]):
        return Outcome(hypotheses)
    if best is not None and best.is_feasible and best.direction is None:
        return unsaid(hypotheses)
    scale = best.norm if best is not None and best.direction is not None else 1.0
    late = flow(problem, start=start, until_norm=FAR * scale)
    found: dict[str, Any] = {"norm": late.norm, "event": late.event}
    if late.event is not None:
        return Outcome(hypotheses, -1.0, found, witness=late.p, paper_slack=-1.0)
    limit = max_margin(problem, late.selection().tokens)
    mid = int(np.searchsorted(late.norms, 0.1 * late.norm))
    rate = float((late.norms[-1] - late.norms[mid]) / (late.times[-1] - late.times[mid]))
    slacks = [1 - abs(rate / growth_rate(limit.norm) - 1) / GROWTH]
    found |= {"norm over log t": rate, "selected": late.selection().tokens}
    if best is not None and best.direction is not None:
        found["1 - cos to p_mm of the best tokens"] = late.misalignment(best)
        if problem.n == 1:
            slacks.append(1 - late.misalignment(best) / ALIGNED)
    slack = min(slacks)
    return Outcome(hypotheses, slack, found, witness=late.p if slack < 0 else None, paper_slack=slack)


@statement(
    "B-THM-2M",
    "Section 2: the correlation with p_mm keeps rising",
    "Under Theorem 2's conditions with one input, cos(p(t), p_mm) of normalised descent rises from some "
    "step on; the paper's wording is from the start.",
    kind="limit",
    label="measured",
    errata=("B-ERR-12",),
)
def correlation_rises(
    problem: Problem, *, start: Any = None, steps: int = 1000, rate: float = 0.1
) -> Outcome:
    """Find the last fall of the cosine; the transient may take a tenth of the steps."""
    B = assumption_b(problem)
    separable, best = separable_best(problem)
    hypotheses = (
        Hypothesis("n = 1", problem.n == 1, problem.n), Hypothesis("B-ASM-B", B.holds, B.witness), separable
    )  # fmt: skip
    if unmet(hypotheses) or best is None:
        return unsaid(hypotheses)
    path = descend(problem, steps, rate, start=start, record=1)
    gaps = path.misalignments(best)
    rises = np.diff(gaps) > 1e-15
    last = int(np.flatnonzero(rises)[-1]) + 1 if rises.any() else 0
    worst = int(np.nanargmax(gaps))
    first = 0 if path.points[0].any() else 1  # the origin has no direction
    found = {
        "last fall at step": last,
        "cosines": [1 - gaps[first], 1 - gaps[worst], 1 - gaps[-1]],
        "worst": worst,
    }
    return Outcome(
        hypotheses, 1 - last / (TRANSIENT * steps), found, {"step": worst, "p": path.points[worst]},
        paper_slack=1.0 if last == 0 else -1.0,
    )  # fmt: skip


@statement(
    "B-ERR-21",
    "Conjecture: almost every start tends to a locally optimal direction",
    "From almost every start, a gradient flow that diverges and selects one token per input tends to the "
    "max-margin direction of a locally optimal selection.",
    kind="limit",
    label="conjecture",
    errata=("B-ERR-21",),
)
def only_local_optima_attract(
    problem: Problem,
    *,
    starts: Any = None,
    rng: int = 0,
    count: int = 8,
    radius: float = 3.0,
    far: float = 1e4,
) -> Outcome:
    """Flow from random starts, or from the given ones: an exceptional start refutes the wording "every
    start".
    """
    given = starts is not None
    draws = np.asarray(starts, float) if given else radius * generator(rng).normal(size=(count, problem.d))
    hypotheses = (
        decreasing_loss(problem),
        Hypothesis("random starts", not given, "given" if given else count, erratum="B-ERR-21"),
    )
    ends, slack, witness = [], 1.0, None
    diverged = 0
    for start in draws:
        path = flow(problem, start=start, until_norm=far)
        if path.event is not None:
            ends.append({"event": path.event, "norm": path.norm})
            continue
        diverged += 1
        best = max_margin(problem, path.selection().tokens)
        gap = misalignment(path.p, best)
        ends.append({"selected": path.selection().tokens, "1 - cos": gap})
        good = 1 - gap / ALIGNED if is_locally_optimal(problem, best) else -1.0
        if good < slack:
            slack, witness = good, start
    found = {"ends": ends, "best tokens": optimal_tokens(problem).sets}
    return Outcome(
        hypotheses, slack, found, witness if slack < 0 else None, vacuous=not diverged, paper_slack=slack
    )
