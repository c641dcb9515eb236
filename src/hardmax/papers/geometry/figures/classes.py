"""D-FIG-CLASSES: a linear classifier trained by five optimizers, each judged by the margin in every norm."""

from __future__ import annotations

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GREEN, PURPLE, RED
from hardmax.dynamics.train import train_quietly
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Tables, part, stacked
from hardmax.papers.geometry.figures.methods import deficits, marks

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
        look = {"color": ink, "fontweight": weight, "ha": "center", "va": "center", "fontsize": 7}
        right.text(column, row, f"{gaps[row, column]:.3f}", **look)
    right.set_xticks(range(len(NORMS)), NORMS.values(), fontsize=7)
    right.set_yticks(range(len(METHODS)), METHODS, fontsize=7)
    right.set_title("b  Gap at the end, by norm (own: bold)")
    right.tick_params(length=0)


@recipe(
    "D-FIG-CLASSES",
    "A linear classifier: each optimizer maximizes the margin in its own norm",
    draw=draw_classes,
    size=(7.0, 2.8),
    claims="""
    own-norm | gaps in their own norms of normalized descent, sign descent, Adam and Muon at the end | ≤ 0.04
    winner | the smallest gap in each norm is that of an optimizer of this norm | its own norm each
    slow | gap of gradient descent at the end over that of normalized descent, in l2 | ≥ 10
    labels | samples that each optimizer classifies correctly | 12, 12, 12, 12, 12 ± 0
    margins | max margins in l2, linf and the spectral norm | 0.295147, 0.758681, 0.348854 ± 1e-6
    """,
)
def fig_classes(setting: Setting) -> Findings:
    """Train one classifier with five optimizers and measure the margin of W in three norms."""
    X, y = samples()
    problem = hm.Problem.from_classes(X, y)
    best = {norm: hm.max_margin(problem, norm=norm) for norm in NORMS}
    last = STEPS[setting.scale]
    curves = []
    ends: dict[str, dict[str, float]] = {}
    correct = []
    for name, (optimizer, _, _) in METHODS.items():
        run = train_quietly(problem, optimizer, steps=last, record=marks(last))
        steps, gaps = deficits(run, best[optimizer.norm])
        curves.append({"method": name, "step": steps, "gap": gaps})
        ends[name] = {norm: run.margin_gap(best[norm]) for norm in NORMS}
        correct.append(sum(token == label for token, label in zip(run.selection, y.tolist(), strict=True)))
        setting.progress(len(correct) / len(METHODS))
    winners = {norm: min(EXACT, key=lambda name: ends[name][norm]) for norm in NORMS}
    own = {name: METHODS[name][0].norm for name in EXACT}
    claims = {
        "own-norm": [ends[name][own[name]] for name in EXACT],
        "winner": (all(own[name] == norm for norm, name in winners.items()), winners),
        "slow": ends["gradient descent"]["l2"] / ends["normalized descent"]["l2"],
        "labels": correct,
        "margins": [each.margin for each in best.values()],
    }
    rows = [{"method": name, "norm": norm, "gap": ends[name][norm]} for name in METHODS for norm in NORMS]
    notes = (
        "Twelve samples of three classes in four dimensions, W from the origin. Sign descent has the rate "
        "0.1/sqrt(t + 1), the others a constant one; Adam has beta2 = 0.99 and epsilon = 0.",
        "The rates of convergence are measured here, not proved.",
    )
    return Findings({"gaps": stacked(curves), "ends": stacked(rows)}, claims, notes)
