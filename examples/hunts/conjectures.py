"""Conjectures that sound right, each a function for `hardmax hunt examples/hunts/conjectures.py:NAME`.

A conjecture takes a problem, and as keywords the options that are drawn with it, and returns its slack: how
far it is from failing. docs/research/findings.md reports the results of the hunts.
"""

import warnings
from fractions import Fraction

import numpy as np
from flint import arb

import hardmax as hm
from hardmax.directions.direction import local_constants
from hardmax.directions.position import general_position
from hardmax.dynamics.measures import smoothness
from hardmax.dynamics.train import train
from hardmax.papers.checking.check import Hypothesis, Outcome
from hardmax.papers.checking.common import distinct_scores, longest_difference
from hardmax.papers.checking.enclosure import PROOF, selected
from hardmax.papers.checking.proof import BallProblem, at_precision, balls, has_balls, length, settle_slack

FAR = 1e4  # logits
STEPS = 20_000
AWAY = 0.05  # of a unit vector in the norm: ends as far apart are different points of a face


def followed(problem, start):
    """The flow from a start, and what it selects; None if it stops or ties."""
    far = 10 * np.linalg.norm(start) + FAR / longest_difference(problem)
    path = hm.flow(problem, start=start, until_norm=far)
    chosen = path.selection
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
    """Of one input: if the best token has more than 99 % of the attention at the start, it is selected."""
    return head_start(problem, start=start, share=0.99)


def descent_follows_flow(problem: hm.Problem, *, start) -> Outcome:
    """Of one input: descent with a stable step, 1.9/L, selects what the flow selects.

    L bounds the curvature, so that with steps below 2/L the risk never rises. Once the prediction, computed
    in ball arithmetic, exceeds the second best score, descent can select only the best token.
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
    """Run descent in floats until the prediction exceeds a score, then the same steps in ball arithmetic."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = hm.train(problem, hm.optim.GD(rate), steps=most, start=start, record=1)
    predictions = [float(hm.attention(problem, p)[0] @ problem.scores) for p in path.points]
    above = [k for k, u in enumerate(predictions) if u > second]
    if not above:
        return None, False

    def again():
        exact, p = BallProblem(problem), balls(start)
        for _ in range(above[0] + 1):
            p = p + arb(rate) * exact.pull(p)
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
    found = hm.check_statement("B-ERR-21", problem, count=2)
    met = tuple(h for h in found.hypotheses if h.id != "general position")
    return Outcome(met, found.slack, found.measured)


# open questions of Adam, of faces and of the cone


def one_growth_rate(problem: hm.Problem, *, p) -> arb:
    """Where beta1^2 < beta2, the growth law of Adam (D-THM-9) has one root, whatever the rate.

    The root is unique for every rate exactly if the rate that belongs to a growth x increases with x. The
    result is the smallest logarithmic slope of that rate, times x, over a grid, in ball arithmetic. The betas
    are computed from p, since a hunt draws problems.
    """
    first = float(1 / (1 + np.exp(-p[0])))
    betas = first, float(first**2 + (1 - first**2) / (1 + np.exp(-p[-1])))
    return at_precision(128, lambda: least_rise(*betas))


def least_rise(beta1, beta2, points=400):
    """1 + x (b/(1 - b) - a/(1 - a)) with a = beta1 e^x, b = beta2 e^(2x): its least on a grid of (0, end)."""
    end = -arb(beta2).log() / 2
    if not arb(beta1) ** 2 < beta2 or not beta2 < 1:
        return arb(1)
    rises = []
    for k in range(1, points):
        x = end * k / points
        a, b = beta1 * x.exp(), beta2 * (2 * x).exp()
        rises.append(1 + x * (b / (1 - b) - a / (1 - a)))
    return min(rises, key=lambda ball: float(ball.mid()))


def chosen_in_face(problem, step, start, norm, steps=STEPS):
    """The end of a run in its own face, over the norm, and the face; None where that says nothing."""
    run = train([problem], step, steps=steps, start=start, workers=1)[0]
    if run.event is not None or not run.selection.is_unique:
        return None
    best = hm.max_margin(problem, run.selection, norm=norm)
    if not best.is_certified or best.face is None or best.face.unique or best.p_norm == 0:
        return None
    if hm.attracts(problem, best).value != "strong" or best.face.distance(run.p) > 1e-2:
        return None
    size = np.abs(run.p).max() if norm == "linf" else np.abs(run.p).sum()
    return run.p / size, best


