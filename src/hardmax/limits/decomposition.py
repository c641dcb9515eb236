"""Data that do not separate: the finite part of p, the direction of the rest, and the tokens that survive.

See D-THM-11 and D-THM-12, and for the survivors of a training D-CONJ-5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance, polar
from hardmax._lib.notebook import table
from hardmax.dynamics.flow import Remainder, flow
from hardmax.dynamics.gradient import Expansion, expand, risk_of, settle_at
from hardmax.dynamics.measures import attended, attention
from hardmax.limits.partition import Partition, partition
from hardmax.margin.att_svm import AttentionRows, max_margin
from hardmax.margin.constraints import Label
from hardmax.margin.norms import Norm
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem
from hardmax.problem.coordinates import in_basis, scaled
from hardmax.problem.keys import Dense, OneHot
from hardmax.problem.problem import slots_of
from hardmax.problem.readouts import Labels, Scores, has_one_label
from hardmax.problem.selection import Selection, best_tokens, leaders

ROUNDS = 1_000
ENOUGH = 1e-4  # of the fall that the slope promises
RESOLVED = 1e-13  # a promised fall below this fraction of the risk cannot be seen in it


@dataclass(frozen=True, eq=False)
class Finite:
    """A minimizer ``p`` of the risk on a span, the ``risk`` there, and a ``radius`` proved to hold it.

    For a risk that is not convex it is a local one, and no radius is known (None).
    """

    p: np.ndarray
    risk: float
    radius: float | None


def restricted(problem: Problem, slots: np.ndarray) -> Problem:
    """Return the problem with some of its slots, at least one of every input."""
    sizes = np.add.reduceat(slots.astype(np.intp), problem.offsets[:-1])
    return problem._with(
        tokens=problem.tokens[slots],
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        readout=problem.readout.restricted(slots),
        counts=None if problem.counts is None else problem.counts[slots],
    )


def convex_minimum(problem: Problem, S: np.ndarray) -> Finite:
    """The minimizer over the columns' span of a convex log loss that is coercive there."""
    if not S.shape[1]:
        zero = np.zeros(problem.d)
        return Finite(zero, risk_of(problem, settle_at(problem, zero)), 0.0)
    scale = scaled(problem, to_one=True)
    inner, slots = in_basis(scale.problem, slots_of(scale.problem), S)
    inputs = np.split(slots.keys[slots.tokens], slots.offsets[1:-1])
    y, least = np.zeros(S.shape[1]), math.inf
    settled = settle_at(inner, y, slots)
    at = expand(inner, settled, settled.differences(slots.keys))
    for _ in range(ROUNDS):
        try:  # the step to the minimum of the second-order expansion
            step = np.linalg.solve(-at.H, at.V)
        except np.linalg.LinAlgError:
            step = np.linalg.lstsq(-at.H, at.V, rcond=None)[0]
        risk = risk_of(inner, settled)
        fall = float(at.V @ step) * math.exp(at.common) / problem.total
        # While logits move by at most 1 the curvature keeps its size.
        t = 1.0 / max(1.0, *(float(np.ptp(keys @ step)) for keys in inputs))
        if resolved := fall > RESOLVED * risk:
            while risk_of(inner, settle_at(inner, y + t * step, slots)) > risk - ENOUGH * t * fall:
                t /= 2
        elif not fall < least:  # the rest of the fall is rounding
            break
        least = math.inf if resolved else fall
        y = y + t * step
        settled = settle_at(inner, y, slots)
        at = expand(inner, settled, settled.differences(slots.keys))
    p = scale.back(S @ y)
    weights = settled.weights * settled.per_slot(np.exp(settled.log_scale - at.common))
    pulls = weights[:, None] * settled.differences(slots.keys)
    return Finite(p, risk_of(inner, settled), math.ldexp(_radius(at, pulls, inputs), -scale.exponent))


def _radius(at: Expansion, pulls: np.ndarray, inputs: list[np.ndarray]) -> float:
    """How far the minimizer can be: infinite if the curvature does not bound it.

    ``pulls`` are the terms of the gradient, whose sizes bound its rounding. In coordinates in which the
    curvature is the identity.
    """
    try:
        white = np.linalg.inv(np.linalg.cholesky(-at.H))
    except np.linalg.LinAlgError:
        return math.inf
    tables = [keys @ white.T for keys in inputs]
    R = max(float(np.linalg.norm(keys - key, axis=1).max()) for keys in tables for key in keys)
    rounding = np.finfo(float).eps * (len(white) + 8) * float(np.linalg.norm(pulls @ white.T, axis=1).sum())
    share = R * (float(np.linalg.norm(white @ at.V)) + rounding)
    return -math.log1p(-share) / R * float(np.linalg.norm(white, 2)) if share < 1 else math.inf


