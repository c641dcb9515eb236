"""Part D, the geometry of queries, norms, optimizers and inseparable data: its statements and figures."""

from __future__ import annotations

from hardmax.papers.paper import Entry, Paper, located

# What is wrong in the paper, or new here, in a sentence each; docs/research/errata.md tells it in full.
ERRATA = {
    "D-ERR-1": "Sign descent with a constant step need not reach the max margin in linf.",
    "D-ERR-2": "Coordinate descent with a constant step need not reach the max margin in l1, nor even grow.",
    "D-ERR-3": "Adam tends to the max margin in linf only late, without epsilon, at rates that are not too "
    "large, and on full batches.",
    "D-ERR-4": "Momentum before normalization changes the direction if the rate is above -log(beta)/margin.",
    "D-ERR-5": "Which tokens are selected depends on the optimizer, not only the direction for given tokens.",
    "D-ERR-6": "Rows outside strongly connected components may be bound too, if embeddings are dependent.",
    "D-ERR-7": "Normalized steps on data that do not separate grow like log t in l2, and go astray in linf.",
    "D-ERR-8": "Muon on the factors of W minimizes its spectral norm, not the nuclear one.",
    "D-ERR-9": "A tiny constant added to the norm of the gradient stops normalized descent.",
}

# Printed statements that are known to be false and can fail on finite data: what a hunter has to find.
CATALOGUE = (
    Entry("D-THM-11", "D-ERR-6", "bound rows are edges inside components", (4, 8, 2)),
    Entry("D-ERR-2", "D-ERR-2", "coordinate descent at a constant step grows", (3, 6, 3)),
    Entry("D-ERR-5", "D-ERR-5", "which selections attract does not depend on the norm", (2, 6, 3)),
)

PAPER = Paper(
    "D",
    "geometry",
    "Geometry: queries, norms, optimizers, data that do not separate",
    __name__,
    statements=located(
        "norms D-CONJ-0 D-THM-4 D-CONJ-1 D-CONJ-2 D-THM-1 D-THM-2",
        "steps D-THM-3 D-THM-5 D-THM-6 D-THM-10",
        "adam D-CONJ-3 D-THM-7 D-THM-9 D-THM-9b",
        "split D-CONJ-4 D-CONJ-5 D-THM-8 D-THM-11 D-THM-12",
        "classes D-THM-13 D-THM-14 D-THM-15",
    ),
    figures=located(
        "steps D-FIG-OPTIMISERS D-FIG-STEPS",
        "adam D-FIG-ADAM",
        "norms D-FIG-NORMS D-FIG-FACTORS",
        "split D-FIG-CYCLES",
        "classes D-FIG-CLASSES D-FIG-SOFT",
    ),
    printed=located("steps D-ERR-2", "norms D-ERR-5"),
    errata=ERRATA,
    catalogue=CATALOGUE,
)
