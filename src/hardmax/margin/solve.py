"""Solve constraints for a `MaxMargin`: floats first, exact arithmetic for the last word."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax._lib.arrays import exponent, length, polar
from hardmax._lib.parallel import serial_blas
from hardmax.margin import exact as rational
from hardmax.margin.constraints import Bools, Constraints, Floats, Folded, Ints, folded, outer
from hardmax.margin.engines import DAQP_ROWS, NNLS_ROWS, by_daqp, by_kernel, by_nnls, pivoted, polish, seen_by
from hardmax.margin.kernel import FOUND, SKIPPED, active_sets, combine_each
from hardmax.margin.measure import EPS, Measured, Tight, enclose, enclose_gram, measure, rounding
from hardmax.margin.mirrors import PowerMap
from hardmax.margin.registry import Norm, register
from hardmax.margin.solution import MaxMargin, from_exact

EXACT_ROWS = 200  # up to here exact arithmetic settles whatever floats leave open
FARKAS_ROWS = 600  # a contradiction among this many rows is still checked exactly
TOLERANCE = 1e-9
TAME = 1e6  # rows and bounds within this factor of 1 need no scaling
CHUNK = 64  # problems of a stack that a thread takes at a time
TINY = float(np.finfo(np.float64).tiny)  # smaller floats have fewer digits
SPREAD = 20  # rows whose sizes differ by at most this power of two are scaled together


@dataclass(frozen=True)
class Scaled:
    """A problem with rows and bounds near 1, by powers of two, so that no square over- or underflows.

    ``row'_j = 2^-a_j row_j``, ``h'_j = 2^(b - a_j) h_j``, hence ``p' = 2^b p`` and ``l'_j = 2^(a_j + b)
    l_j``.
    """

    A: Floats
    h: Floats
    equal: Bools
    norms: Floats
    zero: Bools
    a: Ints
    b: int
    faithful: bool  # no bound underflowed
    gram: Floats | None = None
    factors: tuple[Floats, Floats] | None = None  # of rows that are outer products
    fold: Folded | None = None  # where A is in coordinates of the spans of the factors


def solve(constraints: Constraints, exact: bool = False) -> MaxMargin:
    """The minimum-norm p with ``row_j . p >= h_j`` (or ``= h_j``), certified, or a proof that there is none.

    Floats first: daqp for few rows, the pooled kernel for many, NNLS as a second opinion; then a polish and
    a measurement. A float answer is certified only if it proves the margin to a relative 1e-9. All others,
    and every infeasible verdict, go to rational arithmetic if there are at most 200 rows; with more the
    answer may be "undecided", with the interval that is known. ``exact=True`` requires rationals.
    """
    if not constraints.h.any():
        return from_exact(constraints, rational.zero(constraints))
    scaled = scale(constraints, fold=True)
    impossible = np.flatnonzero(scaled.zero & (constraints.h != 0))
    if len(impossible):  # 0 >= h > 0: B-DEF-10's duplicate of the selected key
        weights = [Fraction(0)] * constraints.count
        weights[int(impossible[0])] = Fraction(1 if constraints.h[impossible[0]] > 0 else -1)
        return from_exact(constraints, rational.Exact(False, tuple(weights)))
    small = constraints.count <= EXACT_ROWS
    with serial_blas():
        best, contradiction = _by_pivots(scaled), None
        if best is None or not proves(best[2]):
            if constraints.token_gram is not None:
                # rows from the spectral factor of the tokens' Gram matrix: only the engines see them
                values, vectors = np.linalg.eigh(np.ldexp(constraints.token_gram, -2 * int(scaled.a[0])))
                positive = values > rounding(len(values)) * max(values[-1], 0.0)
                tokens = vectors[:, positive] * np.sqrt(values[positive])
                scaled = replace(scaled, A=constraints.project(tokens))
            best, contradiction = _by_floats(scaled)
    if best is not None and scaled.faithful and proves(best[2]) and not exact:
        answer = unscaled(constraints, scaled, *best, status="certified")
        vector = best[0] if answer.p is None else answer.p.ravel()
        if kept(best[0], vector) and kept(best[1], np.asarray(answer.multipliers)):
            return answer
    if contradiction is not None:
        proof = _refute(constraints, contradiction)
        if proof is not None:
            return from_exact(constraints, proof)
    if small or exact:
        # Near infeasibility the suspected contradiction is the support: both are where NNLS ends.
        start = np.flatnonzero(best[1]) if best is not None else contradiction
        return from_exact(constraints, rational.decide(constraints, () if start is None else start.tolist()))
    if best is None:
        nothing = np.zeros(constraints.count)
        best = (np.zeros(math.prod(constraints.shape)), nothing, Measured(np.inf, 0.0, np.inf))
    return unscaled(constraints, scaled, *best, status="undecided")


def settle(constraints: Constraints, start: list[int]) -> MaxMargin | None:
    """The rational solution of a problem that has one, if it is small; by its Gram matrix if it has one."""
    if constraints.count > EXACT_ROWS:
        return None
    if constraints.origin is not None:
        constraints = constraints.by_gram()
    try:
        answer = rational.decide(constraints, start)
    except ValueError:  # by its rounding the Gram matrix has a negative eigenvalue: it decides nothing
        return None
    return from_exact(constraints, answer) if answer.feasible else None


def exactly(best: MaxMargin) -> rational.Exact | None:
    """The rational form of a certified solution, if it has one or is small enough to get one."""
    if best.exact is not None and best.constraints.origin is None:
        return best.exact
    assert best.multipliers is not None
    answer = settle(best.constraints, np.flatnonzero(best.multipliers).tolist())
    return None if answer is None else answer.exact


def _tame(rows: Floats) -> tuple[Floats, Ints]:
    """Scale rows by powers of two to a largest entry near 1: by one for all of them, or each by its own.

    The engines have absolute tolerances, so the unit of the rows must not reach them.
    """
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    a = np.frexp(largest)[1].astype(np.int64)
    used = a[largest > 0]
    if len(used) and used.max() - used.min() <= SPREAD:
        a[:] = used.max()
    return np.ldexp(rows, -a[:, None]), a


def scale(constraints: Constraints, fold: bool = False) -> Scaled:
    """Scale a problem to rows near 1; with ``fold`` very large outer products get few coordinates."""
    gram, factors, few = None, None, None
    if constraints.token_gram is not None:
        half = exponent(constraints.token_gram) // 2
        inner = np.ldexp(constraints.token_gram, -2 * half)
        A = np.zeros((constraints.count, 0))  # until `solve` needs rows
        gram = constraints.project(constraints.project(inner).T)
        a = np.full(constraints.count, half, dtype=np.int64)
        lengths = np.sqrt(np.maximum(np.diag(inner), 0.0))
        norms = lengths[constraints.plus] + np.where(constraints.minus >= 0, lengths[constraints.minus], 0.0)
    else:
        A, a = _tame(constraints.left())
        if constraints.right is not None and constraints.right_of is not None:
            right, a_right = _tame(constraints.right)
            factors = A, right[constraints.right_of]
            few = folded(constraints, A, right) if fold else None
            A = outer(*factors) if few is None else few.rows
            a = a + a_right[constraints.right_of]
        norms = np.sqrt(np.einsum("ij,ij->i", A, A))
        if few is not None and factors is not None:
            norms = np.linalg.norm(factors[0], axis=1) * np.linalg.norm(factors[1], axis=1)
    zero = norms == 0 if gram is None else constraints.plus == constraints.minus
    used = constraints.h != 0
    b = -int((np.frexp(constraints.h[used])[1] - a[used]).max())
    h = np.ldexp(constraints.h, b - a)
    faithful = bool((np.abs(h[used]) > 1e-290).all())
    A = np.ascontiguousarray(A)
    return Scaled(A, h, constraints.equal, norms, zero, a, b, faithful, gram, factors, few)


Candidate = tuple[Floats, Floats, Measured]


def _by_pivots(problem: Scaled) -> Candidate | None:
    """The solution by the Gram matrix alone, if rows have bounds > 0 and pivoting ends."""
    if problem.gram is None or problem.equal.any() or not (problem.h > 0).all():
        return None
    unit = problem.gram / problem.h / problem.h[:, None]
    if not np.isfinite(unit).all():
        return None
    try:
        weights = pivoted(unit, steps=0)
    except np.linalg.LinAlgError:
        return None
    return None if weights is None else _by_weights(problem, np.zeros(0), weights / problem.h)


def _by_floats(problem: Scaled) -> tuple[Candidate | None, Ints | None]:
    """The best float candidate, and rows suspected to contradict each other."""
    m, d = problem.A.shape
    A = problem.A
    if d > m:  # p lies in the span of the rows: m coordinates are enough
        A = np.ascontiguousarray(np.transpose(np.linalg.qr(A.T, mode="r")))
    best: Candidate | None = None
    contradiction: Ints | None = None
    for engine in (by_daqp if m <= DAQP_ROWS else by_kernel, *[by_nnls][: m <= NNLS_ROWS]):
        guess = engine(A, problem.h, problem.equal)
        if guess is not None and guess.contradiction:
            weight = np.abs(guess.multipliers) * problem.norms
            contradiction = np.flatnonzero(weight > 1e-12 * weight.max(initial=0.0))
        elif guess is not None:
            candidate = _evaluate(problem, guess.multipliers)
            if candidate is not None and (best is None or candidate[2].kkt < best[2].kkt):
                best = candidate
            if best is not None and proves(best[2]):
                break
    return best, contradiction


def _evaluate(problem: Scaled, guess: Floats) -> Candidate | None:
    polished = polish(problem.A, problem.h, problem.equal, guess)
    if polished is None or not polished[0].any():  # no p, or rounding took all of it
        return None
    p, weights = polished
    if problem.gram is not None:
        return _by_weights(problem, p, weights)
    h, equal, norms = problem.h, problem.equal, problem.norms
    used = np.flatnonzero(weights)
    if problem.fold is not None and problem.factors is not None:  # measured on the rows themselves
        (x, z), p = problem.factors, problem.fold.whole(p)
        Mp = np.einsum("ij,ij->i", x @ p.reshape(x.shape[1], z.shape[1]), z)
        u, terms = ((x[used].T * weights[used]) @ z[used]).ravel(), len(weights) + x.shape[1] + z.shape[1]
    else:
        Mp, u, terms = problem.A @ p, problem.A[used].T @ weights[used], len(p)
    norm = length(p)
    shift, shifted = correction(problem, Mp, norms * norm * rounding(terms))
    measured = measure(Mp, h, equal, weights, norms, norm, length(u), length(p - u), terms, shift, shifted)
    return p, weights, measured


def _by_weights(problem: Scaled, p: Floats, weights: Floats) -> Candidate:
    """Measure multipliers by the Gram matrix of the rows."""
    assert problem.gram is not None
    h, equal, norms = problem.h, problem.equal, problem.norms
    Mp, norm, lengths, terms = seen_by(problem.gram, weights, norms)
    shift, shifted = correction(problem, Mp, lengths * norm * rounding(terms))
    return p, weights, measure(Mp, h, equal, weights, lengths, norm, norm, 0.0, terms, shift, shifted)


def correction(problem: Scaled, Mp: Floats, error: Floats) -> tuple[float, Bools]:
    """Length of a step that makes the rows at hand hold exactly, and which rows these are.

    They are the equalities and the homogeneous rows that p may violate; where an equality is not homogeneous,
    all rows that p may violate, because p cannot be scaled. With Z these rows, Z q = h - Z p has a solution
    of length at most |h - Zp|/s, s the smallest singular value of Z, if Z has full row rank; numerically
    dependent rows prove nothing, and the length is infinite.
    """
    fixed = bool(problem.h[problem.equal].any())
    near = ((problem.h == 0) | fixed) & (Mp - problem.h < 4 * error)
    rows = (problem.equal | near) & ~problem.zero
    if not rows.any():
        return 0.0, problem.zero
    Z = problem.A[rows]
    values = np.linalg.svd(Z, compute_uv=False)
    if len(Z) > Z.shape[1] or values[-1] < 1e-6 * values[0]:
        return np.inf, rows | problem.zero
    missing = float(np.sqrt(np.sum((np.abs(Mp - problem.h)[rows] + error[rows]) ** 2)))
    return missing / (0.99 * float(values[-1])), rows | problem.zero


def proves(measured: Measured, tolerance: float = TOLERANCE) -> Any:
    """Whether a measurement certifies optimality, for one problem or for each of a batch."""
    narrow = measured.lower >= (1 - tolerance) * measured.upper
    return (measured.kkt <= tolerance) & (measured.lower > 0) & narrow


def _refute(constraints: Constraints, rows: Ints) -> rational.Exact | None:
    """An exact Farkas vector from the suspected rows; a subset that contradicts itself settles any size."""
    if len(rows) > FARKAS_ROWS:
        return None
    answer = rational.refute(constraints, rows.tolist())
    if answer is None and len(rows) <= EXACT_ROWS < constraints.count:
        part = rational.decide(constraints.subset(rows))
        if not part.feasible:
            weights = dict(zip(rows.tolist(), part.multipliers, strict=True))
            full = tuple(weights.get(j, Fraction(0)) for j in range(constraints.count))
            answer = rational.Exact(False, full)
    return answer


def kept(scaled: Floats, values: Floats) -> Any:
    """Whether undoing the scaling kept all digits: multipliers grow like 1/row^2 and may leave the floats."""
    inside = np.isfinite(values) & (np.abs(values) >= TINY)
    return np.all((scaled == 0) | inside, axis=-1)


def unscaled(
    constraints: Constraints, scaled: Scaled, p: Floats, weights: Floats, measured: Measured, status: Any
) -> MaxMargin:
    """Undo the scaling; powers of two change no digit."""
    with np.errstate(over="ignore", under="ignore"):
        vector = None if scaled.gram is not None else np.ldexp(p, -scaled.b)
        multipliers = np.ldexp(weights, -scaled.b - scaled.a)
    lower, upper = shifted_outwards(measured.lower, measured.upper, scaled.b)
    interval = float(lower) if scaled.faithful else 0.0, float(upper)  # a bound that became 0 is weaker
    return MaxMargin(constraints, status, "float", vector, multipliers, interval, float(measured.kkt))


def shifted_outwards(lower: Any, upper: Any, power: int) -> tuple[Any, Any]:
    """Return an interval, or a stack of them, times 2^power; ends that are not floats move outwards."""
    with np.errstate(over="ignore", under="ignore"):
        low, high = np.ldexp(lower, power), np.ldexp(upper, power)
        if np.all((low > TINY) & (high < np.inf)):
            return low, high
        low = np.where(np.ldexp(low, -power) > lower, np.nextafter(low, 0.0), low)
        high = np.where(np.ldexp(high, -power) < upper, np.nextafter(high, np.inf), high)
    return low, high


def in_chunks(work: Callable[[slice], None], count: int, workers: int) -> None:
    """Call ``work`` with slices of a stack of this many problems, in threads."""
    parts = [slice(start, start + CHUNK) for start in range(0, count, CHUNK)]
    if workers == 1 or len(parts) == 1:
        list(map(work, parts))
    else:
        with ThreadPoolExecutor(max_workers=workers) as pool:
            list(pool.map(work, parts))


def measured_each(
    A: Floats, h: Floats, equal: Bools, norms: Floats, p: Floats, weights: Floats, workers: int = 1
) -> Measured:
    """`measure` of each of a stack of problems in l2, (B, m, d), at its p and multipliers."""
    Mp, sizes = np.zeros(h.shape), np.ones((len(A), 3))
    weights = np.ascontiguousarray(weights)
    in_chunks(lambda of: combine_each(A[of], p[of], weights[of], Mp[of], sizes[of]), len(A), workers)
    return measure(Mp, h, equal, weights, norms, sizes[:, 0], sizes[:, 1], sizes[:, 2], A.shape[2])


def stacked(
    norm: Norm, problems: list[Constraints], p: Floats, weights: Floats, measured: Measured, good: Bools
) -> list[MaxMargin]:
    """The solutions of a stack in a norm, where they are good; the norm's `solve` of the others."""
    kkt, lower, upper = (np.asarray(x).tolist() for x in measured)
    intervals, name = list(zip(lower, upper, strict=True)), norm.name
    return [
        MaxMargin(c, "certified", "float", p[b], weights[b], intervals[b], kkt[b], norm=name)
        if good[b]
        else norm.solve(c)
        for b, c in enumerate(problems)
    ]


