"""Lemmas 3 to 6: what the gradient by p looks like everywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib.expect import generator
from hardmax.directions.assumptions import assumption_b
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.measures import attention, loss, smoothness
from hardmax.dynamics.optim import GD
from hardmax.dynamics.train import train
from hardmax.margin.att_svm import max_margin
from hardmax.papers.checking.balls import BallProblem, settle
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement, unmet, unsaid
from hardmax.papers.checking.common import (
    ROUNDING,
    decreasing_loss,
    fixed_scores,
    longest_difference,
    separable_best,
    unit_directions,
    unit_length,
)
from hardmax.papers.checking.proof import balls, largest, least, length, vector
from hardmax.problem import Problem


def remainder(
    s: np.ndarray, keys: np.ndarray, scores: np.ndarray, q: np.ndarray, first: int
) -> tuple[Any, Any]:
    """Lemma 3's second-order remainder and its bound, of floats or of balls."""
    a, lost = keys @ q, np.delete(s, first).sum()
    longest = largest(np.sqrt((keys * keys).sum(axis=1)))
    bound = 2 * (largest(scores) - least(scores)) * (longest * length(q)) * lost**2
    covariance = s @ (a * scores) - (s @ a) * (s @ scores)
    pairs = ((a[first] - a) * s) @ (scores[first] - scores)
    return abs(covariance - pairs), bound


@statement(
    "B-THM-L3",
    "Lemma 3: first-order form of the key covariance",
    "For any p, q and any token, the covariance of k.q and the scores under the attention differs from its "
    "first-order sum by at most 2 Gamma A (1 - s)^2.",
    kind="finite",
    data="tokens",
    hunt={"draws": 100},
    errata=("B-ERR-16",),
)
def covariance_expansion(problem: Problem, *, rng: int = 0, draws: int = 2000) -> Outcome:
    """Sample p, q and tokens; draws with 1 - s below 1e-4, where rounding rules, are left out."""
    hypotheses = need(fixed_scores(problem))
    chance, worst, used = generator(rng), 0.0, 0
    witness: dict[str, Any] | None = None
    keys, scores = (problem.split(x) for x in (problem.keys[problem.tokens], problem.scores))
    longest = longest_difference(problem)
    if longest == 0:
        return unsaid(hypotheses)
    scale = 1 / longest
    for _ in range(draws):
        p = chance.normal(size=problem.d) * scale * 10.0 ** chance.uniform(-2, 1)
        q = chance.normal(size=problem.d)
        i = int(chance.integers(problem.n))
        s = attention(problem, p)[i]
        first = int(np.argmax(s)) if chance.random() < 0.5 else int(chance.integers(len(s)))
        off, bound = remainder(s, keys[i], scores[i], q, first)
        if np.delete(s, first).sum() <= 1e-4 or bound == 0.0:
            continue
        used += 1
        if off / bound > worst:
            worst, witness = float(off / bound), {"input": i, "token": first, "p": p, "q": q}
    found = {"largest remainder over bound": worst, "draws used": used}

    def room(exact: BallProblem) -> Any:
        assert witness is not None
        i, s = witness["input"], exact.attention(witness["input"], balls(witness["p"]))
        off, bound = remainder(s, exact.keys[i], exact.scores[i], balls(witness["q"]), witness["token"])
        return 1 - off / bound

    slack, proof = settle(problem, 1 + ROUNDING - worst, room)
    return Outcome(hypotheses, slack, found, witness, vacuous=used == 0, proof=proof)


