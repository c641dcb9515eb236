"""Paper A: figures 1 to 4, the numbers of appendix E, and every numbered statement."""

from __future__ import annotations

from hardmax.papers.ledger.evidence import (
    CheckEvidence,
    Contrast,
    Evidence,
    Fact,
    FigureEvidence,
    Test,
    TrainedEvidence,
    below,
    of_order,
    shape,
)
from hardmax.papers.ledger.rows import LedgerItem

CONSTRUCTED = "constructed instances, on which the statement must hold or must not"
IMDB = "IMDB, the paper's 50,000 reviews"
YELP = "Yelp, the 1,758 reviews at hand that pass the paper's filters; the paper has 50,000"
PROTOCOL = "d = 2048, 500 epochs, AdamW at 1e-2 (a tenth from epochs 100 and 200), batch 128, decay 1e-8"
UNSTATED = (
    "Start, tokenizer details, padding and LayerNorm's gain are not printed; docs/research/reviews.md "
    "compares our choices with others."
)
SCALED = "Logits of every softmax are divided by sqrt(d), which the paper does not print."
SHORTER = "Two layers have fewer epochs than 500, with milestones in proportion: an epoch takes minutes."
FEW = "1,758 reviews, not 50,000."
NONE = f"{FEW} The contrast does not appear: one layer fits so few reviews as well as two do."
SURROGATE = ("the model on the surrogate, d = 64", "stand-in data: no review among them")
READINGS = {"printed": ("as printed", ""), "scaled": ("logits over sqrt(d)", SCALED)}


def _statement(
    item: str, printed: str, *ids: str, aliases: tuple[str, ...] = (), differs: str = "", comments: str = ""
) -> LedgerItem:
    ours = f"checked as {', '.join(ids)}"
    evidence = tuple(CheckEvidence(id) for id in ids)
    return LedgerItem("A", item, printed, ours, CONSTRUCTED, evidence, differs, aliases, comments)


def _seeds(name: str, seeds: int) -> tuple[str, ...]:
    return tuple(f"{name}-seed{seed}" for seed in range(seeds))


def _trained(
    item: str,
    printed: str,
    ours: str,
    data: str,
    names: tuple[str, ...],
    test: Test,
    differs: str,
    more: tuple[Evidence, ...] = (),
) -> LedgerItem:
    evidence = (TrainedEvidence(names, test), *more)
    return LedgerItem("A", item, printed, ours, data, evidence, differs, (), UNSTATED, SURROGATE)


_SHAPES = "E v rises with the posterior difference x through the origin, E p with |x|; "
_FIGURES = (
    _trained(
        "Figure 1, as printed",
        _SHAPES + f"two layers on IMDB, {PROTOCOL}",
        "the printed model at d = 256, 28 epochs (a tenth from 4 and 25), first 512 tokens",
        IMDB,
        _seeds("imdb-2-printed-d256", 1),
        shape,
        "d = 256 and 28 epochs: at d = 2048 and rate 1e-2 the printed model saturates, and 500 epochs take "
        "ten hours on two cores.",
        (FigureEvidence("A-FIG-1"),),
    ),
    _trained(
        "Figure 1, logits over sqrt(d)",
        _SHAPES + f"two layers on IMDB, {PROTOCOL}",
        "d = 2048, rate 1e-2, fewer epochs with milestones in proportion, first 512 tokens",
        IMDB,
        _seeds("imdb-2-scaled-30-epochs", 1),
        shape,
        f"{SCALED} {SHORTER}",
    ),
    LedgerItem(
        "A",
        "Figure 2",
        "positive and negative tokens part in E v, E p grows with importance; one layer on the K-level data, "
        "d = 2048, 196 epochs, AdamW at 1e-4, decay 1e-4, batch 128",
        "the same schedule",
        "the paper's K-level data, with n = 4,096 where the paper gives no n",
        (
            FigureEvidence("A-FIG-2", "The stored result is at quick scale: fewer sequences, smaller d."),
            Fact("k-level sizes"),
        ),
        "Levels have 4 + 2^k tokens (A-ERR-1: the printed sizes give 1,538 tokens, not 2,048).",
    ),
    *(
        _trained(
            f"Figure 3, {row} row, {words}",
            _SHAPES + f"one layer on {source}, {PROTOCOL}",
            "the same setting",
            data,
            _seeds(f"{source.lower()}-1-{reading}", 1 if reading == "printed" else seeds),
            shape,
            " ".join(each for each in (change, few) if each),
            (FigureEvidence("A-FIG-3"),) if reading == "printed" else (),
        )
        for row, source, data, few, seeds in (("top", "IMDB", IMDB, "", 2), ("bottom", "Yelp", YELP, FEW, 3))
        for reading, (words, change) in READINGS.items()
    ),
    *(
        _trained(
            f"Figure 4, {words}",
            _SHAPES + f"two layers on Yelp, {PROTOCOL}",
            "the same setting",
            YELP,
            _seeds(f"yelp-2-{reading}", 1 if reading == "printed" else 3),
            shape,
            " ".join(each for each in (change, FEW) if each),
            (FigureEvidence("A-FIG-4"),) if reading == "printed" else (),
        )
        for reading, (words, change) in READINGS.items()
    ),
)

