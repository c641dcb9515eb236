"""
Read a theorem check
====================

hardmax can test every lemma and theorem of its three papers on your problem. This tutorial takes one theorem
and changes a small problem until every verdict has occurred: *not applicable*, *holds*, *vacuous*, *fails*
and *undecided*.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

# %%
# The statement
# -------------
#
# Theorem 2 of the max-margin paper gives conditions under which p must grow without bound, and the rate.

statement = hm.statements("B-THM-2")[0]
print(f"{len(hm.statements())} statements can be checked; this one is {statement.title}, {statement.label}.")
print(statement.claim)

# %%
# The label states how a statement is known: *proved* in the paper or after correction, *derived* for this
# project, *measured*, or a *conjecture*. Assumption A is about the loss; Assumption B requires that each
# input has one best token and that its other tokens have equal scores.
#
# Not applicable
# --------------
#
# Three inputs of four tokens, with a key in the plane and a score for each token.

keys = [
    [[-0.3, 0.8], [0.1, 1.4], [-1.2, -0.7], [0.0, 0.3]],
    [[-0.6, 0.3], [0.3, -0.1], [-0.8, -0.7], [-1.3, 1.1]],
    [[1.0, 0.4], [-0.2, -0.4], [0.2, -0.1], [0.5, -1.2]],
]
mine = hm.Problem(keys, [[0.2, 0.1, 0.8, 0.0], [0.3, 0.5, 0.9, 0.5], [0.6, 0.6, 0.3, 0.9]])


def show(check):
    print(check.id, "->", check.verdict)
    for part in check.hypotheses:
        measured = f"{part.measured:.3f}" if isinstance(part.measured, float) else part.measured
        print(f"  {part.id}: {part.holds}, measured {measured}", f"({part.erratum})" if part.erratum else "")


scored = hm.check_statement("B-THM-2", mine)
show(scored)

# %%
# Each hypothesis comes with its measured value. The loss falls everywhere, by at least 0.289 per unit of
# score. Assumption B fails, and (0, 0, 1) shows where: in input 0 neither of the tokens 0 and 1 is the best,
# and their scores differ. The last condition, that some p selects all the best tokens, is met with a margin
# of 0.718. The paper omits it; erratum B-ERR-01 adds it.
#
# Holds
# -----
#
# Now give the best tokens, 2, 2 and 3, the score 1 and all others 0.


def only(best):
    return hm.Problem(keys, [[float(t == winner) for t in range(4)] for winner in best])


equal = hm.check_statement("B-THM-2", only([2, 2, 3]))
show(equal)
print(f"measured: |p| grows by {equal.measured['norm over log t']:.6f} for each unit of log t")
print(f"claimed:  |p_mm| = {hm.max_margin(only([2, 2, 3])).p_norm:.6f}; slack {equal.slack:.6f}")

# %%
# *Holds* means that all conditions are met and the claim was measured to be true on this problem. It is
# evidence, not a proof: the check has followed gradient flow to a norm of p of 14,000, and the theorem is
# about the limit. The *slack* measures how far the claim is from failing: 1 is perfect agreement, 0 the edge
# (here a rate that is wrong by two percent), and it is negative exactly if the claim fails.
#
# Vacuous
# -------
#
# One token per input leaves nothing to choose. The conditions are met, but nothing was tested: do not count
# this as support.

single = hm.check_statement("B-THM-2", hm.Problem([[[1.0, 0.0]], [[0.0, 1.0]]], [[1.0], [1.0]]))
show(single)

# %%
# Fails, and the errata
# ---------------------
#
# Let token 0 be the best of every input. No p selects all three.

opposed = only([0, 0, 0])
corrected = hm.check_statement("B-THM-2", opposed)
printed = hm.check_statement("B-THM-2", opposed, reading="paper")
show(corrected)
print(f"as the paper words it: {printed.verdict}, slack {printed.slack}, {printed.measured['event']}")
print("witness:", printed.witness.round(4))

# %%
# The corrected theorem is not applicable: the condition that the erratum adds is not met.
# ``reading="paper"`` tests the paper's own wording, without that condition, and it fails. A failure has a
# *witness* that can be checked by hand: a point where the gradient vanishes, so that p stops there
# instead of growing.

for name, p in [("0", np.zeros(2)), ("the witness", printed.witness)]:
    print(f"log of the gradient's norm at {name}: {hm.gradient(opposed, p).log_norm:.0f}")

# %%
# It has fallen from e to the -3 at the start to rounding error. The page "Errata" has a row for each of them.
#
# Undecided
# ---------
#
# This verdict means that a budget ran out or that the run is too short. Here a law of the next-token paper
# about late training is tested on sentences.

sentences = ["S V O P", "V O P", "O P P", "P S V"]
for steps in (900, 100_000):
    late = hm.check_statement("C-THM-ASY", sentences, steps=steps)
    print(f"{late.id} after {steps} steps: {late.verdict}")

# %%
# The picture shows the norm of p along gradient flow, for the problem on which Theorem 2 holds and for the
# one on which the paper's wording fails. The dotted line has the slope that the theorem claims.

figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for name, problem in [("best tokens 0, 0, 0", opposed), ("best tokens 2, 2, 3", only([2, 2, 3]))]:
    run = hm.flow(problem, until_log_time=20)
    axes.plot(run.times, run.p_norms, label=name)
slope = hm.max_margin(problem).p_norm
axes.plot([10, 20], [run.p_norm - 10 * slope - 2, run.p_norm - 2], ":", color="gray", label="slope claimed")
axes.set(xlabel="log t", ylabel="|p|", xlim=(-2, 20))
axes.legend()
plt.show()

# %%
# ``hardmax verify`` runs every check on instances with a known verdict, and ``hm.check_statement(id,
# problem)`` takes your own problem.
