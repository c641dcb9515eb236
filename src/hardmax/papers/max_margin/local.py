"""Lemma 7, Theorems 3, 4 and 7: the cone around a locally optimal direction, and descent inside it.

B-FIG-2 draws the cone with the constants of Lemma 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from flint import arb

import hardmax as hm
from hardmax._lib.arrays import half_squares
from hardmax._lib.expect import generator
from hardmax._lib.style import BLUE, INK, RED
from hardmax.directions.direction import LocalConstants, in_cone, local_constants, slope_range
from hardmax.directions.position import general_position
from hardmax.papers.checking import common
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, statement, unmet, unsaid
from hardmax.papers.checking.proof import BallProblem, balls, least, length, settle
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Axes, Canvas, Tables, part, stacked
from hardmax.papers.max_margin import plane
from hardmax.papers.max_margin.lemmas import radial_room
from hardmax.problem import Problem


def radius_for(problem: Problem, k: LocalConstants, pi: float) -> float:
    """R_pi of Lemma 7: beyond it, in the cone, no p pulls along itself more than 1 + pi times as along p_mm.

    The largest of (46), whose constant works out as 96, of (49), and of what the last lines of the proof need
    to weigh inputs of full margin against one that has lost some. nu of (49): a p in the cone, as long as
    p_mm and pi/(4 A Theta) away, has a support row below 1 - 2 nu. p_mm is a sum of support rows with
    multipliers that add up to |p_mm|^2; were all rows above 1 - 2 nu at p, 1 - cos(p, p_mm) would be at most
    2 nu, and |p - p_mm|^2 at most 4 nu |p_mm|^2.
    """
    T, n = int(problem.sizes.max()), problem.n
    share = T * k.Gamma * k.A / (pi * k.gap_least)
    nu = pi**2 / (128 * k.A**2)
    least, most = slope_range(problem.loss, float(abs(problem.scores).max()))
    return (
        max(
            max(2.0, 1 / k.delta) * math.log(96 * share),
            math.log(8 * share) / nu,
            math.log(8 * n * T * share * most / least) / (pi / 2 + 2 * nu),
        )
        / k.Theta
    )


def absorbing_radius(problem: Problem, k: LocalConstants) -> float:
    """Theorem 3's R0 = R_pi with pi = mu/(2 - mu), (49) included, and (57) and (58) for the step 1/L_p."""
    C2, T = (1 - k.mu) * k.A_bar**2 * k.C**2 / (k.Theta * k.c), int(problem.sizes.max())
    ratio = (2 - k.mu) / k.mu * C2 * T / hm.dynamics.smoothness(problem).L_p
    return max(k.R_bar, radius_for(problem, k, k.mu / (2 - k.mu)), 2 / k.Theta * math.log(max(ratio, 1.0)))


SAME = 1e-12  # directions with a smaller 1 - cos are one direction, as far as doubles tell
WIDEST = 2e-4  # mu of the widest cone that is looked at
CONE_FARTHEST = 1e12  # over the longest key difference: logits are then good to 1e-4