_LOSSES = tuple(
    _trained(
        f"Appendix E, loss of {'one layer' if layers == 1 else 'two layers'} on {source}, {words}",
        f"of the order of 1e-{1 if layers == 1 else 5} at convergence, {PROTOCOL}",
        ours,
        data,
        names,
        of_order(-1) if layers == 1 else below(-5),
        " ".join(each for each in (change, more) if each),
    )
    for layers, source, reading, ours, data, names, more in (
        (1, "IMDB", "printed", "the same setting", IMDB, _seeds("imdb-1-printed", 1), ""),
        (1, "IMDB", "scaled", "the same setting", IMDB, _seeds("imdb-1-scaled", 2), ""),
        (1, "Yelp", "printed", "the same setting", YELP, _seeds("yelp-1-printed", 1), FEW),
        (1, "Yelp", "scaled", "the same setting", YELP, _seeds("yelp-1-scaled", 3), FEW),
        (
            2,
            "IMDB",
            "printed",
            "d = 256, 28 epochs",
            IMDB,
            _seeds("imdb-2-printed-d256", 1),
            "d = 256, 28 epochs.",
        ),
        (
            2,
            "IMDB",
            "scaled",
            "fewer epochs, with milestones in proportion",
            IMDB,
            _seeds("imdb-2-scaled-30-epochs", 1),
            SHORTER,
        ),
        (2, "Yelp", "printed", "the same setting", YELP, _seeds("yelp-2-printed", 1), FEW),
        (2, "Yelp", "scaled", "the same setting", YELP, _seeds("yelp-2-scaled", 3), FEW),
    )
    for words, change in (READINGS[reading],)
)

_CONTRASTS = tuple(
    LedgerItem(
        "A",
        f"Appendix E, two layers against one on {source}, {words}",
        f"1e-5 against 1e-1: two layers end far below one, {PROTOCOL}",
        ours,
        data,
        (Contrast(two, one),),
        " ".join(each for each in (change, more) if each),
        comments=UNSTATED,
    )
    for source, reading, ours, data, two, one, more in (
        (
            "IMDB",
            "printed",
            "d = 256, 28 epochs, first 512 tokens, both layers alike",
            IMDB,
            "imdb-2-printed-d256-seed0",
            "imdb-1-printed-d256-seed0",
            "d = 256, 28 epochs.",
        ),
        (
            "IMDB",
            "scaled",
            "two layers for fewer epochs, one layer for 500",
            IMDB,
            "imdb-2-scaled-30-epochs-seed0",
            "imdb-1-scaled-seed0",
            SHORTER,
        ),
        ("Yelp", "printed", "the same setting", YELP, "yelp-2-printed-seed0", "yelp-1-printed-seed0", FEW),
        ("Yelp", "scaled", "the same setting", YELP, "yelp-2-scaled-seed0", "yelp-1-scaled-seed0", NONE),
    )
    for words, change in (READINGS[reading],)
)

