"""A-FIG-2: the one-layer model on the K-level data, all parameters trained."""

from __future__ import annotations

import math

import numpy as np

from hardmax.embeddings import KLevel, initial_vectors
from hardmax.papers.figures.claims import Claim, Claims, at_least
from hardmax.papers.figures.figure import Canvas, Findings, Scale, Setting, recipe
from hardmax.papers.figures.tables import Tables
from hardmax.papers.trained_embeddings.figures import training

SEQUENCES: dict[Scale, int] = {"quick": 1024, "paper": 4096}
WIDTHS: dict[Scale, int] = {"quick": 512, "paper": 2048}
# Neighboring levels that are looked at together: with 1,024 sequences a relevant token occurs about twelve
# times and the first levels have a dozen tokens, so that single levels may change places by chance.
TOGETHER: dict[Scale, int] = {"quick": 2, "paper": 1}
CONTROL_WIDTHS: dict[Scale, int] = {"quick": 128, "paper": 512}
KLEVEL, LARGE = "K-level data", "N(0, 1) start"
NAMES = {1: "positive", -1: "negative", 0: "irrelevant"}


def schedule_of(d: int) -> training.Schedule:
    """Return the printed schedule; its milestone 200 is beyond the last epoch (A-ERR-4)."""
    return training.Schedule(d, epochs=196, rate=1e-4, weight_decay=1e-4, milestones=(100, 200))


def large_start(S: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw E and p with entries N(0, 1), the usual default of embeddings, and v as always."""
    E, p, v = initial_vectors(S, d, rng=training.SEED)
    return math.sqrt(d) * E, math.sqrt(d) * p, v


def draw_2(tables: Tables, canvas: Canvas) -> None:
    """Draw E p, E v, and the course of the training with that of the control, dashed."""
    training.draw_training(canvas, tables, KLEVEL, NAMES, control=LARGE)


@recipe(
    "A-FIG-2",
    "Synthetic data, one layer: E p grows with a token's importance, E v with its sign too",
    draw=draw_2,
    size=(7.0, 2.6),
    errata=("A-ERR-1", "A-ERR-2", "A-ERR-3", "A-ERR-4"),
)
def fig_2(setting: Setting) -> Findings:
    """Train on the K-level data, from the printed start and from one that is too large."""
    model = KLevel()
    corpus = model.draw(SEQUENCES[setting.scale], rng=training.SEED)
    schedule, control = schedule_of(WIDTHS[setting.scale]), schedule_of(CONTROL_WIDTHS[setting.scale])
    share = training.Share(setting, 0.0, 0.7)
    case = training.Case(KLEVEL, "", schedule, training.train(corpus, schedule, share, "A-FIG-2"), model)
    start, share = large_start(corpus.S, control.d), training.Share(setting, 0.7, 1.0)
    from_large = training.train(corpus, control, share, "A-FIG-2.control", start=start)
    large = training.Case(LARGE, "", control, from_large, model)
    notes = (
        f"{corpus.n:,} sequences of {corpus.T} tokens, half of them positive; the paper does not say how "
        "many it drew.",
        training.THEORY,
        training.course_note(case),
        "White circles are means over the tokens of a level and sign. AdamW moves the cloud of irrelevant "
        "tokens up or down in (b) by an amount that depends on the run: nothing is claimed about it.",
        f"The scale of the start matters: dashed in (c) is the same training with d = {control.d} from E and "
        f"p with entries N(0, 1) in place of N(0, 1/d). E p then has the spread sqrt(d), the softmax sits on "
        f"one token of each sequence from the beginning, and the loss is {large.training.loss:.2f} at the "
        "end.",
    )
    tables = training.training_tables((case, large))
    return Findings(tables, judge(case, large, model, TOGETHER[setting.scale]), notes, training.SEED)


CLAIMS = Claims(
    "A-FIG-2",
    f"""
    vocabulary | tokens in the vocabulary, and sum of the probabilities (34) | 2048 and 1 | 1538 as printed
    frequency | frequency of irrelevant tokens over that of relevant ones | 21.37 ± 0.5 | equal
    r_v | Spearman correlation of the posterior difference and E v | ≥ 0.93
    r_p | Spearman correlation of its modulus and E p | ≥ 0.80
    pearson | Pearson correlation with E v over relevant tokens | ≥ 0.9
    signs | share of tokens beyond {training.CLEAR} whose E v has the right sign | ≥ 0.95 | separated
    irrelevant | mean E p of level 1, the least important, less that of irrelevant tokens | ≥ 1e-3
    loss | loss at the end | ≤ 0.05
    large-start | |r_v| from a start with entries N(0, 1) | ≤ 0.2
    large-start-loss | loss from that start | ≥ 0.3
    """,
)


def judge(case: training.Case, control: training.Case, model: KLevel, together: int) -> tuple[Claim, ...]:
    """Make the claims about a training and its control, with ``together`` levels taken as one."""
    result, counts = case.training, case.corpus.statistics.total
    means = result.level_means(model)
    levels = "neighboring levels" if together == 1 else f"neighboring groups of {together} levels"
    total = sum(model.probabilities(1))

    def levels_rise(name: str, what: str, values: np.ndarray) -> Claim:
        text = f"least rise of mean {what} between {levels}"
        rise = training.rises(values, model.sizes, together)
        return at_least(f"A-FIG-2.{name}", text, rise, 1e-3, paper="grows with importance")

    return CLAIMS.judge(
        {
            "vocabulary": ((model.S, total) == (2048, 1), [model.S, float(total)]),
            "frequency": float(counts[model.level == 0].mean() / counts[model.level > 0].mean()),
            "r_v": result.r_v,
            "r_p": result.r_p,
            "pearson": result.pearson(model.level > 0),
            "signs": result.sign_accuracy(training.CLEAR),
            "value-levels": levels_rise("value-levels", "sign E v", means.value),
            "attention-levels": levels_rise("attention-levels", "E p", means.logit),
            "irrelevant": means.logit[0] - means.irrelevant_logit,
            "loss": result.loss,
            "large-start": abs(control.training.r_v),
            "large-start-loss": control.training.loss,
        }
    )