@statement(
    "B-THM-4",
    "Theorems 4 and 7: what does not attract local paths",
    "With distinct scores and keys in general position, a path of least risk in a cone around a direction "
    "that is not locally optimal stays bounded or does not tend to that direction.",
    kind="limit",
    errata=("B-ERR-09", "B-ERR-10", "B-ERR-20"),
)
def only_local_optima_attract_paths(
    problem: Problem, *, q: Any, mu: float | None = None, R0: float | None = None
) -> Outcome:
    """The path in the cone at radii up to 50 times its inner one: bounded, or half the cone away from q.

    The cone leaves out every locally optimal direction if no ``mu`` is given; the inner radius is where q's
    own margins are late, and grows a hundredfold while the path is not yet on its way.
    """
    direction = problem.vector("q", q)
    if not direction.any():
        return Outcome((Hypothesis("q is not zero", False),))
    position = general_position(problem, rng=0)
    optimal = [x.direction for x in hm.attractors(problem) if x.direction is not None]
    nearest = min((hm.cosine_distance(direction, q) for q in optimal), default=np.inf)
    # two roundings of one direction are as far apart; an exact answer would need an exact q
    other = True if nearest > SAME else False if nearest <= 1e-15 else None
    hypotheses = (
        common.decreasing_loss(problem),
        common.distinct_scores(problem),
        Hypothesis("general position", position.holds, position.witness),
        Hypothesis("q not locally optimal", other, nearest),
    )
    longest = common.longest_difference(problem)
    if unmet(hypotheses) or longest == 0 or problem.d == 1:  # on the line a cone is one direction
        return unsaid(hypotheses)
    width = min(WIDEST, nearest / 4) if mu is None else mu
    # where the tokens that q selects, and its neighbors, stand out from the rest; ties do from anywhere
    margins = hm.directions.directional_margin(problem, direction / np.linalg.norm(direction))
    gaps = [gap for gap in (margins.Gamma, margins.delta) if 0 < gap < np.inf]
    inner = common.late_radius(problem, min(gaps, default=longest)) if R0 is None else R0
    slack, measured = None, {}
    while (slack is None or slack < 0) and 50 * inner * longest <= CONE_FARTHEST:
        radii = [2.5 * inner, 10 * inner, 50 * inner]
        path = hm.limits.local_path(problem, direction, mu=width, R0=inner, radii=radii)
        slack = 1.0 if path.is_bounded else float(path.angles[-1] / path.half_angle) - 0.5
        measured = {
            "norms": path.norms,
            "degrees to q": np.degrees(path.angles),
            "sign of the excess": path.sign,
            "half angle": np.degrees(path.half_angle),
        }
        if R0 is not None:
            break
        inner *= 100
    return Outcome(hypotheses, slack, measured)


FARTHEST = 1e13  # over the longest key difference: beyond it the rounding of logits drives the flow
STEPS, DOUBLINGS = 2000, 10
PI = 1e-3  # the pi of the lemma's third claim, tested at its radius R_pi


def local_hypotheses(problem: Problem, best: hm.MaxMargin) -> list[Hypothesis]:
    """Feasible, locally optimal, and with a neighbor: what Lemma 7 asks of a selection."""
    if best.is_feasible is not True:
        return [Hypothesis("selection separable", best.is_feasible, 0.0)]
    gap = hm.directions.score_gap(problem, best)
    return [
        common.decreasing_loss(problem),
        Hypothesis("selection separable", True, best.margin),
        Hypothesis("locally optimal", hm.attracts(problem, best).verdict, gap),
        Hypothesis("a neighbour competes", bool(hm.neighbors(problem, best).pairs), len(best.support)),
    ]


