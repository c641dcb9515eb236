"""Printed statements that are known to be false and can fail on finite data: what a hunter has to find.

The list was written from docs/research/errata.md before the first hunt. An entry is hunted in the reading
``paper`` where its statement has one; the others are sentences without a check of their own, in `printed`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A printed statement, the erratum that says why it is false, and how large the known counterexample is.

    ``size`` counts inputs, tokens of all inputs and dimensions; of sequences and sentences it counts these,
    their tokens and the words of the vocabulary.

    >>> from hardmax.papers.hunting.catalogue import CATALOGUE
    >>> next(each.size for each in CATALOGUE if each.claim == "B-THM-1")
    (2, 4, 1)
    """

    claim: str
    erratum: str
    says: str
    size: tuple[int, int, int]


CATALOGUE = (
    Entry("B-THM-1", "B-ERR-01", "the regularisation path tends to p_mm of the best tokens", (2, 4, 1)),
    Entry("B-THM-2", "B-ERR-01", "descent diverges from every start", (2, 4, 1)),
    Entry("B-THM-2M", "B-ERR-12", "the correlation with p_mm rises all along", (1, 3, 2)),
    Entry("B-EQ-73", "B-EQ-73", "the bound on lost attention holds for margins of any sign", (2, 4, 2)),
    Entry("B-ERR-21", "B-ERR-21", "every start tends to a locally optimal direction", (1, 3, 2)),
    Entry("B-THM-L1", "B-ERR-17", "normalised W follows p with a step of eta/|u|^2", (4, 20, 6)),
    Entry("B-THM-L7", "B-ERR-08", "every input pulls towards p_mm", (2, 4, 2)),
    Entry("B-THM-L8", "B-ERR-09", "the radius depends on the margins alone", (1, 3, 2)),
    Entry("B-ERR-14", "B-ERR-14", "the risk has no finite critical point", (2, 4, 1)),
    Entry("B-ERR-15", "B-ERR-15", "there is one globally optimal direction", (1, 3, 2)),
    Entry("B-ERR-18", "B-ERR-18", "the score as one more key leaves the direction alone", (1, 3, 2)),
    Entry("B-ERR-19", "B-ERR-19", "the logistic loss first favours the low score", (2, 4, 2)),
    Entry("A-ERR-5", "A-ERR-5", "the important pattern has the shortest solution", (2, 4, 3)),
    Entry("A-LEM-3", "A-ERR-7", "all constraints are tight: p_hat = M^+ 1", (2, 4, 3)),
    Entry("A-LEM-13", "A-ERR-10", "p grows whatever the values of the tokens", (2, 6, 4)),
    Entry("A-ERR-15", "A-ERR-15", "|p_hat| <= 4 n on event (14)", (2, 4, 3)),
    Entry("C-ERR-02", "C-ERR-02", "under Assumption 1 every sentence reaches its next token", (3, 7, 3)),
    Entry("C-ERR-04", "C-ERR-04", "a non-comparable token never stands with its query", (2, 5, 2)),
    Entry("C-COR-1", "C-ERR-09", "margins of W_ov are at most 3 Delta", (2, 5, 2)),
    Entry("C-THM-P2", "C-ERR-05", "W_kq* has the printed columns for any n", (5, 14, 5)),
    Entry("C-THM-3", "C-ERR-17", "x_0 decides however often others stand there", (4, 13, 4)),
    Entry("D-THM-11", "D-ERR-6", "bound rows are edges inside components", (4, 8, 2)),
    Entry("D-ERR-2", "D-ERR-2", "coordinate descent at a constant step grows", (3, 6, 3)),
    Entry("D-ERR-5", "D-ERR-5", "which selections attract does not depend on the norm", (2, 6, 3)),
)

# Errata that no finite data can show, and why. Those not named here or above are about words or labels.
ELSEWHERE = {
    "B-ERR-02": "a limit, measured only",
    "B-ERR-06": "about an experiment",
    "B-ERR-11": "about an experiment",
    "B-ERR-13": "about solvers",
    "A-ERR-13": "a step of a proof",
    "C-ERR-06": "formal: no data has that frequency",
    "C-ERR-12": "a step of a proof",
    "C-ERR-15": "a step of a proof",
    "C-ERR-16": "a limit",
    "D-ERR-1": "a limit",
    "D-ERR-3": "a limit",
    "D-ERR-4": "a limit",
    "D-ERR-7": "a limit",
    "D-ERR-8": "a limit",
    "D-ERR-9": "about arithmetic with rounding",
}
