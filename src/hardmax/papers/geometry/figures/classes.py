"""D-FIG-CLASSES: a linear classifier trained by five optimizers, each judged by the margin in every norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GREEN, PURPLE, RED
from hardmax.papers.figures.claims import at_least, at_most, true
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Tables, part
from hardmax.papers.geometry.figures.methods import deficits, marks, train

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

STEPS = {"quick": 10_000, "paper": 100_000}
NORMS = {"l2": "Frobenius", "linf": "largest entry", "spectral": "spectral"}
METHODS = {
    "gradient descent": (hm.optim.GD(lr=0.5), BLUE, ":"),
    "normalized descent": (hm.optim.Normalized(0.1), BLUE, "-"),
    "sign descent": (hm.optim.Sign(0.1, decay=0.5), RED, "-"),
    "Adam": (hm.optim.Adam(0.01, (0.9, 0.99), eps=0.0), PURPLE, "-"),
    "Muon": (hm.optim.Muon(0.02), GREEN, "-"),
}
EXACT = ("normalized descent", "sign descent", "Adam", "Muon")


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Twelve samples of three overlapping classes that still separate, in four dimensions."""
    y = np.arange(12) % 3
    return np.random.default_rng(3).normal(size=(12, 4)) + 1.5 * np.eye(3, 4)[y], y


def draw_classes(tables: Tables, canvas: Canvas) -> None:
    """Draw the gap of each optimizer in its own norm over the steps, and the gaps at the end in all norms."""
    left, right = canvas.subplots(1, 2, gridspec_kw={"width_ratios": (1.25, 1.0)})
    for name, (_, color, line) in METHODS.items():
        curve = part(tables["gaps"], "method", name)
        left.plot(curve["step"], curve["gap"], color=color, linestyle=line, linewidth=1.1, label=name)
    left.set(xscale="log", yscale="log", xlabel="step", ylabel="margin gap in its own norm")
    left.set_title("a  Over time")
    left.legend(fontsize=6.5, loc="lower left")
    ends = tables["ends"]
    gaps = ends["gap"].reshape(len(METHODS), len(NORMS))
    right.imshow(np.log10(gaps), cmap="Blues_r", vmin=-3, vmax=0, aspect="auto")
    own = [list(NORMS).index(optimizer.norm) for optimizer, _, _ in METHODS.values()]
    for row, column in np.ndindex(gaps.shape):
        weight = "bold" if column == own[row] else "normal"
        ink = "white" if gaps[row, column] < 0.03 else "black"
        right.text(
            column,
            row,
            f"{gaps[row, column]:.3f}",
            color=ink,
            fontweight=weight,
            ha="center",
            va="center",
            fontsize=7,
        )
    right.set_xticks(range(len(NORMS)), NORMS.values(), fontsize=7)
    right.set_yticks(range(len(METHODS)), METHODS, fontsize=7)
    right.set_title("b  Gap at the end, by norm (own: bold)")
    right.tick_params(length=0)


@recipe(
    "D-FIG-CLASSES",
    "A linear classifier: each optimizer maximizes the margin in its own norm",
    draw=draw_classes,
    size=(7.0, 2.8),
)
def fig_classes(setting: Setting) -> Findings:
    """Train one classifier with five optimizers and measure the margin of W in three norms."""
    X, y = samples()
    problem = hm.Problem.from_classes(X, y)
    best = {norm: hm.max_margin(problem, norm=norm) for norm in NORMS}
    last = STEPS[setting.scale]
    curves: dict[str, list[np.ndarray]] = {"method": [], "step": [], "gap": []}
    ends: dict[str, dict[str, float]] = {}
    for name, (optimizer, _, _) in METHODS.items():
        run = train(problem, optimizer, last, marks(last))
        steps, gaps = deficits(run, best[optimizer.norm])
        curves["method"].append(np.full(len(steps), name))
        curves["step"].append(steps)
        curves["gap"].append(gaps)
        ends[name] = {norm: run.margin_gap(best[norm]) for norm in NORMS}
        setting.progress((list(METHODS).index(name) + 1) / len(METHODS))
    winners = {norm: min(EXACT, key=lambda name: ends[name][norm]) for norm in NORMS}
    own = {name: METHODS[name][0].norm for name in EXACT}
    prefix = "D-FIG-CLASSES."
    claims = (
        at_most(
            prefix + "own-norm",
            "gaps in their own norms of normalized descent, sign descent, Adam and Muon at the end",
            [ends[name][own[name]] for name in EXACT],
            0.04,
        ),
        true(
            prefix + "winner",
            "the smallest gap in each norm is that of an optimizer of this norm",
            all(own[name] == norm for norm, name in winners.items()),
            winners,
            "its own norm each",
        ),
        at_least(
            prefix + "slow",
            "gap of gradient descent at the end over that of normalized descent, in l2",
            ends["gradient descent"]["l2"] / ends["normalized descent"]["l2"],
            10.0,
        ),
    )
    tables = {
        "gaps": {column: np.concatenate(values) for column, values in curves.items()},
        "ends": {
            "method": np.repeat(list(METHODS), len(NORMS)),
            "norm": np.tile(list(NORMS), len(METHODS)),
            "gap": np.array([ends[name][norm] for name in METHODS for norm in NORMS]),
        },
    }
    notes = (
        "Twelve samples of three classes in four dimensions, W from the origin. Sign descent has the rate "
        "0.1/sqrt(t + 1), the others a constant one; Adam has beta2 = 0.99 and epsilon = 0.",
        "The rates of convergence are measured here, not proved.",
    )
    return Findings(tables, claims, notes)