@statement(
    "B-THM-L7",
    "Lemma 7: gradients in the cone of a locally optimal direction",
    "In the cone beyond R_bar nothing is stationary, -<grad L, q> lies between c and C times the mean lost "
    "attention, its cosine is at least c Theta/(A_bar C), and beyond R_pi no direction beats p_mm by more "
    "than 1 + pi.",
    hunt={"draws": 15},
    errata=("B-ERR-08", "B-ERR-16"),
)
def cone_gradients(problem: Problem, *, selection: Iterable[int], rng: int = 0, draws: int = 300) -> Outcome:
    """Sample p and q in the cone; the paper's reading asks the sign of each input's own part at radius 20."""
    tokens = tuple(selection)
    sets = common.with_copies(problem, [(t,) for t in tokens])
    best = hm.max_margin(problem, tokens)
    hypotheses = need(*local_hypotheses(problem, best))
    along, k = common.along(best), local_constants(problem, best)
    longest = common.longest_difference(problem)
    near = Hypothesis("logits resolved beyond R_bar", 10 * k.R_bar * longest <= FARTHEST or None, k.R_bar)
    hypotheses.need(near)
    cone = partial(common.cone_directions, along, k.mu, chance=generator(rng))
    rooms: list[tuple[float, np.ndarray, Any]] = []  # how far inside its bounds, p and q, or only p
    ratios: list[float] = []
    cosines: list[float] = []
    for factor in (1.0, 3.0, 10.0):
        for p, q in zip(cone(draws) * k.R_bar * factor, cone(draws), strict=True):
            pull = hm.gradient(problem, p)
            mean_lost = float(np.logaddexp.reduce(common.log_lost(problem, p, sets))) - math.log(problem.n)
            size = math.exp(pull.log_norm - mean_lost)
            cosines.append(float(pull.direction @ q))
            ratios.append(cosines[-1] * size * best.p_norm)
            rooms.append((least(cone_rooms(k, ratios[-1], cosines[-1], size)), p, q))
    # beyond the resolution of logits the third claim is left out
    radius = radius_for(problem, k, PI)
    far = cone(draws if radius * longest <= FARTHEST else 0) * radius
    radial = [float(radial_room(hm.gradient(problem, p).direction, p, along, PI)) for p in far]
    rooms += [(room, p, None) for room, p in zip(radial, far, strict=True)]

    def again(exact: BallProblem) -> Any:
        """Return the least room in balls; the constants come with their rounding."""
        point = balls(p)
        pull = exact.pull(point)
        if q is None:
            room = radial_room(pull, point, balls(along) / length(balls(along)), arb(PI))
            return room + arb(common.ROUNDING)
        lost = sum(exact.log_lost(i, point, inside).exp() for i, inside in enumerate(sets)) / exact.n
        size, cosine = length(pull) / lost, pull @ balls(q) / (length(pull) * length(balls(q)))
        return least(cone_rooms(k, cosine * size * best.p_norm, cosine, size, 1 + arb(common.ROUNDING)))

    tightest, p, q = min(rooms, key=lambda room: room[0])
    slack = settle(problem, tightest + common.ROUNDING, again)
    # the paper's reading: -<grad L, p_mm> of each input alone has this sign, 20 over the margin out
    inner = 20.0 * best.p_norm * along
    pulls = [hm.gradient(common.single_input(problem, i), inner) for i in range(problem.n)]
    parts = [float(g.direction @ along) * math.exp(g.log_norm) for g in pulls]
    worst = [int(np.argmin(parts))]
    paper_slack = settle(
        problem, min(parts) / max(parts), lambda exact: exact.pull(balls(inner), worst) @ balls(inner)
    )
    measured = {
        "mu": k.mu,
        "R_bar": k.R_bar,
        "c": k.c,
        "C": k.C,
        "ratio": [min(ratios), max(ratios)],
        "least cosine": min(cosines),
        "cosine bound": k.cosine,
        "R_pi": radius,
        "worst radial ratio": max((1 + PI - room for room in radial), default=None),
        "log of each input's part at radius 20": [math.log(abs(x)) if x else -math.inf for x in parts],
    }
    witness = {"parts at radius 20": parts}
    return Outcome(hypotheses, slack, measured, witness, paper_slack=paper_slack)


def cone_rooms(k: LocalConstants, ratio: Any, cosine: Any, size: Any, give: Any = 1.0) -> list[Any]:
    """Return how far inside the bounds of (31) p and q are; in balls ``give`` leaves the constants room."""
    ratios = (give * ratio / k.c - 1, give - ratio / k.C)
    return [*ratios, give * cosine / k.cosine - 1, give - size / (k.A_bar * k.C)]


def overshoot(problem: Problem, best: hm.MaxMargin, mu: float, starts: np.ndarray, rate: float) -> float:
    """The most by which normalized descent from these starts leaves the cone, over mu."""
    rule = hm.optim.Normalized(rate)
    paths = [hm.train(problem, rule, steps=STEPS, start=start, record=1) for start in starts]
    return max(float(half_squares(path.directions, common.along(best)).max()) for path in paths) / mu - 1


