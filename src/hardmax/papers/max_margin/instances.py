"""Small problems, and which statements of the max-margin paper hold there and which do not.

They are the counterexamples of docs/research/errata.md and a few draws.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from hardmax.data.generators import fig9_oracle, gaussian, sphere
from hardmax.data.small import example
from hardmax.papers.checking.instances import Instance
from hardmax.problem import Problem


def opposed(second: float = 2.0, reach: float = 1.0) -> Problem:
    """Two inputs that pull p in opposite ways, so that no p separates their best tokens (B-ERR-01).

    ``second`` is the best score of the second one, ``reach`` how far from zero its key is.
    """
    return Problem([[[1.0], [0.0]], [[-reach], [0.0]]], [[1.0, 0.0], [second, 0.0]])


def random_tokens(labels: list[int], W: str = "full", rng: int = 0) -> Problem:
    """Gaussian tokens in three dimensions with a random head; W full, singular or the identity."""
    draw = np.random.default_rng(rng)
    X, v, M = draw.normal(size=(len(labels), 5, 3)), draw.normal(size=3), draw.normal(size=(3, 3))
    if W == "singular":
        M[:, 0] = 0.0
    return Problem.from_tokens(X, labels, v, W=np.eye(3) if W == "identity" else M)


def bent_head(rng: int = 0) -> Problem:
    """Gaussian tokens in three dimensions with the nonlinear head tanh(v.z)."""
    draw = np.random.default_rng(rng)
    X, v = draw.normal(size=(4, 5, 3)), draw.normal(size=3)
    return Problem.from_psi(
        X, X, [1, -1, 1, -1], lambda z: np.tanh(z @ v), lambda z: (1 - np.tanh(z @ v) ** 2)[:, None] * v
    )


def equal_losers(n: int = 2, T: int = 4, d: int = 8, best: float = 1.0, rng: int = 0) -> Problem:
    """Gaussian keys, one best token and equal others (Assumption B); separable when d is large."""
    keys = np.random.default_rng(rng).normal(size=(n, T, d))
    return Problem(keys, [[best] + [best - 1.0] * (T - 1)] * n)


def two_winners(best: float = 1.0, rng: int = 0) -> Problem:
    """Two inputs with two equally good tokens each."""
    keys = np.random.default_rng(rng).normal(size=(2, 4, 2))
    return Problem(keys, [[best, best, best - 1.0, best - 1.0]] * 2)


def fig9_trial(d: int, trial: int) -> Problem:
    """One trial of the random stream of B-FIG-9."""
    return next(itertools.islice(fig9_oracle(d, trial + 1), trial, None))


# A token with score 10 just behind the neighbor of one direction (B-ERR-09).
BEHIND = partial(Problem, [[[0, 0], [-0.5, -0.3339746], [-0.501, -0.9322425]]], [[0.0, -0.1, 10.0]])
# Three neighbors of one direction in the plane: keys not in general position.
three_at_once = partial(
    Problem, [[[0.0, 0.0], [-1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]], [[1.0, 0.0, 0.0, 0.0]]
)
# Two equally good tokens and a worse one: flow selects one whose neighbor scores as much (B-ERR-21).
tied_winners = partial(Problem, [[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], [[1.0, 1.0, 0.0]])
# Two equally good tokens on either side of a worse one: ATT-SVM' has the two minimizers 1 and -1.
mirrored = partial(Problem, [[[1.0], [-1.0], [0.0]]], [[1.0, 1.0, 0.0]])
_labeled = partial(Problem.from_tokens, labels=[1, -1, 1], readout=[0.0, 1.0])
# B-FIG-3 with a third input that the relaxed direction only just selects.
squeezed = partial(_labeled, [[[0, 0], [1, 1]], [[0, 0], [1, -1]], [[0, 0], [-0.2, 2.0]]])
# Joint training that selects another token of its third input when v grows faster (B-NEW-1b).
switching = partial(_labeled, [[[0, 0], [1, 1]], [[0, 0], [2, -1]], [[1.6, 1.2], [0.6, 2.4]]])

FIG1A, FIG1B, FIG8 = (partial(example, name) for name in ("B-FIG-1a", "B-FIG-1b", "B-FIG-8"))
FIG3A, FIG3B = (partial(example, name) for name in ("B-FIG-3a", "B-FIG-3b"))
SPHERE = partial(sphere, n=4, T=5, d=6, rng=0)
RANDOM = partial(gaussian, n=2, T=3, d=4, rng=9)
ALL, TWICE_2 = {"selection": (1, 1, 1)}, {"selection": (2, 2)}
UP = {"start": [0.0, 1.0]}
THIRTY = {"p": [0.8660254037844386, 0.5], "q": [1.0, 0.0]}  # directions 30 degrees apart

INSTANCES: list[Instance] = [
    Instance("B-APP-E", "B-FIG-9, d = 2, trial 0", "holds", partial(fig9_trial, 2, 0)),
    Instance("B-APP-E", "B-FIG-9, d = 2, trial 286", "fails", partial(fig9_trial, 2, 286)),
    Instance("B-APP-E", "B-FIG-9, d = 10, trial 0", "not applicable", partial(fig9_trial, 10, 0)),
    Instance("B-ASM-B", "B-FIG-1a", "holds", FIG1A),
    Instance("B-ASM-B", "B-FIG-1b", "fails", FIG1B),
    Instance("B-ASM-C", "B-FIG-3a", "holds", FIG3A, ALL),
    Instance("B-ASM-C", "B-FIG-3b, all inputs", "fails", FIG3B, ALL),
    Instance("B-ASM-C", "B-FIG-3b, support inputs", "holds", FIG3B, {**ALL, "inputs": (0, 1)}),
    Instance("B-ASM-D", "B-FIG-8", "holds", FIG8),
    Instance("B-ASM-D", "negative scores", "fails", partial(equal_losers, best=-1.0)),
    Instance("B-EQ-73", "B-FIG-8", "holds", FIG8),
    Instance("B-EQ-73", "B-FIG-8, margins below 0 taken literally", "fails", FIG8, reading="paper"),
    Instance("B-EQ-73", "opposed inputs", "not applicable", opposed),
    Instance("B-EQ-75", "B-FIG-3a", "holds", FIG3A, ALL),
    Instance("B-EQ-75", "B-FIG-3b", "not applicable", FIG3B, ALL),
    Instance("B-EQ-79", "a third input that is squeezed", "holds", squeezed, ALL),
    Instance("B-EQ-79", "B-FIG-3a, every input in the support", "vacuous", FIG3A, ALL),
    Instance("B-EQ-79", "B-FIG-8, no values", "not applicable", FIG8, {"selection": (0, 0)}),
    Instance("B-EQ-84", "two winners per input", "holds", two_winners),
    Instance("B-EQ-84", "two mirrored winners", "holds", mirrored),
    Instance("B-EQ-84", "opposed inputs", "not applicable", opposed),
    Instance("B-ERR-21", "B-FIG-1b, random starts", "consistent", FIG1B),
    Instance("B-ERR-21", "B-FIG-1b, every start: not the separatrix", "refuted", FIG1B, reading="paper"),
    Instance("B-ERR-21", "two equal best tokens", "not applicable", tied_winners),
    Instance("B-NEW-1", "B-FIG-3b, rho = 0.5", "holds", FIG3B, {"rho": 0.5, "start": [0.0, -1.0]}),
    Instance("B-NEW-1", "B-FIG-3b, rho = 0.75", "holds", FIG3B, {"rho": 0.75, "start": [0.0, -1.0]}),
    Instance("B-NEW-1", "B-FIG-3b, rho = 2", "holds", FIG3B, {"rho": 2.0, "start": [0.0, -1.0]}),
    Instance("B-NEW-1", "B-FIG-3b, rho = 0.1", "not applicable", FIG3B, {"rho": 0.1, "start": [0.0, -1.0]}),
    Instance("B-NEW-1b", "switching third input, rho = 1", "holds", switching, {"rho": 1.0}),
    Instance("B-NEW-1b", "switching third input, rho = 8", "holds", switching, {"rho": 8.0}),
    Instance("B-NEW-1b", "B-FIG-8, no values", "not applicable", FIG8, {"rho": 1.0}),
    Instance("B-NEW-2", "B-FIG-8", "holds", FIG8),
    Instance("B-NEW-2", "three neighbors in the plane", "not applicable", three_at_once),
    Instance("B-NEW-3", "B-FIG-8", "holds", FIG8),
    Instance("B-NEW-3", "random keys", "holds", partial(gaussian, n=3, T=4, d=5, rng=0)),
    Instance("B-NEW-3", "B-FIG-8, one support row", "not applicable", FIG8, {"selection": (0, 1)}),
    Instance("B-NEW-4", "B-FIG-1b: two attractors, a saddle at infinity", "holds", FIG1B),
    Instance("B-NEW-4", "B-FIG-8", "holds", FIG8),
    Instance("B-NEW-4", "opposed inputs: one finite minimum", "holds", partial(opposed, reach=3.0)),
    Instance("B-NEW-4", "random keys in the plane", "holds", partial(gaussian, n=4, T=4, d=2, rng=13)),
    Instance("B-NEW-4", "random keys in space", "holds", partial(gaussian, n=2, T=4, d=3, rng=9)),
    Instance("B-NEW-4", "B-FIG-1a, tied scores", "not applicable", FIG1A),
    Instance("B-NEW-4", "opposed inputs of one length", "not applicable", opposed),
    Instance("B-THM-1", "B-FIG-1a", "holds", FIG1A),
    Instance("B-THM-1", "B-FIG-8", "holds", FIG8),
    Instance("B-THM-1", "B-FIG-8, exponential loss", "holds", partial(example, "B-FIG-8", "exponential")),
    Instance("B-THM-1", "negative scores", "holds", partial(equal_losers, d=2, n=1, best=-2.0)),
    Instance("B-THM-1", "opposed inputs", "not applicable", opposed),
    Instance("B-THM-1", "opposed inputs, as the paper states it", "fails", opposed, reading="paper"),
    Instance("B-THM-2", "B-FIG-1a", "holds", FIG1A),
    Instance("B-THM-2", "B-FIG-8 from (2, 0), another local optimum", "holds", FIG8, {"start": [2.0, 0.0]}),
    Instance("B-THM-2", "B-FIG-1b", "not applicable", FIG1B),
    Instance("B-THM-2", "opposed inputs", "not applicable", opposed),
    Instance("B-THM-2", "opposed inputs, as the paper states it", "fails", opposed, reading="paper"),
    Instance("B-THM-2M", "B-FIG-1a from (0, 1), after the transient", "holds", FIG1A, UP),
    Instance("B-THM-2M", "B-FIG-1a from (0, 1), from the start", "fails", FIG1A, UP, reading="paper"),
    Instance("B-THM-3", "B-FIG-1b, token 1", "holds", FIG1B, {"selection": (1,)}),
    Instance("B-THM-3", "B-FIG-8, tokens 0 and 1", "holds", FIG8, {"selection": (0, 1)}),
    Instance("B-THM-3", "random keys, two support rows", "holds", RANDOM, TWICE_2),
    Instance("B-THM-3", "random keys, paper's radius", "holds", RANDOM, TWICE_2, reading="paper"),
    Instance("B-THM-3", "B-FIG-1b, token 2", "not applicable", FIG1B, {"selection": (2,)}),
    Instance("B-THM-4", "B-FIG-1b, token 2: bounded", "holds", FIG1B, {"q": [-1.0, -1.1]}),
    Instance("B-THM-4", "B-FIG-1b, best direction turned by 5 degrees", "holds", FIG1B, {"q": [-0.19, 1.0]}),
    Instance("B-THM-4", "B-FIG-1b, along the separatrix", "holds", FIG1B, {"q": [1.0, 0.1]}),
    Instance("B-THM-4", "B-FIG-1b, token 1: locally optimal", "not applicable", FIG1B, {"q": [1.0, 0.0]}),
    Instance("B-THM-5", "B-FIG-3a, r = R", "holds", FIG3A, ALL),
    Instance("B-THM-5", "B-FIG-3a, r = 3 R", "holds", FIG3A, {**ALL, "rho": 3.0}),
    Instance("B-THM-5", "B-FIG-3b", "not applicable", FIG3B, ALL),
    Instance("B-THM-6", "B-FIG-3b, r = 1.5 R", "holds", FIG3B, {**ALL, "rho": 1.5}),
    Instance("B-THM-6", "B-FIG-3b, r = R/2", "not applicable", FIG3B, {**ALL, "rho": 0.5}),
    Instance("B-THM-8", "two winners per input", "holds", two_winners),
    Instance("B-THM-8", "two winners, negative scores", "holds", partial(two_winners, best=-2.0)),
    Instance("B-THM-8", "B-FIG-8, a set of unequal scores", "not applicable", FIG8, {"sets": [[0, 1], [0]]}),
    Instance("B-THM-8N", "tanh", "holds", partial(random_tokens, [1, -1, 1, -1])),
    Instance("B-THM-8N", "exp", "not applicable", partial(random_tokens, [1, -1, 1, -1]), {"shape": "exp"}),
    Instance("B-THM-L1", "random tokens", "holds", SPHERE),
    Instance("B-THM-L1", "random tokens, normalized", "holds", SPHERE, {"normalized": True}),
    Instance("B-THM-L1", "normalized, over |u|^2", "fails", SPHERE, {"normalized": True}, reading="paper"),
    Instance("B-THM-L1", "nonlinear head", "holds", bent_head),
    Instance("B-THM-L1", "B-FIG-8, no values", "not applicable", FIG8),
    Instance("B-THM-L2", "equal labels", "holds", partial(random_tokens, [1, 1, 1, 1])),
    Instance("B-THM-L2", "mixed labels", "not applicable", partial(random_tokens, [1, -1, 1, -1])),
    Instance("B-THM-L2", "singular W", "not applicable", partial(random_tokens, [1, 1, 1, 1], W="singular")),
    Instance("B-THM-L3", "random tokens", "holds", SPHERE),
    Instance("B-THM-L3", "nonlinear head", "not applicable", bent_head),
    Instance("B-THM-L4", "B-FIG-1a", "holds", FIG1A),
    Instance("B-THM-L4", "equal losers", "holds", equal_losers),
    Instance("B-THM-L4", "B-FIG-1b", "not applicable", FIG1B),
    Instance("B-THM-L4", "opposed inputs", "not applicable", opposed),
    Instance("B-THM-L5", "B-FIG-1a", "holds", FIG1A),
    Instance("B-THM-L5", "B-FIG-8", "not applicable", FIG8),
    Instance("B-THM-L6", "random tokens, logistic", "holds", SPHERE),
    Instance("B-THM-L6", "random tokens, exponential", "holds", partial(SPHERE, loss="exponential")),
    Instance("B-THM-L6", "random tokens, correlation", "holds", partial(SPHERE, loss="correlation")),
    Instance("B-THM-L6", "B-FIG-1a, a step of 500", "not applicable", FIG1A, {"rate": 500.0}),
    Instance("B-THM-L7", "B-FIG-1b, token 1", "holds", FIG1B, {"selection": (1,)}),
    Instance("B-THM-L7", "B-FIG-8, tokens 0 and 1", "holds", FIG8, {"selection": (0, 1)}),
    Instance("B-THM-L7", "B-FIG-8, input by input", "fails", FIG8, {"selection": (0, 1)}, reading="paper"),
    Instance("B-THM-L7", "B-FIG-1b, token 2", "not applicable", FIG1B, {"selection": (2,)}),
    Instance("B-THM-L8", "B-FIG-1b, case (i)", "holds", FIG1B, {"p": [-0.1, 1.0], "q": [0.3, 1.0]}),
    Instance("B-THM-L8", "B-FIG-1b, case (ii)", "holds", FIG1B, {"p": [1.0, 0.0], "q": [1.0, 0.5]}),
    Instance("B-THM-L8", "a high scorer behind the neighbor", "holds", BEHIND, THIRTY),
    Instance("B-THM-L8", "the same, radius from the margins alone", "fails", BEHIND, THIRTY, reading="paper"),
    Instance("B-THM-L8", "B-FIG-1b, two selections", "not applicable", FIG1B, {"p": [0, 1], "q": [1, 0]}),
    Instance("B-THM-L9", "B-FIG-1b, token 2", "holds", FIG1B, {"p": [-1.0, -1.1]}),
    Instance("B-THM-L9", "B-FIG-1b, token 1", "not applicable", FIG1B, {"p": [1.0, 0.0]}),
    Instance("B-THM-L10", "B-FIG-8", "holds", FIG8),
    Instance("B-THM-L10", "random keys", "holds", partial(gaussian, n=2, T=4, d=3, rng=0)),
    Instance("B-THM-L10", "three neighbors in the plane", "not applicable", three_at_once),
    Instance("B-THM-L14", "B-FIG-8", "holds", FIG8),
    Instance("B-THM-L14", "two winners per input", "holds", two_winners),
    Instance("B-THM-L14", "negative scores", "not applicable", partial(equal_losers, best=-1.0)),
]
