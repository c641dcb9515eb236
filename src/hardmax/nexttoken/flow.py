"""Stage 2 in the limit of small steps: normalised gradient flow, along its arc length.

dA/ds = -G/|G| has |dA/ds| = 1, so W_kq grows with s = eta t while what is beside W_kq* relaxes at a rate of
order 1: a stiff problem, which an implicit method crosses in steps of the size of s. The exponents are
differences of numbers as large as s. So each step has coordinates of its own, A = start + sigma heading + z:
the exponents of the start are formed once, in extended precision where the machine has it, relative to the
largest, and inside the step only their small changes appear. The Jacobian is a block per query, plus the rank
one of the normaliser that couples them, so a step costs no more than the sentences do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, dia_array, eye_array
from scipy.sparse.linalg import splu

from hardmax._lib import expect
from hardmax.data.sentences.samples import Samples
from hardmax.nexttoken.direction import StageTwo
from hardmax.nexttoken.edges import Scratch, fill_log_flows, gather
from hardmax.nexttoken.pairs import Floats, Ints, Pairs
from hardmax.nexttoken.stage1 import stage_1
from hardmax.nexttoken.training import FIRST_RATE, RATE, STEPS, Training, point
from hardmax.problem.output_value import OutputValue
from hardmax.train.flow import ABSOLUTE, ORDER, RELATIVE

# Tokens that weigh less than this no longer change the flows; else differences of this size give the
# derivative.
SETTLED, DIFFERENCE = 1e-13, 1e-6

# The first step's length, and the largest factor from one step to the next.
FIRST, GROWTH = 0.125, 8.0


def train_by_flow(
    samples: Samples,
    until: float,
    *,
    stage1: int = STEPS,
    rate: float | None = None,
    first_rate: float | None = None,
    record: Sequence[float] | None = None,
    W_ov: OutputValue | None = None,
    start: Any = None,
    n: Ints | None = None,
) -> Training:
    """Algorithm 1 with stage 2 as a flow, to the time ``until`` on the clock of steps of size ``rate``.

    The flow is what steps tend to as ``rate`` does to zero with the arc length rate x time fixed. It needs
    the structured form along the way; where `train` has to take signed steps, this raises. Times to
    ``record`` are every factor of 2 by default.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.flow import train_by_flow
    >>> samples = Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> run = train_by_flow(samples, 1e12, rate=0.025)
    >>> f"{run.norm_kq:.4e}", round(run.misalignment_kq / run.late.misalignment(0.025e12), 6)
    ('2.5000e+10', 1.0)
    """
    pairs = Pairs.of(samples, n)
    root = np.sqrt(samples.V)
    first_rate = expect.positive("first_rate", FIRST_RATE / root if first_rate is None else first_rate)
    rate = expect.positive("rate", RATE / root if rate is None else rate)
    end = expect.positive("until", until)
    given = W_ov is not None
    if W_ov is None:
        W_ov = stage_1(pairs.collocation, expect.whole("stage1", stage1), first_rate)
    wanted = _times(end, rate) if record is None else np.unique([*map(float, record), end])
    if wanted[0] <= 0.0 or wanted[-1] > end:
        raise ValueError(f"record must be times above 0 and up to until = {end:g}, got {record!r}")
    field = _Field(StageTwo(pairs, W_ov))
    x = point(pairs, start).astype(np.longdouble)
    points, s, sigma, heading = [x], 0.0, FIRST, None
    for time in wanted:
        while s < rate * time:
            length = min(sigma, rate * time - s)
            x, length, heading, growth = field.advance(x, heading, length)
            s += length
            sigma = max(sigma, length) if length < sigma and growth > 1.0 else length
            sigma *= min(growth, GROWTH)
        points.append(x)
    return Training(
        pairs, W_ov, rate, "flow", np.append(0.0, wanted), np.array(points),
        None if given else first_rate, None if given else int(stage1), 0, field.stage,
    )  # fmt: skip


class _Field:
    """The right-hand side -G/|G| on the edges of a dataset, and steps along it."""

    def __init__(self, stage: StageTwo) -> None:
        if stage.edges is None or stage.W_ov.margin is None:
            raise ValueError(
                "samples: the flow needs W_ov = margin W_ov* and exactly one deciding token type in every "
                "sentence; use train, which takes signed steps"
            )
        self.stage, self.edges, self.margin = stage, stage.edges, stage.W_ov.margin
        self.room, self.G = Scratch.of(self.edges), np.empty(stage.pairs.P)
        K, P = len(self.edges.top), stage.pairs.P
        every, ones = np.arange(K), np.ones(K)
        low = csr_array((ones, (every, self.edges.low)), shape=(K, P))
        self.D = low - csr_array((ones, (every, self.edges.top)), shape=(K, P))
        sizes = np.diff(self.edges.edge_offsets)
        self.begin = np.repeat(self.edges.edge_offsets[:-1], sizes)  # of the query of each edge
        self.end = np.repeat(self.edges.edge_offsets[1:], sizes)

    def advance(self, x: Any, heading: Floats | None, length: float) -> tuple[Any, float, Floats, float]:
        """A step of at most this length: where it ends, its length, its heading, and by how much to grow."""
        leg = _Leg(self, x, heading)
        while True:
            end, error = leg.step(length)
            tolerance = ABSOLUTE + RELATIVE * length
            growth = 0.8 * (tolerance / error) ** (1.0 / ORDER) if error > 0.0 else GROWTH
            if error <= tolerance:
                return end, length, ((end - x) / np.longdouble(length)).astype(np.float64), growth
            length *= min(max(growth, 0.1), 0.7)

    def velocity(self, gap: Floats, relative: Floats) -> Floats:
        """-G/|G| from the gaps of the edges, and the same gaps relative to one of them."""
        self.room.log_flux[:] = self._log_flows(gap) + relative
        _, length = gather(self.edges, self.room.log_flux, self.G)
        return self.G / -length

    def balance(self, move: Any) -> Any:
        """The same with columns that sum to zero, as G's do: nothing else would damp rounding there."""
        offsets = self.stage.pairs.query_offsets
        sizes = np.diff(offsets)
        return move - np.repeat(np.add.reduceat(move, offsets[:-1]) / sizes, sizes)

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
            raise ValueError(
                "samples: a flux changes sign on the way (Assumption 3 is violated); use train, which takes "
                "signed steps"
            )
        return self.room.log_flux.copy()


