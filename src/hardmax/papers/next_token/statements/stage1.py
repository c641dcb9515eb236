"""Stage 1: Lemmas 1 to 3, Proposition 1, Corollary 1, and the closed form that settles them (C-THM-S1)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib.expect import generator, whole
from hardmax.nexttoken.relations import MISSING, collocation
from hardmax.nexttoken.stages import (
    Floats,
    Ints,
    descend_stage_1,
    gradient_ov,
    misalignment_constant,
    stage_1,
)
from hardmax.nexttoken.training import FIRST_RATE
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, Unmet, statement
from hardmax.papers.checking.proof import Settled, settle_slack
from hardmax.papers.next_token.statements import common, printed
from hardmax.papers.next_token.statements.common import RELATIVE, SHARP, Subject
from hardmax.papers.next_token.statements.proofs import asked_of_stage_1, gain_over_star, gradient_in_balls
from hardmax.problem.readouts import OutputValue, star_norm, star_table

EXACT, EXACT_LOSS = 1e-12, 1e-10  # relative rounding of some thousand steps
SCALES = (0.01, 0.1, 1.0, 10.0, 100.0)
RATIO, LATE = 0.01, 100.0  # measured against predicted 1 - cos, once eta0 t is this many times the start
BY_STEPS = 1000  # longer runs go on in closed form


def collocated(data: Subject, *others: Hypothesis) -> tuple[Ints, Conditions]:
    """Return the collocation, and the condition that every token has its n(x); the test ends without it."""
    n = collocation(common.samples_of(data))
    missing = [common.samples_of(data).vocabulary[x] for x in np.flatnonzero(n == MISSING)]
    has_next = Hypothesis("every token has a next token", len(n) > 1 and not missing, missing)
    if not has_next.holds:
        raise Unmet((has_next, *others))
    return n, Conditions([has_next, *others])


def zero_start(start: Any) -> Hypothesis:
    """Return the hypothesis that W_ov starts at 0."""
    norm = 0.0 if start is None else float(np.linalg.norm(start))
    return Hypothesis("start at zero", norm == 0.0, norm)


def paper_rate(n: Ints, rate: float | None) -> float:
    """Return the given rate, or eta0 = 0.2/sqrt|V| as in the paper's experiment."""
    return common.step_size(rate) or FIRST_RATE / math.sqrt(len(n))


def tables(n: Ints, draws: int, rng: int) -> Iterator[Floats]:
    """Yield random W_ov of all scales, W_ov*, and one that misreads a token: Lemma 1 is tight there."""
    draw, star = generator(rng), star_table(n)
    for scale in SCALES:
        yield scale * star
        for _ in range(draws):
            yield scale * draw.standard_normal(star.shape)
    misread = 40 * star
    misread[:, 0] = 0.0
    misread[[n[0], (n[0] + 1) % len(n)], 0] = -40.0, 40.0
    yield misread


def path(n: Ints, start: Floats | None, rate: float, steps: int) -> Iterator[tuple[int, OutputValue]]:
    """Yield about thirty points of stage 1, with their times."""
    time = 0
    for t in np.unique(np.geomspace(1, whole("steps", steps, least=1), 30).astype(int)).tolist():
        W_ov = descend_stage_1(n, t - time, rate, start=start)
        time, start = t, W_ov.table
        yield t, W_ov


@statement(
    "C-LEM-1",
    "Lemma 1: the norm of W_ov grows linearly",
    "For any W_ov, -<W_ov*, grad L_0> >= |grad L_0|/sqrt 2, so that t eta0 + |W(0)| >= |W(t)| >= "
    "t eta0/(sqrt 2 |W_ov*|) - |W(0)|; the paper prints 2 for sqrt 2.",
    hunt={"draws": 10, "steps": 100},
)
def norm_of_ov(
    data: Subject, *, draws: int = 40, steps: int = 500, rate: float | None = None, rng: int = 0
) -> Outcome:
    """Test random tables, the worst table, and a path from a random start."""
    n, hypotheses = collocated(data)
    star, rate = star_table(n), paper_rate(n, rate)
    pulls = [(-float(np.vdot(star, gradient_ov(n, W)[0])), W) for W in tables(n, draws, rng)]
    ratio, worst = min(pulls, key=lambda pull: pull[0])
    start = 0.1 * generator(rng).standard_normal(star.shape)
    first, length = float(np.linalg.norm(start)), star_norm(n)
    walked = [(t, W_ov.norm) for t, W_ov in path(n, start, rate, steps)]

    def judged(constant: float) -> Settled:
        inside = [1 - norm / (t * rate + first) for t, norm in walked]
        above = [(norm + first) / (constant * t * rate / length) - 1 for t, norm in walked]
        path = common.guarded(min(above) + RELATIVE, *inside)

        def again() -> Any:
            _, star, G = gradient_in_balls(n, worst)
            return -(star @ G) / arb(constant) - 1 + arb(RELATIVE)

        slack, proof = settle_slack(ratio / constant - 1 + RELATIVE, again)
        return (path if slack is not None and path < slack else slack), proof

    measured = {"least ratio": ratio, "norms": walked, "|W(0)|": first, "|W_ov*|": length}
    slack = judged(SHARP)
    return Outcome(hypotheses, slack, measured, worst if slack[1] else None, paper_slack=judged(0.5))


