"""A first look: follow gradient flow, compare it with the theory, and see where plain numerics fail.

Prints the results and draws one picture, results/first_look.png.
"""

import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import hardmax as hm

OUT = Path(__file__).parents[1] / "results"
BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#777777"  # told apart by color-blind readers too


def follow_one_problem() -> None:
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    path = hm.flow(problem, until_norm=1e6)
    best = hm.max_margin(problem, path.selection)
    print("Random tokens on the sphere (n=4 inputs, T=6 tokens, d=10), gradient flow from p = 0:")
    print(
        f"  |p| = {path.p_norm:.0f} at log t = {path.times[-1]:.0f}; it selects tokens {list(path.selection)}"
    )
    print(f"  max-margin direction of that selection: {best.status}, largest KKT residual {best.kkt:.1e}")
    print(f"  1 - cos between where p went and where theory sends it: {path.cosine_distance(best):.1e}")
    search = hm.attractors(problem)
    attracting = list(search)
    print(
        f"  directions that can attract: {len(attracting)}, by {search.problems_solved} quadratic programs\n"
    )


def naive_descent(problem: hm.Problem, steps: int) -> np.ndarray:
    """Normalized gradient descent with the usual softmax backward in float64."""
    X, gamma = problem.keys.reshape(4, 6, -1), problem.scores.reshape(4, 6)
    p = np.zeros(problem.d)
    for _ in range(steps):
        logits = X @ p
        s = np.exp(logits - logits.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        u = (s * gamma).sum(axis=1, keepdims=True)
        pull = np.einsum("it,itd->d", s * (gamma - u) / (1 + np.exp(u)), X)
        p = p + pull / np.linalg.norm(pull)
    return p


def compare_with_plain_numerics(trials: int = 20, d: int = 100) -> None:
    problems = list(hm.data.fig9_oracle(d, trials))
    ours = hm.train(problems, hm.optim.Normalized(1.0), steps=1000)
    cosines: dict[str, list[float]] = {"plain float64": [], "hardmax": []}
    for problem, path in zip(problems, ours, strict=True):
        for name, p in (("plain float64", naive_descent(problem, 1000)), ("hardmax", path.p)):
            target = hm.max_margin(problem, hm.selected_tokens(problem, p))
            cosines[name].append(1 - hm.cosine_distance(p, target))
    print(f"B-FIG-9 protocol, d={d}, {trials} trials of 1,000 normalized steps:")
    print("mean correlation with the max-margin direction of the tokens that were selected")
    for name, values in cosines.items():
        print(f"  {name:14s}{np.mean(values):.5f}")
    print(
        "  The plain backward pass loses the direction once the softmax saturates; nothing warns about it.\n"
    )


def draw_two_basins() -> Path:
    problem = hm.data.example("B-FIG-8")
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.subplots()
    starts = [(0, 0), (0, 2), (-1, 1), (3, 3), (2, 0), (4, 0), (2, -2), (1, -1)]
    found = list(hm.attractors(problem))
    for color, each in zip((ORANGE, BLUE), found, strict=True):
        ray = 14 * each.direction
        kind = "all best tokens" if each.is_best else "input 1 keeps its worse token"
        axes.plot(*np.outer([0, 1], ray).T, "--", color=color, label=f"max-margin direction: {kind}")
    for start in starts:
        path = hm.train(problem, hm.optim.Normalized(0.1), steps=100, start=start, record=2)
        nearest = min(range(len(found)), key=lambda i: path.cosine_distance(found[i].direction))
        axes.plot(*path.points.T, color=(ORANGE, BLUE)[nearest], linewidth=1.2)
        axes.plot(*start, "o", color=GRAY, markersize=4)
    axes.set(xlabel="$p_1$", ylabel="$p_2$", xlim=(-2.5, 13), ylim=(-3, 13), aspect="equal")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    OUT.mkdir(exist_ok=True)
    file = OUT / "first_look.png"
    figure.savefig(file, dpi=200)
    return file


if __name__ == "__main__":
    follow_one_problem()
    compare_with_plain_numerics()
    print(f"Eight starts, two directions (B-FIG-8): {os.path.relpath(draw_two_basins())}")
