"""Gradient flow, far beyond underflow: one integrator for all fields and clocks.

With tau = log t the flow reads dp/dtau = F = t (-grad L). Late in training p grows linearly in tau, because
the factor t and the vanishing gradient balance; so an implicit method takes geometrically growing steps, and
t = e^(10,000,000) is a matter of a second. A general stiff solver sees rounding noise in exponents of that
size and stalls; here each step is taken in separate coordinates, see `hardmax.dynamics.fields`.

A field gives a force, a solver for its Jacobian, and the slots to visit: all of them, the edges of next-token
data, or in large problems those that still weigh anything (`hardmax.dynamics.working`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance
from hardmax.dynamics import fields
from hardmax.dynamics.driver import RunWatch
from hardmax.dynamics.edges import edges_of
from hardmax.dynamics.fields import FlowField, Leg, Solve
from hardmax.dynamics.models import Model, SteppedModel, Steps, Vector
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.working import WorkingField
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.problem import Problem, need_problem
from hardmax.problem.coordinates import scaled
from hardmax.problem.losses import LOSSES

if TYPE_CHECKING:
    from hardmax.limits.decomposition import Decomposition

# Problems with fewer slots are followed as a whole.
LARGE = 2_000

# Optimizers to call in a norm that has no flow.
INSTEAD = {"l1": "Coordinate(rate, decay=0.5)", "linf": "Sign(rate, decay=0.5)", "spectral": "Spectral(rate)"}

# A step shorter than this gets nowhere; the largest factor from one step to the next.
SHORTEST, GROWTH = 1e-14, 8.0

# Of a field and its state: positive before the end.
Stop = Callable[[FlowField, Any], float]


@check_arguments
def flow(
    model: Problem | Model,
    *,
    clock: str = "log t",
    until_norm: float | None = None,
    until_log_time: float | None = None,
    until_length: float | None = None,
    until_cosine_distance: tuple[Any, float] | None = None,
    record: Sequence[float] | None = None,
    start: Any = None,
    norm: Any = "l2",
    mirror: bool = False,
    **options: Any,
) -> Run:
    """Integrate gradient flow until a stopping criterion is met.

    It stops earlier at a finite limit (event "stationary point"). If the end still has inputs that do not
    select one token, the event is "tie".

    Args:
        model: a `Problem`, or `decomposition.remainder`, whose p_fin stays: the rest flows next to it, at
            any norm, and ends and lengths are those of what diverges.
        clock: "log t" for gradient flow dp/dt = -gradient, whose time outgrows any float; "arc length" for
            normalized gradient flow, dp/ds = -gradient/|gradient|: the same curve with the length s as time,
            the limit of normalized descent for small steps, s = rate times steps.
        until_norm: stop at this norm of p; 1e6 if no criterion is given.
        until_log_time: stop at this log t (clock "log t" only).
        until_length: stop at this arc length (clock "arc length" only).
        until_cosine_distance: (direction, tolerance); stop when 1 - cos to the direction is below it.
        record: arc lengths of snapshots (clock "arc length" only); default: every step of the integrator.
        start: initial p; default: the origin.
        norm: the norm in which it is steepest descent with infinitely small steps, "l2" or another power in
            (1, inf) such as "l3" or 1.5: dp/dt = |g|* d, with g minus the gradient and d the step of norm 1
            that gains most. ``until_norm`` stays the length of p in l2.
        mirror: mirror flow of that power instead, d xi/dt = g with p_k = sign(xi_k) |xi_k|^(1/(power - 1)):
            the limit of `hm.optim.Mirror(rate, power, normalized=False)` for small rates.
        options: those of a model of paper A or C.

    >>> import hardmax as hm
    >>> path = hm.flow(hm.data.example("B-FIG-8"), until_norm=1e6)
    >>> path.selection, path.clock, path.event
    ((0, 0), 'log t', None)
    >>> path.cosine_distance([1.0, 3.0]) < 1e-12
    True
    >>> along = hm.flow(hm.data.example("B-FIG-8"), clock="arc length", until_norm=1e6)
    >>> round(along.times[-1]), along.cosine_distance(path) < 1e-20
    (1000000, True)
    >>> far = hm.flow(hm.data.example("triple"), norm="l3")
    >>> best = hm.max_margin(far.problem, far.selection, norm=far.norm)
    >>> far.method, far.margin_gap(best) < 1e-5
    ('gradient flow in l3', True)
    """
    ball = None if isinstance(norm, str) and norm == "l2" else smooth(norm, clock, mirror)
    if isinstance(model, Model):
        if ball is not None:
            raise ValueError(
                f"norm must be l2 for a remainder, got {ball.name}, whose flow would move the finite part "
                "too; leave norm out"
            )
        arguments: dict[str, Any] = {"until_norm": until_norm, "until_log_time": until_log_time}
        arguments |= {"until_length": until_length, "until_cosine_distance": until_cosine_distance}
        arguments |= {"clock": None if clock == "log t" else clock, "record": record, "start": start}
        arguments |= options
        return model._flow(**{name: value for name, value in arguments.items() if value is not None})
    if options:
        raise TypeError(f"flow of a problem has no option {next(iter(options))!r}; leave it out")
    need_problem(model)
    problem = model
    p = problem.vector("start", start)
    problem.need_decreasing_loss()
    if clock not in ("log t", "arc length"):
        raise ValueError(f'clock must be "log t" or "arc length", got {clock!r}')
    if clock == "log t" and (until_length is not None or record is not None):
        raise ValueError(
            'until_length and record are arc lengths: pass clock="arc length", or leave them out'
        )
    if clock == "arc length" and until_log_time is not None:
        raise ValueError('until_log_time is a log t: pass clock="log t", or give until_length')
    if all(end is None for end in (until_norm, until_log_time, until_length, until_cosine_distance)):
        until_norm = 1e6
    stops = _stops(until_norm, until_log_time, until_cosine_distance)
    last = math.inf if until_length is None else expect.positive("until_length", until_length)
    field: FlowField
    if clock == "arc length":
        field = along_arc(problem, p)
    else:
        scale = scaled(problem, to_one=True)
        if ball is not None:
            field = (fields.MirrorField if mirror else fields.NormField)(scale, p, ball)
        else:
            field = (WorkingField if is_large(problem) else fields.Field)(scale, p)
    if until_norm is not None and isinstance(field, fields.Field):
        field.scale.point(np.array(until_norm), "until_norm")  # refuses one that is out of range
    times, points, event = follow(field, p, stops, last, record)
    kind = "mirror" if mirror and ball is not None else "gradient"
    method = f"{kind} flow" if clock == "log t" else "normalized gradient flow"
    name = "l2" if ball is None else ball.name
    method = method if ball is None else f"{method} in {name}"
    path = Run(problem, clock, times, points.astype(np.float64), event, method=method, flow_norm=name)
    is_tie = event is None and path.p.any() and not path.selection.is_unique
    return replace(path, event="tie") if is_tie else path


@dataclass(frozen=True, eq=False)
class Remainder(SteppedModel):
    """p = p_fin + r, where r moves by the separable rows alone.

    On data that do not separate, the pulls of bound rows cancel to rounding near p_fin, while those of
    separable rows weigh e^-margin: beyond margins of about 36 the gradient of the whole problem is noise. The
    problem that `hm.decompose` calls ``late`` has no bound rows, so nothing cancels in it at any norm.

    >>> import hardmax as hm
    >>> parts = hm.decompose(hm.data.example("cycle"))
    >>> hm.train(parts.remainder, hm.optim.Normalized(lr=0.1), steps=100).method
    'normalized gradient descent with p_fin fixed'
    """

    decomposition: Decomposition

    blocks, title = ("p",), "a remainder"
    # not batch: the inputs of the late problem are rows, not the inputs of the user
    options = ("start", "record", "coordinates", "milestones", *RunWatch._fields)

    @property
    def problem(self) -> Problem:
        """The decomposed problem."""
        return self.decomposition.problem

    def _take(self, optimizers: tuple[Optimizer, ...], steps: Steps) -> Run:
        """Train r by an optimizer that does not leave its space."""
        (step,) = optimizers
        if not step.in_span:
            raise ValueError(
                f"optimizer must stay in the span of the keys, got {type(step).__name__}, which would move "
                "the finite part too; choose GD or Normalized, or train the problem"
            )
        begin = self._free_part(steps.start)
        return self._lifted(Vector(self.decomposition.late).run(step, replace(steps, start=begin)))

    def _flow(self, *, start: Any = None, **options: Any) -> Run:
        """Follow the flow of r; ends and lengths are those of r."""
        return self._lifted(flow(self.decomposition.late, start=self._free_part(start), **options))

    def _free_part(self, start: Any) -> np.ndarray | None:
        """Return the start of r: a start of p without its bound part, which p_fin replaces."""
        return None if start is None else self.decomposition.parts(start)[1]

    def _lifted(self, run: Run) -> Run:
        """The run of r as one of p = p_fin + r on the whole problem."""
        p_fin = self.decomposition.p_fin
        assert p_fin is not None, "a problem has a late one only with its p_fin"
        points = np.asarray(run.points) + p_fin
        return replace(run, source=self.problem, points=points, method=f"{run.method} with p_fin fixed")


def smooth(name: Any, clock: str, mirror: bool) -> Norm | None:
    """The norm of a flow, None for l2, or a refusal that names what to call instead."""
    ball = norm_of(name)
    by_steps = f'Normalized(rate, norm="{ball.name}")'
    if ball.is_polyhedral or ball.of_matrix:
        why = "a norm of matrices" if ball.of_matrix else "whose direction jumps"
        raise ValueError(
            f"norm must be a power in (1, inf) for a flow, got {ball.name}, {why}; call "
            f"hm.train(problem, hm.optim.{INSTEAD.get(ball.name, by_steps)})"
        )
    if not mirror:
        ball.check_flow()
    elif ball.mirror is None:
        raise ValueError(
            f"norm must have a mirror map with mirror, got {ball.name}, which has none; leave mirror out, or "
            "choose a power in (1, inf)"
        )
    else:  # mirror descent is for powers alone
        degree = ball.mirror.degree
        by_steps = f"Mirror(rate, {degree:g})" if norm_of(degree) == ball else ""
    if clock == "arc length" and ball.name != "l2":
        instead = f", or call hm.train(problem, hm.optim.{by_steps}) with a small rate" if by_steps else ""
        raise ValueError(
            f'clock must be "log t" in {ball.name}, got "arc length", which is that of l2; leave it out'
            f"{instead}"
        )
    return None if ball.name == "l2" else ball


def _stops(until_norm: Any, until_log_time: Any, until_cosine_distance: Any) -> list[Stop]:
    """The ends of a flow as functions of its state."""
    stops: list[Stop] = []
    if until_norm is not None:
        limit = expect.positive("until_norm", until_norm)
        stops.append(lambda field, x: float(np.ldexp(limit, field.power) - np.linalg.norm(_point(field, x))))
    if until_cosine_distance is not None:
        target, value = until_cosine_distance
        least = expect.positive("until_cosine_distance[1]", value)
        stops.append(
            lambda field, x: cosine_distance(y, target) - least if (y := _point(field, x)).any() else 1.0
        )
    if until_log_time is not None:
        last = float(expect.finite_array("until_log_time", until_log_time, ()))
        stops.append(lambda field, x: last - field.time(x, 0.0))
    return stops


def _point(field: FlowField, x: Any) -> np.ndarray:
    return field.whole(x.astype(np.float64))


def along_arc(problem: Problem, p: np.ndarray) -> FlowField:
    """Return the field of normalized gradient flow: edges where that form is exact, else the problem."""
    edges = edges_of(problem)
    if edges is not None:
        return fields.EdgeField(problem, edges, p)
    return fields.Field(scaled(problem, to_one=True), p, fields.ARC_LENGTH)


def is_large(problem: Problem) -> bool:
    """Whether a flow takes place among working sets: with a loss that is steepest at the least score."""
    is_built_in = LOSSES.get(problem.loss.name) is problem.loss and problem.readout.in_log is None
    return is_built_in and not problem.readout.moves and len(problem.tokens) >= LARGE


def follow(
    field: FlowField,
    p: np.ndarray,
    stops: Sequence[Stop] = (),
    last: float = math.inf,
    record: Iterable[float] | None = None,
) -> tuple[np.ndarray, np.ndarray, str | None]:
    """Times, points (as precise as the field has them) and event of the flow from p.

    Args:
        field: the field.
        p: the start, returned as the first point.
        stops: of a field and its state, positive before the end.
        last: the length to go at most, where that is the time.
        record: the lengths to keep in addition to the start; every step by default.
    """
    wanted = [] if record is None else np.unique([float(s) for s in record]).tolist()
    if wanted and not 0.0 <= wanted[0] <= wanted[-1] <= last:
        raise ValueError(f"record must be arc lengths from 0 to until_length = {last:g}, got {record!r}")
    way = _Way(field, record is None)
    goals = [s for s in wanted if s > 0.0]
    event = way.go(goals if goals and goals[-1] == last else [*goals, last], stops)
    points = np.concatenate([part.back(np.array(states)) for part, states in way.kept])
    points[0] = p
    return np.array(way.times), points, event


class _Way:
    """The present state of a flow, and its snapshots."""

    def __init__(self, field: FlowField, keep_all: bool) -> None:
        self.keep_all = keep_all
        self.s, self.sigma, self.steps = 0.0, field.clock.first, 0
        self._enter(field)
        self.times, self.kept, self.at = [field.time(self.x, 0.0)], [(field, [self.x])], 0.0

    def _enter(self, field: FlowField) -> None:
        self.field, self.x, self.event = field, *field.begin()
        self.heading: np.ndarray | None = None
        self.mark = self.x, self.s

    def _keep(self) -> None:
        """Keep the present state, once."""
        if self.s > self.at:
            self.at = self.s
            self.times.append(self.field.time(self.x, self.s))
            if self.kept[-1][0] is not self.field:
                self.kept.append((self.field, []))
            self.kept[-1][1].append(self.x)

    def go(self, goals: Sequence[float], stops: Sequence[Stop]) -> str | None:
        """Go to the last of some lengths, keeping the state at each; the event that ends it, if any."""
        if self.event is not None or any(stop(self.field, self.x) <= 0.0 for stop in stops):
            return self.event
        for goal in goals:
            while self.s < float(np.ldexp(goal, self.field.power)):
                ends, event = self._step(float(np.ldexp(goal, self.field.power)), stops)
                if ends or event is not None:
                    self._keep()
                    return event
            self._keep()
        return None

    def _step(self, goal: float, stops: Sequence[Stop]) -> tuple[bool, str | None]:
        """Take one step; return whether a stopping criterion holds, and the event that ends the flow."""
        field, x, longest = self.field, self.x, min(self.sigma, goal - self.s)
        try:
            leg = field.leg(x, self.heading, longest)
            result = None if leg.is_noise or self._is_stuck() else _accepted(leg, longest)
            if result is None:
                return False, "precision exhausted"
            end, length, growth = result
            crossed = [stop for stop in stops if stop(field, end) <= 0.0]
            if crossed:
                length = min(_crossing(field, leg, stop, length) for stop in crossed)
                end, _ = _stepped(leg, length)
        except fields.LeftForm:
            return self._change(field.successor(x))
        self.heading = heading = ((end - x) / np.longdouble(length)).astype(np.float64)
        self.x, self.s, self.steps = end, self.s + length, self.steps + 1
        if self.keep_all:
            self._keep()
        if crossed:
            return True, None
        resting = field.limit(end) if field.clock.is_slow(heading, length) else None
        if resting is not None:
            self._keep()
            self.kept[-1][1][-1] = resting
            return False, "stationary point"
        # a step that was cut short to end at a target does not predict the next one
        is_cut = length < self.sigma and (length == longest or field.is_bold)
        self.sigma = (self.sigma if is_cut and growth > 1.0 else length) * min(growth, GROWTH)
        return False, None

    def _change(self, field: FlowField) -> tuple[bool, str | None]:
        """Follow another field from here on."""
        self.s, self.at = (float(np.ldexp(s, field.power - self.field.power)) for s in (self.s, self.at))
        self._enter(field)
        return False, self.event

    def _is_stuck(self) -> bool:
        """Whether many steps brought the flow hardly farther."""
        clock = self.field.clock
        is_due = (self.steps - clock.due) % clock.patience == 0
        is_stuck = is_due and clock.is_stuck(self.mark, (self.x, self.s))
        if self.steps % clock.patience == 0:
            self.mark = self.x, self.s
        return is_stuck


def _accepted(leg: Leg, sigma: float) -> tuple[Any, float, float] | None:
    """The end of a step of at most this length with a small error, its length, and by how much to grow.

    None where even the shortest step has too large an error.
    """
    while True:
        end, error = _stepped(leg, sigma)
        tolerance = leg.tolerance(sigma)
        growth = 0.8 * (tolerance / error) ** (1.0 / fields.ORDER) if error > 0.0 else math.inf
        if error <= tolerance:
            return end, sigma, growth
        sigma *= min(max(growth, 0.1), 0.7)
        if sigma < SHORTEST:
            return None


def _crossing(field: FlowField, leg: Leg, stop: Stop, sigma: float) -> float:
    """Return the step length at which a stopping criterion holds; the step itself is the interpolant."""
    return float(
        brentq(lambda s: stop(field, _stepped(leg, s)[0] if s > 0 else leg.x), 0.0, sigma, rtol=1e-13)
    )


def _stepped(leg: Leg, sigma: float) -> tuple[Any, float]:
    """The end of a step of length sigma, and an error estimate."""
    if leg.is_explicit:
        z, error, leg.slope = explicit(sigma, leg.speed, leg.heading, leg.velocity)
    elif leg.is_quick:
        z, error = leg.leap(sigma)
    else:
        z, error = extrapolated(sigma, leg.speed, leg.heading, leg.solver)
    return leg.end(sigma, z), leg.judged(z, error)


def extrapolated(
    sigma: float,
    speed: Callable[[float, np.ndarray], np.ndarray],
    heading: np.ndarray,
    solver: Callable[[float], Solve],
) -> tuple[np.ndarray, float]:
    """Return z at the end of a step of length sigma, and an error estimate.

    Linearly implicit Euler with 1, 2, 3, ... substeps, extrapolated to step size zero.
    """
    above: list[np.ndarray] = []
    row: list[np.ndarray] = []
    for parts in range(1, fields.ORDER + 1):
        h = sigma / parts
        solve = solver(h)
        z = np.zeros(len(heading))
        for part in range(1, parts + 1):
            z = z + solve(h * (speed(part * h, z) - heading))
        above, row = row, [z]
        for k, coarser in enumerate(above, start=1):
            row.append(row[-1] + (row[-1] - coarser) / (parts / (parts - k) - 1.0))
    error = float(np.abs(row[-1] - row[-2]).max())
    return row[-1], error if math.isfinite(error) else math.inf


def explicit(
    sigma: float, speed: Callable[[float, np.ndarray], np.ndarray], heading: np.ndarray, velocity: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return z after an explicit step of order 8 (Dormand and Prince), an error estimate, and a slope.

    The slope is how fast the speed changes with z, from the last stage to the end, both at sigma: times sigma
    it may be about 6 before explicit steps are unstable.
    """
    from scipy.integrate import DOP853 as method  # 30 ms that others need not wait for

    slopes = np.empty((method.n_stages, len(heading)))
    slopes[0] = velocity - heading
    z = np.zeros(len(heading))
    for k in range(1, method.n_stages):
        z = sigma * (method.A[k, :k] @ slopes[:k])
        slopes[k] = speed(method.C[k] * sigma, z) - heading
    end = sigma * (method.B @ slopes)
    turn = speed(sigma, end) - heading - slopes[-1]
    distance = float(np.linalg.norm(end - z))
    fifth, third = (float(np.abs(weights[:-1] @ slopes).max()) for weights in (method.E5, method.E3))
    error = sigma * fifth**2 / math.hypot(fifth, 0.1 * third) if fifth > 0.0 else 0.0
    slope = float(np.linalg.norm(turn)) / distance if distance > 0.0 else 0.0
    return end, error if math.isfinite(error) else math.inf, slope