@statement(
    "C-LEM-2",
    "Lemma 2: W_ov gains no more from the gradient than W_ov* does",
    "<W/|W|, grad L_0> >= <W_ov*/|W_ov*|, grad L_0> for every W_ov other than 0; the paper prints the right "
    "side times 1 + 2 |W_ov*| log(2V)/|W|.",
    hunt={"draws": 20},
)
def projection_of_ov(data: Subject, *, draws: int = 60, rng: int = 0) -> Outcome:
    """Compare two cosines with the gradient at many tables.

    L_0 is convex, and among tables of the norm c |W_ov*| it is least at c W_ov*, by convexity and symmetry;
    so <W - c W_ov*, grad L_0> >= 0, and no logarithm is needed.
    """
    n, hypotheses = collocated(data)
    star, size = star_table(n).ravel(), star_norm(n)
    tried = [(W, gradient_ov(n, W)[0].ravel()) for W in tables(n, draws, rng)]

    def judged(term: float) -> tuple[float, Settled]:
        gains = [float(gain_over_star(W.ravel(), star, G, size, term)) for W, G in tried]
        worst = tried[int(np.argmin(gains))][0]

        def again() -> Any:
            return gain_over_star(*gradient_in_balls(n, worst), arb(len(n) - 1).sqrt(), term) + arb(RELATIVE)

        return min(gains), settle_slack(min(gains) + RELATIVE, again)

    least, slack = judged(0.0)
    least_paper, paper_slack = judged(2 * math.log(2 * len(n)))
    measured = {"least difference": least, "least difference, with the logarithm": least_paper}
    return Outcome(hypotheses, slack, measured, paper_slack=paper_slack)


def wrong_logits(n: Ints, table: Floats) -> Floats:
    """Return B[v, x] of all v other than n(x), one row per x."""
    V = len(n)
    return table.T[np.arange(V)[None, :] != n[:, None]].reshape(V, V - 1)


@statement(
    "C-LEM-3",
    "Lemma 3: all wrong tokens are equally wrong",
    "From zero, (W_ov x)_i is the same for all i other than n(x), at every step.",
)
def equal_wrong_logits(
    data: Subject, *, start: Any = None, steps: int = 200, rate: float | None = None
) -> Outcome:
    """Measure the largest difference between wrong logits, over the margin."""
    n, hypotheses = collocated(data, zero_start(start))
    off = 0.0
    for _, W_ov in path(n, start, paper_rate(n, rate), steps):
        wrong = wrong_logits(n, W_ov.table)
        margin = W_ov.table[n, np.arange(len(n))] - wrong.mean(axis=1)
        off = max(off, float((np.ptp(wrong, axis=1) / np.abs(margin)).max()))
    return Outcome(hypotheses, 1 - off / EXACT, {"largest difference over the margin": off})


def exact_deviation(n: Ints, t: int, W_ov: OutputValue, rate: float) -> float:
    """Return the distance of a point from the closed form, in units of the rounding allowed."""
    closed = stage_1(n, t, rate)
    entries = float(np.abs(W_ov.table - closed.table).max()) / (t * rate)
    at_most = closed.stage_1_loss or math.ulp(0.0)  # a loss below every float is zero in both
    loss = abs(W_ov.stage_1_loss - closed.stage_1_loss) / at_most
    return max(entries / EXACT, W_ov.misalignment_ov / EXACT, loss / EXACT_LOSS)


@statement(
    "C-PROP-1",
    "Proposition 1: stage 1 converges in direction",
    "From zero, |W_ov| = t eta0, cos(W_ov, W_ov*) = 1 and L_0 <= V(V-1) exp(-eta0 t/|W_ov*|) for all t >= 1; "
    "the paper prints a sandwich for the norm and 1 - cos <= 5 |W_ov*|^3 log(2V) log t/(t eta0). Steps are "
    "taken up to t = 1,000; beyond, the printed bounds are held against the closed form (C-THM-S1) alone.",
    errata=("C-ERR-07", "C-ERR-08"),
)
def stage_1_converges(
    data: Subject, *, start: Any = None, steps: int = 900, rate: float | None = None
) -> Outcome:
    """Take steps up to t = 1,000 and compare them with the closed form.

    From there on W_ov is the closed form itself, which cannot differ from itself: only the paper's bounds are
    tested there, and ``measured`` reports how many steps were taken.
    """
    n, hypotheses = collocated(data, zero_start(start))
    hypotheses.need()
    rate, V = paper_rate(n, rate), len(n)
    walked = list(path(n, start, rate, min(steps, BY_STEPS)))
    if steps > BY_STEPS:
        walked.append((steps, stage_1(n, steps, rate)))
    sizes = printed.TextSizes(V, math.nan, 0, math.nan)
    off, excess, paper = 0.0, -math.inf, math.inf
    for t, W_ov in walked:
        margin = t * rate / sizes.star_ov
        if t <= BY_STEPS:
            off = max(off, exact_deviation(n, t, W_ov, rate))
            if loss := W_ov.stage_1_loss:
                excess = max(excess, math.log(loss) - math.log(V * (V - 1)) + margin)
        if t > 1:
            bound = printed.proposition_1(sizes, t, rate)
            below, above = W_ov.norm * 2 * sizes.star_ov / (t * rate) - 1, t * rate / W_ov.norm - 1
            paper = common.guarded(min(paper, bound - W_ov.misalignment_ov, below), above)
    last = {c: printed.proposition_1(sizes, steps, rate, c) for c in (printed.MAIN, printed.APPENDIX)}
    measured = {
        "deviation over rounding": off,
        "log of the loss over its bound": excess,
        "1 - cos": walked[-1][1].misalignment_ov,
        "allowed by constant": last,
        "t": steps,
        "steps taken, then the closed form": min(steps, BY_STEPS),
    }
    return Outcome(
        hypotheses,
        min(1 - off, EXACT_LOSS - excess),
        measured,
        paper_slack=paper,
        paper_vacuous=last[printed.MAIN] >= 1,
    )


