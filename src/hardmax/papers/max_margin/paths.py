"""Theorem 1, its first-order correction (B-NEW-2), late descent (B-NEW-3), and infinity (B-NEW-4).

Late normalized descent is gradient descent on a convex function, with a stability threshold, above which it
becomes chaotic (B-FIG-CHAOS). By the index theorem of attention, stationary points and directions at infinity
balance (B-FIG-INDEX).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, INK, RED
from hardmax.directions.critical import LIMIT, CriticalDirections, critical_directions
from hardmax.limits.late import LateMap, period
from hardmax.limits.stationary import DescentField, StationaryPoint, degree, stationary_points
from hardmax.papers.checking import common
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement, unmet, unsaid
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Canvas, Tables, part, stacked
from hardmax.papers.max_margin import plane
from hardmax.papers.max_margin.lemmas import best_direction
from hardmax.papers.max_margin.local import local_hypotheses
from hardmax.problem import Problem

FLOOR = 1e-9  # radians: what a path of doubles resolves
FARTHEST = 1e5  # margins: ten times as far is what a path can be followed to


def path_bound(problem: Problem, best: hm.MaxMargin, R: float) -> float:
    """Return the bound c/(R margin) of Theorem 1 on 1 - cos(p(R), p_mm), for every R beyond c/margin.

    c is the log of n T (T - 1) times the ratios of score gaps and of slopes.
    A p of least lead m over the other tokens, m >= 0, loses at least e^-m/T attention in some input, which
    costs n times less than that times the least slope and gap; p_mm at radius R loses at most (T - 1)
    e^(-R margin). So the best p has m >= R margin - c, and p.p_mm >= m |p_mm|^2 because p/m is feasible.
    """
    T = int(problem.sizes.max())
    c = math.log(problem.n * T * max(T - 1, 1)) + common.log_spread(problem)
    return c / (R * best.margin)


@statement(
    "B-THM-1",
    "Theorem 1: the global regularization path",
    "With a decreasing loss, one best token per input and the best tokens separable, p(R)/R tends to "
    "p_mm/|p_mm|; explicitly, 1 - cos <= log(n T (T-1) ratio of score gaps, ratio of slopes)/(R margin).",
    kind="limit",
    errata=("B-ERR-01", "B-ERR-07"),
)
def global_path(problem: Problem) -> Outcome:
    """The angle when it is late and at ten times that radius: within the explicit bound, and halved."""
    separable, best = common.separable_best(problem)
    hypotheses = (common.decreasing_loss(problem), common.strict_best(problem), separable)
    if unmet([h for h in hypotheses if h.erratum is None]):
        return Outcome(hypotheses)
    if best is None or best.direction is None:
        if separable.holds is not False:
            return unsaid(hypotheses)
        farkas = "Farkas vector: no p separates the best tokens, so there is no p_mm to tend to"
        return Outcome(hypotheses, paper_slack=(-1.0, farkas))
    late = common.late_for(problem, best)
    within = path_bound(problem, best, late)
    measured: dict[str, Any] = {"late from": late, "explicit bound on 1 - cos there": within}
    slack, inside = None, math.inf
    for radius in common.later(late, FARTHEST / best.margin):
        path = hm.limits.regularization_path(problem, [radius, 10 * radius])
        if not path.is_reliable.all() or path.interior.any():
            break
        near, nearer = path.angle(best).tolist()
        measured |= {"radii": path.radii, "angles in degrees": np.degrees([near, nearer])}
        bounds = [path_bound(problem, best, R) for R in path.radii.tolist()]
        inside = min(inside, *(1 - path.cosine_distances(best) / bounds).tolist())  # claimed of every radius
        # half of the angle may be left: the law is 1/R, or (log R)/R where a tight row has no multiplier
        slack = min(inside, 1 - nearer / max(0.5 * near, FLOOR))
        if slack >= 0 or inside < 0:
            break
    return Outcome(hypotheses, slack, measured, paper_slack=slack)


@statement(
    "B-NEW-2",
    "First-order correction of the path",
    "If the support rows are independent with positive multipliers, p(R) = R p_mm/|p_mm| + w + O(1/R) with "
    "the explicit w of the bordered system.",
    kind="limit",
    label="derived",
)
def first_order_path(problem: Problem) -> Outcome:
    """The residual when it is late and at ten times that radius: it must fall like 1/R.

    Where terms in 1/R^2 still weigh, as where a row is ten times as long as p_mm asks, it is looked at again
    ten times as far out.
    """
    hypotheses, best, along = best_direction(
        problem, common.decreasing_loss(problem), common.strict_best(problem)
    )
    independent = "independent support, positive multipliers"
    try:
        w = hm.limits.path_offset(problem, best)
    except ValueError as reason:
        return Outcome((*hypotheses, Hypothesis(independent, False, str(reason))))
    hypotheses.append(Hypothesis(independent, True, len(best.support)))
    late = common.late_for(problem, best)
    slack, measured = None, {"late from": late, "|w|": float(np.linalg.norm(w)), "w": w}
    rounding = 1e-9 * 10 * late
    for radius in common.later(late, FARTHEST / best.margin):
        path = hm.limits.regularization_path(problem, [radius, 10 * radius])
        if not path.is_reliable.all():
            break
        pairs = zip(path.points, path.radii, strict=True)
        near, nearer = (float(np.linalg.norm(p - (float(R) * along + w))) for p, R in pairs)
        measured |= {"radii": path.radii, "residuals": [near, nearer]}
        slack = 1 - nearer / max(0.3 * near, rounding)
        if slack >= 0:
            break
    return Outcome(hypotheses, slack, measured)


NEAR = 0.03  # how far below and above the threshold the step is taken
STEPS = 6000
RATIO = 0.01  # measured against predicted 1 - cos
OFF = 0.01  # of |p_mm|: how far from the residual a run starts
RESOLVED = 1e-8  # of |p| at the end: swings of the size of a step, or of OFF |p_mm|, are resolved
ROUNDING = 1e-26  # of 1 - cos: where w is zero that is all there is to see


@statement(
    "B-NEW-3",
    "The late residual and its stability threshold",
    "Late normalized descent settles at the residual w of B-NEW-2 plus a frozen part if its step is below "
    "eta_c = 2/(|p_mm| lambda_max), and not above it, where it swings with period 2 at first.",
    kind="limit",
    label="derived",
)
def late_descent(problem: Problem, *, selection: Iterable[int] | None = None) -> Outcome:
    """Two descents that start far out near p_mm, with a step 3 % below the threshold and 3 % above it."""
    hypotheses, tokens = common.one_selection(problem, selection)
    best = hm.max_margin(problem, tokens)
    hypotheses.need(*local_hypotheses(problem, best))
    late = hm.limits.late_residual(problem, best)
    hypotheses.need(Hypothesis("the residual has a limit", late.w is not None, late.status))
    assert late.w is not None
    eta = late.eta_c
    hypotheses.need(Hypothesis("several support rows", math.isfinite(eta), len(late.curvatures) + 1))
    # the residual is reached from a point off it along every direction in which it can move
    radius = max(100 * best.p_norm, common.late_for(problem, best))
    off = OFF * best.p_norm
    start = radius * common.along(best) + late.w + off * late.span.sum(axis=1)
    size = min(eta, off) / (float(np.linalg.norm(start)) + STEPS * eta)
    hypotheses.need(Hypothesis("a swing can be seen beside |p|", size >= RESOLVED or None, size))
    end = range(STEPS - 10, STEPS + 1)
    below, above = (
        late.compare(
            hm.train(problem, hm.optim.Normalized(factor * eta), steps=STEPS, start=start, record=end)
        )
        for factor in (1 - NEAR, 1 + NEAR)
    )
    settled = 1 - abs(below.measured - below.predicted) / max(RATIO * below.predicted, ROUNDING)
    measured: dict[str, Any] = {"eta_c": eta}
    for name, run in (("below", below), ("above", above)):
        measured |= {f"{name}: measured over predicted": run.ratio, f"{name}: swing": run.swing}
    measured["|w|"] = float(np.linalg.norm(late.w))
    return Outcome(hypotheses, settled if above.swing > 0 and below.swing == 0 else -1.0, measured)


DIGITS = 1e-3  # largest rounding error of a logit on the late sphere
PROOF = "infinity in fractions; the degree beyond a radius that bounds every stationary point"
MISSING = "a stationary point is missing"


def empty_beyond(problem: Problem, infinity: CriticalDirections) -> float:
    """A radius beyond which there is no stationary point, from the gaps at infinity.

    Every direction is a positive combination of at most r corners, so one of them has a share of 1/r or more,
    and rows within gap/r of the least margin count together at that corner. There they are independent, with
    the least singular value |longest row| / spread; the others are smaller by exp(-R gap/r).
    """
    share = infinity.gap / infinity.dimension
    return common.late_radius(problem, share) + math.log(infinity.spread) / share


def morse_quotient(indices: Iterable[int]) -> list[int]:
    """Coefficients of Q in sum x^index = 1 + (1 + x) Q(x), lowest first, then the remainder."""
    counts = np.bincount(list(indices), minlength=1)
    counts[0] -= 1
    quotient: list[int] = []
    for count in counts.tolist():
        quotient.append(int(count) - (quotient[-1] if quotient else 0))
    return quotient


@statement(
    "B-NEW-4",
    "The index theorem of attention",
    "(-1)^index of the finite stationary points and (-1)^(m_-) of the critical directions at infinity sum to "
    "1; the sum of x^index and x^(m_-) is 1 + (1 + x) Q(x), and no coefficient of Q is negative.",
    label="derived",
)
def index_theorem(problem: Problem, *, limit: int = LIMIT) -> Outcome:
    """Infinity in fractions, against the degree of the gradient on a late circle or sphere.

    On the line and in the plane finite stationary points are listed too, for Morse's inequality.
    """
    hypotheses = need(common.fixed_scores(problem))
    infinity = critical_directions(problem, limit=limit)
    whole = infinity.status == "complete" or None
    rows = infinity.degenerate[0] if infinity.degenerate else "independent, no multiplier is zero"
    hypotheses.need(
        common.decreasing_loss(problem),
        Hypothesis("nondegenerate at infinity", False if infinity.degenerate else whole, rows),
    )
    field, radius = DescentField(problem), empty_beyond(problem, infinity)
    reached = radius * field.unit * np.finfo(float).eps <= DIGITS and field.d == infinity.dimension
    hypotheses.need(
        Hypothesis("at most 3 dimensions", infinity.dimension <= 3 or None, infinity.dimension),
        Hypothesis("a late sphere in reach", reached or None, radius),
    )
    turns = {degree(field, R, infinity.corners) for R in (radius, 2 * radius)}
    total = 1 - infinity.sum  # of (-1)^index of the finite stationary points
    at_infinity = [direction.index for direction in infinity.directions]
    measured = {
        "indices at infinity": at_infinity,
        "sum at infinity": infinity.sum,
        "radius": radius,
        "degree of the gradient": sorted(turns, key=str),
        "1 - sum at infinity": total,
    }
    if len(turns) > 1 or None in turns:
        return Outcome(hypotheses, None, measured)
    (turn,) = turns
    if turn != total:
        # turns below a right angle, with logits good to 1e-3, cannot be miscounted; triangles in space could
        proof = PROOF if infinity.dimension <= 2 else None
        return Outcome(hypotheses, -1.0, measured, witness=[turn, at_infinity], proof=proof)
    slack: float | None = 1.0
    if infinity.dimension <= 2:
        points = stationary_points(field, radius, infinity.corners, turn)
        finite = [point.index for point in points if point.index is not None]
        measured["finite stationary points"] = [point.p for point in points]
        measured["their indices"] = [point.index for point in points]
        if len(finite) == len(points):
            *quotient, rest = morse_quotient([*finite, *at_infinity])
            measured["Q"] = quotient if rest == 0 and min(quotient, default=0) >= 0 else MISSING
            slack = None if measured["Q"] == MISSING else 1.0
    return Outcome(hypotheses, slack, measured)


SPAN = (0.8, 3.8)  # rates over eta_c
PERIODS = {0.97: 1, 1.5: 2, 2.5: 4, 2.9: 8, 3.0: 16, 3.5: None}
DOUBLINGS = (1.00, 2.08, 2.80, 2.98)
FAR = 300.0  # descent starts at this multiple of p_mm


def problem() -> hm.Problem:
    """One input, two neighbors at unequal distances across p_mm."""
    return hm.Problem([[[0, 0], [-1, -1], [-1, 3]]], [[1, 0, 0]])


def draw_chaos(tables: Tables, canvas: Canvas) -> None:
    """The residuals visited against the rate, above the Lyapunov exponent."""
    top, bottom = canvas.subplots(2, sharex=True, height_ratios=(2.0, 1.0))
    visits, runs, lyapunov = tables["late map"], tables["descent"], tables["exponents"]
    top.plot(visits["rate"], visits["residual"], ",", color=GRAY, rasterized=True, zorder=1)
    top.plot(runs["rate"], runs["residual"], ".", color=RED, markersize=2.0, markeredgewidth=0, zorder=3)
    bottom.plot(lyapunov["rate"], lyapunov["exponent"], color=BLUE, linewidth=0.7)
    bottom.axhline(0.0, color=INK, linewidth=0.6)
    for panel in (top, bottom):
        for rate in tables["doublings"]["rate"]:
            panel.axvline(rate, color="#DDDDDD", linewidth=0.6, zorder=0)
    top.set(ylabel="residual orthogonal to $p_{mm}$", xlim=SPAN)
    bottom.set(ylabel="Lyapunov exponent", xlabel=r"rate / $\eta_c$", ylim=(-1.5, 0.6))
    top.text(0.02, 0.95, "late map", color="#777777", transform=top.transAxes, va="top")
    top.text(0.02, 0.86, "normalized descent", color=RED, transform=top.transAxes, va="top")


@recipe(
    "B-FIG-CHAOS",
    "Above eta_c late descent doubles its period until there is none",
    draw=draw_chaos,
    size=(3.4, 3.4),
    errata=("B-NEW-3",),
    claims=f"""
    eta-c | eta_c | 2/3 ± 1e-12
    periods | periods of the late map up to 128, by rate over eta_c | 1, 2, 4, 8, 16, None
    descent | the same of normalized descent itself | 1, 2, 4, 8, 16, None
    doublings | rates over eta_c at which the period doubles | {listed(DOUBLINGS)} ± 0.01
    chaos | largest Lyapunov exponent at 3.5 eta_c | ≥ 0.1
    settled | the exponent below eta_c | ≤ 0.0
    agreement | distance of points visited by descent and by the map, to 3 eta_c | ≤ 1e-6
    """,
)
def fig_chaos(setting: Setting) -> Findings:
    """The late map at many rates, its exponent by the Jacobian, and full descent at a few rates."""
    late = hm.limits.late_residual(problem(), hm.max_margin(problem()))
    late_map = LateMap(late)
    assert late.w is not None
    start = late.w @ late.span + 0.01
    fine = setting.scale == "paper"
    rates = np.linspace(*SPAN, 1200 if fine else 600)
    z = np.tile(start, (len(rates), 1))
    for _ in range(2000):
        z = late_map.step(z, rates * late.eta_c)
    visits = []
    for _ in range(120):
        visits.append(z[:, 0])
        z = late_map.step(z, rates * late.eta_c)
    exponents = late_map.exponents(rates * late.eta_c, start, 1000, 2000)
    setting.progress(0.5)
    late_points, orbits, residuals = {}, {}, []
    far = FAR * late.max_margin.need() + late.w + 0.01 * late.span[:, 0]
    for rate in PERIODS:
        orbits[rate] = late_map.orbit(rate * late.eta_c, start, 6000, 400)
        step = hm.optim.Normalized(rate * late.eta_c)
        path = hm.train(problem(), step, steps=8000, start=far, record=range(7600, 8001))
        late_points[rate] = path.points[1:] @ late.span  # the first point is the start
        residuals.append(late_points[rate][-128:, 0])
    by_map = {rate: period(orbit) for rate, orbit in orbits.items()}
    by_descent = {rate: period(orbit) for rate, orbit in late_points.items()}
    doublings = [_doubling(late_map, late.eta_c, start, k, about) for k, about in enumerate(DOUBLINGS)]
    orderly = [rate for rate, p in PERIODS.items() if p is not None]
    distances = [
        float(np.abs(np.sort(late_points[r][-128:, 0]) - np.sort(orbits[r][-128:, 0])).max()) for r in orderly
    ]
    chaotic = late_map.exponents(np.array([3.5 * late.eta_c]), start, 2000, 10_000)
    claims = {
        "eta-c": late.eta_c,
        "periods": (by_map == PERIODS, [str(p) for p in by_map.values()]),
        "descent": (by_descent == PERIODS, [str(p) for p in by_descent.values()]),
        "doublings": doublings,
        "chaos": chaotic,
        "settled": exponents[rates < 0.99],
        "agreement": distances,
    }
    tables = {
        "late map": {"rate": np.tile(rates, len(visits)), "residual": np.concatenate(visits)},
        "descent": {"rate": np.repeat(list(PERIODS), 128), "residual": np.concatenate(residuals)},
        "exponents": {"rate": rates, "exponent": exponents},
        "doublings": {"rate": np.array(doublings)},
    }
    notes = (
        "Keys (0, 0), (-1, -1), (-1, 3), scores 1, 0, 0.",
        f"Descent starts at {FAR:.0f} p_mm; its last 128 of 8,000 steps are shown.",
    )
    return Findings(tables, claims, notes)


def _doubling(late_map: LateMap, eta_c: float, start: np.ndarray, k: int, about: float) -> float:
    """Bisect around a rate for the one at which the period grows beyond 2^k."""

    def is_beyond(rate: float) -> bool:
        return period(late_map.orbit(rate * eta_c, start, 4000, 80), 2**k, 1e-3) is None

    return plane.bisect(is_beyond, about - 0.05, about + 0.03, 1e-3)


SEED = 49
HALF = 4.0  # this norm of p is drawn half-way to infinity
LOOKS = {0: ("o", BLUE, "attractor"), 1: ("X", RED, "saddle"), 2: ("^", INK, "maximum")}


def disc(p: np.ndarray) -> np.ndarray:
    """The plane drawn as a disc: its rim is infinity."""
    return p / (HALF + np.linalg.norm(p, axis=-1, keepdims=True))


def draw_index(tables: Tables, canvas: Canvas) -> None:
    """The flow in the disc, separatrices, and points by their index."""
    panel = canvas.subplots()
    grid = tables["flow"]
    side = round(len(grid["x"]) ** 0.5)
    x, y, u, v = (np.reshape(grid[name], (side, side)) for name in ("x", "y", "u", "v"))
    panel.streamplot(x[0], y[:, 0], u, v, color="#C4CDD6", linewidth=0.5, arrowsize=0.5, density=1.5)
    around = np.linspace(0, 2 * np.pi, 361)
    panel.plot(np.cos(around), np.sin(around), color=INK, linewidth=0.8)
    for run in np.unique(tables["separatrices"]["run"]):
        rows = part(tables["separatrices"], "run", run)
        panel.plot(rows["x"], rows["y"], color=RED, linewidth=1.1, zorder=3)
    points = tables["points"]
    for place, index, px, py in zip(points["place"], points["index"], points["x"], points["y"], strict=True):
        marker, color, _ = LOOKS[int(index)]
        look: dict[str, Any] = {"color": color, "markersize": 6, "markeredgecolor": "white"}
        panel.plot(px, py, marker, zorder=5, clip_on=False, **look)
        at = (1.1 * px, 1.1 * py) if place == "infinity" else (px + 0.02, py + 0.09)
        panel.annotate(f"{'+' if index % 2 == 0 else '−'}1", at, ha="center", va="center", color=color)
    for marker, color, label in LOOKS.values():
        panel.plot([], [], marker, color=color, markersize=5, label=label)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, frameon=False, handletextpad=0.1)
    indices = (part(points, "place", place)["index"] for place in ("finite", "infinity"))
    sums = [int(sum((-1) ** int(i) for i in index)) for index in indices]
    panel.set_title(f"finite {sums[0]:+d}  and infinite {sums[1]:+d}  sum to {sum(sums)}".replace("-", "−"))
    panel.set(xlim=(-1.18, 1.18), ylim=(-1.18, 1.18), aspect="equal")
    panel.axis("off")


@recipe(
    "B-FIG-INDEX",
    "Attractors, saddles and maxima, finite and at infinity, balance",
    draw=draw_index,
    size=(3.4, 3.7),
    errata=("B-NEW-4", "B-ERR-21"),
    claims="""
    sum | sum of (-1)^index, finite and at infinity | 1 ± 0
    winding | winding number of the gradient on a late circle, plus the sum at infinity | 1 ± 0
    morse | sum of x^index is 1 + (1 + x) Q(x), no coefficient of Q negative | non-negative coefficients, no
        remainder
    attractors | index 0 at infinity: exactly the locally optimal selections | the locally optimal ones, two
        or more
    kinds | saddles at infinity and finite points are there to be seen | some of both
    """,
)
def fig_index(setting: Setting) -> Findings:
    """A random planar problem: infinity in fractions, the finite points by Newton, their balance."""
    problem = hm.data.gaussian(n=3, T=3, d=2, rng=SEED)
    infinity, field = hm.critical_directions(problem), DescentField(problem)
    radius = empty_beyond(problem, infinity)
    winding = degree(field, radius, infinity.corners)
    finite = stationary_points(field, radius, infinity.corners, winding)
    inside = [int(point.index) for point in finite if point.index is not None]
    at_infinity = [point.index for point in infinity.directions]
    attract = {point.selection for point in infinity.directions if point.index == 0}
    *quotient, rest = morse_quotient([*inside, *at_infinity])
    local = {point.selection for point in hm.attractors(problem)}
    claims = {
        "sum": sum((-1) ** i for i in (*inside, *at_infinity)),
        "winding": np.nan if winding is None else winding + infinity.sum,
        "morse": (rest == 0 and min(quotient) >= 0, quotient),
        "attractors": (attract == local and len(local) > 1, sorted(attract)),
        "kinds": (1 in at_infinity and len(inside) > 0, [at_infinity, inside]),
    }
    rim = [point.direction for point in infinity.directions]
    places = np.concatenate([disc(np.array([point.p for point in finite]).reshape(-1, 2)), np.array(rim)])
    tables = {
        "points": {
            "place": np.array(["finite"] * len(finite) + ["infinity"] * len(rim)),
            "index": np.array([*inside, *at_infinity]),
            "x": places[:, 0],
            "y": places[:, 1],
        },
        "flow": _flow(field),
        "separatrices": _separatrices(problem, field, infinity, finite),
    }
    notes = (
        "A norm of 4 is drawn half-way to the rim, which is infinity; signs on it are (-1)^index.",
        "Red lines are the trajectories into the saddles: the boundaries of basins.",
    )
    return Findings(tables, claims, notes, seed=SEED)


def _flow(field: DescentField) -> dict[str, np.ndarray]:
    line = np.linspace(-1, 1, 81)
    x, y = (axis.ravel() for axis in np.meshgrid(line, line))
    r = np.hypot(x, y)
    inside = r < 0.985
    p = np.column_stack([x, y])[inside] * (HALF / (1 - r[inside]))[:, None]
    force = field.at(p * field.unit) @ field.basis.T
    unit = p / np.maximum(np.linalg.norm(p, axis=1), 1e-12)[:, None]
    out = (force * unit).sum(axis=1)
    # in the disc, motion along the radius is shorter by another factor
    moved = force - (r[inside] * out)[:, None] * unit
    moved /= np.maximum(np.linalg.norm(moved, axis=1), 1e-12)[:, None]
    u, v = np.full(len(x), np.nan), np.full(len(x), np.nan)
    u[inside], v[inside] = moved.T
    return {"x": x, "y": y, "u": u, "v": v}


def _separatrices(
    problem: hm.Problem, field: DescentField, infinity: CriticalDirections, finite: list[StationaryPoint]
) -> dict[str, np.ndarray]:
    """Follow the gradient backwards from every saddle along its stable direction."""
    starts = [
        _beside(field, direction.direction) for direction in infinity.directions if direction.index == 1
    ]
    for point in finite:
        if point.index == 1:
            stable = np.linalg.eigh(hm.dynamics.hessian(problem, point.p))[1][:, 1]
            starts += [point.p + 1e-3 * stable, point.p - 1e-3 * stable]
    lines = []
    for run, p in enumerate(starts):
        path = []
        for _ in range(4000):
            path.append(p)
            step = 0.01 * (1 + np.linalg.norm(p) / HALF)
            half = p - 0.5 * step * field.at(p[None] * field.unit)[0]
            p = p - step * field.at(half[None] * field.unit)[0]
            if np.linalg.norm(p) > 400:
                break
        x, y = disc(np.array(path)).T
        lines.append({"run": run, "x": x, "y": y})
    return stacked(lines)


def _beside(field: DescentField, q: np.ndarray, far: float = 100.0) -> np.ndarray:
    """A point at that distance near a saddle at infinity where minus the gradient points along q."""
    across = np.array([-q[1], q[0]])
    low, high = -20.0, 20.0
    sign = field.at((far * q + low * across)[None] * field.unit)[0] @ across
    for _ in range(60):
        middle = 0.5 * (low + high)
        same = field.at((far * q + middle * across)[None] * field.unit)[0] @ across * sign > 0
        low, high = (middle, high) if same else (low, middle)
    return far * q + 0.5 * (low + high) * across