@statement(
    "B-THM-3",
    "Theorem 3: local convergence of descent",
    "From some radius on, descent that starts in the cone of a locally optimal direction never leaves it, "
    "grows without bound and tends to p_mm. What is seen of it: it stays inside, and 1 - cos at ten times "
    "the radius is smaller than at the start. The paper's reading takes its proof's radius, (49) included.",
    kind="existential",
    hunt={"starts": 1},
    errata=("B-ERR-08", "B-ERR-16"),
)
def local_convergence(
    problem: Problem,
    path: hm.Run | None = None,
    *,
    selection: Iterable[int] | None = None,
    rng: int = 0,
    starts: int = 6,
) -> Outcome:
    """Test normalized descent from the boundary of the cone, or a given path from where it enters the cone.

    The radius is doubled from R_bar until descent stays inside. Then gradient flow, which stands in for the
    many small steps of plain descent, starts there and at the paper's radius. The best tokens are the
    selection if none is given.
    """
    hypotheses, tokens = common.one_selection(problem, selection if path is None else path.selection.tokens)
    best = hm.max_margin(problem, tokens)
    hypotheses.need(*local_hypotheses(problem, best))
    k = local_constants(problem, best)
    if path is not None:
        return _stays_inside(path, best, k, hypotheses)
    rim = common.cone_directions(common.along(best), k.mu, starts, generator(rng), boundary=True)
    step = hm.limits.late_residual(problem, best).eta_c
    # a tenth of |p_mm|, which normalized steps have as their unit; nan without a limit of the residual
    rate = min(0.1 * best.p_norm, 0.5 * step) if step > 0 else 0.1 * best.p_norm
    over = [overshoot(problem, best, k.mu, k.R_bar * rim, rate)]
    while over[-1] > common.ROUNDING and len(over) <= DOUBLINGS:
        over.append(overshoot(problem, best, k.mu, k.R_bar * 2.0 ** len(over) * rim, rate))
    radius, paper_radius = k.R_bar * 2.0 ** (len(over) - 1), absorbing_radius(problem, k)
    fall, paper_fall = (_flow_inside(problem, best, k.mu, R, rim[:2]) for R in (radius, paper_radius))
    measured = {
        "radius from which it stays": radius,
        "R_bar": k.R_bar,
        "overshoot from each radius": over,
        "half angle": k.half_angle,
        "end over start of 1 - cos": fall,
        "paper's radius": paper_radius,
        "end over start of 1 - cos from there": paper_fall,
    }
    # leaving the cone at these radii refutes nothing, and a flow that stops says nothing
    slack = None if fall is None or over[-1] > common.ROUNDING else 1 - fall
    paper_slack = math.nan if paper_fall is None else 1 - paper_fall  # undecided where it is out of reach
    return Outcome(hypotheses, slack, measured, paper_slack=paper_slack)


def _flow_inside(
    problem: Problem, best: hm.MaxMargin, mu: float, radius: float, rim: np.ndarray
) -> float | None:
    """Return the larger of end over start of 1 - cos of flows to ten times the radius.

    It is inf if one leaves the cone, and None if one stops before or if the radius is out of reach.
    """
    if radius * common.longest_difference(problem) > FARTHEST:
        return None
    falls = [0.0]  # as on the line, where the cone is the direction itself
    for q in rim:
        path = hm.flow(problem, start=radius * q, until_norm=10 * radius)
        if path.event is not None:
            return None
        gaps = path.cosine_distances(best)
        if gaps[0] != 0:
            falls.append(math.inf if gaps.max() > mu * (1 + common.ROUNDING) else float(gaps[-1] / gaps[0]))
    return max(falls)


def _stays_inside(path: hm.Run, best: hm.MaxMargin, k: LocalConstants, hypotheses: Conditions) -> Outcome:
    moved = [s for s, p in enumerate(path.points) if p.any()]  # the origin has no direction
    inside = [s for s in moved if in_cone(path.points[s], best, k.mu, k.R_bar)]
    hypotheses.append(Hypothesis("the path enters the cone", bool(inside), k.R_bar))
    if not inside:
        return Outcome(hypotheses)
    gaps = path.cosine_distances(best)[inside[0] :]
    over, fall = float(gaps.max()) / k.mu - 1, float(gaps[-1] / gaps[0]) if gaps[0] else 0.0
    norm = float(path.p_norms[inside[0]])
    measured = {"overshoot": over, "end over start of 1 - cos": fall, "enters at norm": norm}
    slack = min(common.ROUNDING - over, 1 - fall)
    return Outcome(hypotheses, slack, measured, vacuous=len(gaps) < 2)


