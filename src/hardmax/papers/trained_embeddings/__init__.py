"""Paper A, Attention with Trained Embeddings Provably Selects Important Tokens."""

from __future__ import annotations

from hardmax.papers.paper import Entry, Paper, located

# One sentence about each error of the paper; docs/research/errata.md has them in full.
ERRATA = {
    "A-ERR-1": "The printed sizes of the synthetic vocabulary give 1538 tokens, not 2048; 4 + 2^k does.",
    "A-ERR-2": "The third case of equation (34) needs delta-tilde, or the probabilities do not add up.",
    "A-ERR-3": "In the synthetic data, irrelevant tokens are 21 times as frequent as relevant ones.",
    "A-ERR-4": "Slips of wording: importance falls with delta_k, labels are +-1, epoch 200 is never reached.",
    "A-ERR-5": "At infinite width Lemma 19's condition cannot be met where p_hat.v = 0: some pattern with "
    "ties is at least as short. At its finite widths nothing is proved.",
    "A-ERR-6": "Constants in the proof of Lemma 19: a factor T - 1, the initial values, a maximum.",
    "A-ERR-7": "Constraints need not be tight: the closed form in the proof of Lemma 3 may be wrong.",
    "A-ERR-8": "Problem (18) drops the ties of problem (9), and its solution may select other tokens.",
    "A-ERR-9": "The equations Mp = 1 in the proof of Lemma 3 may contradict each other.",
    "A-ERR-10": "Lemma 13 needs important tokens to have the larger values; its width does not give that.",
    "A-ERR-11": "Lemma 6 is trivial, and that only important tokens are selected does not follow from it.",
    "A-ERR-12": "The proofs of Lemmas 18 and 19 do not cover limits with ties; Theorem 5 has none.",
    "A-ERR-13": "The proof of Lemma 2 uses exp(z) <= 1 + |z|, which is false for z > 0; the bound stands.",
    "A-ERR-14": "Typing errors in Lemmas 10, 12 and 17.",
    "A-ERR-15": "Lemma 21 uses lengths and overlaps of initial embeddings that event (14) does not bound.",
    "A-ERR-16": "If everything is tied there is no max-margin direction; Lemma 3 must exclude that.",
    "A-ERR-17": "The proof of Lemma 14 has a square too many and a wrong reference; both are harmless.",
}

# Printed statements that are known to be false and can fail on finite data: the targets of hunts.
CATALOGUE = (
    Entry("A-ERR-5", "A-ERR-5", "the important pattern has the shortest solution", (2, 4, 3)),
    Entry("A-LEM-3", "A-ERR-7", "all constraints are tight: p_hat = M^+ 1", (2, 4, 3)),
    Entry("A-LEM-13", "A-ERR-10", "p grows whatever the values of the tokens", (2, 6, 4)),
    Entry("A-ERR-15", "A-ERR-15", "|p_hat| <= 4 n on event (14)", (2, 4, 3)),
)

PAPER = Paper(
    "A",
    "trained embeddings",
    "Attention with Trained Embeddings Provably Selects Important Tokens",
    __name__,
    statements=located(
        "patterns A-DEF-16 A-ERR-5 A-LEM-3 A-LEM-3P A-LEM-17 A-LEM-19 A-LEM-20 A-LEM-21",
        "first_step A-EVT-14 A-LEM-2 A-LEM-11 A-LEM-12",
        "gradients A-LEM-6 A-LEM-7 A-LEM-8 A-LEM-9 A-LEM-10 A-LEM-13 A-SEC-3",
        "theorem5 A-LEM-14 A-LEM-18 A-THM-5 A-THM-5S",
    ),
    figures=located(
        "reviews A-FIG-1",
        "training A-FIG-2",
        "reviews A-FIG-3 A-FIG-4",
        "first_step A-FIG-L2",
        "theorem5 A-FIG-T5",
    ),
    printed=located("patterns A-ERR-15"),
    errata=ERRATA,
    catalogue=CATALOGUE,
    bibtex="wu2025embeddings",
)