def sign_takes_the_shortest(problem: hm.Problem) -> Outcome:
    """Sign descent from the origin ends at the point of its face (linf) that is shortest in l2."""
    return _shortest(problem, hm.optim.Sign(0.01 / _longest(problem)), "linf")


def adam_takes_the_shortest(problem: hm.Problem) -> Outcome:
    """Adam without epsilon from the origin ends at the point of its face (linf) that is shortest in l2."""
    return _shortest(problem, hm.optim.Adam(0.001 / _longest(problem), (0.9, 0.99), eps=0.0), "linf")


def coordinates_take_the_shortest(problem: hm.Problem) -> Outcome:
    """Coordinate descent from the origin ends at the point of its face (l1) that is shortest in l2."""
    return _shortest(problem, hm.optim.Coordinate(0.01 / _longest(problem)), "l1")


def sign_forgets_the_start(problem: hm.Problem, *, start) -> Outcome:
    """Where sign descent ends in a face does not depend on the start."""
    step = hm.optim.Sign(0.01 / _longest(problem))
    one, two = (chosen_in_face(problem, step, x, "linf") for x in (None, np.asarray(start, dtype=float)))
    if one is None or two is None or one[1].selection != two[1].selection:
        return Outcome((Hypothesis("both runs end in one face of a strong selection", False),))
    small = 0.01 * STEPS / _longest(problem) * 1e-2  # next to the way of a run
    if np.abs(start).max() > small:
        return Outcome((Hypothesis("the start is small next to the end", False, float(np.abs(start).max())),))
    off = float(np.abs(one[0] - two[0]).max())
    return Outcome(slack=AWAY - off, measured={"apart": off, "ends": (one[0].tolist(), two[0].tolist())})


def _longest(problem):
    return longest_difference(problem) or 1.0


def _shortest(problem, step, norm):
    found = chosen_in_face(problem, step, None, norm)
    if found is None:
        return Outcome((Hypothesis("the run ends in a face of a strong selection", False),))
    end, best = found
    short = np.array([float(x) for x in best.face.nearest([Fraction(0)] * problem.d)])
    off = float(np.abs(end - short).max())
    told = {"off the shortest": off, "end": end.tolist(), "shortest": short.tolist()}
    return Outcome(slack=AWAY - off, measured=told)


def cone_from_R_bar(problem: hm.Problem, *, selection, start, factor=1) -> Outcome:
    """The cone of Lemma 7 keeps every flow from R_bar on: on its rim the flow points inwards.

    Tested at the point of the rim toward ``start``, at the radius R_bar times ``factor``: ball arithmetic
    gives the sign of the change of the cosine with p_mm. The proof of Theorem 3 uses a far larger radius.
    """
    best = hm.max_margin(problem, selection)
    known = best.direction is not None and hm.attracts(problem, best).verdict is True
    met = (Hypothesis("locally optimal", known), Hypothesis("a loss with balls", has_balls(problem)))
    if not all(h.holds for h in met) or not len(best.support):
        return Outcome((*met, Hypothesis("a neighbor competes", known and bool(len(best.support)))))
    k, q = local_constants(problem, best), best.direction
    across = np.asarray(start) - (np.asarray(start) @ q) * q
    far = factor * k.R_bar * longest_difference(problem) < 1e12
    met += (
        Hypothesis("a rim", bool(np.linalg.norm(across) > 1e-6)),
        Hypothesis("logits resolved", far or None),
    )
    if not all(h.holds for h in met):
        return Outcome(met)
    across /= np.linalg.norm(across)
    p = (1 + 1e-9) * factor * k.R_bar * ((1 - k.mu) * q + np.sqrt(k.mu * (2 - k.mu)) * across)

    def inwards():
        point, unit = balls(p), balls(q)
        pull = BallProblem(problem).pull(point)
        along = (point @ unit) / (point @ point)
        return (pull @ unit - along * (pull @ point)) / length(pull)

    slack, proof = settle_slack(float(at_precision(256, inwards).mid()), inwards)
    return Outcome(met, slack, {"radius": float(np.linalg.norm(p)), "A": k.A}, p.tolist(), proof=proof)


def cone_from_16_R_bar(problem: hm.Problem, *, selection, start) -> Outcome:
    """The cone of Lemma 7 keeps every flow from 16 R_bar on."""
    return cone_from_R_bar(problem, selection=selection, start=start, factor=16)


def cone_from_1000_R_bar(problem: hm.Problem, *, selection, start) -> Outcome:
    """The cone of Lemma 7 keeps every flow from 1,000 R_bar on."""
    return cone_from_R_bar(problem, selection=selection, start=start, factor=1000)
