"""Paper C: both figures, the numbers of section 7, and every numbered statement."""

from __future__ import annotations

from hardmax.papers.ledger.rows import LedgerItem, read_items

GENERATED = "data: a realizable dataset from our generator, 20 tokens; the paper says only that it is random"
SETTING = "|V| = d = 20, 900 steps, eta0 = 0.2/sqrt(d), eta = 0.05/sqrt(d)"
FIRST = f"""ours: the same setting | {GENERATED}
        | comments: Stage 1 depends on the collocation only through its size."""
SECOND = f"""ours: the same setting | {GENERATED}
        | differs: The paper's dataset is not given (C-ERR-18); ours has chains of a random permutation."""

ITEMS: tuple[LedgerItem, ...] = read_items(
    "C",
    f"""
    Figure 1 | a sentence, its deciding token and the collocation | C-FIG-1 | ours: the same, from Example 1
        | data: the paper's Example 1
    Figure 2, plot 1 | the loss of stage 1 falls to its least value; {SETTING} | C-FIG-2a | {FIRST}
    Figure 2, plot 2 | the direction of W_ov converges; {SETTING} | C-FIG-2b | {FIRST}
    Figure 2, plot 3 | the norm of W_ov grows linearly; {SETTING} | C-FIG-2c | {FIRST}
    Figure 2, plot 4 | the loss of stage 2 falls; {SETTING} | C-FIG-2d | {SECOND}
    Figure 2, plot 5 | the direction of W_kq converges; {SETTING} | C-FIG-2e | {SECOND}
    Figure 2, plot 6 | the norm of W_kq grows linearly; {SETTING} | C-FIG-2f | {SECOND}
    Section 7, rate of stage 2 | the experiment confirms log^2 t / t of Theorem 1 | C-FIG-RATE
        | ours: trained to 1e6 steps | {GENERATED}
        | differs: C-ERR-18: 900 steps show a transient; the rate is 1/t^2, faster than the bound.
    Constants of the bounds | 384 (Corollary 1), 54 (Theorem 1), 1696 in (13), 5 and 12 (Proposition 1)
        | C-FIG-BOUNDS | ours: printed bounds against the truth | {GENERATED}
        | differs: C-ERR-11: 1696 must be 1728; C-ERR-07: the proof gives 12, not 5.
    Assumption 1 | a realizable dataset: next tokens by collocation | C-THM-STRUCT
    Assumption 2 | orthonormal embeddings | C-LEM-4
    Assumption 3 | no other token of a sentence is more frequent than those that decide | C-LEM-5,
        C-THM-STRUCT
    Definition 1 | the order of tokens under a query, four types of tokens | C-THM-STRUCT, C-LEM-5
    Example 1 | sentences of four words, their collocation and orders | C-FIG-1 | ours: the same
        | data: the paper's Example 1
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
)
