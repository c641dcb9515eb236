"""Conjectures that sound right, each a function for `hardmax hunt examples/hunts/conjectures.py:NAME`.

A conjecture takes a problem, and by keyword what is drawn with it, and returns how far it is from failing.
docs/findings.md tells what the hunts found.
"""

import warnings

import numpy as np
from flint import arb

import hardmax as hm
from hardmax.directions import general_position
from hardmax.theory import Hypothesis, Outcome
from hardmax.theory.enclosure import PROOF, selected
from hardmax.theory.paper_b.balls import BallProblem, has_balls
from hardmax.theory.paper_b.common import distinct_scores, longest_difference
from hardmax.theory.proof import at_precision
from hardmax.train.measures import smoothness

FAR = 1e4  # logits


def followed(problem, start):
    """The flow from a start, and what it selects; None if it stops or ties."""
    far = 10 * np.linalg.norm(start) + FAR / longest_difference(problem)
    path = hm.flow(problem, start=start, until_norm=far)
    chosen = path.selection()
    return path, chosen.tokens if path.event is None and chosen.is_unique else None


def proved(problem, start, chosen):
    """The proof that the flow selects these tokens, where there is one."""
    return PROOF if (selected(problem, start),) == chosen else None


def one_input(problem):
    """Distinct scores, one input, several keys: where the questions below are cleanest."""
    return (
        Hypothesis("n = 1", problem.n == 1, problem.n),
        distinct_scores(problem),
        Hypothesis("keys differ", longest_difference(problem) > 0),
        Hypothesis("general position", general_position(problem, rng=0).holds),
    )


def head_start(problem: hm.Problem, *, start, share=0.5) -> Outcome:
    """Of one input: if the best token has more than half of the attention at the start, it is selected."""
    met = one_input(problem)
    if not all(h.holds for h in met):
        return Outcome(met)
    best = int(np.argmax(problem.scores))
    attention = float(hm.attention(problem, start)[0][best])
    ahead = Hypothesis(f"attention above {share}", attention > share + 1e-12, attention)
    if not ahead.holds:
        return Outcome((*met, ahead))
    path, chosen = followed(problem, start)
    if chosen is None:
        return Outcome((*met, ahead))
    told = {"attention at the start": attention, "selected": chosen}
    if chosen == (best,):  # the lower the attention sinks on the way, the closer to losing it
        least = min(float(hm.attention(problem, p)[0][best]) for p in path.points)
        return Outcome((*met, ahead), least, told)
    return Outcome((*met, ahead), -1.0, told, proof=proved(problem, start, chosen))


def nearly_all(problem: hm.Problem, *, start) -> Outcome:
    """The same with 99 % of the attention."""
    return head_start(problem, start=start, share=0.99)


def descent_follows_flow(problem: hm.Problem, *, start) -> Outcome:
    """Of one input: descent with a stable step, 1.9/L, selects what the flow selects.

    L bounds the curvature, so that below 2/L the risk never rises. Once the prediction, in balls, exceeds the
    second best score, descent can select nothing but the best token.
    """
    met = (*one_input(problem), Hypothesis("a loss with balls", has_balls(problem)))
    if not all(h.holds for h in met):
        return Outcome(met)
    best = int(np.argmax(problem.scores))
    second = float(np.sort(problem.scores)[-2])
    rate = 1.9 / smoothness(problem).tight
    start = np.asarray(start, dtype=float)
    _, flows = followed(problem, start)
    if flows is None:
        return Outcome(met)
    steps, wins = _climbs(problem, start, rate, second)
    told = {"flow selects": flows, "rate": rate, "descent passes the second score at step": steps}
    if flows != (best,) and wins:
        return Outcome(met, -1.0, told, proof=proved(problem, start, flows))
    return Outcome(met, 1.0, told)


def _climbs(problem, start, rate, second, most=2000):
    """Descent in floats until the prediction exceeds a score, then the same steps in balls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = hm.descend(problem, hm.steps.GD(rate), steps=most, start=start, record=1)
    predictions = [float(hm.attention(problem, p)[0] @ problem.scores) for p in path.points]
    above = [k for k, u in enumerate(predictions) if u > second]
    if not above:
        return None, False

    def again():
        exact, p = BallProblem(problem), [arb(float(x)) for x in start]
        for _ in range(above[0] + 1):
            p = [x + arb(rate) * g for x, g in zip(p, exact.pull(p), strict=True)]
        return bool(exact.prediction(0, p) > arb(second))

    return above[0], at_precision(1024, again)


def parting(problem: hm.Problem, *, start) -> Outcome:
    """`descent_follows_flow` at the best of the starts between ``start`` and the origin."""
    met = one_input(problem)
    if not all(h.holds for h in met):
        return Outcome(met)
    low, high = np.zeros(problem.d), np.asarray(start, dtype=float)
    ends = [followed(problem, x)[1] for x in (low, high)]
    if None in ends or ends[0] == ends[1]:
        return Outcome((*met, Hypothesis("two basins", False)))
    for _ in range(12):
        middle = 0.5 * (low + high)
        chosen = followed(problem, middle)[1]
        if chosen == ends[0]:
            low = middle
        else:
            high = middle
    found = [descent_follows_flow(problem, start=x) for x in (low, high)]
    return min(found, key=lambda each: 9.0 if each.slack is None else each.slack)


def without_general_position(problem: hm.Problem) -> Outcome:
    """B-ERR-21 as it was stated first: distinct scores are enough for what attracts to be locally optimal."""
    found = hm.check("B-ERR-21", problem, count=2)
    met = tuple(h for h in found.hypotheses if h.id != "general position")
    return Outcome(met, found.slack, found.measured)
