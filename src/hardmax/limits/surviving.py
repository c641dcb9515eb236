"""Which tokens survive a training that ends at no single one, and whether theory expects them (D-CONJ-5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance
from hardmax._lib.notebook import table
from hardmax.dynamics.measures import attended, attention
from hardmax.limits.decomposition import Decomposition, decompose
from hardmax.problem import Problem
from hardmax.problem.selection import Selection

ALIVE, GONE = 1e-3, 1e-6  # attention above the first survives, below the second is as good as none


@dataclass(frozen=True, eq=False)
class Survivors:
    """The tokens that p still attends to, and the verdict of the conjecture.

    ``sets`` are the tokens with attention above 1e-3. If training keeps these, rows from the best of them to
    the others inside a set are bound and rows to the outside separable, p tends to a minimum of the risk
    among the survivors on the bound rows' span (``error`` is the distance to it, None if none is found) and
    along ``decomposition.p_mm`` next to it (``cosine_distance``, 1 - cos; None if nothing diverges).

    >>> import hardmax as hm
    >>> found = hm.limits.survivors(hm.data.example("cycle"), [7.0, 6.0, -14.0])
    >>> found.sets.sets, found.verdict, found.cosine_distance < 1e-3
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
        """What contradicts the conjecture; empty if nothing does."""
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
        rows: list[tuple[str, Any]] = [
            ("survivors", self.sets),
            ("verdict", self.verdict),
            ("because", self.reason or "-"),
        ]
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
    best = [max(alive, key=lambda t, own=own: own[t]) for alive, own in zip(sets.sets, scores, strict=True)]  # type: ignore[misc]
    found = decompose(problem, best)
    inside, rest = found.parts(p)
    found = replace(found, start=inside)
    error = None if found.p_fin is None else float(np.linalg.norm(inside - found.p_fin))
    off = None if found.direction is None or not rest.any() else cosine_distance(rest, found.direction)
    return Survivors(sets, found, float(between.max(initial=0.0)), error, off)
