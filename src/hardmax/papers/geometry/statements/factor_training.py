"""Conjectures about training W by its factors: which norm of W each rule makes small (D-CONJ-1, D-CONJ-2)."""

from __future__ import annotations

import itertools

import numpy as np

from hardmax._lib.expect import generator
from hardmax.dynamics.optim import Adam, Normalized, Optimizer, Sign, Spectral
from hardmax.dynamics.run import Run
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.common import fixed_scores
from hardmax.papers.geometry.statements.common import chosen, has_queries, separable, strong, trained
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

RATE = 0.03  # over the square root of the step
SMALL = 0.1  # size of the factors at the start
FALL = 0.7  # of the deficit over the last decade of steps, unless it is near
NEAR = 0.01
MOST = 0.05  # of the deficit at the end
WIDEST = 10  # rows and columns of W whose sign vectors are listed
PROVED = 1e-9  # relative distance of the two bounds of a margin

# the norm of W that a rule on its factors is expected to make small (D-THM-1)
NORMS = {"joint": "nuclear", "block": "nuclear", "muon": "spectral"}


def _trained(
    problem: Problem, step: Optimizer | tuple[Optimizer, Optimizer], m: int, steps: int, rng: int
) -> Run:
    """Factors of m columns, from a small random start."""
    draw = generator(rng)
    start = tuple(SMALL * draw.normal(size=(side, m)) for side in problem.shape)
    return trained(problem.factors(rank=m), step, steps=steps, record=[steps // 10], start=start)


def fallen(early: float, late: float) -> float:
    """How far a deficit is below what it may be at the end."""
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
    hypotheses = need(fixed_scores(problem), has_queries(problem))
    one = Normalized(RATE, decay=0.5)
    muon = Spectral(RATE, decay=0.5)
    steps_of: dict[str, Optimizer | tuple[Optimizer, Optimizer]] = {
        "joint": one,
        "block": (one, one),
        "muon": (muon, muon),
    }
    run = _trained(problem, steps_of[rule], max(problem.shape) + 1, steps, rng)
    said = chosen(run)
    need(*hypotheses, said)
    best = separable(problem, NORMS[rule], said.measured, given=tuple(hypotheses))
    goes_on = Hypothesis("the run goes on", run.event is None, run.event)
    attracts = strong(problem, best)
    early, late = (best.margin_gap(run.points[k]) for k in (-2, -1))
    found = {"norm": best.norm, "deficit after a tenth of the steps": early, "deficit": late}
    return Outcome((*hypotheses, said, attracts, goes_on), fallen(early, late), found)


def sign_matrices(shape: tuple[int, ...]) -> np.ndarray:
    """All u v' with entries of u and v of modulus one, as rows; u v' and (-u)(-v)' once."""
    left, right = (np.array(list(itertools.product((1.0, -1.0), repeat=side))) for side in shape)
    return np.einsum("ia,jb->ijab", left[: len(left) // 2], right).reshape(-1, shape[0] * shape[1])


def projective_norm(matrices: np.ndarray, W: np.ndarray) -> float | None:
    """The least sum of weights >= 0 with which the matrices add up to W; None if no solver tells."""
    from scipy.optimize import linprog

    size = np.abs(W).max()
    found = linprog(np.ones(len(matrices)), A_eq=matrices.T, b_eq=W.ravel() / size, method="highs")
    return float(found.fun) * size if found.status == 0 else None


def cut_norm(M: np.ndarray) -> float:
    """max u'Mv over u and v with entries of modulus one, the dual of the projective norm."""
    left = np.array(list(itertools.product((1.0, -1.0), repeat=len(M))))[: 2 ** (len(M) - 1)]
    return float(np.abs(left @ M).sum(axis=1).max())


def projective_margin(matrices: np.ndarray, rows: np.ndarray) -> float | None:
    """The largest margin of a W of projective norm one, rows (m, d_x, d_z); None if no solver proves it.

    A W proves it from below, and weights y of the rows by `cut_norm` of sum_j y_j R_j from above.
    """
    from scipy.optimize import linprog

    reach = -rows.reshape(len(rows), -1) @ matrices.T
    found = linprog(np.ones(len(matrices)), A_ub=reach, b_ub=-np.ones(len(rows)), method="highs")
    if found.status != 0:
        return None
    weights = np.maximum(-found.ineqlin.marginals, 0.0)
    lower = float((-reach @ found.x).min() / found.x.sum())
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
    small = Hypothesis(
        "rows and columns of W at most 10", sum(problem.shape) <= WIDEST or None, problem.shape
    )
    hypotheses = need(fixed_scores(problem), has_queries(problem), small)
    step = Sign(RATE, decay=0.5) if rule == "sign" else Adam(RATE, (0.9, 0.99), 0.0, decay=0.5)
    run = _trained(problem, (step, step), factors, steps, rng)
    said = chosen(run)
    need(*hypotheses, said)
    best = separable(problem, "l2", said.measured, given=tuple(hypotheses))
    matrices, rows = sign_matrices(problem.shape), best.constraints.rows()
    most = projective_margin(matrices, rows.reshape(-1, *problem.shape))
    deficits = []
    for p in (run.points[-2], run.points[-1]):
        size = projective_norm(matrices, np.asarray(p))
        if most is None or size is None:
            return Outcome((*hypotheses, said), None)
        deficits.append(1 - float((rows @ p).min()) / (size * most))
    early, late = deficits
    found = {"margin": most, "deficit after a tenth of the steps": early, "deficit": late}
    goes_on = Hypothesis("the run goes on", run.event is None, run.event)
    # which other selections attract in this norm is not known: one that scores best does in every norm
    is_best = best_tokens(problem).sets == tuple((t,) for t in said.measured)
    attracts = Hypothesis("the best tokens, one per input, are selected", is_best or None, said.measured)
    return Outcome((*hypotheses, said, attracts, goes_on), fallen(early, late), found)
