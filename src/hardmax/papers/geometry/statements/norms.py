"""Norms: which selections attract depends on them (D-THM-4, D-CONJ-0), and factors change them.

Training W by factors, W = K Q', makes another norm small: D-THM-1, D-THM-2, D-CONJ-1 and D-CONJ-2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.expect import generator
from hardmax.margin.norms.factored import factored_point
from hardmax.papers.checking.check import Hypothesis, Outcome, Unmet, need, printed, statement
from hardmax.papers.checking.common import distinct_scores, fixed_scores
from hardmax.papers.geometry.statements import common
from hardmax.papers.geometry.statements.common import ROUNDING, separable, trained
from hardmax.problem import Problem

LISTED = 64  # selections whose words are compared
FAR = 20.0  # gaps of the logits where a run starts
TILT = 0.03  # how far its start is off the max margin, over the norm of that
FALL = 0.7  # of a deficit: at the end it is at most this share of the largest on the way, unless it is near


@statement(
    "D-THM-4",
    "The attracting selections depend on the norm",
    "Some selection attracts (strong) in one of the norms and does not (no) in another.",
    kind="existential",
    label="derived",
    errata=("D-ERR-5",),
)
def attracting_selections(problem: Problem, *, norms: tuple[str, ...] = ("l1", "l2", "linf")) -> Outcome:
    """The words of every feasible selection, up to 64, in every norm; in l1 and linf by fractions."""
    hypotheses = need(
        fixed_scores(problem),
        Hypothesis("keys of several dimensions", problem.d > 1, problem.d),
        Hypothesis("several norms", len({hm.margin.norm(norm).name for norm in norms}) > 1, norms),
    )
    words = {
        row.selection: tuple(hm.attracts(problem, row.selection, norm=norm).written for norm in norms)
        for row in hm.selections(problem, limit=LISTED)
    }
    differing = {tokens: row for tokens, row in words.items() if {"strong", "no"} <= set(row)}
    measured = {"selections": len(words), "attracting in some norms only": len(differing)}
    return Outcome(hypotheses, 1.0 if differing else -1.0, measured, witness=differing)


@statement(
    "D-CONJ-0",
    "A strong selection attracts in its norm",
    "Steepest descent in the norm, with falling steps, from inside the cone of a strong selection keeps "
    "selecting it, and its deficit tends to zero. What is seen: it falls.",
    kind="limit",
    hunt={"steps": 5000},
    label="conjecture",
)
def strong_attracts(
    problem: Problem,
    *,
    norm: str = "linf",
    selection: Iterable[int] | None = None,
    steps: int = 20_000,
    rng: int = 0,
) -> Outcome:
    """From a point far out, a little off the max margin; step t moves no margin by more than 1/sqrt t."""
    best = separable(problem, norm, selection)
    word = hm.attracts(problem, best).written
    strong = need(Hypothesis("strong", word == "strong", word))
    p, rows, ball = best.need(), best.constraints.rows(), hm.margin.norm(norm)
    off = generator(rng).normal(size=p.shape)
    start = FAR * (p + TILT * best.p_norm / ball.value(off) * off)
    is_inside = bool((rows @ start.ravel() > FAR / 2).all())
    inside = Hypothesis("the start is in the cone", is_inside or None, best.margin_gap(start))
    rule = hm.optim.Normalized(1 / max(ball.dual.value(row) for row in rows), norm=norm, decay=0.5)
    run = trained(problem, rule, steps=steps, start=start)
    most, last = max(best.margin_gap(p) for p in run.points), run.margin_gap(best)
    end = run.selection
    if not end.is_unique:  # keys that doubles hardly tell apart
        return Outcome((*strong, inside, Hypothesis("the end selects one token per input", None)))
    stays = end.tokens == tuple(best.selection or ())
    measured = {"largest deficit": most, "at the end": last, "selection kept": stays, "event": run.event}
    none = most <= ROUNDING  # as in one dimension, where there is one direction
    slack = 0.0 if none else 1 - last / (FALL * most)
    return Outcome((*strong, inside), slack if stays else -1.0, measured, vacuous=none)


@printed("D-ERR-5")
def one_bias_for_all(problem: Problem) -> Outcome:
    """Test the printed sentence: a selection that attracts in l1 attracts in linf too, and vice versa."""
    several = Hypothesis("keys of several dimensions", problem.d > 1, problem.d)
    hypotheses, differing = need(distinct_scores(problem), several), {}
    for feasible in hm.selections(problem, limit=16):
        words = {hm.attracts(problem, feasible.selection, norm=name).written for name in ("l1", "linf")}
        if words == {"strong", "no"}:
            differing[str(feasible.selection)] = sorted(words)
    return Outcome(hypotheses, (-1.0, "fractions") if differing else 1.0, {"apart": differing})


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
    """Return the sizes of factors that joint training, block training and Muon make small."""
    first, second = np.linalg.norm(K), np.linalg.norm(Q)
    top, other = np.linalg.norm(K, 2), np.linalg.norm(Q, 2)
    return np.array([(first**2 + second**2) / 2, max(first, second) ** 2, max(top, other) ** 2])


@statement(
    "D-THM-1",
    "What factors minimize",
    "Over all K Q' = W the least (|K|^2 + |Q|^2)/2 and the least max(|K|, |Q|)^2 are the nuclear norm of W, "
    "and the least max(|K|_op, |Q|_op)^2 is its spectral norm.",
    data="queries",
    label="derived",
    errata=("D-ERR-8",),
)
def factored_norms(
    problem: Problem, *, selection: Iterable[int] | None = None, factors: int | None = None, rng: int = 0
) -> Outcome:
    """For W the max margin in Frobenius norm: balanced factors attain the norms, random ones do not."""
    hypotheses = need(common.has_queries(problem))
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
    measured = {
        "rank": rank,
        "norms": least.tolist(),
        "attained over them": (1 + attained).tolist(),
        "least of random factors over them": (1 + lowest).tolist(),
    }
    slack = min(float(lowest.min()), -float(np.abs(attained).max())) + ROUNDING
    return Outcome(hypotheses, slack / ROUNDING, measured)


@statement(
    "D-THM-2",
    "When trained factors are the nuclear optimum",
    "A stationary point of min (|K|^2 + |Q|^2)/2 with <R_j, K Q'> >= 1, whose multipliers are unique and "
    "which leaves a column free, solves the nuclear-norm problem if and only if M = sum_j lambda_j R_j has "
    "|M|_op <= 1.",
    data="queries",
    label="derived",
)
def factored_optimum(
    problem: Problem, *, selection: Iterable[int] | None = None, rank: int = 1, rng: int = 0
) -> Outcome:
    """A stationary point of that rank, by sequential quadratic programming, held against the optimum."""
    hypotheses = need(common.has_queries(problem))
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
    slack = None  # too near to tell
    if top <= 1 + 10 * SOLVED:
        slack = 1 - (1 - share) / (100 * SOLVED)
    elif top >= 1 + 1000 * SOLVED:
        slack = (1 - share) / SOLVED - 1
    return Outcome(hypotheses, slack, {"|M|_op": top, "margin over the largest": share})


def _stationary(best: hm.MaxMargin, rank: int, rng: int) -> tuple[np.ndarray, np.ndarray] | None:
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
        parts = (R @ Q, R.transpose(0, 2, 1) @ K)
        return np.concatenate([part.reshape(len(R), -1) for part in parts], 1)

    problem: dict[str, Any] = {
        "fun": lambda x: float(x @ x) / 2,
        "jac": lambda x: x,
        "method": "SLSQP",
        "constraints": {"type": "ineq", "fun": excess, "jac": slopes},
        "options": {"ftol": 1e-15, "maxiter": 500},
    }
    size = (rows + columns) * rank
    ends = [minimize(x0=math.sqrt(best.p_norm) * chance.normal(size=size), **problem) for _ in range(6)]
    good = [end for end in ends if float(excess(end.x).min()) > -1e-7]
    return split(min(good, key=lambda end: float(end.fun)).x) if good else None


RATE = 0.03  # over the square root of the step
SMALL = 0.1  # size of the factors at the start
NEAR = 0.01
MOST = 0.05  # of the deficit at the end
WIDEST = 10  # rows and columns of W whose sign vectors are listed
PROVED = 1e-9  # relative distance of the two bounds of a margin

# the norm of W that a rule on its factors is expected to make small (D-THM-1)
NORMS = {"joint": "nuclear", "block": "nuclear", "muon": "spectral"}


def _trained(problem: Problem, step: Any, m: int, steps: int, rng: int) -> hm.Run:
    """Factors of m columns, from a small random start."""
    draw = generator(rng)
    start = tuple(SMALL * draw.normal(size=(side, m)) for side in problem.shape)
    return trained(problem.factors(rank=m), step, steps=steps, record=[steps // 10], start=start)


def fallen(early: float, late: float) -> float:
    """Return how far a deficit is below what it may be at the end."""
    return float(1 - late / min(MOST, max(FALL * early, NEAR)))


@statement(
    "D-CONJ-1",
    "Which norm of W training by factors makes small",
    "Descent on K and Q, jointly or each by its own steps, tends to the max margin of W = K Q' in the "
    "nuclear norm, Muon on both to that in the spectral norm. What is seen: the deficit falls.",
    kind="limit",
    data="queries",
    hunt={"steps": 4000},
    label="conjecture",
    errata=("D-ERR-8",),
)
def norm_of_factors(problem: Problem, *, rule: str = "joint", steps: int = 20_000, rng: int = 0) -> Outcome:
    """From small factors with falling steps: ``rule`` is joint, block or muon, whose steps take longer."""
    hypotheses = need(fixed_scores(problem), common.has_queries(problem))
    one, muon = hm.optim.Normalized(RATE, decay=0.5), hm.optim.Spectral(RATE, decay=0.5)
    step = {"joint": one, "block": (one, one), "muon": (muon, muon)}[rule]
    run = _trained(problem, step, max(problem.shape) + 1, steps, rng)
    selected, best = common.run_margin(problem, run, NORMS[rule], *hypotheses)
    goes_on = Hypothesis("the run goes on", run.event is None, run.event)
    early, late = (best.margin_gap(run.points[k]) for k in (-2, -1))
    measured = {"norm": best.norm, "deficit after a tenth of the steps": early, "deficit": late}
    conditions = (*hypotheses, selected, common.strong(problem, best), goes_on)
    return Outcome(conditions, fallen(early, late), measured)


def sign_matrices(shape: tuple[int, ...]) -> np.ndarray:
    """All u v' with entries of u and v of modulus one, as rows; u v' and (-u)(-v)' once."""
    left, right = (np.array(list(itertools.product((1.0, -1.0), repeat=side))) for side in shape)
    return np.einsum("ia,jb->ijab", left[: len(left) // 2], right).reshape(-1, shape[0] * shape[1])


def projective_norm(matrices: np.ndarray, W: np.ndarray) -> float | None:
    """The least sum of weights >= 0 with which the matrices add up to W; None if no solver tells."""
    from scipy.optimize import linprog

    size = np.abs(W).max()
    best = linprog(np.ones(len(matrices)), A_eq=matrices.T, b_eq=W.ravel() / size, method="highs")
    return float(best.fun) * size if best.status == 0 else None


def cut_norm(M: np.ndarray) -> float:
    """Return max u'Mv over u and v with entries of modulus one, the dual of the projective norm."""
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(M))))[: 2 ** (len(M) - 1)]
    return float(np.abs(signs @ M).sum(axis=1).max())