@statement(
    "B-THM-L4",
    "Lemma 4: p_mm is a descent direction everywhere",
    "Under Assumption B, with separable best tokens, -grad L(p) has a positive product with p_mm at every p.",
    kind="finite",
    hunt={"draws": 50},
    errata=("B-ERR-01",),
)
def descent_everywhere(problem: Problem, *, rng: int = 0, draws: int = 400) -> Outcome:
    """Sample p over five decades of length and take the least cosine."""
    B = assumption_b(problem)
    separable, best = separable_best(problem)
    hypotheses = (decreasing_loss(problem), Hypothesis("B-ASM-B", B.holds, B.witness), separable)
    if unmet(hypotheses) or best is None or best.direction is None:
        return unsaid(hypotheses)
    chance, lowest, witness = generator(rng), math.inf, np.zeros(problem.d)
    unit = unit_length(problem)
    for scale in np.geomspace(1e-2 * unit, 1e3 * unit, draws):
        p = chance.normal(size=problem.d) * scale
        cosine = float(gradient(problem, p).direction @ best.direction)
        if cosine < lowest:
            lowest, witness = cosine, p

    def again(exact: BallProblem) -> Any:
        pull, p_mm = exact.pull(balls(witness)), exact_solution(problem)
        return pull @ p_mm / (length(pull) * length(p_mm))

    slack, proof = settle(problem, lowest or -1.0, again)  # a product of exactly zero is not descent
    found = {"least cosine of -grad L and p_mm": lowest}
    return Outcome(hypotheses, slack, found, witness, proof=proof)


def exact_solution(problem: Problem) -> np.ndarray:
    """p_mm of the best tokens in balls, from its rational solution; or balls that decide nothing."""
    best = max_margin(problem, exact=True)
    if best.exact is None or best.exact.p is None:
        return vector([arb(0, 1)] * problem.d)
    return vector(arb(x.numerator) / arb(x.denominator) for x in best.exact.p)


def radial_room(pull: np.ndarray, p: np.ndarray, along: np.ndarray, pi: Any) -> Any:
    """1 + pi minus how much more the gradient pulls along p than along p_mm, of floats or of balls."""
    return 1 + pi - pull @ p / length(p) / (pull @ along)


@statement(
    "B-THM-L5",
    "Lemma 5: far out, no direction beats p_mm (n = 1)",
    "With one input and Assumption B, for every pi > 0 there is a radius beyond which the gradient's "
    "component along p is at most 1 + pi times its component along p_mm; explicitly, log(T - 1)/(pi margin).",
    kind="finite",
    hunt={"draws": 60},
)
def radial_pull_bounded(problem: Problem, *, rng: int = 0, draws: int = 1440) -> Outcome:
    """The worst ratio over directions at growing radii, against the bound with its constant.

    Under Assumption B the pull along p/|p| is the mean of its leads over the losers, weighted by e^-lead |p|,
    so at most the least lead plus log(T - 1)/|p|; and no direction has a least lead above the margin.
    """
    B = assumption_b(problem)
    separable, best = separable_best(problem)
    hypotheses = (
        Hypothesis("n = 1", problem.n == 1, problem.n),
        Hypothesis("B-ASM-B", B.holds, B.witness),
        decreasing_loss(problem),
        separable,
    )
    if unmet(hypotheses) or best is None or best.direction is None:
        return unsaid(hypotheses)
    directions = unit_directions(problem.d, draws, generator(rng))
    losers = int(problem.sizes[0]) - 1
    reaches = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
    worst, rooms, where = [], [], []
    for reach in reaches:
        points = reach / best.margin * directions
        pulls = np.array([gradient(problem, p).direction for p in points])
        ratios = (pulls * directions).sum(axis=1) / (pulls @ best.direction)
        worst.append(float(ratios.max()))
        rooms.append(1 + math.log(losers) / reach - worst[-1])
        where.append((reach, points[int(ratios.argmax())]))
    reach, witness = where[int(np.argmin(rooms))]

    def room(exact: BallProblem) -> Any:
        p, p_mm = balls(witness), exact_solution(problem)
        pi = arb(losers).log() * length(p_mm) / length(p)
        return radial_room(exact.pull(p), p, p_mm / length(p_mm), pi)

    slack, proof = settle(problem, min(rooms) + ROUNDING, room)
    found = {"radii": [r / best.margin for r in reaches], "worst ratio": worst}
    return Outcome(hypotheses, slack, found, witness if min(rooms) < 0 else None, proof=proof)


