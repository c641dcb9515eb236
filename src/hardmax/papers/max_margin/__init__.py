"""Paper B, Max-Margin Token Selection in Attention Mechanism."""

from __future__ import annotations

from hardmax.papers.paper import Entry, Paper, located

# One sentence about each error of the paper, or new result; docs/research/errata.md has them in full.
ERRATA = {
    "B-ERR-01": "The max-margin direction of the best-scoring tokens need not exist: they must be separable.",
    "B-ERR-02": "Theorem 6 does not say how |v| and |p| grow together, and the limit of p depends on it.",
    "B-ERR-03": "The appendix places the red bars in figure 9b (they are in 9a) and gives two step sizes.",
    "B-ERR-04": "The abstract and one section write softmax(XWp), the rest of the paper XW'p.",
    "B-ERR-05": "The reference for ViT-base is another paper, and 16 x 16 patches do not fit the images.",
    "B-ERR-06": "The optimal token's probability is defined by a maximum over tokens; early they differ.",
    "B-ERR-07": "The proof of Theorem 1 needs positive best scores; the theorem does not.",
    "B-ERR-08": "The delta of Lemma 7 says nothing about an input without neighbors.",
    "B-ERR-09": "The radius of Lemma 8 depends on the second margins too, not on the first ones alone.",
    "B-ERR-10": "General position must be read for a fixed selection; with free tokens nothing has it.",
    "B-ERR-11": "The average correlation of 0.997 measures the small constant added to the gradient's norm; "
    "exact normalized descent gives 0.9999 and more.",
    "B-ERR-12": "The correlation with p_mm does not rise all along: it may fall first, and rises later.",
    "B-ERR-13": "A support vector is a tight constraint, not one with a positive multiplier.",
    "B-ERR-14": "That no finite point is critical needs Assumption B and separable best tokens.",
    "B-ERR-15": "With tied best scores or twin keys the globally optimal direction is not unique, or absent.",
    "B-ERR-16": "Slips in the proofs: indices, signs, a missing factor.",
    "B-ERR-17": "Lemma 1 for normalized descent needs the step eta/|u|.",
    "B-ERR-18": "The public notebooks keep the score as a coordinate of the keys; in general that turns the "
    "direction.",
    "B-ERR-19": "In the first step the logistic loss favors the high score for score gaps from 2 to 5.",
    "B-ERR-20": "Regularization paths minimize problems that are not convex, so there may be several.",
    "B-ERR-21": "That descent only tends to locally optimal directions is false for exceptional starts.",
    "B-ERR-22": "That |W| grows many times in a vision transformer is the small start's doing: from Xavier's "
    "start attention becomes as sparse while |W| hardly grows.",
    "B-NEW-1": "With |v| growing like rho |p|, p tends to a direction between p_mm and the relaxed one.",
    "B-NEW-1b": "Which tokens the other inputs select may depend on rho itself.",
    "B-NEW-2": "The regularization path is R p_mm/|p_mm| + w + O(1/R), with w from a linear system.",
    "B-NEW-3": "Late normalized descent is stable below the step eta_c = 2/(|p_mm| lambda_max); above "
    "it periods double, and motion may become chaotic.",
    "B-NEW-4": "(-1)^index of finite stationary points and of critical directions at infinity sum to 1.",
}

# Printed statements that are known to be false and can fail on finite data: what a hunter has to find.
CATALOGUE = (
    Entry("B-THM-1", "B-ERR-01", "the regularization path tends to p_mm of the best tokens", (2, 4, 1)),
    Entry("B-THM-2", "B-ERR-01", "descent diverges from every start", (2, 4, 1)),
    Entry("B-THM-2M", "B-ERR-12", "the correlation with p_mm rises all along", (1, 3, 2)),
    Entry("B-EQ-73", "B-EQ-73", "the bound on lost attention holds for margins of any sign", (2, 4, 2)),
    Entry("B-ERR-21", "B-ERR-21", "every start tends to a locally optimal direction", (1, 3, 2)),
    Entry("B-THM-L1", "B-ERR-17", "normalized W follows p with a step of eta/|u|^2", (4, 20, 6)),
    Entry("B-THM-L7", "B-ERR-08", "every input pulls towards p_mm", (2, 4, 2)),
    Entry("B-THM-L8", "B-ERR-09", "the radius depends on the margins alone", (1, 3, 2)),
    Entry("B-ERR-14", "B-ERR-14", "the risk has no finite critical point", (2, 4, 1)),
    Entry("B-ERR-15", "B-ERR-15", "there is one globally optimal direction", (1, 3, 2)),
    Entry("B-ERR-18", "B-ERR-18", "the score as one more key leaves the direction alone", (1, 3, 2)),
    Entry("B-ERR-19", "B-ERR-19", "the logistic loss first favors the low score", (2, 4, 2)),
)

PAPER = Paper(
    "B",
    "max-margin selection",
    "Max-Margin Token Selection in Attention Mechanism",
    __name__,
    statements=located(
        "convergence B-THM-2 B-THM-2M B-ERR-21",
        "finite B-EQ-73 B-EQ-75 B-EQ-79 B-EQ-84",
        "joint_training B-THM-5 B-THM-6 B-NEW-1 B-NEW-1b",
        "lemmas B-ASM-B B-ASM-C B-ASM-D B-THM-L1 B-THM-L2 B-THM-L3 B-THM-L4 B-THM-L5 B-THM-L6 B-THM-L8",
        "lemmas B-THM-L9 B-THM-L10",
        "local B-THM-3 B-THM-4 B-THM-L7",
        "paths B-THM-1 B-NEW-2 B-NEW-3 B-NEW-4",
        "several_optimal B-APP-E B-THM-8 B-THM-8N B-THM-L14",
    ),
    figures=located(
        "convergence B-FIG-1a B-FIG-1b B-FIG-1c",
        "local B-FIG-2",
        "joint_training B-FIG-3a B-FIG-3b B-FIG-3c B-FIG-RHO",
        "paths B-FIG-INDEX B-FIG-CHAOS",
        "convergence B-FIG-4 B-FIG-5",
        "vision B-FIG-6 B-FIG-7",
        "convergence B-FIG-8",
        "random_data B-FIG-9a B-FIG-9b B-FIG-10",
    ),
    printed=located("convergence B-ERR-14", "several_optimal B-ERR-15", "lemmas B-ERR-18 B-ERR-19"),
    errata=ERRATA,
    catalogue=CATALOGUE,
    bibtex="tarzanagh2023maxmargin",
    weighted=False,
)
