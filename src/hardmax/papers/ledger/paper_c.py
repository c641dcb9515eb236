"""Paper C: both figures, the numbers of section 7, and every numbered statement."""

from __future__ import annotations

from hardmax.papers.ledger.evidence import FigureEvidence
from hardmax.papers.ledger.rows import LedgerItem, statement_items

GENERATED = "a realizable dataset from our generator, 20 tokens; the paper says only that it is random"
SETTING = "|V| = d = 20, 900 steps, eta0 = 0.2/sqrt(d), eta = 0.05/sqrt(d)"
UNKNOWN = "The paper's dataset is not given (C-ERR-18); ours has chains of a random permutation."


_PANELS = {
    "a": "the loss of stage 1 falls to its least value",
    "b": "the direction of W_ov converges",
    "c": "the norm of W_ov grows linearly",
    "d": "the loss of stage 2 falls",
    "e": "the direction of W_kq converges",
    "f": "the norm of W_kq grows linearly",
}
ITEMS: tuple[LedgerItem, ...] = (
    LedgerItem(
        "C",
        "Figure 1",
        "a sentence, its deciding token and the collocation",
        "the same, from Example 1",
        "the paper's Example 1",
        (FigureEvidence("C-FIG-1"),),
    ),
    *(
        LedgerItem(
            "C",
            f"Figure 2, plot {'abcdef'.index(panel) + 1}",
            f"{printed}; {SETTING}",
            "the same setting",
            GENERATED,
            (FigureEvidence(f"C-FIG-2{panel}"),),
            "" if panel in "abc" else UNKNOWN,
            comments="Stage 1 depends on the collocation only through its size." if panel in "abc" else "",
        )
        for panel, printed in _PANELS.items()
    ),
    LedgerItem(
        "C",
        "Section 7, rate of stage 2",
        "the experiment confirms log^2 t / t of Theorem 1",
        "trained to 1e6 steps",
        GENERATED,
        (FigureEvidence("C-FIG-RATE"),),
        "C-ERR-18: 900 steps show a transient; the rate is 1/t^2, faster than the bound.",
    ),
    LedgerItem(
        "C",
        "Constants of the bounds",
        "384 (Corollary 1), 54 (Theorem 1), 1696 in (13), 5 and 12 (Proposition 1)",
        "printed bounds against the truth",
        GENERATED,
        (FigureEvidence("C-FIG-BOUNDS"),),
        "C-ERR-11: 1696 must be 1728; C-ERR-07: the proof gives 12, not 5.",
    ),
    *statement_items(
        "C",
        """
    Assumption 1 | a realizable dataset: next tokens by collocation | C-THM-STRUCT
    Assumption 2 | orthonormal embeddings | C-LEM-4
    Assumption 3 | no other token of a sentence is more frequent than those that decide | C-LEM-5,
        C-THM-STRUCT
    Definition 1 | the order of tokens under a query, four types of tokens | C-THM-STRUCT, C-LEM-5
        """,
    ),
    LedgerItem(
        "C",
        "Example 1",
        "sentences of four words, their collocation and orders",
        "the same",
        "the paper's Example 1",
        (FigureEvidence("C-FIG-1"),),
    ),
    *statement_items(
        "C",
        """
    Example 2 | a sentence that was not seen is continued by its optimal token | C-THM-3
    Algorithm 1 | two stages of normalized descent from zero | C-THM-S1, C-LEM-5
    Proposition 1 | stage 1 converges in direction, 1 - cos at most of order log t / t | C-PROP-1
    Proposition 2 | the columns of W_kq* | C-THM-P2
    Proposition 3 | Proposition 1 in the appendix, with the constant 12 | C-PROP-1
    Proposition 4 | Proposition 2 in the appendix, for several optimal tokens | C-THM-P2
    Corollary 1 | margins of W_ov after stage 1 lie between Delta and 3 Delta | C-COR-1
    Theorem 1 | W_kq converges in direction, 1 - cos of order log^2 t / t | C-THM-1
    Theorem 2 | attention and loss converge linearly, (4) | C-THM-2
    Theorem 3 | unseen tokens lie between optimal and other ones | C-THM-3
    Lemma 1 | the norm of W_ov grows linearly | C-LEM-1
    Lemma 2 | W_ov gains no more than W_ov* from the gradient | C-LEM-2
    Lemma 3 | wrong tokens are equally wrong | C-LEM-3
    Lemma 4 | the gradient of stage 2, projected | C-LEM-4
    Lemma 5 | attention on the right token only grows | C-LEM-5
    Lemma 6 | the norm of W_kq grows linearly | C-LEM-6
    Lemma 7 | W_kq gains no more than W_kq* from the gradient | C-LEM-7
        """,
    ),
)
