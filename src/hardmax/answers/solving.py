"""How `solve` finds what it says: enumerate, look at the best-scoring tokens, follow the flow."""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hardmax.answers.solved import Best, FlowEnd, Solved

if TYPE_CHECKING:
    from hardmax.directions.critical import CriticalDirections
    from hardmax.directions.enumerate import Enumeration, FeasibleSelection
    from hardmax.limits.decomposition import Decomposition
    from hardmax.margin.norms import Norm
    from hardmax.margin.solution import MaxMargin
    from hardmax.problem import Problem

LIMIT = 10_000  # feasible selections
SECONDS = 60.0
LARGE = 20_000  # tokens; one hard-margin problem of more may take seconds


def solve(
    problem: Problem | str | os.PathLike[str],
    *,
    all: bool = False,
    limit: int | None = LIMIT,
    seconds: float | None = SECONDS,
    exact: bool = False,
    flow: bool = False,
    start: Any = None,
    critical: bool = False,
    norm: Norm | str | float = "l2",
) -> Solved:
    """List the directions that attract training, each with a proof, as `hardmax solve` does.

    Args:
        problem: a `Problem`, or a file that holds one.
        all: list every feasible selection, not only those that attract.
        limit: stop after this many feasible selections; None looks at all.
        seconds: stop the search after this many seconds; None takes the time it needs.
        exact: solve what is listed in rational numbers.
        flow: run gradient flow and say where it goes.
        start: where the flow begins, zero by default.
        critical: list attractors and saddles at infinity with their index.
        norm: in which each p is shortest, and so which selections attract; as for `max_margin`.

    >>> import hardmax as hm
    >>> found = hm.solve(hm.data.named("B-FIG-1b"), flow=True)
    >>> [each.selection for each in found.selections], found.flow.selection, found.flow.nearest
    ([(1,), (0,)], (0,), 1)
    """
    from hardmax.problem import Problem

    if not isinstance(problem, Problem | str | os.PathLike):
        raise ValueError(f"problem must be a Problem or the name of a file, got {type(problem).__name__}")
    name = "problem" if isinstance(problem, Problem) else os.fspath(problem)
    posed = problem if isinstance(problem, Problem) else Problem.load(name)
    if start is not None and not flow:
        raise ValueError("start must be left out without a flow, got a point; add flow=True")
    begin, start_name = (None, "zero") if start is None else (posed.vector("start", start), "given")
    job = Solving(posed, all, limit, seconds, exact, flow, begin, critical, name, start_name, norm)
    job.run()
    return job.answer()


