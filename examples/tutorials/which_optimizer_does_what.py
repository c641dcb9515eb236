"""
Which optimizer does what?
==========================

Every optimizer measures length in its own norm, and trained attention tends to the max-margin direction of
that norm. On one small problem this tutorial trains with six optimizers, compares the tokens they select,
and measures how far each run is from the max margin in its norm.
"""

import matplotlib.pyplot as plt

import hardmax as hm

problem = hm.data.example("space-a")
print(problem)

# %%
# Six optimizers, one start
# -------------------------
#
# ``optimizer.norm`` names the norm of an optimizer. The margin gap is zero exactly at the max margin.

optimizers = {
    "normalized descent": hm.optim.Normalized(0.1),
    "mirror descent, power 3": hm.optim.Mirror(0.1, 3),
    "coordinate descent": hm.optim.Coordinate(0.1),
    "sign descent": hm.optim.Sign(0.03),
    "Signum": hm.optim.Signum(0.003),
    "Adam": hm.optim.Adam(0.003, (0.9, 0.99), eps=0.0),
}
runs = {
    name: hm.train(problem, optimizer, steps=10_000, record=100) for name, optimizer in optimizers.items()
}
gaps = {}
for name, run in runs.items():
    best = hm.max_margin(problem, run.selection, norm=optimizers[name].norm)
    gaps[name] = max(run.margin_gap(best), 0.0)
    print(f"{name:24} {optimizers[name].norm:5} tokens {run.selection}, margin gap {gaps[name]:.4f}")

# %%
# The optimizers of linf select other tokens than the rest. Which selections attract depends on the norm:

for norm in ("l1", "l2", "linf"):
    listed = [each.selection for each in hm.attractors(problem, norm=norm)]
    print(norm, "attracting selections:", listed)

# %%
# Rates have thresholds
# ---------------------
#
# A forecast lists the thresholds of an optimizer at its rate, for the selection that a run reached.

print(hm.limits.forecast(problem, hm.optim.Signum(0.1)))

# %%
# Margin gaps over steps
# ----------------------

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, run in runs.items():
    best = hm.max_margin(problem, run.selection, norm=optimizers[name].norm)
    values = [max(best.margin_gap(point), 1e-16) for point in run.points[1:]]
    axes.loglog(run.times[1:], values, label=name)
axes.set(xlabel="steps", ylabel="margin gap in the optimizer's norm")
axes.legend(fontsize=8)
plt.show()

# %%
# The guide "Norms and optimizers" explains the curves, and cites what is proved.