SEED, SAMPLES = 0, 200
# Where drawn runs start: the radius over R_bar and the angle over the half angle.
DRAWN_STARTS = ((1.0, 1.0), (1.0, -1.0), (1.0, 0.4), (1.0, -0.5), (1.5, -0.9))
CONE_REACH, DRAWN_STEPS, CONE_ARROW = 34.0, 300, 30


def two_rivals() -> hm.Problem:
    """One input whose best token has two neighbors, one with nearly its score; p_mm is (1, 0)."""
    return hm.Problem([[[2.5, 0.0], [1.5, 0.5], [1.5, -0.5]]], [[1.0, 0.95, 0.0]])


def draw_2(tables: Tables, canvas: Canvas) -> None:
    """Two cones: one that descent never leaves, one that it leaves and comes back to."""
    upper, lower = canvas.subplots(2, 1, sharex=True)
    _draw_cone(upper, tables, "fig8")
    _draw_cone(lower, tables, "two rivals")
    upper.set_title("(a) one neighbor: the cone is never left")
    lower.set_title("(b) two neighbors: it can be left at first")
    upper.set_xlabel("")


def _draw_cone(panel: Axes, tables: Tables, name: str) -> None:
    from matplotlib.patches import Arc, Wedge

    row = part(tables["cones"], "cone", name)
    angle, radius = float(row["half_angle"][0]), float(row["R_bar"][0])
    plane.frame(panel, (0.0, CONE_REACH), (-4.4, 5.4))
    look: dict[str, Any] = {"facecolor": "#E3EEF6", "edgecolor": BLUE, "linewidth": 0.7, "zorder": 1}
    panel.add_patch(Wedge((0, 0), 2 * CONE_REACH, -angle, angle, width=2 * CONE_REACH - radius, **look))
    side = radius * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    for y in (side[1], -side[1]):
        panel.plot([0, side[0]], [0, y], color=BLUE, linewidth=0.6, linestyle=(0, (1, 2)), zorder=1)
    panel.add_patch(Arc((0, 0), 12, 12, theta1=0, theta2=angle, color=INK, linewidth=0.6))
    panel.text(4.6, 1.35, rf"${angle:.2f}°$", fontsize=7, ha="center")
    panel.plot([0, CONE_REACH], [0, 0], color=RED, linestyle=(0, (4, 2)), linewidth=1.3, zorder=3)
    panel.text(CONE_REACH + 0.4, 0, "$p^{mm}$", color=RED, va="center")
    look = {"fontsize": 7, "ha": "right", "color": BLUE}
    look["arrowprops"] = {"arrowstyle": "-", "color": BLUE, "linewidth": 0.5}
    panel.annotate(rf"$\bar R_\mu = {radius:.1f}$", (side[0], side[1]), (radius - 1.0, 3.9), **look)
    plane.draw_paths(panel, part(tables["paths"], "cone", name), "#777777", every=CONE_ARROW)
    plane.label_axes(panel)


