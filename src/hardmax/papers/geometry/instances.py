"""Where the statements of part D are tested, and what is expected there."""

from __future__ import annotations

from functools import partial

from hardmax.data.small import example
from hardmax.nexttoken.soft_labels import linear
from hardmax.papers.checking.instances import Instance
from hardmax.papers.max_margin.instances import opposed
from hardmax.problem import Problem

SKEW, PLANE, SPACE_B, TRIPLE = (partial(example, name) for name in ("skew", "plane", "space-b", "triple"))
W22, W33, W44 = (partial(example, name) for name in ("w22", "w33", "w44"))
CYCLE, DEPENDENT, PLANE_PLUS, TWO_SCC = (
    partial(example, name) for name in ("cycle", "dependent", "plane-plus", "two-scc")
)


# Two inputs that pull the first coordinate in opposite ways, and one that wants the second one.
half_opposed = partial(
    Problem,
    [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]], [[0.5, 1.0], [0.0, 0.0]]],
    [[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]],
)
# One key dimension, and three rows of which the longer ones fall faster.
on_a_line = partial(Problem, [[[row], [0.0]] for row in (0.407, 2.189, 3.154)], [[1.0, 0.0]] * 3)
# Five samples of three classes in the plane.
SAMPLES = [[1.0, 0.25], [0.75, -0.5], [-0.25, 1.0], [-1.0, -0.75], [-0.5, -1.25]]
corners = partial(Problem.from_classes, SAMPLES, ["right", "right", "top", "left", "left"])

OBLIQUE = [[1.0, 0.0], [0.5, 1.0]]
TWICE_0, L1 = {"selection": (0, 0)}, {"norm": "l1"}


def three_to_one(features: list[list[float]] | None = None) -> Problem:
    """A context that "cat" follows three times and "dog" once, and one that only "sun" follows."""
    return linear([0, 0, 1], ["cat", "dog", "sun"], [3, 1, 2], features=features)