def projective_margin(matrices: np.ndarray, rows: np.ndarray) -> float | None:
    """The largest margin of a W of projective norm one, rows (m, d_x, d_z); None if no solver proves it.

    A W proves it from below, and weights y of the rows by `cut_norm` of sum_j y_j R_j from above.
    """
    from scipy.optimize import linprog

    reach = -rows.reshape(len(rows), -1) @ matrices.T
    best = linprog(np.ones(len(matrices)), A_ub=reach, b_ub=-np.ones(len(rows)), method="highs")
    if best.status != 0:
        return None
    weights = np.maximum(-best.ineqlin.marginals, 0.0)
    lower = float((-reach @ best.x).min() / best.x.sum())
    upper = cut_norm(np.tensordot(weights, rows, 1)) / float(weights.sum())
    return lower if upper - lower <= PROVED * upper else None


@statement(
    "D-CONJ-2",
    "Sign descent and Adam on the factors",
    "Sign descent and Adam on K and Q tend to the max margin of W = K Q' in the norm whose ball is spanned "
    "by u v' with entries of modulus one. What is seen: the deficit falls.",
    kind="limit",
    data="queries",
    hunt={"steps": 4000},
    label="conjecture",
)
def signs_of_factors(
    problem: Problem, *, rule: str = "sign", factors: int = 20, steps: int = 20_000, rng: int = 0
) -> Outcome:
    """Falling steps from small factors, by ``rule`` sign or adam; norms by programs over all sign vectors.

    Few columns do not reach this norm, which is that of W = sum_k K_k Q_k' with as many as are needed.
    """
    narrow = sum(problem.shape) <= WIDEST or None
    small = Hypothesis("rows and columns of W at most 10", narrow, problem.shape)
    hypotheses = need(fixed_scores(problem), common.has_queries(problem), small)
    sign, adam = hm.optim.Sign(RATE, decay=0.5), hm.optim.Adam(RATE, (0.9, 0.99), 0.0, decay=0.5)
    step = sign if rule == "sign" else adam
    run = _trained(problem, (step, step), factors, steps, rng)
    selected, best = common.run_margin(problem, run, "l2", *hypotheses)
    matrices, rows = sign_matrices(problem.shape), best.constraints.rows()
    most = projective_margin(matrices, rows.reshape(-1, *problem.shape))
    sizes = [projective_norm(matrices, np.asarray(p)) for p in run.points[-2:]]
    if most is None or None in sizes:
        return Outcome((*hypotheses, selected), None)
    pairs = zip(run.points[-2:], sizes, strict=True)
    early, late = (1 - float((rows @ p).min()) / (size * most) for p, size in pairs if size is not None)
    measured = {"margin": most, "deficit after a tenth of the steps": early, "deficit": late}
    goes_on = Hypothesis("the run goes on", run.event is None, run.event)
    # which other selections attract in this norm is not known: one that scores best does in every norm
    is_best = hm.best_tokens(problem).sets == tuple((t,) for t in selected.measured)
    best_ones = "the best tokens, one per input, are selected"
    attracts = Hypothesis(best_ones, is_best or None, selected.measured)
    return Outcome((*hypotheses, selected, attracts, goes_on), fallen(early, late), measured)
