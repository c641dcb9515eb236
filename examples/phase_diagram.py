"""Phase diagram of token selection: how often training ends at a selection that attracts, or at the best one.

    python examples/phase_diagram.py [STORE]

Random tokens on the sphere, as in B-FIG-9, over the dimension d, the number of inputs n and of tokens T. Runs
the missing trials of examples/phase-diagram.toml (13,500 in all), stores the results in STORE, by default
results/phase-diagram.sqlite, and draws results/phase-diagram.png.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D

import hardmax as hm
from hardmax._lib.style import RED, style
from hardmax.trials.plan import read_plan

HERE = Path(__file__).parent
OUT = HERE.parent / "results"
NAMES = {"locally_optimal": "P(LMM)", "globally_optimal": "P(GMM)"}


def draw(found: hm.Sweep, file: Path) -> None:
    phases = hm.trials.PhaseDisplay.of(found, list(NAMES), x="d", y="n", across="T")
    figure = phases.plot()
    dimensions, inputs, tokens = (np.array(phases.values[name]) for name in ("d", "n", "T"))
    panels = np.reshape(figure.axes[: 2 * len(tokens)], (2, -1))
    edges = np.arange(len(dimensions) + 1) - 0.5
    for T, column in zip(tokens, panels.T, strict=True):
        # On this side of the line the rows k_selected - k_t are independent: any selection can be separated.
        free = [(inputs * (T - 1) <= d).sum() - 0.5 for d in dimensions]
        for panel in column:
            panel.stairs(free, edges, baseline=None, color="white", linewidth=2.4)
            panel.stairs(free, edges, baseline=None, color=RED, linewidth=1.2)
    for scale, name in zip(figure.axes[2 * len(tokens) :], NAMES.values(), strict=True):
        scale.set_ylabel(name)
    line = Line2D([], [], color=RED, linewidth=1.2)
    line.set_label("below the line $n(T-1) \\leq d$: every selection is separable")
    with style():
        figure.legend(handles=[line], loc="outside lower center")
    figure.savefig(file, dpi=200)


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    store = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT / "phase-diagram.sqlite"
    plan = read_plan(HERE / "phase-diagram.toml")
    options = {"rng": plan.seed, "batched": plan.batched, **plan.options}
    found = hm.sweep(plan.function, plan.grid, plan.trials, store=store, **options)
    draw(found, OUT / "phase-diagram.png")
    print(f"{found.done} trials in {store}; picture in {OUT / 'phase-diagram.png'}")