@statement(
    "B-THM-L6",
    "Lemma 6: the risk is smooth and descent goes down",
    "The gradient is L_p-Lipschitz (and by the tighter constant), each step with eta <= 1/L_p lowers the "
    "risk by at least eta/2 |grad|^2, and the squared gradients have a finite sum.",
    kind="finite",
    hunt={"draws": 40, "steps": 40},
)
def smooth_and_descending(
    problem: Problem, *, rate: float | None = None, rng: int = 0, draws: int = 400, steps: int = 500
) -> Outcome:
    """Sample secants, then descend; ``rate`` is 1/L_p if absent."""
    bound = smoothness(problem)
    if bound.tight == 0.0:  # nothing competes: the risk is constant
        return unsaid((decreasing_loss(problem),))
    eta = 1 / bound.L_p if rate is None else rate
    hypotheses = (
        decreasing_loss(problem),
        Hypothesis("eta <= 1/L_p", eta <= (1 + 1e-12) / bound.L_p, eta * bound.L_p),
    )
    chance, curvature, unit = generator(rng), 0.0, unit_length(problem)
    secant = (np.zeros(problem.d), np.ones(problem.d))
    for scale in np.geomspace(1e-2 * unit, 1e1 * unit, draws):
        p = chance.normal(size=problem.d) * scale
        step = chance.normal(size=problem.d) * unit * 10.0 ** chance.uniform(-3, 0)
        change = np.linalg.norm(_plain_gradient(problem, p + step) - _plain_gradient(problem, p))
        if change / np.linalg.norm(step) > curvature:
            curvature, secant = float(change / np.linalg.norm(step)), (p, p + step)
    start = chance.normal(size=problem.d) * unit
    path = train(problem, GD(eta), steps=steps, record=1, start=start)
    risks = np.array([loss(problem, p) for p in path.points])
    squares = np.array([float(np.sum(_plain_gradient(problem, p) ** 2)) for p in path.points[:-1]])
    missed = risks[:-1] - risks[1:] - eta / 2 * squares
    t = int(np.argmin(missed))
    # the risk of a step is known to its last digit only; a sum of falls is the sum of what the steps miss
    noise = 1e-14 * float(np.abs(risks).max())
    limit = min(bound.tight, bound.L_p)

    def room(exact: BallProblem) -> Any:
        p, q = (balls(x) for x in secant)
        return limit * (1 + ROUNDING) - length(exact.pull(q) - exact.pull(p)) / length(q - p)

    def fall(exact: BallProblem) -> Any:
        p = balls(path.points[t])
        pull = exact.pull(p)
        return exact.risk(p) - exact.risk(p + arb(eta) * pull) - arb(eta) / 2 * (pull @ pull)

    smooth, smooth_proof = settle(problem, 1 + ROUNDING - curvature / limit, room)
    falls, falls_proof = settle(problem, float(missed[t]) + noise, fall)
    found = {
        "largest secant over L_p": curvature / bound.L_p,
        "largest secant over the tighter constant": curvature / bound.tight,
        "least fall minus eta/2 |grad|^2": float(missed[t]),
        "sum of |grad|^2": float(squares.sum()),
        "2/eta (L(0) - L(end))": 2 / eta * float(risks[0] - risks[-1]),
    }
    witness: Any = None
    if smooth_proof or falls_proof:
        witness = {"secant": secant} if smooth_proof else {"p": path.points[t], "step": t}
    slack = None if smooth is None or falls is None else min(smooth, falls)
    return Outcome(hypotheses, slack, found, witness, proof=smooth_proof or falls_proof)


def _plain_gradient(problem: Problem, p: np.ndarray) -> np.ndarray:
    pull = gradient(problem, p)
    return pull.direction * math.exp(pull.log_norm)