class _Leg:
    """One step's own coordinates: A = x + sigma heading + z."""

    def __init__(self, field: _Field, x: Any, heading: Floats | None) -> None:
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
        """The end of a step of length sigma, and an error estimate.

        Linearly implicit Euler with 1, 2, 3, ... substeps, extrapolated to step size zero.
        """
        above: list[Floats] = []
        row: list[Floats] = []
        for parts in range(1, ORDER + 1):
            h = sigma / parts
            solve = self._solver(h)
            z = np.zeros(len(self.start))
            for part in range(1, parts + 1):
                z = z + solve(h * (self.speed(part * h, z) - self.heading))
            above, row = row, [z]
            for k, coarser in enumerate(above, start=1):
                row.append(row[-1] + (row[-1] - coarser) / (parts / (parts - k) - 1.0))
        error = float(np.abs(row[-1] - row[-2]).max())
        move = np.longdouble(sigma) * self.heading.astype(np.longdouble) + row[-1]
        return self.x + self.field.balance(move), error

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


def _times(end: float, rate: float) -> Floats:
    """Every factor of 2 from the first leg on."""
    first = FIRST / rate
    if end <= first:
        return np.array([end])
    count = int(np.floor(np.log2(end / first)))
    return np.unique([*(first * 2.0 ** np.arange(count + 1)), end])
