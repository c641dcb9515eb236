"""Global regularisation path: the point of least risk in every ball (B-ALG-1, B-THM-1, B-THM-8)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance, lengths
from hardmax.limits.late import path_offset
from hardmax.limits.searching import (
    NOISE,
    Landscape,
    Minimum,
    attracting_directions,
    minimize,
    random_directions,
    scan_circle,
)
from hardmax.margin.att_svm import SetMaxMargin, max_margin, set_max_margin
from hardmax.problem import Problem, need_problem
from hardmax.problem.coordinates import scaled
from hardmax.problem.selection import best_tokens, chosen_slots, selected_tokens

# Starts agree when they end this close, in radians: what B-ALG-1 asks of a path that is to be believed.
AGREE = 1e-6

# As good as the winner and this far from it, over R: another minimiser, not the same one less well resolved.
APART = 1e-3

# Radii of the continuation grow by this factor.
STRIDE = 1.5


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """p(R) = argmin of the risk over |p| <= R, at every R in ``radii``.

    ``log_excess`` is the log of the risk above that of attending to the best tokens only. ``interior`` says
    where a point inside the ball beats its boundary. ``agreement`` is the distance, over R, to the nearest
    end of an independent start (an angle in radians on the boundary) and ``agreeing`` the number of starts
    that ended within 1e-6 of the winner, itself included. The risk is not convex: other points that are as
    good as the winner, to rounding, are listed in ``ties`` (B-ERR-20). ``target`` is p_mm of the best-scoring
    tokens.

    >>> import numpy as np, hardmax as hm
    >>> from hardmax.limits import regularization_path
    >>> path = regularization_path(hm.data.example("B-FIG-8"), [10.0, 100.0])
    >>> np.degrees(path.angle([1.0, 3.0])).round(4).tolist(), path.is_reliable.all().item()
    ([1.5846, 0.1533], True)
    """

    problem: Problem
    radii: np.ndarray  # (k,)
    points: np.ndarray  # (k, d)
    log_excess: np.ndarray  # (k,)
    interior: np.ndarray  # (k,) bool
    agreement: np.ndarray  # (k,)
    agreeing: np.ndarray  # (k,) int
    ties: tuple[tuple[np.ndarray, ...], ...]
    target: SetMaxMargin

    @property
    def directions(self) -> np.ndarray:
        """Unit vectors p/|p|; rows of nan where p is zero."""
        with np.errstate(invalid="ignore"):
            return self.points / lengths(self.points)[:, None]

    @property
    def is_reliable(self) -> np.ndarray:
        """Whether at least two independent starts agree to 1e-6, at every radius."""
        return self.agreeing >= 2

    def angle(self, other: Any) -> np.ndarray:
        """Angle in radians to a direction (a vector or a MaxMargin), at every radius; nan where p is zero."""
        return 2.0 * np.arcsin(np.sqrt(self.cosine_distances(other) / 2.0))

    def cosine_distance(self, other: Any, at: int = -1) -> float:
        """1 - cos to a direction (a vector, a MaxMargin or a run) at one radius, the last by default."""
        return cosine_distance(self.points[at], other)

    def cosine_distances(self, other: Any) -> np.ndarray:
        """1 - cos to a direction, at every radius; nan where p is zero."""
        return np.array([cosine_distance(p, other) if p.any() else math.nan for p in self.points])


@check_arguments
def regularization_path(
    problem: Problem, radii: Iterable[float], *, starts: int = 8, rng: int | np.random.Generator = 0
) -> RegularizationPath:
    """The point of least risk in the ball of each radius, up to a radius of about 1e4 over the margin.

    The log of the excess risk is minimised by Newton's method from many starts: the directions of up to
    ``starts`` feasible p_mm, locally optimal ones first, and of the best-scoring tokens, moved by the offset
    of B-NEW-2 where it exists; as many random directions, followed from small radii to large ones; and the
    winner at the next larger radius, followed back. In the plane a grid over all angles is one more.

    Args:
        problem: with fixed scores, of which not all tie.
        radii: of the balls.
        starts: how many feasible directions to start from, and random ones.
        rng: a seed or a Generator, for the random ones.

    >>> import hardmax as hm
    >>> from hardmax.limits import regularization_path
    >>> opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [2, 0]])
    >>> path = regularization_path(opposed, [10.0])     # no p separates the best tokens: a finite minimiser
    >>> path.points.round(4).tolist(), path.interior.tolist()
    ([[-0.6921]], [True])
    """
    need_problem(problem)
    wanted = np.array([expect.positive("radii", R) for R in radii])
    if not wanted.size:
        raise ValueError("radii must hold at least one radius, got none")
    scale = scaled(problem, to_one=True)  # Newton's method measures its steps in such a p
    seen = scale.point(wanted, "radii")
    search = _PathSearch(scale.problem, expect.whole("starts", starts, 1), rng)
    found = search.run(np.unique(seen))
    picked = [found[float(R)] for R in seen]

    def lift(p: np.ndarray) -> np.ndarray:
        return scale.back(search.landscape.lift(p))

    return RegularizationPath(
        problem,
        wanted,
        np.array([lift(each.p) for each in picked]),
        np.array([each.value for each in picked]),
        np.array([each.interior for each in picked]),
        np.array([each.agreement for each in picked]),
        np.array([each.agreeing for each in picked]),
        tuple(tuple(lift(p) for p in each.ties) for each in picked),
        search.target if scale.exponent == 0 else set_max_margin(problem),
    )


@dataclass(frozen=True, eq=False)
class _Winner:
    p: np.ndarray
    value: float
    interior: bool
    agreement: float
    agreeing: int
    ties: tuple[np.ndarray, ...]


class _PathSearch:
    def __init__(self, problem: Problem, starts: int, rng: int | np.random.Generator) -> None:
        best = best_tokens(problem).sets
        self.landscape = Landscape(problem, [tokens[0] for tokens in best])
        if all(len(tokens) == size for tokens, size in zip(best, problem.sizes.tolist(), strict=True)):
            raise ValueError("problem must have a token that scores below another of its input, got none")
        self.target = set_max_margin(problem)
        to_span = self.landscape.basis.T
        self.offset = self._offset(problem)
        goals = [p / np.linalg.norm(p) for p in self.target.minimizers if p.any()]
        self.goals = [to_span @ q for q in goals]
        self.attracting = [to_span @ q for q in attracting_directions(problem, starts)]
        self.random = random_directions(self.landscape.d, (starts + 1) // 2, rng)
        self.inwards: list[Minimum] = []  # ends on spheres at which the risk falls towards the origin
        self.finite: list[Minimum] = []

    def _offset(self, problem: Problem) -> np.ndarray:
        """w of B-NEW-2 for the best-scoring tokens, zero where it does not exist."""
        if len(self.target.solutions) == 1:
            try:
                return self.landscape.basis.T @ path_offset(problem, self.target.solutions[0])
            except ValueError:  # no direction, or its hypotheses fail: the predictor is then p_mm alone
                pass
        return np.zeros(self.landscape.d)

    def run(self, radii: np.ndarray) -> dict[float, _Winner]:
        ends = self._forward(radii)
        self._backward(radii, ends)
        self._inside(float(radii[-1]))
        if not self.goals:
            for R in radii.tolist():
                ends[R] += self._sharpen(R, min(ends[R], key=lambda end: end.value))
        return {R: self._judge(R, ends[R]) for R in radii.tolist()}

    def _forward(self, radii: np.ndarray) -> dict[float, list[Minimum]]:
        """Starts followed outwards from a small radius, and fresh ones at every radius that is asked for."""
        ends: dict[float, list[Minimum]] = {}
        tracks, reached = self.random + self.goals, 0.0
        for R in radii.tolist():
            for r in self._between(reached, R):
                tracks = [end.p for end in self._slide(tracks, r)]
            followed = self._slide(tracks, R)
            fresh = [R * q + self.offset for q in self.goals] + self.goals + self.attracting
            ends[R] = followed + self._slide(fresh, R)
            if self.landscape.d == 2:
                ends[R].append(self._from_scan(R, ends[R]))
            tracks, reached = [end.p for end in followed], R
        return ends

    def _between(self, low: float, high: float) -> list[float]:
        """Radii of the continuation below ``high``; from nothing it begins where logits have size one."""
        if low == 0.0:
            low = 0.5 / float(np.linalg.norm(self.landscape.rows, axis=1).max())
        count = int(math.log(high / low) / math.log(STRIDE)) if high > low else 0
        return [high / STRIDE**k for k in range(count, 0, -1)]

    def _backward(self, radii: np.ndarray, ends: dict[float, list[Minimum]]) -> None:
        for R, larger in zip(radii[-2::-1].tolist(), radii[:0:-1].tolist(), strict=True):
            q = min(ends[larger], key=lambda end: end.value).p
            for r in reversed(self._between(R, larger)):
                q = self._slide([q], r)[0].p
            ends[R] += self._slide([q], R)

    def _slide(self, starts: list[np.ndarray], R: float) -> list[Minimum]:
        """Minima on the sphere; starts that have met go on as one and are still counted each."""
        done: list[tuple[np.ndarray, Minimum]] = []
        for start in starts:
            q = start / np.linalg.norm(start)
            known = [end for other, end in done if np.linalg.norm(q - other) <= 1e-9]
            if not known:
                known = [minimize(self.landscape.expanded, start, R)]
                if known[0].outward > 0.0:
                    self.inwards.append(known[0])
            done.append((q, known[0]))
        return [end for _, end in done]

    def _inside(self, largest: float) -> None:
        """Finite minima: below the ends at which the risk falls inwards, and below the origin."""
        for start in [np.zeros(self.landscape.d), *(end.p for end in self.inwards)]:
            end = minimize(self.landscape.expanded, start, within=largest)
            if end.slope <= 1e-9:
                self.finite.append(end)

    def _sharpen(self, R: float, winner: Minimum) -> list[Minimum]:
        """Ends seen from the floor of the winner's own selection.

        Where no p separates the best tokens, the risk may still fall for ever along another selection: flat
        to the last digit above the common floor, but not above its own.
        """
        problem, lift = self.landscape.problem, self.landscape.lift
        chosen = selected_tokens(problem, lift(winner.p))
        best = max_margin(problem, chosen) if chosen.is_unique else None
        if best is None or best.direction is None:
            return []
        if (
            problem.readout.in_log is not None
            and not problem.scores[chosen_slots(problem, chosen.tokens)].all()
        ):
            return []  # without its label an input has no floor
        own = Landscape(problem, chosen.tokens)
        starts = [winner.p, self.landscape.basis.T @ best.direction * R]
        if any(own.excess(p[None])[0][0] <= 0.0 for p in starts):
            return []
        ends = [minimize(own.expanded, p, R) for p in starts]
        # The slope is relative to the smaller excess, so these stand before the blurred ends of equal value.
        return [replace(end, value=self.landscape.log_excess(end.p), slope=-1.0) for end in ends]

    def _from_scan(self, R: float, ends: list[Minimum]) -> Minimum:
        """The grid's own point, or what Newton's method makes of it where no start had found that basin."""
        p = scan_circle(self.landscape, R)
        value = self.landscape.log_excess(p)
        if value < min(end.value for end in ends) - _noise(value):
            ends += self._slide([p], R)
        return Minimum(p, value, math.inf, 0.0)

    def _judge(self, R: float, ends: list[Minimum]) -> _Winner:
        inner = [end for end in self.finite if np.linalg.norm(end.p) < R * (1.0 - 1e-12)]
        least = min(end.value for end in ends + inner)
        as_good = [end for end in ends + inner if end.value <= least + _noise(least)]
        winner = min(as_good, key=lambda end: end.slope)
        family = inner if any(winner is end for end in inner) else ends
        # Starts that met share one end; each counts, and the first zero is the winner's distance to itself.
        distances = sorted(float(np.linalg.norm(end.p - winner.p)) / R for end in family)[1:]
        ties: list[np.ndarray] = []
        for end in [end for end in as_good if winner.slope >= 0.0 or end.slope < 0.0]:
            if all(np.linalg.norm(end.p - p) > APART * R for p in [winner.p, *ties]):
                ties.append(end.p)
        return _Winner(
            winner.p,
            winner.value,
            family is inner,
            distances[0] if distances else math.inf,
            1 + sum(x <= AGREE for x in distances),
            tuple(ties),
        )


def _noise(value: float) -> float:
    return 10 * NOISE * (1.0 + abs(value))
