"""B-FIG-8: with two inputs, descent may keep a worse token; where it goes depends on the start."""

from __future__ import annotations

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, RED
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Table, Tables
from hardmax.papers.max_margin.figures import plane

TO_GLOBAL = ((0.0, 0.0), (0.0, 2.0), (-1.0, 1.0), (3.0, 3.0))
TO_LOCAL = ((2.0, 0.0), (4.0, 0.0), (2.0, -2.0), (1.0, -1.0))
WINDOW = ((-2.0, 6.0), (-3.0, 4.6))


def draw_8(tables: Tables, canvas: Canvas) -> None:
    """Tokens, eight trajectories, the two directions, and from where normalized descent goes to which."""
    panel = canvas.subplots()
    plane.frame(panel, *WINDOW)
    edge = tables["boundary"]
    for side, color in zip(WINDOW[0], ("#FBEBE0", "#E3EEF6"), strict=True):
        panel.fill_betweenx(edge["y"], edge["x"], side, color=color, linewidth=0, zorder=-1)
    plane.draw_ray(panel, plane.vector_of(tables["directions"], "global"), RED)
    plane.draw_ray(panel, plane.vector_of(tables["directions"], "local"), BLUE)
    plane.draw_paths(panel, tables["paths"], "#777777")
    plane.draw_tokens(panel, tables["tokens"])
    panel.text(1.5, 4.1, "GMM", color=RED)
    panel.text(5.9, -0.2, "LMM", color=BLUE, ha="right", va="top")
    plane.label_axes(panel)


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
    found = {each.selection: each for each in hm.selections(problem)}
    best, local = (found[tokens].max_margin for tokens in ((0, 0), (0, 1)))
    paths = plane.train(problem, (*TO_GLOBAL, *TO_LOCAL))
    targets = [best] * len(TO_GLOBAL) + [local] * len(TO_LOCAL)
    ends = dict(plane.ends_table(paths, targets))
    plain = [
        1 - hm.train(problem, hm.optim.GD(1.0), steps=5000, start=start).cosine_distance(target)
        for start, target in zip((*TO_GLOBAL, *TO_LOCAL), targets, strict=True)
    ]
    ends["cosine_plain_5000"] = np.array(plain)
    up, right = slice(None, len(TO_GLOBAL)), slice(len(TO_GLOBAL), None)
    neighbors = hm.neighbors(problem, local).pairs
    one_other = hm.directions.assumptions.assumption_b(problem).holds
    optimal = {tokens: each.attracts.verdict for tokens, each in found.items()}
    claims = {
        "p-mm": [best.need(), local.need()],
        "locally-optimal": (
            optimal == {(0, 0): True, (0, 1): True, (1, 0): False, (1, 1): False},
            sorted(optimal.items()),
        ),
        "no-neighbour": (neighbors == ((0, 1),), neighbors),
        "assumption-b": (one_other, one_other),
        "tokens": (ends["selected"].tolist() == ["0 0"] * 4 + ["0 1"] * 4, ends["selected"].tolist()),
        "cosine-global": ends["cosine_1000"][up],
        "cosine-local": ends["cosine_1000"][right],
        "plain-global": ends["cosine_plain_5000"][up],
        "plain-local": ends["cosine_plain_5000"][right],
    }
    tables = {
        "tokens": plane.tokens_table(problem),
        "paths": plane.paths_table(paths),
        "ends": ends,
        "directions": plane.directions_table({"global": best.need(), "local": local.need()}),
        "boundary": _boundary(problem, setting),
    }
    notes = (
        "The coordinates are ours: the paper gives none.",
        f"Shaded: where normalized descent of rate {plane.RATE} goes from there, judged after "
        f"{plane.STEPS:,} steps.",
        "Locally optimal does not mean that every token selected beats the others: an input without a "
        "neighbor keeps a worse one (B-ERR-08).",
    )
    return Findings(tables, claims, notes)


def _boundary(problem: hm.Problem, setting: Setting) -> Table:
    """Where, on horizontal lines, starts that go to the best tokens give way to those that do not."""
    heights = np.linspace(*WINDOW[1], 77 if setting.scale == "paper" else 39)
    crossings = []
    for y in heights.tolist():
        crossings.append(_crossing(problem, y))
        setting.progress(len(crossings) / len(heights))
    return {"x": np.array(crossings), "y": heights}


def _crossing(problem: hm.Problem, y: float) -> float:
    return plane.bisect(lambda x: not plane.goes_to_best(problem, x, y), -4.0, 12.0, 2e-3)