@dataclass(frozen=True)
class Euclidean(Norm):
    """l2, of vectors and, as the Frobenius norm, of matrices: the norm of gradient descent."""

    inner_product = ignores_zeros = True
    name, power = "l2", 2.0
    mirror = PowerMap(2.0)

    @property
    def dual(self) -> Norm:
        """The dual of l2 is l2."""
        return self

    def value(self, p: ArrayLike) -> float:
        """Return the Euclidean length of p, whatever its size."""
        return length(np.asarray(p, dtype=np.float64))

    def step(self, g: ArrayLike) -> Floats:
        """Return the unit vector g/|g|, zero if g is zero."""
        slope = np.asarray(g, dtype=np.float64)
        return np.asarray(polar(slope.ravel())[1].reshape(slope.shape))

    def of_rows(self, rows: Floats) -> Floats:
        """The length of every row."""
        return np.asarray(polar(np.asarray(rows, dtype=np.float64))[0])

    def over_l2(self, shape: tuple[int, ...]) -> float:
        """Return 1, as the norm is l2."""
        return 1.0

    def speed(self, F: Floats, parts: Callable[[], Floats] | None = None) -> tuple[Floats, Floats]:
        """Return F itself, and the identity as its derivative."""
        return F, np.eye(len(F))

    def refuse(self, constraints: Constraints, exact: bool = False) -> None:
        """Accept every problem, Gram matrices included."""

    def solve(self, constraints: Constraints, exact: bool = False) -> MaxMargin:
        """Return the certified p of least length, or a proof that there is none; see `solve`."""
        return solve(constraints, exact)

    def solve_many(
        self, problems: list[Constraints], A: Floats, h: Floats, equal: Bools, workers: int
    ) -> list[MaxMargin]:
        """By the compiled active-set method, in chunks; problems that it cannot certify go to `solve`."""
        B, m, d = A.shape
        norms, bounds = np.sqrt(np.einsum("bmd,bmd->bm", A, A)), np.abs(h)
        tame = (norms > 1 / TAME) & (norms < TAME) & ((h == 0) | (bounds > 1 / TAME)) & (bounds < TAME)
        solvable = tame.all(axis=1) & h.any(axis=1)
        p, weights, verdicts = np.zeros((B, d)), np.zeros((B, m)), np.where(solvable, FOUND, SKIPPED)

        def work(of: slice) -> None:
            active_sets(A[of], h[of], equal[of], norms[of], p[of], weights[of], verdicts[of])

        in_chunks(work, B, workers)
        measured = measured_each(A, h, equal, norms, p, weights, workers)
        return stacked(self, problems, p, weights, measured, (verdicts == FOUND) & proves(measured))

    def enclose(self, best: MaxMargin) -> Tight:
        """By intervals for the slacks, or exactly where p is (`margin.measure`)."""
        c, weights = best.constraints, best.multipliers
        none = np.zeros(c.count, dtype=bool)
        if best.slack is None or weights is None or best.p_norm == 0:
            return Tight(none, ~none if math.isnan(best.p_norm) else none)
        if best.exact is not None and c.origin is None:
            tight = np.array(best.exact.tight, dtype=bool)
            return Tight(tight, tight)
        if best.p is None:
            assert c.token_gram is not None
            return enclose_gram(c.gram(), c.h, c.equal, weights, _rounded(c.token_gram, 1))
        blur = 0.0 if c.origin is None else _rounded(c.origin, 16 * len(c.origin))
        few = None if c.right is None else folded(c, c.left(), c.right)
        rows, p = (c.rows(), best.p) if few is None else (few.rows, few.inside(best.p))
        if few is not None:  # by how much inner products of rows are off in coordinates
            blur = 64 * EPS * sum(c.shape) * float(np.square(rows).sum(axis=1).max())
        rows_of = enclose(rows[None], c.h[None], c.equal[None], weights[None], p[None], blur)
        return Tight(rows_of.certain[0], rows_of.possible[0])

    def decide(self, best: MaxMargin) -> MaxMargin:
        """The rational solution, up to 200 rows, if this one leaves open which rows are tight."""
        if best.multipliers is None or not best.enclosure.doubtful.any():
            return best
        return settle(best.constraints, np.flatnonzero(best.multipliers).tolist()) or best


def _rounded(gram: Floats, times: int) -> float:
    """The error of inner products of differences of tokens, after ``times`` roundings of the matrix."""
    return 64 * EPS * times * float(np.abs(gram).sum(axis=1).max(initial=0.0))


L2 = register(Euclidean())
