"""B-FIG-1a, 1b, 1c and 8: normalized descent of p goes to a max-margin direction, from several starts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, INK, PURPLE, RED
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.max_margin.figures import plane

BOTH = {"global": RED, "local": BLUE}
HEIGHTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)  # starts (0, y), and (x, 0) for B-FIG-1c
LATE = 5000  # steps after which no start near a boundary still hesitates

# The separatrix of B-FIG-1b is y = x/10 + log(90/111) far out (B-ERR-21).
SLOPE = 0.1
LINE = SLOPE * 10 + float(np.log(90 / 111))  # at x = 10


def draw_1a(tables: Tables, canvas: Canvas) -> None:
    """Tokens, six trajectories, the max-margin ray, and the cosine over the steps."""
    panel = canvas.subplots()
    plane.frame(panel, (-4.4, 4.4), (-2.0, 6.6))
    plane.draw_ray(panel, plane.vector_of(tables["directions"], "p_mm"), RED)
    inset = panel.inset_axes((0.66, 0.64, 0.34, 0.33))
    colors = {"(0, 1)": BLUE, "(0, 0.5)": PURPLE}
    for run in dict.fromkeys(tables["paths"]["run"].tolist()):
        color = colors.get(run, GRAY)
        plane.draw_path(panel, part(tables["paths"], "run", run), color)
        curve = part(tables["cosines"], "run", run)
        inset.plot(curve["step"][1:], curve["cosine"][1:], color=color, linewidth=0.9)
    plane.draw_tokens(panel, tables["tokens"])
    places = ((0.25, 0.15, "left"), (0.2, 0.32, "center"), (0.2, -0.35, "left"))
    _score_labels(panel, tables["tokens"], places)
    panel.text(-0.45, 6.0, "$p^{mm}$", color=RED, ha="left")
    plane.label_axes(panel)
    inset.text(7, 1.005, "(0, 1)", fontsize=6, color=BLUE)
    inset.text(1.3, 0.96, "(0, 0.5)", fontsize=6, color=PURPLE)
    inset.set(xscale="log", xlim=(1, 1000), ylim=(0.9, 1.018), yticks=(0.9, 0.95, 1.0))
    inset.set_xlabel("step", fontsize=6.5, labelpad=1)
    inset.set_ylabel(r"$\cos(p, p^{mm})$", fontsize=6.5, labelpad=1)
    inset.tick_params(labelsize=6, pad=1.5)


@recipe(
    "B-FIG-1a",
    "One input, one best token: every start goes to the max-margin direction",
    draw=draw_1a,
    size=(3.4, 3.2),
    errata=("B-ERR-12",),
    claims="""
    p-mm | max-margin p of the best token | -10/101, 100/101 ± 1e-12
    neighbour | the one neighbor of the best token is the origin | token 2 of input 0
    only-local | no other selection is locally optimal | [(0,)]
    cosine-200 | cosine to p_mm after 200 steps, all starts | ≥ 0.992
    cosine-1000 | cosine to p_mm after 1,000 steps, all starts | ≥ 0.9997
    norm | |p| after 1,000 steps | 98.3 to 100.8
    first-coordinate | p_1 after 1,000 steps is the same from every start | -12.17348 ± 5e-6
    dip-cosine | least cosine from (0, 1) and (0, 0.5) on the way | 0.97668, 0.96448 ± 1e-5 | the inner
        product consistently increases
    dip-step | step of the least cosine | 31, 22 ± 0
    dip-start | cosine at these starts | 0.99504 ± 5e-6
    rises-after | least change of the cosine per step after the transient | ≥ 0.0
    dip-plain | cosine of plain descent with step 1/L_p from (0, 1) after 20,000 steps | 0.97740 ± 5e-6
    """,
)
def fig_1a(setting: Setting) -> Findings:
    """Six starts on the data of B-FIG-1a; the cosine need not rise at once (B-ERR-12)."""
    problem = hm.data.example("B-FIG-1a")
    best = hm.max_margin(problem, [0])
    local = [attractor.selection for attractor in hm.attractors(problem)]
    paths = plane.train(problem, [(0.0, y) for y in HEIGHTS])
    ends = plane.ends_table(paths, [best] * len(paths))
    setting.progress(0.5)
    by_run = {run: 1 - path.cosine_distances(best) for run, path in paths.items()}
    dips = {run: int(np.argmin(by_run[run])) for run in ("(0, 1)", "(0, 0.5)")}
    after = [np.diff(by_run[run][dips.get(run, 1) :]).min() for run in paths]
    # the paper's form of one input: the score as a third coordinate that W hides and the head reads
    tokens = np.column_stack([problem.keys[problem.tokens], problem.scores])
    lifted = hm.Problem.from_tokens([tokens], [1], readout=[0.0, 0.0, 1.0], W=np.diag([1.0, 1.0, 0.0]))
    plain = hm.train(lifted, hm.optim.GD("1/L_p"), steps=20_000, start=[0.0, 1.0, 0.0])
    claims = {
        "p-mm": best.need(),
        "neighbour": (best.support == ((0, 2),), best.support),
        "only-local": (local == [(0,)], local),
        "cosine-200": ends["cosine_200"],
        "cosine-1000": ends["cosine_1000"],
        "norm": ends["norm_1000"],
        "first-coordinate": ends["p1_1000"],
        "dip-cosine": [by_run[run][dips[run]] for run in dips],
        "dip-step": list(dips.values()),
        "dip-start": [by_run[run][0] for run in dips],
        "rises-after": after,
        "dip-plain": 1 - hm.cosine_distance(plain.p[:2], best),
    }
    tables = plane.plane_tables(problem, paths, ends, {"p_mm": best.need()})
    tables["cosines"] = stacked(
        {"run": run, "step": np.arange(len(cosine)), "cosine": cosine} for run, cosine in by_run.items()
    )
    notes = (
        "From (0, 1) and (0, 0.5) the cosine first falls, then rises for good (B-ERR-12).",
        "Keys and p are drawn in one plane; the first 200 of 1,000 steps, with an arrow every 10.",
    )
    return Findings(tables, claims, notes)


def draw_1b(tables: Tables, canvas: Canvas) -> None:
    """Tokens, trajectories to two directions, and the boundary between the two basins."""
    panel = canvas.subplots()
    plane.draw_plane(panel, tables, ((-2.4, 6.6), (-2.6, 4.6)), BOTH)
    edge = tables["boundary"]
    panel.plot(edge["x"], edge["y"], color=INK, linestyle=(0, (1, 1.6)), linewidth=1.0, zorder=2)
    places = ((-0.25, 0.0, "right"), (0.2, 0.25, "left"), (-0.25, 0.25, "right"))
    _score_labels(panel, tables["tokens"], places)
    panel.text(-0.5, 4.2, "$p^{mm}$ of\n(−0.1, 1)", color=RED, ha="right", va="top")
    panel.text(6.55, -0.35, "$p^{mm}$ of (1, 0)", color=BLUE, ha="right", va="top")
    look: dict[str, Any] = {"fontsize": 7, "ha": "left", "color": INK}
    look["arrowprops"] = {"arrowstyle": "-", "linewidth": 0.5, "color": INK}
    panel.annotate("boundary of\nthe basins", (4.2, 0.19), (4.3, 1.0), **look)


@recipe(
    "B-FIG-1b",
    "One input, two locally optimal tokens: where p goes depends on the start",
    draw=draw_1b,
    size=(3.4, 3.0),
    errata=("B-ERR-21",),
    claims=f"""
    selections | locally optimal: tokens 0 and 1 and not token 2, which is feasible too | [True, True,
        False]
    p-mm-local | max-margin p of token 1 and of token 2 | 1.0, 0.0, -1.0, -1.1 ± 1e-12
    tokens | starts with y = 1 to -0.5 select token 0, y = -1 and -1.5 token 1 | 0 0 0 0 1 1
    cosine-global | cosine to the best token's p_mm after 1,000 steps | ≥ 0.99999
    cosine-local | cosine to the other token's p_mm after 1,000 steps | ≥ 0.99995
    boundary | where the two basins meet on the axis p_1 = 0 | -0.8697 ± 1e-4
    separatrix | where the basins of gradient flow meet at p_1 = 10: 1 + log(90/111) | {LINE} ± 5e-4
    separatrix-direction | the separatrix runs along (1, 0.1), which is not neighbor-optimal: of the two
        tokens next to the selected one, one scores more | not neighbor-optimal | descent can only go to
        locally optimal directions
    """,
)
def fig_1b(setting: Setting) -> Findings:
    """Six starts on the data of B-FIG-1b, and the boundary between the two basins."""
    problem = hm.data.example("B-FIG-1b")
    feasible = {each.selection: each for each in hm.selections(problem)}
    paths = plane.train(problem, [(0.0, y) for y in HEIGHTS])
    ends = plane.ends_table(paths, [hm.max_margin(problem, path.selection) for path in paths.values()])
    columns = np.linspace(-2.4, 6.6, 28)
    boundary = []
    late = partial(plane.goes_to_best, problem, steps=LATE)
    for x in columns:
        boundary.append(plane.bisect(partial(late, x), -6.0, 4.0, 1e-3))
        setting.progress(0.8 * len(boundary) / len(columns))
    at_axis = plane.bisect(partial(late, 0.0), -1.0, -0.5, 1e-6)
    at_axis_early = plane.bisect(partial(plane.goes_to_best, problem, 0.0), -1.0, -0.5, 1e-6)
    separatrix = hm.limits.basin_boundary(problem, [10.0, LINE - 0.01], [10.0, LINE + 0.012], tolerance=5e-4)
    along = hm.directions.directional_margin(problem, [1.0, SLOPE])
    upper, lower = ends["selected"] == "0", ends["selected"] == "1"
    attract = [feasible[(t,)].attracts.verdict for t in range(3)]
    claims = {
        "selections": (attract == [True, True, False], attract),
        "p-mm-local": [feasible[(t,)].max_margin.need() for t in (1, 2)],
        "tokens": (ends["selected"].tolist() == ["0"] * 4 + ["1"] * 2, ends["selected"].tolist()),
        "cosine-global": ends["cosine_1000"][upper],
        "cosine-local": ends["cosine_1000"][lower],
        "boundary": at_axis,
        "separatrix": separatrix[1],
        "separatrix-direction": (not along.neighbor_optimal, along.neighbors),
    }
    directions = {"global": feasible[(0,)].direction, "local": feasible[(1,)].direction}
    tables = plane.plane_tables(problem, paths, ends, directions)
    tables["boundary"] = {"x": columns, "y": np.array(boundary)}
    notes = (
        f"Near the boundary a start takes long to decide: after {plane.STEPS:,} steps it seems to lie at "
        f"{at_axis_early:.5f}, after {LATE:,} at {at_axis:.5f}.",
        "From the boundary itself p goes to neither direction (B-ERR-21).",
    )
    return Findings(tables, claims, notes)


def draw_1c(tables: Tables, canvas: Canvas) -> None:
    """The tokens of three inputs, trajectories, the max-margin ray and the separators of tight inputs."""
    panel = canvas.subplots()
    plane.draw_plane(panel, tables, ((-2.0, 4.6), (-1.5, 2.1)), {"p_mm": RED}, size=3.6)
    direction = plane.vector_of(tables["directions"], "p_mm")
    across = np.array([-direction[1], direction[0]])
    for i, x, y in zip(*(tables["separators"][name] for name in ("input", "x", "y")), strict=True):
        end = (x + across[0], y + across[1])
        look: dict[str, Any] = {"color": plane.INPUTS[i][0], "linestyle": (0, (1, 1.4)), "linewidth": 1.2}
        panel.axline((x, y), end, **look, zorder=2)
    for i, (color, marker) in enumerate(plane.INPUTS):
        panel.plot([], [], marker, color=color, markersize=3.6, label=f"input {i}")
    panel.plot([], [], "o", color=GRAY, markerfacecolor="white", markersize=3.6, label="not the best token")
    panel.legend(loc="upper right", ncols=2, columnspacing=0.8, handlelength=0.8)
    panel.text(4.5, 0.55, "$p^{mm}$", color=RED, ha="right")


@recipe(
    "B-FIG-1c",
    "Three inputs: p goes to the direction that separates all best tokens",
    draw=draw_1c,
    size=(3.4, 2.3),
    errata=("B-ERR-18",),
    claims="""
    p-mm | max-margin p of the best tokens | 0.84462639, 0.17112231 ± 1e-6
    objective | half of |p_mm|^2 | 0.3713383 ± 1e-7
    neighbours | neighbors (input, token) | token 6 of input 0, token 5 of input 1
    feasible | feasible selections of 343 | 11 ± 0
    only-local | the best tokens are the only locally optimal selection | [(0, 0, 0)]
    cosine-200 | cosine to p_mm after 200 steps, all starts | ≥ 0.9993
    cosine-1000 | cosine to p_mm after 1,000 steps, all starts | ≥ 0.9997
    tokens | every start selects the best token of every input | 0 0 0
    """,
)
def fig_1c(setting: Setting) -> Findings:
    """Six starts on the data of B-FIG-1c, whose best tokens are the only locally optimal selection."""
    problem = hm.data.example("B-FIG-1c")
    best = hm.max_margin(problem, [0, 0, 0])
    feasible = list(hm.selections(problem))
    local = [each.selection for each in feasible if each.attracts.verdict]
    setting.progress(0.3)
    paths = plane.train(problem, [(x, 0.0) for x in HEIGHTS])
    ends = plane.ends_table(paths, [best] * len(paths))
    keys = problem.split(problem.keys[problem.tokens])
    pairs = np.array([(i, *(0.5 * (keys[i][0] + keys[i][t]))) for i, t in hm.neighbors(problem, best).pairs])
    claims = {
        "p-mm": best.need(),
        "objective": 0.5 * best.p_norm**2,
        "neighbours": (best.support == ((0, 6), (1, 5)), best.support),
        "feasible": len(feasible),
        "only-local": (local == [(0, 0, 0)], local),
        "cosine-200": ends["cosine_200"],
        "cosine-1000": ends["cosine_1000"],
        "tokens": (set(ends["selected"].tolist()) == {"0 0 0"}, np.unique(ends["selected"]).tolist()),
    }
    tables = plane.plane_tables(problem, paths, ends, {"p_mm": best.need()})
    tables["separators"] = {"input": pairs[:, 0].astype(int), "x": pairs[:, 1], "y": pairs[:, 2]}
    notes = (
        "Dotted: perpendicular to p_mm, half way between a best token and its neighbor, for the two inputs "
        "that have one.",
    )
    return Findings(tables, claims, notes)


def _score_labels(panel: Axes, tokens: Table, places: tuple[tuple[float, float, str], ...]) -> None:
    for token, (dx, dy, side) in enumerate(places):
        row = part(tokens, "token", token)
        place = (row["x"][0] + dx, row["y"][0] + dy)
        text = rf"$\gamma={row['score'][0]:g}$"
        panel.text(*place, text, fontsize=6.5, ha=side, va="center", color=INK, zorder=8)


TO_GLOBAL = ((0.0, 0.0), (0.0, 2.0), (-1.0, 1.0), (3.0, 3.0))
TO_LOCAL = ((2.0, 0.0), (4.0, 0.0), (2.0, -2.0), (1.0, -1.0))
WINDOW = ((-2.0, 6.0), (-3.0, 4.6))


def draw_8(tables: Tables, canvas: Canvas) -> None:
    """Tokens, eight trajectories, the two directions, and from where normalized descent goes to which."""
    panel = canvas.subplots()
    plane.draw_plane(panel, tables, WINDOW, BOTH, "#777777")
    edge = tables["boundary"]
    for side, color in zip(WINDOW[0], ("#FBEBE0", "#E3EEF6"), strict=True):
        panel.fill_betweenx(edge["y"], edge["x"], side, color=color, linewidth=0, zorder=-1)
    panel.text(1.5, 4.1, "GMM", color=RED)
    panel.text(5.9, -0.2, "LMM", color=BLUE, ha="right", va="top")


@recipe(
    "B-FIG-8",
    "Two inputs: descent goes to the globally or to a locally optimal direction",
    draw=draw_8,
    size=(3.4, 3.2),
    errata=("B-ERR-08",),
    claims="""
    p-mm | p_mm of the best tokens and of tokens 0 and 1 | 1.0, 3.0, 1.0, 0.0 ± 1e-12
    locally-optimal | of the four feasible selections only (0, 0) and (0, 1) are locally optimal | True,
        True, False, False
    no-neighbour | at the local one, input 1 selects its worse token and has no neighbor | token 1 of input
        0
    assumption-b | Assumption B holds: one other token per input | True
    tokens | tokens selected from the eight starts | four times 0 0, four times 0 1
    cosine-global | cosine to the global direction, normalized, 1,000 steps | ≥ 0.99999
    cosine-local | cosine to the local direction, normalized, 1,000 steps | ≥ 0.9998
    plain-global | cosine to the global direction, plain, 5,000 steps of 1 | ≥ 0.9998
    plain-local | cosine to the local direction, plain, 5,000 steps of 1 | ≥ 0.957
    """,
)
def fig_8(setting: Setting) -> Findings:
    """Eight starts, normalized and plain; at the local one, input 1 keeps its worse token, unrivalled."""
    problem = hm.data.example("B-FIG-8")
    feasible = {each.selection: each for each in hm.selections(problem)}
    best, local = (feasible[tokens].max_margin for tokens in ((0, 0), (0, 1)))
    starts = (*TO_GLOBAL, *TO_LOCAL)
    paths = plane.train(problem, starts)
    targets = [best] * len(TO_GLOBAL) + [local] * len(TO_LOCAL)
    ends = dict(plane.ends_table(paths, targets))
    plain = (hm.train(problem, hm.optim.GD(1.0), steps=5000, start=start) for start in starts)
    ends["cosine_plain_5000"] = np.array(
        [1 - path.cosine_distance(q) for path, q in zip(plain, targets, strict=True)]
    )
    up, right = slice(None, len(TO_GLOBAL)), slice(len(TO_GLOBAL), None)
    neighbors = hm.neighbors(problem, local).pairs
    one_other = hm.directions.assumptions.assumption_b(problem).holds
    optimal = sorted((tokens, each.attracts.verdict) for tokens, each in feasible.items())
    attract = [((0, 0), True), ((0, 1), True), ((1, 0), False), ((1, 1), False)]
    claims = {
        "p-mm": [best.need(), local.need()],
        "locally-optimal": (optimal == attract, optimal),
        "no-neighbour": (neighbors == ((0, 1),), neighbors),
        "assumption-b": (one_other, one_other),
        "tokens": (ends["selected"].tolist() == ["0 0"] * 4 + ["0 1"] * 4, ends["selected"].tolist()),
        "cosine-global": ends["cosine_1000"][up],
        "cosine-local": ends["cosine_1000"][right],
        "plain-global": ends["cosine_plain_5000"][up],
        "plain-local": ends["cosine_plain_5000"][right],
    }
    # where, on horizontal lines, starts that go to the best tokens give way to those that do not
    heights = np.linspace(*WINDOW[1], 77 if setting.scale == "paper" else 39)
    boundary = []
    for y in heights.tolist():
        boundary.append(plane.bisect(lambda x, y=y: not plane.goes_to_best(problem, x, y), -4.0, 12.0, 2e-3))
        setting.progress(len(boundary) / len(heights))
    tables = plane.plane_tables(problem, paths, ends, {"global": best.need(), "local": local.need()})
    tables["boundary"] = {"x": np.array(boundary), "y": heights}
    notes = (
        "The coordinates are ours: the paper gives none.",
        f"Shaded: where normalized descent of rate {plane.RATE} goes from there, judged after "
        f"{plane.STEPS:,} steps.",
        "Locally optimal does not mean that every token selected beats the others: an input without a "
        "neighbor keeps a worse one (B-ERR-08).",
    )
    return Findings(tables, claims, notes)