_NUMBERS = (
    LedgerItem(
        "A",
        "Appendix E, IMDB",
        "50,000 reviews of 239 words on average",
        "counted in the file as it is: runs of letters and digits, those of <br /> too",
        IMDB,
        (Fact("IMDB words"),),
    ),
    LedgerItem(
        "A",
        "Appendix E, Yelp",
        "reviews of 1,000 to 1,500 characters with 1, 2, 4 or 5 stars, as many as IMDB has; tokens that "
        "occur less than 50 times are purged",
        "the same filters on the reviews at hand",
        YELP,
        (Fact("Yelp reviews"),),
        FEW,
    ),
    LedgerItem(
        "A",
        "Appendix E, sizes of the vocabulary",
        "4 + 2^(k-1) tokens of level k and sign, 964 irrelevant ones, 2,048 in all",
        "4 + 2^k tokens, which gives 2,048",
        "the paper's K-level data",
        (Fact("k-level sizes"),),
        "A-ERR-1: the printed sizes give 1,538 tokens.",
    ),
    LedgerItem(
        "A",
        "Equations (34) and (35)",
        "probabilities of tokens given the label, and the posteriors that follow",
        "the third case with delta-tilde",
        "the paper's K-level data",
        (Fact("probabilities of (34)"),),
        "A-ERR-2: the third case is printed with another letter, and does not add up.",
    ),
    LedgerItem(
        "A",
        "Appendix E, equal frequencies",
        "all tokens of the synthetic data appear equally often",
        "the ratio of the frequencies",
        "the paper's K-level data",
        (Fact("equal frequencies"),),
        comments="A-ERR-3: irrelevant tokens are 21 times as frequent; what is concluded holds all the same.",
    ),
)

_STATEMENTS = (
    _statement(
        "Definition 1", "positive, negative, irrelevant, completely positive tokens", "A-LEM-14", "A-THM-5"
    ),
    _statement(
        "Lemma 2", "one step learns alpha, errors at most 11 eta0 d^(-1/4)", "A-LEM-2", aliases=("4.1",)
    ),
    _statement(
        "Lemma 3", "the max-margin solution of a pattern exists and is unique", "A-LEM-3", aliases=("4.2",)
    ),
    _statement("Assumption 4", "each sequence has one completely signed token, once", "A-LEM-14"),
    _statement(
        "Theorem 5",
        "p diverges; a limit of its direction selects important tokens and is max-margin for its selection",
        "A-THM-5",
        aliases=("4.3",),
        comments="A-THM-5S needs neither Lemma 6 nor Lemma 19 nor the limit's existence.",
    ),
    _statement("Lemma 6", "a direction that selects every token is not a limit", "A-LEM-6"),
    _statement("Lemma 7", "gradients in closed form", "A-LEM-7", aliases=("A.1",)),
    _statement("Lemma 8", "the gradient along a direction, by pairs", "A-LEM-8", aliases=("A.2",)),
    _statement("Lemma 9", "what makes the direction converge", "A-LEM-9", aliases=("A.3",)),
    _statement("Lemma 10", "bounds on attention", "A-LEM-10", aliases=("A.4",)),
    _statement(
        "Lemma 11", "the first step keeps norms bounded, d at least 256", "A-LEM-11", aliases=("B.1",)
    ),
    _statement(
        "Lemma 12",
        "the loss after the first step, d at least (88 eta0^2 + 111 eta0 + 2)^8",
        "A-LEM-12",
        aliases=("B.2",),
    ),
    _statement("Lemma 13", "p grows without bound", "A-LEM-13", aliases=("C.1",)),
    _statement(
        "Lemma 14", "important tokens are selected, eta0 at least 4 n^2 T^2", "A-LEM-14", aliases=("C.2",)
    ),
    _statement("Definition 15", "the second selection", "A-LEM-17", aliases=("C.3",)),
    _statement("Definition 16", "locally optimal directions", "A-DEF-16", aliases=("C.4",)),
    _statement("Lemma 17", "the dominant pairs decide", "A-LEM-17", aliases=("C.5",)),
    _statement("Lemma 18", "a limit is its own max-margin direction", "A-LEM-18", aliases=("C.6",)),
    _statement(
        "Lemma 19",
        "important tokens only, where every other pattern costs more",
        "A-LEM-19",
        aliases=("4.5",),
        differs="Tested for fixed embeddings: at infinite width its hypothesis fails where p_hat.v = 0.",
    ),
    _statement("Remark on Lemma 19 (D.5)", "its hypothesis holds for equal frequencies", "A-ERR-5"),
    _statement("Lemma 20", "some constraint is tight", "A-LEM-20"),
    _statement("Lemma 21", "the important-only solution has norm at most 4n", "A-LEM-21"),
    _statement(
        "Event (14)",
        "overlaps and norms of the start, with probability 1 - delta",
        "A-EVT-14",
        differs="d must be large enough for the norms, which is not stated: at d = 2 the bound fails.",
    ),
    _statement("Section 3", "what is proved for the flow extends to descent with small steps", "A-SEC-3"),
)

ITEMS: tuple[LedgerItem, ...] = (*_FIGURES, *_LOSSES, *_CONTRASTS, *_NUMBERS, *_STATEMENTS)
