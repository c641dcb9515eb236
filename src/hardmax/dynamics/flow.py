"""Gradient flow in log time, far beyond underflow.

With tau = log t the flow reads dp/dtau = F = t (-grad L). Late in training p grows linearly in tau, because
the factor t and the vanishing gradient balance; so an implicit method takes geometrically growing steps, and
t = e^(10,000,000) is a matter of a second. In between, p may leave a plateau within less than one unit of t
when t is already e^45, which log t cannot resolve; so the integration runs in the arc length of (p, tau), and
tau is an unknown like p.

Each step is taken in coordinates of its own: (p, tau) = start + sigma heading + z, with the heading of the
step before. The exponents tau + (k_t - k_top).p, differences of huge numbers, are then formed once a step, in
extended precision where the machine has it; inside the step only their small changes appear, so that the
right-hand side is free of rounding noise at any norm. (A general stiff solver sees that noise and stalls.)
Flows in norms other than l2 are the same with another right-hand side: see flows/norms.py. Large problems
visit only the slots that still weigh anything: see flows/working.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.arrays import cosine_distance
from hardmax.dynamics.flows.arc import follow, stop_at
from hardmax.dynamics.flows.field import accepted, crossing
from hardmax.dynamics.flows.log_time import LogField
from hardmax.dynamics.flows.norms import field_of, smooth
from hardmax.dynamics.gradient import pull_of
from hardmax.dynamics.models import Model
from hardmax.dynamics.run import Run
from hardmax.problem import Problem, need_problem

# Below this speed per arc length p may have come to rest, and the nearest stationary point is looked for.
SLOW = 0.01

# A flow is stuck in noise if in this many steps neither log t advances by 1 nor p by a tenth of its norm.
STEPS = 250

# Of p times 2^power, in whose units keys have size one, and that power: positive before the end.
Stop = Callable[[np.ndarray, int], float]


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
    """Gradient flow of p, to whichever of its ends comes first.

    It stops earlier at a finite limit (event "stationary point"). If the end still has inputs that do not
    select one token, the event is "tie".

    Args:
        model: a `Problem`, or `decomposition.remainder`, whose p_fin stays: what diverges flows beside it, at
            any norm, and ends and lengths are those of what diverges.
        clock: "log t" for gradient flow dp/dt = -gradient, whose time outgrows any float; "arc length" for
            normalised gradient flow, dp/ds = -gradient/|gradient|: the same curve with the length s as time,
            the limit of normalised descent for small steps, s = rate times steps.
        until_norm: a norm of p; 1e6 if no end is given.
        until_log_time: a log t, on that clock.
        until_length: an arc length, on that clock.
        until_cosine_distance: a direction and the 1 - cos to it to fall below.
        record: the arc lengths to keep, on that clock; every step of the integrator by default.
        start: p(0), the origin by default.
        norm: the norm in which it is steepest descent with infinitely small steps, "l2" or another power in
            (1, inf) such as "l3" or 1.5: dp/dt = |g|* d, with g minus the gradient and d the step of norm 1
            that gains most. ``until_norm`` stays the length of p in l2.
        mirror: mirror flow of that power instead, d xi/dt = g with p_k = sign(xi_k) |xi_k|^(1/(power - 1)):
            the limit of `hm.optim.Mirror(rate, power, normalized=False)` for small rates.

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
    if mirror not in (False, True):
        raise TypeError(f'mirror must be True or False, got {mirror!r}; the power is that of norm="l3"')
    ball = smooth(norm, clock, mirror)
    if isinstance(model, Model):
        if ball.name != "l2":
            raise ValueError(
                f"norm must be l2 for a remainder, got {ball.name}, whose flow would move the finite part too; "
                "leave norm out"
            )
        given: dict[str, Any] = {"until_norm": until_norm, "until_log_time": until_log_time}
        given |= {"until_length": until_length, "until_cosine_distance": until_cosine_distance}
        given |= {"clock": None if clock == "log t" else clock, "record": record, "start": start, **options}
        return model._flow(**{name: value for name, value in given.items() if value is not None})
    if options:
        raise TypeError(f"flow of a problem has no option {next(iter(options))!r}; leave it out")
    need_problem(model)
    problem = model
    p = problem.vector("start", start)
    problem.need_decreasing_loss()
    if clock not in ("log t", "arc length"):
        raise ValueError(f'clock must be "log t" or "arc length", got {clock!r}')
    if clock == "log t" and (until_length is not None or record is not None):
        raise ValueError('until_length and record are arc lengths: say clock="arc length", or leave them out')
    if clock == "arc length" and until_log_time is not None:
        raise ValueError('until_log_time is a log t: say clock="log t", or give until_length')
    ends: list[Stop] = []
    if all(end is None for end in (until_norm, until_log_time, until_length, until_cosine_distance)):
        until_norm = 1e6
    if until_norm is not None:
        limit = expect.positive("until_norm", until_norm)
        ends.append(lambda y, power: float(np.ldexp(limit, power)) - float(np.linalg.norm(y)))
    if until_cosine_distance is not None:
        target, value = until_cosine_distance
        least = expect.positive("until_cosine_distance[1]", value)
        ends.append(lambda y, power: cosine_distance(y, target) - least if y.any() else 1.0)
    if clock == "arc length":
        return _whole(*follow(problem, p, ends, until_length, record), clock)
    field = field_of(problem, p, ball, mirror)
    if until_norm is not None:
        field.scale.point(np.array(until_norm), "until_norm")  # refuses one that is out of range
    stops = [stop_at(end, lambda x: field.whole(x[:-1]), field.scale.exponent) for end in ends]
    if until_log_time is not None:
        last = float(expect.finite_array("until_log_time", until_log_time, ()))
        stops.append(lambda x: last - field.log_time(x))
    run = _integrate(field, stops)
    if ball.name == "l2":
        return run
    kind = "mirror" if mirror else "gradient"
    return replace(run, method=f"{kind} flow in {ball.name}", flow_norm=ball.name)


