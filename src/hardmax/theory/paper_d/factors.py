"""What training W by factors, W = K Q', makes small (D-THM-1), and when it is optimal (D-THM-2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hardmax._lib.expect import generator
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement
from hardmax.theory.paper_d.common import ROUNDING, has_queries, separable

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
    "What factors minimise",
    "Over all K Q' = W the least (|K|^2 + |Q|^2)/2 and the least max(|K|, |Q|)^2 are the nuclear norm of W, "
    "and the least max(|K|_op, |Q|_op)^2 is its spectral norm.",
    kind="finite",
    label="derived",
    errata=("D-ERR-8",),
)
def factored_norms(
    problem: Problem, *, selection: Iterable[int] | None = None, factors: int | None = None, rng: int = 0
) -> Outcome:
    """For W the max margin in Frobenius norm: balanced factors attain the norms, random ones do not."""
    queries = has_queries(problem)
    best = separable(problem, "l2", selection) if queries.holds else queries
    if isinstance(best, Hypothesis):
        return Outcome((best,))
    W = np.asarray(best.need()).reshape(problem.shape)
    values = np.linalg.svd(W, compute_uv=False)
    rank = int((values > ZERO * values[0]).sum())
    m = rank if factors is None else factors
    enough = Hypothesis("as many factors as the rank of W", m >= rank, {"factors": m, "rank": rank})
    if not enough.holds:
        return Outcome((queries, enough))
    least = np.array([values.sum(), values.sum(), values[0]])
    K, Q = balanced(W, m)
    attained = sizes(K, Q) / least - 1
    chance, lowest = generator(rng), np.full(3, math.inf)
    for _ in range(DRAWS):
        A = np.eye(m) + chance.uniform(0.0, 1.0) * chance.normal(size=(m, m)) / math.sqrt(m)
        if np.linalg.cond(A) < 1e3:
            lowest = np.minimum(lowest, sizes(K @ A, Q @ np.linalg.inv(A).T) / least - 1)
    found = {"rank": rank, "norms": least.tolist(), "attained over them": (1 + attained).tolist(),
             "least of random factors over them": (1 + lowest).tolist()}  # fmt: skip
    slack = min(float(lowest.min()), -float(np.abs(attained).max())) + ROUNDING
    return Outcome((queries, enough), slack / ROUNDING, found)


def dual_matrix(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """M, the rows under the multipliers; K = M Q and Q = M' K at a stationary point."""
    return np.tensordot(weights, rows, 1)


@statement(
    "D-THM-2",
    "When trained factors are the nuclear optimum",
    "A stationary point of min (|K|^2 + |Q|^2)/2 with <R_j, K Q'> >= 1, whose multipliers are unique and "
    "which leaves a column free, solves the nuclear-norm problem if and only if M = sum_j lambda_j R_j has "
    "|M|_op <= 1.",
    kind="finite",
    label="derived",
)
def factored_optimum(
    problem: Problem, *, selection: Iterable[int] | None = None, rank: int = 1, rng: int = 0
) -> Outcome:
    """A stationary point of that rank, by sequential quadratic programming, held against the optimum."""
    queries = has_queries(problem)
    best = separable(problem, "nuclear", selection) if queries.holds else queries
    if isinstance(best, Hypothesis):
        return Outcome((best,))
    R = best.constraints.rows().reshape(-1, *problem.shape)
    free = Hypothesis("a column is free", rank < min(problem.shape) or None, {"rank": rank})
    K, Q = _stationary(best, R, rank, rng)
    weights, residual, unique = _multipliers(K, Q, R)
    hypotheses = (
        queries, free, Hypothesis("stationary", residual < SOLVED or None, residual),
        Hypothesis("unique multipliers", unique or None),
    )  # fmt: skip
    if not all(each.holds for each in hypotheses):
        return Outcome(hypotheses)
    top = float(np.linalg.norm(dual_matrix(weights, R), 2))
    share = 1 / (norm_of("nuclear").value(K @ Q.T) * best.margin)  # of the largest margin; 1 is optimal
    found = {"|M|_op": top, "margin over the largest": share}
    if top <= 1 + 10 * SOLVED:
        return Outcome(hypotheses, 1 - (1 - share) / (100 * SOLVED), found)
    if top < 1 + 1000 * SOLVED:  # too near to tell
        return Outcome(hypotheses, None, found)
    return Outcome(hypotheses, (1 - share) / SOLVED - 1, found)


def _stationary(best: MaxMargin, R: np.ndarray, rank: int, rng: int) -> tuple[np.ndarray, np.ndarray]:
    """The best of a few local minima of the factored problem, each scaled to meet its rows."""
    from scipy.optimize import minimize

    chance, (rows, columns) = generator(rng), R.shape[1:]

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
        start = math.sqrt(best.norm) * chance.normal(size=(rows + columns) * rank)
        ends.append(
            minimize(
                lambda x: float(x @ x) / 2, start, jac=lambda x: x, method="SLSQP",
                constraints={"type": "ineq", "fun": excess, "jac": slopes},
                options={"ftol": 1e-15, "maxiter": 500},
            )
        )  # fmt: skip
    good = [each for each in ends if float(excess(each.x).min()) > -1e-7]
    return split(min(good or ends, key=lambda each: float(each.fun)).x)


def _multipliers(K: np.ndarray, Q: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """The multipliers >= 0 of the tight rows, how far they are from stationary, and whether no others are."""
    from scipy.optimize import nnls

    tight = np.flatnonzero(np.einsum("jab,ac,bc->j", R, K, Q) < 1 + 1e-5)
    columns = [np.concatenate([(R[j] @ Q).ravel(), (R[j].T @ K).ravel()]) for j in tight]
    wanted = np.concatenate([K.ravel(), Q.ravel()])
    if not columns:
        return np.zeros(len(R)), math.inf, False
    system = np.stack(columns, axis=1)
    found, residual = nnls(system, wanted)
    values = np.linalg.svd(system, compute_uv=False)
    unique = len(tight) <= len(wanted) and values[-1] > 1e-7 * values[0]
    weights = np.zeros(len(R))
    weights[tight] = found
    return weights, float(residual / np.linalg.norm(wanted)), bool(unique)
