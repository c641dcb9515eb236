"""What figures 1, 3 and 4 must show: bands on A-DATA-7, and on reviews what was seen there."""

from __future__ import annotations

from typing import NamedTuple

from hardmax.embeddings import KLevel
from hardmax.figures.claims import Claim, at_least, at_most, between, near
from hardmax.figures.paper_a.training import CLEAR, Case, rises


class Seen(NamedTuple):
    """Numbers of a training on the surrogate, with how far another draw may be from them."""

    r_v: float
    r_v_apart: float
    r_p: float
    r_p_apart: float


ONE_LAYER, TWO_LAYERS = Seen(0.979, 0.02, 0.928, 0.04), Seen(0.918, 0.05, 0.821, 0.05)
FAR_BELOW = 0.2  # loss of two layers over that of one


def surrogate_claims(name: str, case: Case, model: KLevel, seen: Seen) -> tuple[Claim, ...]:
    """The shapes on A-DATA-7: E v rises with x, E p with |x|, level by level."""
    found = case.training
    means, what = found.level_means(model), f"{case.name}: "
    return (
        near(name + ".r_v", what + "Spearman correlation of the posterior difference x and E v", found.r_v,
             seen.r_v, seen.r_v_apart),
        near(name + ".r_p", what + "Spearman correlation of |x| and E p", found.r_p, seen.r_p,
             seen.r_p_apart),
        *text_claims(name, case),
        at_least(name + ".irrelevant", what + "mean E p of level 1, the least important, less that of "
                 "irrelevant tokens", means.logit[0] - means.irrelevant_logit, 1e-3),
        at_least(name + ".attention-levels", what + "mean E p of levels 3 and 4 less that of levels 1 and 2",
                 rises(means.logit, model.sizes, together=2), 1e-3, paper="large for |x| large"),
        at_least(name + ".value-levels", what + "mean sign E v of levels 3 and 4 less that of levels 1 and 2",
                 rises(means.value, model.sizes, together=2), 1e-3, paper="increasing"),
        between(name + ".loss", what + "loss at the end", found.loss, 1e-5, 1e-3),
    )  # fmt: skip


def text_claims(name: str, case: Case) -> tuple[Claim, ...]:
    """E v has the sign of x, and E p is larger where |x| is; how well they correlate is only reported."""
    found, what = case.training, f"{case.name}: "
    top, bottom = found.deciles
    return (
        at_least(name + ".signs", f"{what}share of tokens beyond {CLEAR} of the mean label with E v of their "
                 "sign", found.sign_accuracy(CLEAR), 0.85, paper="increasing through the origin"),
        at_least(name + ".deciles", what + "median E p of the tenth with the largest |x - mean| less that of "
                 "the tenth with the smallest", top - bottom, 1e-3, paper="V-shaped"),
    )  # fmt: skip


def compared_claim(name: str, two: Case, one: Case) -> Claim:
    """The loss of two layers is far below that of one, trained alike."""
    ratio = two.training.loss / one.training.loss
    return at_most(name + ".loss-ratio", f"{two.name}: loss of two layers over that of one, trained alike",
                   ratio, FAR_BELOW, paper="1e-5 against 1e-1")  # fmt: skip