@dataclass(eq=False, repr=False)
class Solving:
    """A search that is under way; an interrupt leaves in `answer` what was found.

    ``every`` is ``all`` of `solve`; ``name`` and ``start_name`` are said in the answer.
    """

    problem: Problem
    every: bool = False
    limit: int | None = LIMIT
    seconds: float | None = SECONDS
    exact: bool = False
    with_flow: bool = False
    start: Any = None
    with_critical: bool = False
    name: str = "problem"
    start_name: str = "zero"
    norm: Norm | str | float = "l2"

    search: Enumeration | None = field(default=None, init=False)
    listed: list[FeasibleSelection] = field(default_factory=list, init=False)
    known: dict[tuple[int, ...], MaxMargin] = field(default_factory=dict, init=False)  # best-scoring, solved
    best: list[Best] = field(default_factory=list, init=False)
    all_best: bool = field(default=False, init=False)
    is_whole: bool = field(default=False, init=False)
    critical: CriticalDirections | None = field(default=None, init=False)
    flow: FlowEnd | None = field(default=None, init=False)
    decomposition: Decomposition | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        from hardmax.margin.att_svm import AttentionRows
        from hardmax.margin.norms import norm
        from hardmax.margin.norms.in_norm import check_norm

        self.norm = norm(self.norm)
        if self.norm.power == 2:
            return
        check_norm(AttentionRows(self.problem).constraints([]), self.norm, self.exact)
        if self.with_flow:
            from hardmax.train.flows.norms import smooth

            smooth(self.norm, "log t", mirror=False)  # refuses now what has no flow, not after the search
        if self.with_critical:
            raise ValueError(
                f"norm must be l2 with critical, whose index is one of gradient flow, got {self.norm.name}; "
                "leave one of them out"
            )

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """Search, and follow the flow if that is asked for; ``progress`` is told the share that is done."""
        from hardmax.directions.enumerate import feasible_selections

        end = math.inf if self.seconds is None else time.monotonic() + self.seconds
        self.search = feasible_selections(
            self.problem, limit=self.limit, seconds=self.seconds, progress=progress, norm=self.norm
        )
        self._collect(self.search)
        self._globally(end)
        self._decompose(end)
        if self.with_critical:
            from hardmax.directions.critical import critical_directions

            self.critical = critical_directions(self.problem, seconds=self.seconds)
        if self.with_flow:
            self._follow()
        self.is_whole = True

    def answer(self) -> Solved:
        """What has been found so far."""
        from hardmax.margin.norms import norm

        search = self.search
        whole = search is not None and search.status == "complete"
        return Solved(
            self.problem,
            self.name,
            tuple(self.listed),
            tuple(self.best),
            self.all_best,
            search.found if search else 0,
            search.qps if search else 0,
            None if whole else (search and search.reason) or "interrupted",
            search.undecided if search else (),
            not self.is_whole,
            self.critical,
            self.flow,
            norm(self.norm).name,
            self.decomposition,
        )

    def _collect(self, search: Enumeration) -> None:
        from hardmax.directions.neighbors import score_gap
        from hardmax.margin.att_svm import max_margin

        for found in search:
            if self.every or found.locally_optimal is not False:
                if self.exact and found.max_margin.certificate != "exact":
                    proof = max_margin(self.problem, found.selection, exact=True, norm=self.norm)
                    found = replace(found, max_margin=proof, score_gap=score_gap(self.problem, proof))
                self.listed.append(found)
            if found.globally_optimal and not (self.exact and found.max_margin.certificate != "exact"):
                self.known[found.selection] = found.max_margin

    def _globally(self, end: float) -> None:
        """Selections of best-scoring tokens; ties may make more of them than the limit or the time allows.

        The first is worth a moment beyond the time, unless the problem is large.
        """
        from hardmax.margin.att_svm import global_max_margins
        from hardmax.problem.selection import optimal_tokens

        if time.monotonic() > end and len(self.problem.tokens) > LARGE:
            return
        selections = global_max_margins(self.problem, exact=self.exact, known=self.known, norm=self.norm)
        most = sys.maxsize if self.limit is None else min(self.limit, sys.maxsize)
        for found in itertools.islice(selections, most):
            self.best.append(found)
            if time.monotonic() > end:
                break
        self.all_best = len(self.best) == math.prod(map(len, optimal_tokens(self.problem).sets))

    def _decompose(self, end: float) -> None:
        """Where no best-scoring tokens can all be selected: what of p stays finite, and what diverges."""
        if not self.best or any(best.is_feasible is not False for _, best in self.best):
            return
        from hardmax.limits.decomposition import decompose
        from hardmax.limits.partition import MOST_ROWS

        if time.monotonic() < end and len(self.problem.tokens) - self.problem.n <= MOST_ROWS:
            self.decomposition = decompose(self.problem, self.best[0][0])

    def _follow(self) -> None:
        from hardmax._lib.arrays import misalignment
        from hardmax.train.flow import flow

        path = flow(self.problem, start=self.start, norm=self.norm)
        angles = {
            k: misalignment(path.p, f.direction)
            for k, f in enumerate(self.listed)
            if path.p.any() and f.direction is not None and math.isfinite(f.max_margin.norm)
        }
        nearest = min(angles, key=lambda k: angles[k], default=None)
        self.flow = FlowEnd(self.start_name, path, nearest, None if nearest is None else angles[nearest])