@statement(
    "C-COR-1",
    "Corollary 1: the margins of W_ov after stage 1",
    "For T as large as the paper asks, every margin is T eta0/|W_ov*| = 4 |W_ov*| Delta with "
    "Delta = T eta0/(4 |W_ov*|^2); the paper puts them between Delta and 3 Delta.",
    hunt={"steps": 50000},
    errata=("C-ERR-09",),
)
def margins_of_ov(
    data: Subject, *, start: Any = None, steps: int = 900, rate: float | None = None
) -> Outcome:
    """Compute the margins from the closed form (C-THM-S1) at T = ``steps``, without taking steps.

    That they exceed 3 Delta is a comparison of integers, 16 (V - 1) > 9.
    """
    n, hypotheses = collocated(data, zero_start(start))
    hypotheses.need()
    rate, steps = paper_rate(n, rate), whole("steps", steps, least=1)
    sizes = printed.TextSizes(len(n), math.nan, 0, math.nan)
    needed = printed.steps_asked_of_stage_1(sizes, rate)
    hypotheses.append(Hypothesis("T as large as asked", steps >= needed, {"T": steps, "asked": needed}))
    table = stage_1(n, steps, rate).table
    margins = table[n, np.arange(len(n))][:, None] - wrong_logits(n, table)
    Delta = printed.margin_scale(sizes, steps, rate)
    least, most = float(margins.min()), float(margins.max())
    off = max(abs(x / (4 * sizes.star_ov * Delta) - 1) for x in (least, most))
    measured = {"margins": [least, most], "Delta": Delta, "margin over Delta": most / Delta}
    proved = 16 * (len(n) - 1) > 9 and asked_of_stage_1(len(n), steps, rate)
    return Outcome(
        hypotheses,
        1 - off / EXACT,
        measured,
        {"margin": most, "3 Delta": 3 * Delta},
        paper_slack=min(least / Delta - 1, 1 - most / (3 * Delta)),
        paper_proof="rational arithmetic: (margin/Delta)^2 = 16 (V - 1) > 9" if proved else None,
    )


@statement(
    "C-THM-S1",
    "Stage 1 in closed form",
    "From zero W_ov = t eta0 W_ov*/|W_ov*| exactly, so every margin is t eta0/|W_ov*| and "
    "L_0 = V log(1 + (V-1) exp(-margin)); from another start 1 - cos tends to K/t^2, with K from the column "
    "sums, which no step changes.",
    kind="limit",
    label="derived",
)
def stage_1_closed_form(
    data: Subject, *, start: Any = None, steps: int = 300, rate: float | None = None
) -> Outcome:
    """Compare each step with the closed form, or the last one with K/t^2."""
    n, hypotheses = collocated(data)
    rate = paper_rate(n, rate)
    if zero_start(start).holds:
        off = max(exact_deviation(n, t, W_ov, rate) for t, W_ov in path(n, None, rate, steps))
        return Outcome(hypotheses, 1 - off, {"deviation over rounding": off})
    needed = LATE * (float(np.linalg.norm(start)) + star_norm(n))
    walked = {"eta0 t": steps * rate, "needed": needed}
    hypotheses.append(Hypothesis("late enough", True if steps * rate >= needed else None, walked))
    gap = descend_stage_1(n, steps, rate, start=start).misalignment_ov
    predicted = misalignment_constant(start, rate) / steps**2
    measured = {"1 - cos": gap, "predicted": predicted}
    if predicted < EXACT**2:  # the column sums are zero but for rounding
        return Outcome(hypotheses, 0.0, measured, vacuous=True)
    measured["ratio"] = gap / predicted
    return Outcome(hypotheses, 1 - abs(measured["ratio"] - 1) / RATIO, measured)