@recipe(
    "B-FIG-2",
    "Descent from inside the cone of a locally optimal direction",
    draw=draw_2,
    size=(3.4, 2.6),
    errata=("B-ERR-08",),
    claims="""
    mu | mu of Lemma 7 at B-FIG-8's local direction | 0.015625 ± 1e-12
    half-angle | half angle of that cone in degrees | 10.14 ± 5e-3
    radius | R_bar of Lemma 7 there | 10.40 ± 5e-3
    fig-1b | half angle and R_bar at B-FIG-1b's local direction, too thin to draw | 1.425, 107.36 ± 5e-3
    stays | largest (1 - cos)/mu on the way, from 200 starts in the cone and two on its rim | ≤ 1.000000001
    rises | least rise of the cosine per step, same starts | ≥ 0.0
    freezes | (1 - cos) |p|^2 at the end over the start: the part orthogonal to p_mm stays | ≤ 1.5
    left-at-first | (1 - cos)/mu on the way from R_bar with two neighbors | ≥ 1.2 | descent from the cone
        stays in it
    stays-from-twice | the same from 2 R_bar | ≤ 1.000000001
    comes-back | (1 - cos)/mu there after 1,000 steps from R_bar | ≤ 0.1
    """,
)
def fig_2(setting: Setting) -> Findings:
    """The explicit cone of Lemma 7 for B-FIG-8's local direction, and one whose radius is too small."""
    problem = hm.data.example("B-FIG-8")
    local = hm.max_margin(problem, [0, 1])
    cone = local_constants(problem, local)
    other_figure = hm.data.example("B-FIG-1b")
    narrow = local_constants(other_figure, hm.max_margin(other_figure, [1]))
    draw = np.random.default_rng(SEED)
    gap, scale = cone.mu * draw.uniform(size=SAMPLES), draw.uniform(1.0, 2.0, size=SAMPLES)
    sides = draw.choice([-1.0, 1.0], size=SAMPLES)
    angles = np.concatenate([[1.0, -1.0], sides * np.degrees(np.arccos(1 - gap)) / cone.half_angle])
    starts = _in_cone(cone, np.concatenate([[1.0, 1.0], scale]), angles)
    worst, rise, freezes = [], [], []
    for k, start in enumerate(starts):
        path = plane.descend(problem, start)
        gaps = half_squares(path.directions, np.asarray(local.direction))
        worst.append(gaps.max() / cone.mu)
        rise.append(-np.diff(gaps).max())
        freezes.append(gaps[-1] / gaps[0] * (path.p_norm / path.p_norms[0]) ** 2)
        setting.progress(0.8 * k / len(starts))
    rivals = two_rivals()
    top = hm.max_margin(rivals, [0])
    other = local_constants(rivals, top)
    over = []  # the largest (1 - cos)/mu on the way, from the two ends of the rim at a multiple of R_bar
    for factor in (1.0, 2.0):
        ends = plane.train(rivals, _in_cone(other, [factor, factor], [1.0, -1.0]).tolist()).values()
        over.append(
            max(float(half_squares(path.directions, np.asarray(top.direction)).max()) for path in ends)
            / other.mu
        )
    back = plane.descend(rivals, _in_cone(other, [1.0], [1.0])[0])
    claims = {
        "mu": cone.mu,
        "half-angle": cone.half_angle,
        "radius": cone.R_bar,
        "fig-1b": [narrow.half_angle, narrow.R_bar],
        "stays": worst,
        "rises": rise,
        "freezes": freezes,
        "left-at-first": over[0],
        "stays-from-twice": over[1],
        "comes-back": back.cosine_distance(top) / other.mu,
    }
    rim = list(zip(*DRAWN_STARTS, strict=True))
    shown = {"fig8": (problem, _in_cone(cone, *rim)), "two rivals": (rivals, _in_cone(other, *rim))}
    tables = {
        "cones": {
            "cone": np.array(["fig8", "two rivals"]),
            "mu": np.array([cone.mu, other.mu]),
            "half_angle": np.array([cone.half_angle, other.half_angle]),
            "R_bar": np.array([cone.R_bar, other.R_bar]),
        },
        "paths": stacked(
            {"cone": name, **plane.paths_table(plane.train(data, starts.tolist()), DRAWN_STEPS)}
            for name, (data, starts) in shown.items()
        ),
        "starts": {"p1": starts[:, 0], "p2": starts[:, 1], "worst": np.array(worst), "rise": np.array(rise)},
    }
    notes = (
        "The cone is drawn with the explicit constants, not enlarged.",
        "(b) is our own data: the best token (2.5, 0) has score 1, its neighbors (1.5, 0.5) and (1.5, -0.5) "
        "have 0.95 and 0. The part off p_mm tends to an offset longer than the cone is wide at R_bar, so "
        "that descent leaves the cone before it converges; from a larger radius it stays, as Theorem 3 says.",
    )
    return Findings(tables, claims, notes, SEED)


def _in_cone(cone: LocalConstants, radii: object, angles: object) -> np.ndarray:
    """Points at multiples of R_bar and of the half angle; both cones point along (1, 0)."""
    turn = np.radians(cone.half_angle * np.asarray(angles, dtype=float))
    length = cone.R_bar * np.asarray(radii, dtype=float)
    return np.column_stack([length * np.cos(turn), length * np.sin(turn)])