def local_minimum(problem: Problem, start: np.ndarray | None = None) -> Finite | None:
    """Where gradient flow from the origin or a start rests, if it does; the risk need not be convex."""
    if problem.readout.moves:
        return None
    run = flow(problem, start=start)
    if run.event not in ("stationary point", "no competing token"):
        return None
    return Finite(run.p, risk_of(problem, settle_at(problem, run.p)), None)


SHOWN = 12  # rows in a notebook
FARTHEST = 700.0  # of logits at p_fin, whose exponentials are multiplicities of the late problem


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Rows of a problem that training can win, rows that it is bound to tie, and the consequences for p.

    ``selection`` is one token per input; the row (i, t) requires that it beats token t of input i. Gradient
    descent and flow on the log loss with one label token per input go to ``p_fin`` on the span ``S`` of the
    ``bound`` rows and to infinity along ``p_mm`` off it. For other problems all is about p near that
    selection (``is_local``): the risk has other valleys, and p_fin is a minimum that flow finds from zero.
    Both halves of the partition are proved: ``witness`` wins the separable rows by 1 and ties the bound ones,
    and the bound rows cancel with the weights ``circulation`` >= 1.

    >>> import hardmax as hm
    >>> a, b, c = [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]
    >>> problem = hm.Problem([[a, b], [a, b], [b, a], [a, b, c]],
    ...                                  [[1, 0], [1, 0], [1, 0], [1, 0, 0]], loss="log")
    >>> parts = hm.decompose(problem)
    >>> parts
    Decomposition(mixed, certified: 4 constraints bound, 1 separable, inf risk 0.562335)
    >>> parts.separable, parts.p_fin.round(4).tolist(), parts.p_mm.round(4).tolist()
    (((3, 2),), [0.5493, -0.5493, 0.0], [0.3333, 0.3333, -0.6667])
    """

    problem: Problem
    selection: tuple[int, ...]
    partition: Partition
    is_local: bool
    start: np.ndarray | None = None  # where the search for a local p_fin begins; the origin if None

    def __repr__(self) -> str:
        counts = f"{len(self.bound)} constraints bound, {len(self.separable)} separable"
        risk = "no minimum found" if self.inf_risk is None else f"inf risk {self.inf_risk:.6g}"
        return f"Decomposition({self.kind}, {self.status}: {counts}, {risk}{', local' * self.is_local})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Any]] = [("kind", self.kind), ("status", self.status)]
        rows += [("bound constraints", _shown(self.bound)), ("separable constraints", _shown(self.separable))]
        if self.finite is not None:
            rows += [("p_fin", self.finite.p.round(6).tolist()), ("infimum of the risk", self.finite.risk)]
        if self.p_mm is not None:
            rows.append(("p_mm", self.p_mm.round(6).tolist()))
        if self.is_local:
            rows.append(("scope", f"near the selection {self.selection}"))
        return table("Decomposition", ["", ""], rows)

    @property
    def kind(self) -> str:
        """Kind of the data: "separable" (nothing is bound), "bounded" (p stays finite) or "mixed"."""
        if not self.bound:
            return "separable"
        return "mixed" if self.separable else "bounded"

    @property
    def status(self) -> str:
        """Either "certified" (the partition, p_mm and, unless local, p_fin are proved) or "undecided"."""
        proved = self.partition.certified and self.partition.best.is_certified
        if not self.is_local:
            proved = proved and self.finite is not None and self.finite.radius not in (None, math.inf)
        return "certified" if proved else "undecided"

    @cached_property
    def S(self) -> np.ndarray:
        """(d, k): orthonormal columns that span the bound rows."""
        rows = self.partition.constraints.subset(self.partition.basis)
        if rows.token_gram is not None:
            rows = replace(rows, table=self.problem.keys, token_gram=None)
        dense = rows.rows()
        longest = np.abs(dense).max(axis=1, initial=0.0, keepdims=True)
        return np.ascontiguousarray(np.linalg.qr((dense / longest).T)[0])

    @cached_property
    def finite(self) -> Finite | None:
        """p_fin with the risk there and the radius that is proved to hold it; None if none was found."""
        problem = restricted(self.problem, self._survivors)
        return local_minimum(problem, self.start) if self.is_local else convex_minimum(problem, self.S)

    @cached_property
    def _survivors(self) -> np.ndarray:
        """Slots of the selected tokens and of those bound to them, copies included."""
        problem = self.problem
        slots = np.zeros(len(problem.tokens), dtype=bool)
        slots[problem.offsets[:-1] + np.array(self.selection)] = True
        for i, t in cast(tuple[tuple[int, int], ...], self.bound):
            slots[problem.offsets[i] + t] = True
        return slots[problem.groups]

    def _labels(self, chosen: np.ndarray) -> tuple[Label, ...]:
        rows = self.partition.constraints
        return tuple(rows.label(j) for j in np.flatnonzero(chosen).tolist())

    @cached_property
    def bound(self) -> tuple[Label, ...]:
        """Rows (i, t) that every p ties which loses none of them."""
        return self._labels(self.partition.bound)

    @cached_property
    def separable(self) -> tuple[Label, ...]:
        """Rows (i, t) that can be won while the bound ones are tied."""
        return self._labels(~self.partition.bound)

    @property
    def witness(self) -> tuple[Fraction, ...] | None:
        """A p in fractions that wins the separable rows by 1 or more and ties the bound ones exactly."""
        return self.partition.witness

    @property
    def circulation(self) -> tuple[Fraction, ...]:
        """Weights of the bound rows, 1 or more, with which their sum is exactly zero."""
        return tuple(y for y in self.partition.circulation if y)

    @property
    def p_fin(self) -> np.ndarray | None:
        """The finite part: the minimizer on S of the risk of the bound rows; None if none was found."""
        return None if self.finite is None else self.finite.p

    @property
    def inf_risk(self) -> float | None:
        """The infimum of the risk (near the selection, if local); attained only if nothing is separable."""
        return None if self.finite is None else self.finite.risk

    @property
    def p_mm(self) -> np.ndarray | None:
        """The shortest p that wins the separable rows by 1 and ties the bound ones; None if all are bound."""
        best = self.partition.best
        if not self.separable or best.is_feasible is not True:
            return None
        if best.p is not None:
            return best.p.reshape(-1)
        rows = replace(best.constraints, table=self.problem.keys, token_gram=None).rows()
        return np.asarray(best.multipliers) @ rows

    @property
    def direction(self) -> np.ndarray | None:
        """p_mm over its length: where p/|p| tends to."""
        p = self.p_mm
        return None if p is None else polar(p)[1]

    def max_margin(self, norm: Norm | str | float = "l2") -> MaxMargin:
        """The shortest such p in another norm: where steepest descent in that norm may tend (D-CONJ-4).

        >>> import hardmax as hm
        >>> keys = [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]], [[0.5, 1.0], [0.0, 0.0]]]
        >>> parts = hm.decompose(hm.Problem(keys, [[1, 0]] * 3, loss="log"))
        >>> parts.max_margin("linf").p.tolist()
        [0.0, 1.0]
        """
        return max_margin(self.partition.best.constraints, norm=norm)

    def parts(self, p: Any) -> tuple[np.ndarray, np.ndarray]:
        """Split p into its part in S, which tends to p_fin, and the rest, which goes along p_mm.

        >>> import hardmax as hm
        >>> tied = hm.Problem([[[1.0, 0.0], [0.0, 0.0]]] * 2, [[1, 0], [0, 1]], loss="log")
        >>> [part.tolist() for part in hm.decompose(tied).parts([3.0, 4.0])]
        [[3.0, 0.0], [0.0, 4.0]]
        """
        p = self.problem.vector("p", p)
        inside = self.S @ (self.S.T @ p)
        return inside, p - inside

    @property
    def remainder(self) -> Remainder:
        """The model of the diverging part, for `hm.train` and `hm.flow`: p_fin is fixed, the rest moves.

        >>> import hardmax as hm
        >>> parts = hm.decompose(hm.data.example("cycle"))
        >>> run = hm.flow(parts.remainder, until_norm=1e6)
        >>> run.cosine_distance(parts.direction) < 1e-9
        True
        """
        return Remainder(self)

    @cached_property
    def late(self) -> Problem:
        """The problem of the part that is left to train: p_fin + r with r orthogonal to S.

        Its keys are projected, and everything bound is one token with the multiplicity that it has at p_fin.
        Its risk is that of p_fin + r up to a constant, the infimum for the log loss, and nothing cancels in
        it. Training follows it late, when the bound part has come to rest.

        >>> import hardmax as hm
        >>> line = [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
        >>> parts = hm.decompose(hm.Problem(line, [[1, 0]] * 3, loss="log"))
        >>> hm.flow(parts.late, until_norm=1e6).direction.tolist()
        [0.0, 1.0]
        """
        problem, p = self.problem, self.p_fin
        if not self.separable:
            raise ValueError(
                "problem must have a separable row to be trained beyond p_fin, got a bounded one"
            )
        if p is None or problem.readout.moves:
            raise ValueError(
                "problem must have fixed scores and a p_fin that was found, got none; train the problem "
                "itself"
            )
        survives = self._survivors
        keys = problem.keys - (problem.keys @ self.S) @ self.S.T
        logits = problem.keys @ p
        counts = np.ones(len(problem.tokens)) if problem.counts is None else problem.counts
        weights = np.full(problem.n, 1.0 / problem.n) if problem.weights is None else problem.weights
        rows, scores, masses, sizes, inputs = [], [], [], [], []
        for i, alpha in enumerate(self.selection):
            slots = np.arange(problem.offsets[i], problem.offsets[i + 1])
            chosen = slots[alpha]
            gaps = logits[problem.tokens[slots]] - logits[problem.tokens[chosen]]
            if np.abs(gaps).max() > FARTHEST:
                raise ValueError(
                    f"problem must have logits within {FARTHEST:g} of each other at p_fin, got "
                    f"{np.abs(gaps).max():.3g} in input {i}: its data nearly separate; train the problem "
                    "itself"
                )
            mass = counts[slots] * np.exp(gaps)
            alive, rest = survives[slots], np.flatnonzero(~survives[slots])
            if not rest.size:
                continue
            mean = float(mass[alive] @ problem.scores[slots[alive]] / mass[alive].sum())
            rows.append(keys[problem.tokens[np.append(chosen, slots[rest])]])
            scores.append(np.append(mean, problem.scores[slots[rest]]))
            masses.append(np.append(mass[alive].sum(), mass[rest]))
            sizes.append(1 + rest.size)
            inputs.append(i)
        flat = np.concatenate(scores)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        if problem.readout.in_log is None:
            head = Scores(flat, problem.loss)
        else:  # the share of the bound tokens in the label is a constant, the infimum of the risk
            flat = np.zeros(len(flat))
            flat[offsets[:-1]] = 1.0
            head = Labels(flat)
        late = Problem._flat(Dense(np.concatenate(rows)), np.arange(len(flat)), offsets, head)
        return late.weighted(weights[inputs], np.concatenate(masses))


@check_arguments
def decompose(problem: Problem, selection: Iterable[int] | None = None) -> Decomposition:
    """Separate the part of p that training drives to infinity from the part that stays finite, with a proof.

    With the log loss and one label token per input this is about training from any start. With other scores,
    or with several tokens of a label, it holds near the selection only.

    Args:
        problem: the problem to decompose.
        selection: one token per input; the best-scoring ones by default, which must not tie.

    >>> import hardmax as hm
    >>> keys = [[[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
    >>> parts = hm.decompose(hm.Problem(keys, [[1, 0]] * 3, loss="log"))
    >>> parts.kind, parts.bound, [str(y) for y in parts.circulation]
    ('mixed', ((0, 1), (1, 1)), ['1', '1'])
    """
    best = best_tokens(problem)
    if selection is None and not best.is_unique:
        raise ValueError(
            "selection must be one token per input where the best-scoring ones tie, got none; say which is "
            "meant"
        )
    tokens = leaders(problem, best if selection is None else selection)
    scores = problem.readout.vertex_predictions(problem.tokens, problem.offsets)
    labelled = has_one_label(problem) and all(scores[problem.offsets[:-1] + np.array(tokens)] == 1.0)
    rows = AttentionRows(problem).constraints(enumerate(tokens))
    if isinstance(problem.table, OneHot):
        parts = partition(replace(rows, table=None, entries=(problem.d,)))
    elif rows.origin is None:
        parts = partition(rows)
    else:
        try:
            parts = partition(rows.by_gram())
        except ValueError:  # by its rounding the matrix has a negative eigenvalue: the keys made of it decide
            parts = partition(replace(rows, origin=None))
    return Decomposition(problem, tokens, parts, not labelled)


def _shown(labels: tuple[Label, ...]) -> str:
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    return ", ".join(map(str, labels[:SHOWN])) + more if labels else "none"


ALIVE, GONE = 1e-3, 1e-6  # attention above the first survives, below the second is as good as none


@dataclass(frozen=True, eq=False)
class Survivors:
    """The tokens that p still attends to, and the verdict of the conjecture.

    ``sets`` are the tokens with attention above 1e-3. If training keeps these, rows from the best of them to
    the others inside a set are bound and rows to the outside separable, p tends to a minimum of the risk
    among the survivors on the bound rows' span (``error`` is the distance to it, None if none is found) and
    along ``decomposition.p_mm`` next to it (``cosine_distance``, 1 - cos; None if nothing diverges).

    >>> import hardmax as hm
    >>> result = hm.limits.survivors(hm.data.example("cycle"), [7.0, 6.0, -14.0])
    >>> result.sets.sets, result.verdict, result.cosine_distance < 1e-3
    (((0, 1), (0, 1), (0, 1), (0, 1)), 'consistent', True)
    """

    sets: Selection
    decomposition: Decomposition
    largest_between: float  # attention of a token that neither survives nor is gone; 0 if there is none
    error: float | None
    cosine_distance: float | None

    @property
    def verdict(self) -> str:
        """Verdict: "finite" (every token survives, and is bound), "consistent" or "inconsistent"."""
        if self.decomposition.kind == "bounded" and not self.reason:
            return "finite"
        return "consistent" if not self.reason else "inconsistent"

    @property
    def outside(self) -> frozenset[Any]:
        """The rows to tokens that do not survive."""
        rows: tuple[Any, ...] = (*self.decomposition.bound, *self.decomposition.separable)
        return frozenset((i, t) for i, t in rows if t not in self.sets.sets[i])

    @property
    def reason(self) -> str:
        """The fact that contradicts the conjecture; empty if none does."""
        if self.largest_between:
            return (
                f"too early: a token has attention {self.largest_between:.1e}, between {GONE:g} and {ALIVE:g}"
            )
        wrong = self.outside.symmetric_difference(self.decomposition.separable)
        if wrong:
            i, t = min(wrong)
            state = "separable" if (i, t) in self.decomposition.separable else "bound"
            return f"token {t} of input {i} is {'gone' if (i, t) in self.outside else 'alive'}, but {state}"
        return ""

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Any]] = [("survivors", self.sets), ("verdict", self.verdict)]
        rows += [("because", self.reason or "-")]
        rows += [("distance to p_fin", self.error), ("1 - cos to p_mm", self.cosine_distance)]
        return table("Survivors", ["", ""], rows)


@check_arguments
def survivors(problem: Problem, p: Any) -> Survivors:
    """Compare the tokens that p attends to with those that its rows bind (D-CONJ-5).

    >>> import hardmax as hm
    >>> opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [2, 0]])
    >>> hm.limits.survivors(opposed, hm.flow(opposed).p).verdict
    'finite'
    """
    p = problem.vector("p", p)
    sets = attended(problem, p, ALIVE)
    shares = np.bincount(problem.groups, np.concatenate(attention(problem, p)), len(problem.tokens))
    between = shares[(shares > GONE) & (shares < ALIVE)]
    scores = problem.split(problem.readout.vertex_predictions(problem.tokens, problem.offsets))
    best = [max(alive, key=row.__getitem__) for alive, row in zip(sets.sets, scores, strict=True)]
    parts = decompose(problem, best)
    inside, rest = parts.parts(p)
    parts = replace(parts, start=inside)
    error = None if parts.p_fin is None else float(np.linalg.norm(inside - parts.p_fin))
    off = None if parts.direction is None or not rest.any() else cosine_distance(rest, parts.direction)
    return Survivors(sets, parts, float(between.max(initial=0.0)), error, off)
