"""What training W by factors, W = K Q', makes small (D-THM-1), and when it is optimal (D-THM-2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hardmax._lib.expect import generator
from hardmax.margin.norms.factored import factored_point
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Hypothesis, Outcome, Unmet, need, statement
from hardmax.papers.geometry.statements.common import ROUNDING, has_queries, separable
from hardmax.problem import Problem

DRAWS = 200
ZERO = 1e-9  # singular values below this share of the largest are none
SOLVED = 1e-6  # how far the factored problem may be from its conditions


def balanced(W: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors K, Q of m columns with K Q' = W that share its singular values evenly."""
    U, values, Vt = np.linalg.svd(W)
    root, rank = np.sqrt(values), min(m, len(values))
    K, Q = np.zeros((len(W), m)), np.zeros((W.shape[1], m))
    K[:, :rank], Q[:, :rank] = U[:, :rank] * root[:rank], Vt.T[:, :rank] * root[:rank]
    return K, Q


def sizes(K: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """What joint training, block training and Muon make small."""
    first, second = (np.linalg.norm(each) for each in (K, Q))
    top, other = (np.linalg.norm(each, 2) for each in (K, Q))
    return np.array([(first**2 + second**2) / 2, max(first, second) ** 2, max(top, other) ** 2])


@statement(
    "D-THM-1",
    "What factors minimize",
    "Over all K Q' = W the least (|K|^2 + |Q|^2)/2 and the least max(|K|, |Q|)^2 are the nuclear norm of W, "
    "and the least max(|K|_op, |Q|_op)^2 is its spectral norm.",
    kind="finite",
    data="queries",
    label="derived",
    errata=("D-ERR-8",),
)
def factored_norms(
    problem: Problem, *, selection: Iterable[int] | None = None, factors: int | None = None, rng: int = 0
) -> Outcome:
    """For W the max margin in Frobenius norm: balanced factors attain the norms, random ones do not."""
    hypotheses = need(has_queries(problem))
    best = separable(problem, "l2", selection)
    W = np.asarray(best.need()).reshape(problem.shape)
    values = np.linalg.svd(W, compute_uv=False)
    rank = int((values > ZERO * values[0]).sum())
    m = rank if factors is None else factors
    hypotheses.need(Hypothesis("as many factors as the rank of W", m >= rank, {"factors": m, "rank": rank}))
    least = np.array([values.sum(), values.sum(), values[0]])
    K, Q = balanced(W, m)
    attained = sizes(K, Q) / least - 1
    chance, lowest = generator(rng), np.full(3, math.inf)
    for _ in range(DRAWS):
        A = np.eye(m) + chance.uniform(0.0, 1.0) * chance.normal(size=(m, m)) / math.sqrt(m)
        if np.linalg.cond(A) < 1e3:
            lowest = np.minimum(lowest, sizes(K @ A, Q @ np.linalg.inv(A).T) / least - 1)
    found = {
        "rank": rank,
        "norms": least.tolist(),
        "attained over them": (1 + attained).tolist(),
        "least of random factors over them": (1 + lowest).tolist(),
    }
    slack = min(float(lowest.min()), -float(np.abs(attained).max())) + ROUNDING
    return Outcome(hypotheses, slack / ROUNDING, found)


@statement(
    "D-THM-2",
    "When trained factors are the nuclear optimum",
    "A stationary point of min (|K|^2 + |Q|^2)/2 with <R_j, K Q'> >= 1, whose multipliers are unique and "
    "which leaves a column free, solves the nuclear-norm problem if and only if M = sum_j lambda_j R_j has "
    "|M|_op <= 1.",
    kind="finite",
    data="queries",
    label="derived",
)
def factored_optimum(
    problem: Problem, *, selection: Iterable[int] | None = None, rank: int = 1, rng: int = 0
) -> Outcome:
    """A stationary point of that rank, by sequential quadratic programming, held against the optimum."""
    hypotheses = need(has_queries(problem))
    best = separable(problem, "nuclear", selection)
    hypotheses.append(Hypothesis("a column is free", rank < min(problem.shape) or None, {"rank": rank}))
    factors = _stationary(best, rank, rng)
    if factors is None:
        raise Unmet((*hypotheses, Hypothesis("stationary", None, "no local minimum was found")))
    point = factored_point(problem, *factors, best.selection)
    hypotheses.need(
        Hypothesis("stationary", point.residual < SOLVED or None, point.residual),
        Hypothesis("unique multipliers", point.unique or None),
    )
    top, share = point.operator_norm, point.interval[0] / best.margin  # a share of 1 is optimal
    found = {"|M|_op": top, "margin over the largest": share}
    if top <= 1 + 10 * SOLVED:
        return Outcome(hypotheses, 1 - (1 - share) / (100 * SOLVED), found)
    if top < 1 + 1000 * SOLVED:  # too near to tell
        return Outcome(hypotheses, None, found)
    return Outcome(hypotheses, (1 - share) / SOLVED - 1, found)


def _stationary(best: MaxMargin, rank: int, rng: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The best of a few local minima of the factored problem; None if none was found that meets its rows."""
    from scipy.optimize import minimize

    chance, (rows, columns) = generator(rng), best.constraints.shape
    R = best.constraints.rows().reshape(-1, rows, columns)

    def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[: rows * rank].reshape(rows, rank), x[rows * rank :].reshape(columns, rank)

    def excess(x: np.ndarray) -> np.ndarray:
        K, Q = split(x)
        return np.einsum("jab,ac,bc->j", R, K, Q) - 1

    def slopes(x: np.ndarray) -> np.ndarray:
        K, Q = split(x)
        return np.concatenate(
            [(R @ Q).reshape(len(R), -1), (R.transpose(0, 2, 1) @ K).reshape(len(R), -1)], 1
        )

    ends: list[Any] = []
    for _ in range(6):
        start = math.sqrt(best.p_norm) * chance.normal(size=(rows + columns) * rank)
        ends.append(
            minimize(
                lambda x: float(x @ x) / 2,
                start,
                jac=lambda x: x,
                method="SLSQP",
                constraints={"type": "ineq", "fun": excess, "jac": slopes},
                options={"ftol": 1e-15, "maxiter": 500},
            )
        )
    good = [each for each in ends if float(excess(each.x).min()) > -1e-7]
    return split(min(good, key=lambda each: float(each.fun)).x) if good else None