def _is_stuck(points: list[np.ndarray]) -> bool:
    if len(points) % STEPS:
        return False
    before, now = points[-STEPS], points[-1]
    moved = float(np.linalg.norm(now[:-1] - before[:-1]))
    return bool(now[-1] - before[-1] < 1.0) and moved < 0.1 * float(np.linalg.norm(now[:-1]))


def _integrate(field: LogField, stops: list[Callable[[np.ndarray], float]]) -> Run:
    settled = field.settle(field.start)
    if pull_of(settled, field.slots.table, field.problem.total).is_stationary:
        no_pull = np.isneginf(settled.log_scale).all()
        x = np.append(field.start, -math.inf)
        return _trajectory(field, [x], "no competing token" if no_pull else "stationary point")
    x = field.begin()
    points = [np.append(field.start, x[-1])]
    sigma, heading = 1.0, None
    while all(stop(x) > 0 for stop in stops):
        leg = field.leg(x, heading, sigma)
        if leg.is_noise or _is_stuck(points):
            return _trajectory(field, points, "precision exhausted")
        taken = accepted(leg.step, sigma, leg.size)
        if taken is None:
            return _trajectory(field, points, "precision exhausted")
        end, sigma, growth = taken
        crossed = [stop for stop in stops if stop(end) <= 0]
        if crossed:
            sigma = min(crossing(leg, stop, sigma) for stop in crossed)
            end, _ = leg.step(sigma)
        heading = ((end - x) / np.longdouble(sigma)).astype(float)
        x = end
        points.append(x)
        if crossed:
            break
        # Only where p has all but stopped: a p that diverges keeps the speed |p_mm| per unit of tau.
        resting = field.limit(x[:-1]) if np.linalg.norm(heading[:-1]) < SLOW else None
        if resting is not None:
            points[-1] = np.append(resting, x[-1])
            return _trajectory(field, points, "stationary point")
        sigma *= min(growth, 8.0)
    return _trajectory(field, points, None)


def _trajectory(field: LogField, points: list[np.ndarray], event: str | None) -> Run:
    stacked = field.scale.back(np.array([field.whole(x[:-1]) for x in points]))
    times = np.array([field.log_time(x) for x in points])
    return _whole(field.problem, times, stacked, event, "log t")


def _whole(problem: Problem, times: np.ndarray, points: np.ndarray, event: str | None, clock: str) -> Run:
    method = "gradient flow" if clock == "log t" else "normalised gradient flow"
    path = Run(problem, clock, times, points.astype(np.float64), event, method=method)
    if event is None and path.p.any() and not path.selection.is_unique:
        return replace(path, event="tie")
    return path
