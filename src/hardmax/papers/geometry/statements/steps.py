"""Constant steps: mirror descent proves its margin (D-THM-3), other norms may lose it (D-THM-5, 6, 10).

Steps that remember: momentum freezes (D-THM-7), Adam grows by a law (D-THM-9), or runs away (D-THM-9b).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax.limits.late import period
from hardmax.papers.checking.balls import BallProblem, has_balls
from hardmax.papers.checking.check import Hypothesis, Outcome, need, printed, statement
from hardmax.papers.checking.common import distinct_scores, fixed_scores, late_for, unit_length
from hardmax.papers.checking.proof import at_precision, balls, middle
from hardmax.papers.geometry.statements import common
from hardmax.papers.geometry.statements.common import ROUNDING, separable, strong, trained
from hardmax.problem import Problem

NEAR = 0.02  # how far below and above a threshold the rate is taken
FAR = 100.0  # gaps of the logits where late runs start
KICK = 1e-3  # off the place of rest, over the rate
SETTLED = 1e-6  # a swing below this share of the rate is none
LONGEST = 60  # moves of a period that is looked for
SEEN = 240  # moves that have to repeat
MOVES = 60  # of coordinate descent, each decided in balls
CLOSE = 0.01  # how near a deficit is to that of the drift


def two_tokens(problem: Problem) -> Hypothesis:
    """The hypothesis that every input has two tokens."""
    return Hypothesis("two tokens per input", bool((problem.sizes == 2).all()), problem.sizes.tolist())


@statement(
    "D-THM-3",
    "Mirror descent proves its margin at any rate",
    "From the origin, p and the weights that the rows collected bound the max margin of l_power from both "
    "sides. Where no weight is negative the gap is the mean slack of the rows under them, over |p|.",
    label="derived",
)
def certificate_of_a_run(
    problem: Problem, *, power: float = 2.0, rate: float | None = None, steps: int = 2000
) -> Outcome:
    """Normalized mirror descent; the weights of a run that selects the better of two tokens are positive."""
    need(fixed_scores(problem))
    rule = hm.optim.Mirror(unit_length(problem) if rate is None else rate, power)
    run = trained(problem, rule, steps=steps)
    one, best = common.run_margin(problem, run, rule.norm)
    bounds, ball = run.margin_bounds(), hm.margin.norm(best.norm)
    rows, y = bounds.constraints.rows(), np.asarray(bounds.multipliers)
    y, size, margins = y / y.sum(), ball.value(run.p), rows @ run.p.ravel()
    low, high = float(margins.min()) / size, ball.dual.value(rows.T @ y)
    inside = min(best.margin / low - 1 if low > 0 else math.inf, high / best.margin - 1) + ROUNDING
    gap, predicted = high - low, float(y @ (margins - margins.min())) / size
    measured = {"margin": best.margin, "interval": (low, high), "gap": gap, "mean slack over norm": predicted}
    best_tokens = tuple((t,) for t in one.measured) == hm.best_tokens(problem).sets
    if not (two_tokens(problem).holds and best_tokens):
        # negative weights were left out: only the interval is claimed
        return Outcome((one,), inside, measured, vacuous=low <= 0)
    exact = 1 - abs(gap - predicted) / (ROUNDING * high)
    return Outcome((one,), min(inside, exact), {**measured, "identity": True})


@statement(
    "D-THM-5",
    "The rate above which steepest descent swings",
    "Late normalized steepest descent in l_p, 1 < p < infinity, settles if its rate is below "
    "2/lambda_max(H C), and swings above it.",
    kind="limit",
    label="derived",
)
def steepest_threshold(
    problem: Problem, *, norm: str = "l3", selection: Iterable[int] | None = None, steps: int = 2500
) -> Outcome:
    """A run far out near p_mm settles at half the threshold, then is kicked and goes on below and above.

    Some directions are slow to settle, and before that the threshold is another: then more steps are taken.
    """
    ball = hm.margin.norm(norm)
    smooth = Hypothesis("a norm without corners", ball.strictly_convex and not ball.of_matrix, norm)
    need(smooth)
    best = separable(problem, norm, selection)
    hypotheses = need(strong(problem, best))
    eta = hm.limits.critical_rate(best)
    hypotheses.need(Hypothesis("regular, with several support rows", bool(math.isfinite(eta)), eta))
    for many in (steps, 10 * steps, 100 * steps):

        def run(factor: float, start: np.ndarray, many: int = many) -> hm.Run:
            rule = hm.optim.Normalized(factor * eta, norm=norm)
            return trained(problem, rule, steps=many, start=start, record=range(many - 6, many + 1))

        at_rest = run(1 / 2, FAR * best.need())
        kicked = at_rest.p + KICK * eta * generator(0).normal(size=problem.d)
        runs = [run(factor, kicked) for factor in (1 - NEAR, 1 + NEAR)]
        goes_on = all(path.event is None for path in (at_rest, *runs))
        # how far the last steps turn back and forth
        turns = [np.abs(np.diff(np.asarray(path.points)[-5:], 2, axis=0)).max() for path in runs]
        below, above = (float(turn) / eta for turn in turns)
        measured = {"eta_c": eta, "swing over the rate, below": below, "above": above, "steps": many}
        # which of both happens is all that is claimed; nothing is said of runs that stopped
        slack = min(1 - below / SETTLED, above / SETTLED - 1) if goes_on else None
        if slack is None or slack >= 0:
            break
    return Outcome((smooth, *hypotheses), slack, measured)


@statement(
    "D-THM-6",
    "Sign and coordinate descent with a constant step need not maximize the margin",
    "At this rate the moves repeat forever, so that p grows along their mean, or not at all; and the margin "
    "of that mean is short of the largest in linf (sign) or l1 (coordinate).",
    kind="existential",
    label="derived",
    errata=("D-ERR-1", "D-ERR-2"),
)
def constant_steps(problem: Problem, *, rule: str = "sign", rate: float = 0.1, steps: int = 2000) -> Outcome:
    """The period of the late moves, their mean in fractions of the rate, and the run ten times as long.

    The rows of least margin under the mean all grow alike, so that the gradient repeats up to a factor, but
    for rows that fall behind exponentially: the moves go on if each has more room than those rows weigh.
    """
    need(fixed_scores(problem))
    step = hm.optim.Sign(rate) if rule == "sign" else hm.optim.Coordinate(rate)
    run = trained(problem, step, steps=steps, record=range(max(steps - SEEN, 0), steps + 1))
    _, best = common.run_margin(problem, run, step.norm)
    if run.event == "cycle":
        measured: dict[str, Any] = {"event": "cycle", "|p|": run.p_norm, "deficit": 1.0}
        return Outcome((Hypothesis("the run repeats itself", True, run.p),), 1.0, measured, witness=run.p)
    need(Hypothesis("the run goes on", run.event is None, run.event))
    moves = np.rint(np.diff(np.asarray(run.points)[1:], axis=0) / rate).astype(int)
    length = period(moves, min(LONGEST, len(moves) // 3), 0.0) if len(moves) else None
    hypotheses = need(Hypothesis("the moves repeat", length is not None or None, length))
    assert length is not None
    mean = [Fraction(int(total), length) for total in moves[-length:].sum(axis=0)]  # over the rate
    along, texts = np.array([float(x) for x in mean]), [str(x) for x in mean]
    deficit = best.margin_gap(along) if along.any() else 1.0
    room, behind = _room(problem, run, best, along, moves[-length:])
    hypotheses.need(
        Hypothesis("their mean is short of the max margin", deficit > ROUNDING, texts),
        Hypothesis("each move has room", room > behind or None, {"room": room, "others weigh": behind}),
    )
    longer = trained(problem, step, steps=10 * steps)
    later = 1.0 if longer.event == "cycle" else longer.margin_gap(best)  # in a cycle p does not grow at all
    measured = {"period": length, "deficit of the mean": deficit, "after ten times the steps": later}
    return Outcome(hypotheses, 1 - abs(later - deficit) / CLOSE, measured, witness=texts)


def _room(
    problem: Problem, run: hm.Run, best: hm.MaxMargin, along: np.ndarray, moves: np.ndarray
) -> tuple[float, float]:
    """The least share of the gradient by which a move of the period is decided; what lagging rows weigh."""
    room = math.inf
    for p, move in zip(np.asarray(run.points)[-len(moves) - 1 : -1], moves, strict=True):
        sizes = np.abs(hm.gradient(problem, p).direction)
        if best.norm == "linf":
            room = min(room, float(sizes[move != 0].min() / sizes.max()))
        else:
            others = np.sort(sizes)[::-1]
            room = min(room, float((others[0] - others[1]) / others[0]) if sizes.size > 1 else 1.0)
    rows, p = best.constraints.rows(), run.p
    pace = rows @ along
    slow = pace <= pace.min() + ROUNDING * abs(pace).max()
    gaps = (rows @ p)[~slow] - (rows @ p)[slow].min()
    return room, float(np.exp(-gaps.min())) * len(rows) * 10 if gaps.size else 0.0


@statement(
    "D-THM-10",
    "Normalized steps on one input at a time",
    "With two tokens per input and inputs in turn, p after a round is the rate times the sum of the steepest "
    "steps of the inputs' rows, whatever the norm: no max margin in general.",
    label="derived",
    errata=("D-ERR-3",),
)
def one_input_at_a_time(
    problem: Problem, *, norm: str = "l2", rate: float | None = None, rounds: int = 50
) -> Outcome:
    """A run in batches of one against the sum; its deficit for the best tokens is reported too."""
    need(fixed_scores(problem))
    hypotheses = need(two_tokens(problem), distinct_scores(problem))
    pace = unit_length(problem) if rate is None else rate
    run = trained(problem, hm.optim.Normalized(pace, norm=norm), steps=rounds * problem.n, batch=1)
    went = Hypothesis("the run took all its steps", run.event is None or None, run.event)
    ball, pairs = hm.margin.norm(norm), problem.split(problem.keys[problem.tokens])
    best = [int(np.argmax(scores)) for scores in problem.split(problem.scores)]
    # an input alone moves p along its better key minus the other one
    visits = [ball.step(keys[t] - keys[1 - t]) for keys, t in zip(pairs, best, strict=True)]
    off = float(ball.value(run.p - pace * rounds * np.sum(visits, axis=0))) / (pace * rounds * problem.n)
    measured = {"off, over the length of the way": off}
    solution = hm.max_margin(problem, norm=norm)
    if solution.is_certified and run.p.any() and solution.p_norm:
        measured["deficit"] = run.margin_gap(solution)
    return Outcome((*hypotheses, went), 1 - off / ROUNDING, measured)


@printed("D-ERR-2")
def coordinate_descent_grows(problem: Problem) -> Outcome:
    """Test the printed sentence: if the best tokens separate, coordinate descent by steps of 1 diverges.

    Its points are whole numbers. Each move is decided in balls, so that a point that comes again proves that
    the same moves come forever.
    """
    best = hm.best_tokens(problem)
    hypotheses = need(
        distinct_scores(problem),
        Hypothesis("rivals in some input", bool((problem.sizes > 1).any())),
        Hypothesis("separable", best.is_unique and hm.max_margin(problem, best.tokens).is_feasible),
        Hypothesis("a loss with balls", has_balls(problem)),
    )

    def walk() -> tuple[str, list[int]]:
        exact, p, visited = BallProblem(problem), [0] * problem.d, set()
        for _ in range(MOVES):
            if tuple(p) in visited:
                return "cycle", p
            visited.add(tuple(p))
            pull = exact.pull(balls(p))
            top = max(range(problem.d), key=lambda j: abs(middle(pull[j])))
            if pull[top].contains(0) or not all(abs(pull[top]) > abs(x) for x in np.delete(pull, top)):
                return "tie", p
            p[top] += 1 if pull[top] > 0 else -1
        return "on", p

    event, p = at_precision(256, walk)
    length = float(sum(map(abs, p)))
    if event == "tie":
        return Outcome(hypotheses, None, {"event": event})
    if event == "on":
        return Outcome(hypotheses, length / MOVES, {"|p|_1": length})
    proof = "every move decided in ball arithmetic, 256 bits"
    return Outcome(hypotheses, (-1.0, proof), {"comes again": p}, p)


BELOW, ABOVE = 0.8, 2.0  # shares of a threshold at which runs are taken
AHEAD = 40.0  # margin at which a late run begins at least
FARTHEST = 1e9  # margin up to which logits tell steps of a run
STEADY = 1e-3  # how much the growth may change over the last half of a run
LAW = 1e-2  # measured against predicted growth
LATE = 100.0  # log t to which a flow goes on
FALL = 0.5  # of the l2 deficit meanwhile
GROWN = 1e-6  # least relative growth of p meanwhile


@statement(
    "D-THM-7",
    "Momentum before normalization freezes",
    "With a rate below -log(beta)/margin the mean of gradients cannot outlive them. A run far above it "
    "freezes: it goes along a constant direction forever, whose margins exceed -log(beta)/rate.",
    kind="limit",
    label="derived",
    errata=("D-ERR-4",),
)
def frozen_momentum(
    problem: Problem,
    *,
    norm: str = "l2",
    beta: float = 0.9,
    selection: Iterable[int] | None = None,
    steps: int = 3000,
) -> Outcome:
    """One run at 0.8 of the threshold, one at twice the threshold.

    A gradient may be silent for thousands of steps and come back, along a move whose margins are too small to
    keep it down: what is frozen only for now leaves the claim open. So what can fail is the first half.
    """
    best = separable(problem, norm, selection)
    threshold = hm.limits.freezing_rate(best, beta)
    hypotheses = need(Hypothesis("beta > 0", math.isfinite(threshold), beta))
    rules = (hm.optim.Momentum(factor * threshold, beta, norm) for factor in (BELOW, ABOVE))
    slow, fast = (trained(problem, rule, steps=steps, record=[steps - 1]) for rule in rules)
    hypotheses.need(*(common.selects(run, best) for run in (slow, fast)))
    reached = reach(fast, best, beta)
    measured: dict[str, Any] = {"threshold": threshold}
    for name, run in (("below", slow), ("above", fast)):
        measured |= {f"{name}: event": run.event, f"{name}: deficit": run.margin_gap(best)}
    measured["above: reach"] = reached
    if frozen(slow, best, beta):
        return Outcome(hypotheses, -1.0, measured)
    settled = frozen(fast, best, beta) and slow.event is None
    return Outcome(hypotheses, reached - 1 if settled else None, measured)


def reach(run: hm.Run, best: hm.MaxMargin, beta: float) -> float:
    """Return how much the last move shrinks the gradient in a step, in units of what the mean shrinks by."""
    move = np.asarray(run.points)[-1] - np.asarray(run.points)[-2]
    return float(common.row_margins(best, move)[0]) / -math.log(beta)


def frozen(run: hm.Run, best: hm.MaxMargin, beta: float) -> bool:
    """Whether the gradient has no say any more, and never will: above 1 the reach is absorbing."""
    return run.event == "frozen momentum" and reach(run, best, beta) > 1


@statement(
    "D-THM-9",
    "The growth law of Adam with a constant rate",
    "Without epsilon, with beta1^2 < beta2 and where the growth is steady, the margins grow per step by the "
    "root of x = rate margin (1 - beta1)/(1 - beta1 e^x) sqrt((1 - beta2 e^2x)/(1 - beta2)), margin that of "
    "linf.",
    kind="limit",
    label="derived",
    errata=("D-ERR-3",),
)
def adam_grows(
    problem: Problem, *, rate: float = 0.001, betas: tuple[float, float] = (0.9, 0.99), steps: int = 30_000
) -> Outcome:
    """The growth in the last tenth of a run, once it is three waiting times old."""
    slow = Hypothesis("beta1^2 < beta2", betas[0] ** 2 < betas[1], betas)
    need(fixed_scores(problem), slow)
    record = [steps // 2, steps * 6 // 10, steps * 9 // 10]
    run = trained(problem, hm.optim.Adam(rate, betas, eps=0.0), steps=steps, record=record)
    _, best = common.run_margin(problem, run, "linf", slow)
    hypotheses = need(slow, strong(problem, best), common.no_still_coordinate(best))
    waiting = hm.limits.adam_waiting(rate, best.margin, betas)
    waited = Hypothesis("the run is three waiting times old", steps >= 3 * waiting, waiting)
    # growth of the least margin per step up to a snapshot, from the one before
    growth = np.diff(common.row_margins(best, np.asarray(run.points))) / np.diff(run.times)
    early, late = float(growth[1]), float(growth[-1])
    steady = Hypothesis("steady growth", abs(early - late) < STEADY * abs(late) or None, (early, late))
    hypotheses.need(waited, steady)
    law = hm.limits.adam_growth(rate, best.margin, betas)
    measured = {"measured growth": late, "predicted": law, "deficit": run.margin_gap(best)}
    return Outcome(hypotheses, 1 - abs(late / law - 1) / LAW, measured)


@statement(
    "D-THM-9b",
    "Adam with beta1^2 >= beta2 runs away above a rate",
    "Without epsilon the growth law has a root only up to a rate c(beta1, beta2)/margin. Late, where the "
    "rows of the margin alone shape the gradient, above it the first moment outlives the second and "
    "the steps grow without bound; below it they do not.",
    kind="limit",
    label="derived",
    errata=("D-ERR-3",),
)
def adam_runs_away(
    problem: Problem,
    *,
    betas: tuple[float, float] = (0.9, 0.5),
    selection: Iterable[int] | None = None,
    steps: int = 20_000,
) -> Outcome:
    """Two runs, 2 percent below and above the rate, from where it is late: at a margin of 40 or more.

    From the origin p may run away below it too, while other rows fall faster than those of the margin; what
    happens there is reported too.
    """
    best = separable(problem, "linf", selection)
    limit = hm.limits.runaway_rate(best.margin, betas)
    pole = Hypothesis("beta1^2 >= beta2", math.isfinite(limit), betas)
    hypotheses = need(pole, strong(problem, best), common.no_still_coordinate(best))
    # other rows weigh nothing from here on, however small their gap and however large their scores
    margin = max(AHEAD, best.margin * late_for(problem, best))
    hypotheses.need(Hypothesis("late within reach", margin <= FARTHEST or None, margin))
    ahead = margin * best.need()
    # tight rows whose score gaps are far from balanced turn a coordinate back at first, and fall faster so
    down = hm.gradient(problem, ahead).direction
    onward = bool((down * ahead > 0).all()) or None
    hypotheses.need(Hypothesis("descent goes on along it", onward, down.tolist()))
    below, above, whole = (
        trained(problem, hm.optim.Adam(factor * limit, betas, eps=0.0), steps=steps, start=start)
        for factor, start in ((1 - NEAR, ahead), (1 + NEAR, ahead), (1 - NEAR, None))
    )
    hypotheses.need(common.selects(below, best))
    measured = {
        "rate": limit,
        "margin at the start": margin,
        "below: event": below.event,
        "below: |p|": below.p_norm,
        "above: event": above.event,
        "below, from the origin: event": whole.event,
    }
    right = below.event is None and above.event == "runaway"
    return Outcome(hypotheses, 1.0 if right else -1.0, measured)


@statement(
    "D-CONJ-3",
    "Adam with epsilon > 0 tends to l2 in the end",
    "Once the gradient is far below epsilon, Adam is heavy-ball descent of rate over epsilon, and its "
    "direction goes on to the max margin in l2, not in linf.",
    kind="limit",
    hunt={"steps": 8000},
    label="conjecture",
    errata=("D-ERR-3",),
)
def adam_with_epsilon(
    problem: Problem, *, rate: float = 0.01, epsilon: float = 1e-3, steps: int = 20_000
) -> Outcome:
    """Adam until the gradient is below epsilon, then gradient flow, which a heavy ball follows."""
    positive = Hypothesis("epsilon > 0", epsilon > 0, epsilon)
    need(fixed_scores(problem), positive)
    run = trained(problem, hm.optim.Adam(rate, (0.9, 0.99), eps=epsilon), steps=steps)
    one, best = common.run_margin(problem, run, "l2", positive)
    size = math.exp(hm.gradient(problem, run.p).log_norm)
    small = Hypothesis("the gradient is below epsilon", size < epsilon or None, size)
    hypotheses = need(positive, small, strong(problem, best))
    late = hm.flow(problem, start=run.p, until_log_time=LATE)
    other = hm.max_margin(problem, one.measured, norm="linf")
    first, last = run.margin_gap(best), late.margin_gap(best)
    measured = {"l2 deficit after Adam": first, "l2 deficit late": last}
    if other.is_certified:
        deficits = {"linf deficit after Adam": run, "linf deficit late": late}
        measured |= {name: path.margin_gap(other) for name, path in deficits.items()}
    same = Hypothesis(
        "the selection is kept", common.chosen(late).measured == one.measured or None, late.event
    )
    longer = bool(late.p_norm > (1 + GROWN) * run.p_norm)  # else it is at a finite minimum
    grows = Hypothesis("p goes on", longer or None, late.p_norm)
    slack = 1 - last / (FALL * first) if first > 0 else 0.0
    return Outcome((*hypotheses, same, grows), slack, measured)
