"""B-FIG-8: with two inputs, descent may keep a worse token; where it goes depends on the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, RED
from hardmax.papers.figures.claims import at_least, near, true
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Table, Tables, part
from hardmax.papers.max_margin.figures.plane import (
    RATE,
    STEPS,
    bisect,
    directions_table,
    draw_path,
    draw_ray,
    draw_tokens,
    ends_table,
    frame,
    goes_to_best,
    label_axes,
    paths_table,
    runs_of,
    tokens_table,
    train,
    vector_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

TO_GLOBAL = ((0.0, 0.0), (0.0, 2.0), (-1.0, 1.0), (3.0, 3.0))
TO_LOCAL = ((2.0, 0.0), (4.0, 0.0), (2.0, -2.0), (1.0, -1.0))
WINDOW = ((-2.0, 6.0), (-3.0, 4.6))


def draw_8(tables: Tables, canvas: Canvas) -> None:
    """Tokens, eight trajectories, the two directions, and from where normalised descent goes to which."""
    panel = canvas.subplots()
    frame(panel, *WINDOW)
    edge = tables["boundary"]
    for side, color in zip(WINDOW[0], ("#FBEBE0", "#E3EEF6"), strict=True):
        panel.fill_betweenx(edge["y"], edge["x"], side, color=color, linewidth=0, zorder=-1)
    draw_ray(panel, vector_of(tables["directions"], "global"), RED)
    draw_ray(panel, vector_of(tables["directions"], "local"), BLUE)
    for run in runs_of(tables["paths"]):
        draw_path(panel, part(tables["paths"], "run", run), "#777777")
    draw_tokens(panel, tables["tokens"])
    panel.text(1.5, 4.1, "GMM", color=RED)
    panel.text(5.9, -0.2, "LMM", color=BLUE, ha="right", va="top")
    label_axes(panel)


@recipe(
    "B-FIG-8",
    "Two inputs: descent goes to the globally or to a locally optimal direction",
    draw=draw_8,
    size=(3.4, 3.2),
    errata=("B-ERR-08",),
)
def fig_8(setting: Setting) -> Findings:
    """Eight starts, normalised and plain; at the local one, input 1 keeps its worse token, unrivalled."""
    problem = hm.data.example("B-FIG-8")
    found = {each.selection: each for each in hm.selections(problem)}
    best, local = (found[tokens].max_margin for tokens in ((0, 0), (0, 1)))
    paths = train(problem, (*TO_GLOBAL, *TO_LOCAL))
    targets = [best] * len(TO_GLOBAL) + [local] * len(TO_LOCAL)
    plain = [
        hm.train(problem, hm.optim.GD(1.0), steps=5000, start=start) for start in (*TO_GLOBAL, *TO_LOCAL)
    ]
    ends = dict(ends_table(paths, targets))
    ends["cosine_plain_5000"] = np.array(
        [1 - path.cosine_distance(target) for path, target in zip(plain, targets, strict=True)]
    )
    up, right = slice(None, len(TO_GLOBAL)), slice(len(TO_GLOBAL), None)
    optimal = {tokens: each.attracts.verdict for tokens, each in found.items()}
    name = "B-FIG-8."
    claims = (
        near(
            name + "p-mm",
            "p_mm of the best tokens and of tokens 0 and 1",
            [best.need(), local.need()],
            [[1.0, 3.0], [1.0, 0.0]],
            1e-12,
        ),
        true(
            name + "locally-optimal",
            "of the four feasible selections only (0, 0) and (0, 1) are locally optimal",
            optimal == {(0, 0): True, (0, 1): True, (1, 0): False, (1, 1): False},
            sorted(optimal.items()),
            "True, True, False, False",
        ),
        true(
            name + "no-neighbour",
            "at the local one, input 1 selects its worse token and has no neighbour",
            hm.neighbors(problem, local).pairs == ((0, 1),),
            hm.neighbors(problem, local).pairs,
            "token 1 of input 0",
        ),
        true(
            name + "assumption-b",
            "Assumption B holds: one other token per input",
            hm.directions.assumptions.assumption_b(problem).holds,
            hm.directions.assumptions.assumption_b(problem).holds,
            "True",
        ),
        true(
            name + "tokens",
            "tokens selected from the eight starts",
            ends["selected"].tolist() == ["0 0"] * 4 + ["0 1"] * 4,
            ends["selected"].tolist(),
            "four times 0 0, four times 0 1",
        ),
        at_least(
            name + "cosine-global",
            "cosine to the global direction, normalised, 1,000 steps",
            ends["cosine_1000"][up],
            0.99999,
        ),
        at_least(
            name + "cosine-local",
            "cosine to the local direction, normalised, 1,000 steps",
            ends["cosine_1000"][right],
            0.9998,
        ),
        at_least(
            name + "plain-global",
            "cosine to the global direction, plain, 5,000 steps of 1",
            ends["cosine_plain_5000"][up],
            0.9998,
        ),
        at_least(
            name + "plain-local",
            "cosine to the local direction, plain, 5,000 steps of 1",
            ends["cosine_plain_5000"][right],
            0.957,
        ),
    )
    tables = {
        "tokens": tokens_table(problem),
        "paths": paths_table(paths),
        "ends": ends,
        "directions": directions_table({"global": best.need(), "local": local.need()}),
        "boundary": _boundary(problem, setting),
    }
    notes = (
        "The coordinates are ours: the paper gives none.",
        f"Shaded: where normalised descent of rate {RATE} goes from there, judged after {STEPS:,} steps.",
        "Locally optimal does not mean that every token selected beats the others: an input without a "
        "neighbour keeps a worse one (B-ERR-08).",
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
    return bisect(lambda x: not goes_to_best(problem, x, y), -4.0, 12.0, 2e-3)
