"""Lemmas 3 to 6: what the gradient by p looks like everywhere."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hardmax._inputs import generator
from hardmax.dynamics.descent import descend
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.measures import attention, risk, smoothness
from hardmax.margin.assumptions import assumption_b
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.theory.paper_b.common import decreasing_loss, fixed_scores, separable_best, unit_directions


def remainder_bound(Gamma: float, A: float, lost: float) -> float:
    """Lemma 3's bound on the second-order remainder."""
    return 2 * Gamma * A * lost**2


@statement(
    "B-THM-L3",
    "Lemma 3: first-order form of the key covariance",
    "For any p, q and any token, the covariance of k.q and the scores under the attention differs from its "
    "first-order sum by at most 2 Gamma A (1 - s)^2.",
    kind="finite",
    errata=("B-ERR-16",),
)
def covariance_expansion(problem: Problem, *, rng: int = 0, draws: int = 2000) -> Outcome:
    """Sample p, q and tokens; draws with 1 - s below 1e-4, where rounding rules, are left out."""
    hypotheses = (fixed_scores(problem),)
    if unmet(hypotheses):
        return Outcome(hypotheses)
    chance, worst, used, witness = generator(rng), 0.0, 0, None
    keys, scores = (problem.split(x) for x in (problem.keys[problem.tokens], problem.scores))
    scale = 1 / max(float(np.linalg.norm(problem.keys, axis=1).max()), 1e-300)
    for _ in range(draws):
        p = chance.normal(size=problem.d) * scale * 10.0 ** chance.uniform(-2, 1)
        q = chance.normal(size=problem.d)
        i = int(chance.integers(problem.n))
        s, a, gamma = attention(problem, p)[i], keys[i] @ q, scores[i]
        first = int(np.argmax(s)) if chance.random() < 0.5 else int(chance.integers(len(s)))
        lost = float(np.delete(s, first).sum())
        bound = remainder_bound(
            float(np.ptp(gamma)), float(np.linalg.norm(keys[i], axis=1).max() * np.linalg.norm(q)), lost
        )
        if lost <= 1e-4 or bound == 0.0:
            continue
        used += 1
        exact = float(s @ (a * gamma) - (s @ a) * (s @ gamma))
        sum_of_pairs = float(((a[first] - a) * s) @ (gamma[first] - gamma))
        ratio = abs(exact - sum_of_pairs) / bound
        if ratio > worst:
            worst, witness = ratio, {"input": i, "token": first, "p": p, "q": q}
    found = {"largest remainder over bound": worst, "draws used": used}
    return Outcome(hypotheses, 1 + 1e-9 - worst, found, witness, vacuous=used == 0)


@statement(
    "B-THM-L4",
    "Lemma 4: p_mm is a descent direction everywhere",
    "Under Assumption B, with separable best tokens, -grad L(p) has a positive product with p_mm at every p.",
    kind="finite",
    errata=("B-ERR-01",),
)
def descent_everywhere(problem: Problem, *, rng: int = 0, draws: int = 400) -> Outcome:
    """Sample p over five decades of length and take the least cosine."""
    B = assumption_b(problem)
    separable, best = separable_best(problem)
    hypotheses = (decreasing_loss(problem), Hypothesis("B-ASM-B", B.holds, B.witness), separable)
    if unmet(hypotheses) or best is None or best.direction is None:
        return unsaid(hypotheses)
    chance, least, witness = generator(rng), math.inf, None
    for scale in np.geomspace(1e-2, 1e3, draws):
        p = chance.normal(size=problem.d) * scale
        cosine = float(gradient(problem, p).direction @ best.direction)
        if cosine < least:
            least, witness = cosine, p
    # a product of exactly zero is no descent
    return Outcome(hypotheses, least or -1.0, {"least cosine of -grad L and p_mm": least}, witness)


def radial_bound(pi: float) -> float:
    """How much more the gradient may pull along p than along p_mm."""
    return 1 + pi


