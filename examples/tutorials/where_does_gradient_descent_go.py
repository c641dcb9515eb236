"""
Where does gradient descent go on my data?
==========================================

Attention chooses. Each input of your data is a list of tokens; training moves one vector p, and the token
whose key has the largest product with p gets most of the attention. This tutorial takes a small problem,
follows the training of p to its end, and proves where that end is. Replace the numbers with your own.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import hardmax as hm

# %%
# The data
# --------
#
# Three inputs with four tokens each. A token has a *key*, here two numbers so that we can draw it, and a
# *score*: the more attention goes to high scores, the smaller the loss. Inputs may differ in length, and
# keys may have any dimension.

keys = [
    [[-0.3, 0.8], [0.1, 1.4], [-1.2, -0.7], [0.0, 0.3]],
    [[-0.6, 0.3], [0.3, -0.1], [-0.8, -0.7], [-1.3, 1.1]],
    [[1.0, 0.4], [-0.2, -0.4], [0.2, -0.1], [0.5, -1.2]],
]
scores = [[0.2, 0.1, 0.8, 0.0], [0.3, 0.5, 0.9, 0.5], [0.6, 0.6, 0.3, 0.9]]
problem = hm.Problem(keys, scores)
print(f"{problem.n} inputs, {problem.sizes.tolist()} tokens, keys in {problem.d} dimensions")

# %%
# ``hm.Problem.load("mine.json")`` reads the same two lists from a JSON file, ``{"keys": ..., "scores":
# ...}``. In a terminal, ``hardmax solve mine.json --flow`` answers the questions of this page.
#
# Train
# -----
#
# Gradient flow is gradient descent with infinitely small steps. It starts at p = 0, where every token of an
# input gets the same attention. The loss falls as long as p grows, so we limit the length of p.

run = hm.flow(problem, until_norm=1e6)
print(f"|p| = {run.p_norm:.0f} at log t = {run.times[-1]:.0f}")
print("tokens selected:", run.selection)
print(
    "attention off these tokens when |p| = 10: "
    f"{hm.dynamics.off_top_attention(problem, 10 * run.direction):.1e}"
)

# %%
# The training time is e to the 717,808. The softmax has become a hardmax that selects token 2 of the first
# input, token 2 of the second and token 3 of the third (counting from 0), the tokens with the best scores.
# A p of length 10 in this direction leaves less than a thousandth of the attention to the others.
#
# Where is that?
# --------------
#
# In theory p tends to a *max-margin direction*, that of the shortest p for which every selected key beats the
# other keys of its input by at least 1.

best = hm.max_margin(problem, run.selection)
low, high = best.margin_interval
print(f"{best.status}: the margin is between {low:.12f} and {high:.12f}")
print("tokens that are beaten by exactly 1, as (input, token):", best.support)
print(f"1 - cos between p and that direction: {run.cosine_distance(best):.1e}")

# %%
# *Certified* means that the interval is proved to contain the margin. The two tokens in the support are the
# *neighbors* that determine the direction. The last number means that p is within 3e-7 radians of this
# direction.
#
# What else could have happened?
# ------------------------------
#
# Of the 4 x 4 x 4 = 64 ways to select one token per input only some are possible for any p, and of these
# only some *attract*: those where each selected token scores above its neighbors. Here are all of them,
# with proof that the list is complete.

search = hm.attractors(problem)
attractors = sorted(search, key=lambda attractor: -attractor.margin)
print(f"{search.feasible} selections are possible, {len(attractors)} attract; the search is {search.status}")
for attractor in attractors:
    kind = "every best token" if attractor.is_best else "not every best token"
    print(attractor.selection, f"margin {attractor.margin:.4f}, {kind}")

# %%
# So training may end where some inputs keep a worse token. The start decides. We try 1,681 starts in a
# square, each with 600 steps of length 0.1 (normalized gradient descent).

side = np.linspace(-6, 6, 41)
basin = np.empty((len(side), len(side)), dtype=int)
selections = [attractor.selection for attractor in attractors]
for row, y in enumerate(side):
    for column, x in enumerate(side):
        end = hm.train(problem, hm.optim.Normalized(0.1), steps=600, start=[x, y], record=())
        basin[row, column] = selections.index(end.selection)
shares = np.bincount(basin.ravel()) / basin.size
for selection, share in zip(selections, shares, strict=True):
    print(f"{share:.1%} of the starts end at {selection}")

# %%
# Nearly three quarters reach the best tokens. In the picture each start has the color of its end. Arrows are
# the three max-margin directions, lines are gradient flows from a few starts, the black one from p = 0.

colors = ["#0072B2", "#E69F00", "#009E73"]
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
axes.pcolormesh(side, side, basin, cmap=ListedColormap(colors), alpha=0.25, linewidth=0)
for attractor, color in zip(attractors, colors, strict=True):
    arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2.5}
    axes.annotate("", 5.8 * attractor.direction, (0, 0), arrowprops=arrow)
    axes.plot([], [], color=color, label=f"tokens {attractor.selection}, margin {attractor.margin:.2f}")
for start in [(0, 0), (3, -2), (-3, 0), (4, 2), (-1, 3)]:
    line = hm.flow(problem, start=start, until_norm=20)
    axes.plot(*line.points.T, color="black" if start == (0, 0) else "gray", linewidth=1.2)
    axes.plot(*start, "o", color="black", markersize=4)
axes.set(xlim=(-6, 6), ylim=(-6, 6), aspect="equal", xlabel="$p_1$", ylabel="$p_2$")
axes.set_title("Where training ends, by where it starts")
figure.legend(loc="outside lower center", fontsize=8)
plt.show()

# %%
# If ``run.event`` is not ``None``, it names the reason why a flow stopped: for example a "stationary point",
# where the data pull in opposite directions and p stays finite.
#
# The tutorial "Check a conjecture over 10,000 random instances" does this for many problems at once.
