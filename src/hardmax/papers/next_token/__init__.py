"""Paper C, Non-asymptotic Convergence of Training Transformers for Next-token Prediction."""

from __future__ import annotations

from hardmax.papers.paper import Entry, Paper, located

# One sentence about each error of the paper; docs/research/errata.md has them in full.
ERRATA = {
    "C-ERR-01": "The collocation is not shown to be injective, and it must be.",
    "C-ERR-02": "Assumption 1 does not ask that a sentence reaches its next token, and it must.",
    "C-ERR-03": "The printed token types overlap: a non-comparable token is optimal and non-optimal too.",
    "C-ERR-04": "A non-comparable token may occur in the data: the query whose only sentence is itself.",
    "C-ERR-05": "Proposition 2's formula is right for one optimal token per query and wrong for several.",
    "C-ERR-06": "The factor N in Theorem 1 must be 1/min pi; the counterexample is formal.",
    "C-ERR-07": "Proposition 1 has the constant 5 in the text and 12 in the appendix; the cosine is 1.",
    "C-ERR-08": "Two rates are given for the loss of stage 1; the true one is eta0/|W_ov*|.",
    "C-ERR-09": "Corollary 1's upper bound 3 Delta on the margins is false for every vocabulary, and the "
    "least loss is not V exp(-T C_0).",
    "C-ERR-10": "Theorem 1 and Lemma 6 differ by L_max in the norm; t eta/(sqrt 2 |W_kq*|) is right.",
    "C-ERR-11": "The constant 1696 in (13) must be 1728, and one |W_kq*| lacks its square.",
    "C-ERR-12": "Slips in the proof of Lemma 7, among them that it needs three sentences.",
    "C-ERR-13": "Assumption 3 says something else in words than in its formula; the formula is meant.",
    "C-ERR-14": "Lemma 5's induction must be on the masses of tokens, not on positions.",
    "C-ERR-15": "The cosine of the gradient with W_kq* does not always exceed the least optimal weight.",
    "C-ERR-16": "Only the direction of W_kq converges; a residual orthogonal to W_kq* stays.",
    "C-ERR-17": "Theorem 3's second part needs one non-comparable type, and no token that outweighs it.",
    "C-ERR-18": "The experiment is a millionth of the length that the theorems ask for, and its rate is a "
    "transient.",
    "C-ERR-19": "Notation: an undefined p, missing transposes and factors, an equality that is none.",
    "C-ERR-20": "Which token of an unseen sentence is optimal is ambiguous as printed.",
}

# Printed statements that are known to be false and can fail on finite data: the targets of hunts.
CATALOGUE = (
    Entry("C-ERR-02", "C-ERR-02", "under Assumption 1 every sentence reaches its next token", (3, 7, 3)),
    Entry("C-ERR-04", "C-ERR-04", "a non-comparable token never stands with its query", (2, 5, 2)),
    Entry("C-COR-1", "C-ERR-09", "margins of W_ov are at most 3 Delta", (2, 5, 2)),
    Entry("C-THM-P2", "C-ERR-05", "W_kq* has the printed columns for any n", (5, 14, 5)),
    Entry("C-THM-3", "C-ERR-17", "x_0 decides however often others occur", (4, 13, 4)),
)

PAPER = Paper(
    "C",
    "next-token prediction",
    "Non-asymptotic Convergence of Training Transformers for Next-token Prediction",
    __name__,
    statements=located(
        "stage1 C-COR-1 C-LEM-1 C-LEM-2 C-LEM-3 C-PROP-1 C-THM-S1",
        "stage2 C-LEM-4 C-LEM-5 C-LEM-6",
        "convergence C-LEM-7 C-THM-ASY C-THM-1",
        "columns C-THM-BLOCK C-THM-STRUCT C-THM-P2",
        "loss C-THM-2 C-THM-3",
    ),
    figures=located(
        "columns C-FIG-1",
        "stage1 C-FIG-2a C-FIG-2b C-FIG-2c",
        "stage2 C-FIG-2d C-FIG-2e C-FIG-2f",
        "convergence C-FIG-RATE",
        "loss C-FIG-BOUNDS",
    ),
    printed=located("columns C-ERR-02 C-ERR-04"),
    errata=ERRATA,
    catalogue=CATALOGUE,
    bibtex="huang2024nexttoken",
)