INSTANCES: tuple[Instance, ...] = (
    Instance("D-THM-1", "w33", "holds", W33),
    Instance("D-THM-1", "w44, more factors than its rank", "holds", W44, {"factors": 6}),
    Instance("D-THM-1", "w33, one factor", "not applicable", W33, {"factors": 1}),
    Instance("D-THM-1", "skew, no queries", "not applicable", SKEW),
    Instance("D-THM-2", "w33, rank 1: not optimal", "holds", W33),
    Instance("D-THM-2", "w33, rank 2: optimal", "holds", W33, {"rank": 2}),
    Instance("D-THM-2", "skew, no queries", "not applicable", SKEW),
    Instance("D-THM-3", "triple, l2, rate 3", "holds", TRIPLE, {"rate": 3.0}),
    Instance("D-THM-3", "triple, l1.75", "holds", TRIPLE, {"rate": 0.1, "power": 1.75}),
    Instance("D-THM-3", "space-b, l3, three tokens: the interval", "holds", SPACE_B, {"power": 3.0}),
    Instance("D-THM-3", "opposed inputs", "not applicable", opposed),
    Instance("D-THM-4", "plane", "holds", PLANE),
    Instance("D-THM-4", "space-b, l2 and linf", "holds", SPACE_B, {"norms": ("l2", "linf")}),
    Instance("D-THM-4", "plane, one norm twice", "not applicable", PLANE, {"norms": ("l2", "frobenius")}),
    Instance("D-THM-5", "triple, l3", "holds", TRIPLE),
    Instance("D-THM-5", "triple, l1.5", "holds", TRIPLE, {"norm": "l1.5"}),
    Instance("D-THM-5", "triple, l2", "holds", TRIPLE, {"norm": "l2"}),
    Instance("D-THM-5", "skew, l2: a tight row without weight", "not applicable", SKEW, {"norm": "l2"}),
    Instance("D-THM-5", "triple, linf", "not applicable", TRIPLE, {"norm": "linf"}),
    Instance("D-THM-6", "triple, sign descent, rate 0.1", "holds", TRIPLE),
    Instance("D-THM-6", "triple, sign descent, rate 0.3", "holds", TRIPLE, {"rate": 0.3}),
    Instance(
        "D-THM-6", "triple, coordinate descent, rate 1", "holds", TRIPLE, {"rate": 1.0, "rule": "coordinate"}
    ),
    Instance("D-THM-6", "triple, sign descent, rate 0.03", "not applicable", TRIPLE, {"rate": 0.03}),
    Instance("D-THM-7", "skew, l2", "holds", SKEW),
    Instance("D-THM-7", "space-b, linf: Signum", "holds", SPACE_B, {"norm": "linf"}),
    Instance("D-THM-7", "skew, no momentum", "not applicable", SKEW, {"beta": 0.0}),
    Instance("D-THM-8", "cycle", "holds", CYCLE),
    Instance("D-THM-8", "two-scc", "holds", TWO_SCC),
    Instance("D-THM-8", "skew: it separates", "not applicable", partial(example, "skew", "log")),
    Instance("D-THM-9", "skew", "holds", SKEW),
    Instance("D-THM-9", "skew, rate 0.01", "holds", SKEW, {"rate": 0.01}),
    Instance("D-THM-9", "skew, the usual beta2: too early", "not applicable", SKEW, {"betas": (0.9, 0.999)}),
    Instance("D-THM-9", "skew, beta1^2 > beta2", "not applicable", SKEW, {"betas": (0.9, 0.5)}),
    Instance("D-THM-9b", "skew", "holds", SKEW),
    Instance("D-THM-9b", "skew, betas 0.95 and 0.8", "holds", SKEW, {"betas": (0.95, 0.8)}),
    Instance("D-THM-9b", "three rows on a line: from the origin it runs away below", "holds", on_a_line),
    Instance("D-THM-9b", "space-b: a coordinate without pull", "not applicable", SPACE_B),
    Instance("D-THM-9b", "skew, the usual betas", "not applicable", SKEW, {"betas": (0.9, 0.999)}),
    Instance("D-THM-10", "skew, l2", "holds", SKEW),
    Instance("D-THM-10", "triple, linf", "holds", TRIPLE, {"norm": "linf"}),
    Instance("D-THM-10", "space-b, three tokens", "not applicable", SPACE_B),
    Instance("D-THM-11", "cycle", "holds", CYCLE),
    Instance("D-THM-11", "two-scc, components", "holds", TWO_SCC, reading="paper"),
    Instance("D-THM-11", "dependent", "holds", DEPENDENT),
    Instance("D-THM-11", "dependent, components", "fails", DEPENDENT, reading="paper"),
    Instance("D-THM-12", "plane-plus", "holds", PLANE_PLUS),
    Instance("D-THM-12", "dependent", "holds", DEPENDENT),
    Instance("D-THM-12", "opposed inputs with scores", "not applicable", half_opposed),
    Instance("D-THM-13", "corners, l2", "holds", corners),
    Instance("D-THM-13", "corners, linf", "holds", corners, {"norm": "linf"}),
    Instance("D-THM-13", "corners, l1", "holds", corners, L1),
    Instance("D-THM-13", "corners, spectral", "holds", corners, {"norm": "spectral"}),
    Instance("D-THM-13", "skew, scores instead of labels", "not applicable", SKEW),
    Instance("D-THM-13", "cycle: it does not separate", "not applicable", CYCLE),
    Instance("D-THM-14", "three to one", "holds", three_to_one),
    Instance("D-THM-14", "three to one, skew features", "holds", partial(three_to_one, OBLIQUE)),
    Instance(
        "D-THM-14", "three to one, contexts alike", "not applicable", partial(three_to_one, [[1.0], [0.5]])
    ),
    Instance("D-THM-14", "corners: one label each", "not applicable", corners),
    Instance("D-THM-15", "three to one", "holds", three_to_one),
    Instance("D-THM-15", "three to one, skew features", "holds", partial(three_to_one, OBLIQUE)),
    Instance("D-THM-15", "corners: one label each", "not applicable", corners),
    Instance("D-CONJ-0", "space-b, tokens 0 and 0 in linf", "consistent", SPACE_B, TWICE_0),
    Instance("D-CONJ-0", "triple, l3", "consistent", TRIPLE, {"norm": "l3"}),
    Instance("D-CONJ-0", "space-b, tokens 0 and 0 in l1: weak", "not applicable", SPACE_B, TWICE_0 | L1),
    Instance("D-CONJ-1", "w33, joint", "consistent", W33),
    Instance("D-CONJ-1", "w33, each factor by its own steps", "consistent", W33, {"rule": "block"}),
    Instance("D-CONJ-1", "w22, Muon", "consistent", W22, {"rule": "muon", "steps": 2000}),
    Instance("D-CONJ-1", "skew, no queries", "not applicable", SKEW),
    Instance("D-CONJ-2", "w22", "consistent", W22),
    Instance("D-CONJ-2", "w33, Adam", "consistent", W33, {"rule": "adam", "steps": 200_000}),
    Instance("D-CONJ-2", "skew, no queries", "not applicable", SKEW),
    Instance("D-CONJ-3", "skew", "consistent", SKEW),
    Instance("D-CONJ-3", "skew, no epsilon", "not applicable", SKEW, {"epsilon": 0.0}),
    Instance("D-CONJ-4", "two-scc, linf", "consistent", TWO_SCC),
    Instance("D-CONJ-4", "cycle, l3", "consistent", CYCLE, {"norm": "l3"}),
    Instance("D-CONJ-4", "skew: it separates", "not applicable", partial(example, "skew", "log")),
    Instance("D-CONJ-5", "opposed inputs and a third one", "consistent", half_opposed),
    Instance("D-CONJ-5", "skew: one token each", "not applicable", SKEW),
)
