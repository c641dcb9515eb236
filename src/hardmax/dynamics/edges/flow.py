"""The flow of a next-token problem along its arc length, on its edges.

The Jacobian is a block per query, plus the rank one of the normaliser that couples them, so a step costs no
more than the sentences do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, dia_array, eye_array
from scipy.sparse.linalg import splu

from hardmax.dynamics.edges.fluxes import Edges, Scratch, fill_log_flows, gather
from hardmax.dynamics.flows.field import Leg, extrapolated
from hardmax.problem import Problem
from hardmax.problem.readouts import Floats

# Tokens that weigh less than this no longer change the flows; else differences of this size give the
# derivative.
SETTLED, DIFFERENCE = 1e-13, 1e-6


class LeftForm(Exception):
    """A flux changes sign on the way, where the edge form ends."""


class EdgeField:
    """The right-hand side -G/|G| on the edges of a problem, as `hardmax.dynamics.flows.arc` takes it."""

    power, is_bold = 0, True

    def __init__(self, problem: Problem, edges: Edges, p: Any) -> None:
        head = problem.readout.cross_entropy
        assert head is not None
        assert head.queries is not None
        assert head.W_ov.margin is not None
        self.edges, self.margin = edges, head.W_ov.margin
        K, P = len(edges.top), int(max(edges.top.max(), edges.low.max())) + 1
        start = np.asarray(p).astype(np.longdouble)
        self.start, self.rest = start[:P], start[P:]  # what no edge moves comes last
        self.columns = np.append(np.flatnonzero(np.diff(head.queries[:P], prepend=-1)), P)
        self.room, self.G = Scratch.of(edges), np.empty(P)
        every, ones = np.arange(K), np.ones(K)
        low = csr_array((ones, (every, edges.low)), shape=(K, P))
        self.D = low - csr_array((ones, (every, edges.top)), shape=(K, P))
        sizes = np.diff(edges.edge_offsets)
        self.begin = np.repeat(edges.edge_offsets[:-1], sizes)  # of the query of each edge
        self.end = np.repeat(edges.edge_offsets[1:], sizes)

    def leg(self, x: Any, heading: Floats | None) -> Leg:
        """A step from x."""
        return _Leg(self, x, heading)

    def whole(self, x: Any) -> Any:
        """p."""
        return np.concatenate([x, self.rest])

    def limit(self, x: Any) -> Any | None:
        """None: along edges the flow does not come to rest."""
        return None

    def event(self, x: Any) -> str | None:
        """None: fluxes are positive."""
        return None

    def velocity(self, gap: Floats, relative: Floats) -> Floats:
        """-G/|G| from the gaps of the edges, and the same gaps relative to one of them."""
        self.room.log_flux[:] = self._log_flows(gap) + relative
        _, length = gather(self.edges, self.room.log_flux, self.G)
        return self.G / -length

    def balance(self, move: Any) -> Any:
        """The same with columns that sum to zero, as G's do: nothing else would damp rounding there."""
        sizes = np.diff(self.columns)
        return move - np.repeat(np.add.reduceat(move, self.columns[:-1]) / sizes, sizes)

    def stiffness(self, gap: Floats, relative: Floats) -> Any:
        """dG/dA over |G|, sparse: exact in the fluxes' exponents, by differences in the masses."""
        log_flow = self._log_flows(gap)
        log_flux = log_flow + relative
        F = np.exp(log_flux - log_flux.max())
        every = np.arange(len(F))
        bend = dia_array((F[None, :], [0]), shape=(len(F), len(F))).tocsr()
        moving = gap > np.log(SETTLED)
        if moving.any():
            # Queries do not meet in a flow, so one call moves the k-th edge of every query.
            for k in range(int((self.end - self.begin).max())):
                column = self.begin + k
                inside = column < self.end
                inside[inside] &= moving[column[inside]]
                moved = gap.copy()
                moved[np.unique(column[inside])] += DIFFERENCE
                change = F * (self._log_flows(moved) - log_flow) / DIFFERENCE
                part = (change[inside], (every[inside], column[inside]))
                bend = bend + csr_array(part, shape=bend.shape)
        G = F @ self.D
        return (self.D.T @ bend @ self.D) / np.sqrt(G @ G)

    def _log_flows(self, gap: Floats) -> Floats:
        self.room.gap[:] = gap
        if not fill_log_flows(self.edges, self.margin, self.room):
            raise LeftForm
        return self.room.log_flux.copy()


class _Leg:
    """One step's own coordinates: A = x + sigma heading + z."""

    def __init__(self, field: EdgeField, x: Any, heading: Floats | None) -> None:
        self.field, self.x = field, x
        low, top = field.edges.low, field.edges.top
        gap = x[low] - x[top]
        above = int(np.argmax(gap))
        self.gap, self.relative = gap.astype(np.float64), (gap - gap[above]).astype(np.float64)
        self.start = field.velocity(self.gap, self.relative)
        self.K = field.stiffness(self.gap, self.relative)
        self.heading = self.start if heading is None else heading
        rise = self.heading[low].astype(np.longdouble) - self.heading[top]
        self.rise, self.relative_rise = rise.astype(np.float64), (rise - rise[above]).astype(np.float64)

    def speed(self, sigma: float, z: Floats) -> Floats:
        """dA/ds at a point of the step."""
        change = z[self.field.edges.low] - z[self.field.edges.top]
        gap = self.gap + sigma * self.rise + change
        return self.field.velocity(gap, self.relative + sigma * self.relative_rise + change)

    def step(self, sigma: float) -> tuple[Any, float]:
        """The end of a step of length sigma, and an error estimate."""
        z, error = extrapolated(sigma, self.speed, self.heading, self._solver)
        return self.x + self.field.balance(
            np.longdouble(sigma) * self.heading.astype(np.longdouble) + z
        ), error

    def _solver(self, h: float) -> Callable[[Floats], Floats]:
        """Solve (1 - h J) y = r, J = -(1 - g g') K with the unit g = -dA/ds.

        With M = 1 + h K, which is sparse, y = M^-1 r + M^-1 g (g'r - g'M^-1 r) / (g'M^-1 g).
        """
        solve = splu((eye_array(len(self.start)) + h * self.K).tocsc()).solve
        g = self.start
        across = solve(g)

        def both(r: Floats) -> Floats:
            inside = solve(r)
            return inside + across * ((g @ r - g @ inside) / (g @ across))

        return both