@statement(
    "B-THM-L5",
    "Lemma 5: far out, no direction beats p_mm (n = 1)",
    "With one input and Assumption B, for every pi > 0 there is a radius beyond which the gradient's "
    "component along p is at most 1 + pi times its component along p_mm.",
    kind="existential",
)
def radial_pull_bounded(problem: Problem, *, rng: int = 0, draws: int = 1440) -> Outcome:
    """The worst ratio over directions at growing radii: it must not grow, and end within 1e-3 of 1."""
    B = assumption_b(problem)
    separable, best = separable_best(problem)
    hypotheses = (
        Hypothesis("n = 1", problem.n == 1, problem.n), Hypothesis("B-ASM-B", B.holds, B.witness), separable
    )  # fmt: skip
    if unmet(hypotheses) or best is None or best.direction is None:
        return unsaid(hypotheses)
    directions = unit_directions(problem.d, draws, generator(rng))
    radii = [R / best.margin for R in (1.0, 3.0, 10.0, 30.0, 100.0)]
    worst = []
    for R in radii:
        pulls = np.array([gradient(problem, R * q).direction for q in directions])
        worst.append(float(((pulls * directions).sum(axis=1) / (pulls @ best.direction)).max()))
    growth = max(later - earlier for earlier, later in itertools.pairwise(worst))
    slack = min(1e-6 - growth, radial_bound(1e-3) - max(worst[3:]))
    return Outcome(hypotheses, slack, {"radii": radii, "worst ratio": worst})


@statement(
    "B-THM-L6",
    "Lemma 6: the risk is smooth and descent goes down",
    "The gradient is L_p-Lipschitz (and by the tighter constant), each step with eta <= 1/L_p lowers the "
    "risk by at least eta/2 |grad|^2, and the squared gradients have a finite sum.",
    kind="finite",
)
def smooth_and_descending(
    problem: Problem, *, rate: float | None = None, rng: int = 0, draws: int = 400, steps: int = 500
) -> Outcome:
    """Sample secants, then descend; ``rate`` is 1/L_p if absent."""
    bound = smoothness(problem)
    eta = 1 / bound.L_p if rate is None else rate
    hypotheses = (
        decreasing_loss(problem),
        Hypothesis("eta <= 1/L_p", eta <= (1 + 1e-12) / bound.L_p, eta * bound.L_p),
    )
    if bound.tight == 0.0:  # nothing competes: the risk is constant
        return unsaid(hypotheses)
    chance, curvature = generator(rng), 0.0
    for scale in np.geomspace(1e-2, 1e1, draws):
        p = chance.normal(size=problem.d) * scale
        step = chance.normal(size=problem.d) * 10.0 ** chance.uniform(-3, 0)
        change = np.linalg.norm(_plain_gradient(problem, p + step) - _plain_gradient(problem, p))
        curvature = max(curvature, float(change / np.linalg.norm(step)))
    path = descend(problem, steps, eta, normalized=False, record=1, start=chance.normal(size=problem.d))
    risks = np.array([risk(problem, p) for p in path.points])
    squares = np.array([float(np.sum(_plain_gradient(problem, p) ** 2)) for p in path.points[:-1]])
    falls = risks[:-1] - risks[1:]
    missed = falls - eta / 2 * squares
    t = int(np.argmin(missed))
    budget = 2 / eta * float(risks[0] - risks[-1])
    slack = min(
        1 - curvature / bound.tight, 1 - curvature / bound.L_p,
        float(missed.min()) + 1e-14, (budget - float(squares.sum())) + 1e-14 * steps / eta,
    )  # fmt: skip
    found = {
        "largest secant over L_p": curvature / bound.L_p, "largest secant over the tighter constant":
        curvature / bound.tight, "least fall minus eta/2 |grad|^2": float(missed.min()),
        "sum of |grad|^2": float(squares.sum()), "2/eta (L(0) - L(end))": budget,
    }  # fmt: skip
    return Outcome(hypotheses, slack, found, witness={"step": t} if missed[t] < -1e-14 else None)


def _plain_gradient(problem: Problem, p: np.ndarray) -> np.ndarray:
    pull = gradient(problem, p)
    return pull.direction * math.exp(pull.log_norm)
