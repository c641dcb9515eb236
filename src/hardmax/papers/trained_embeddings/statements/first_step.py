"""Event (14) and Lemmas 2, 11 and 12: the start, and what one step makes of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.first_step import loss_bound
from hardmax.embeddings.near_identity import draw_initial
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.proof import largest, least, length, settle_slack
from hardmax.papers.trained_embeddings.statements.balls import first_step, loss
from hardmax.papers.trained_embeddings.statements.common import DELTA, Rate, Width, draw_first_step

# Lemma 2 holds with these in place of 11, for the errors of the tokens and of p.
SHARP = (2.11, 1.13)

SLIGHT = 1e-12  # a bound that is rounded may be this much too small
MOST = 10**6  # widths up to which the probability of large norms is worth computing


# The paper names no least width for event (14); in few dimensions a norm of 2 is often exceeded.
UNSTATED = "found while checking"


def most_likely(S: int, d: int, delta: float) -> Any:
    """Return a ball above the probability of event (14).

    S + 1 independent norms are at most 2 (chi-squared), and S + 1 independent overlaps with v are within
    their bound (normal).
    """
    overlaps = (2 * arb(S).log() - arb(delta).log()).sqrt().erf() ** (S + 1)
    if d > MOST:
        return overlaps
    return overlaps.min((1 - arb(2 * d).gamma_upper(arb(d) / 2, regularized=1)) ** (S + 1))


def power_of_width(d: int, exponent: float) -> float:
    """Return d to a power, for any Python integer d."""
    return math.exp(exponent * math.log(d))


@statement(
    "A-EVT-14",
    "Event (14): small overlaps and norms at the start",
    "With probability at least 1 - delta all overlaps |E_s.v|, |E_s.p|, |p.v| are at most sqrt(2 "
    "log(S^2/delta)/d) and all norms at most 2; where d >= (2 log(S^2/delta))^2 the first bound is at most "
    "d^(-1/4).",
    kind="finite",
)
def initial_event_is_likely(
    corpus: Corpus, *, d: int = 256, delta: float = 0.1, draws: int = 200, rng: int = 0
) -> Outcome:
    """Measure the frequency over random starts at width d.

    Chance can make it low: only a bound on the probability itself refutes.
    """
    chance, draws = expect.generator(rng), expect.whole("draws", draws, least=1)
    found = [draw_initial(corpus.S, d, rng=chance).initial_event(d, delta) for _ in range(draws)]
    frequency = sum(each.holds for each in found) / draws
    bound, quarter = found[0].overlap_bound, power_of_width(d, -0.25)
    least = (2 * (2 * math.log(corpus.S) - math.log(delta))) ** 2
    # Chernoff's bound on the probability that one of S + 1 norms exceeds 2; zero long before MOST
    risk = (corpus.S + 1) * math.exp(-0.5 * min(d, MOST) * (3 - math.log(4)))
    wide = Hypothesis("d large enough for the norms", risk <= delta / 2, risk, erratum=UNSTATED)
    at_most = most_likely(corpus.S, d, delta) - (1 - arb(delta))
    slack = min(frequency - (1 - delta), float(at_most.mid()))
    likely = 1 - delta + float(at_most.mid())
    proof = f"ball arithmetic: a probability of at most {likely:.4f}" if at_most < 0 else None
    measured = {
        "frequency": frequency,
        "largest overlap": max(each.overlap for each in found),
        "overlap bound": bound,
        "largest norm": max(each.norm for each in found),
        "probability at most": likely,
    }
    within = 1 - bound / quarter if d >= least else math.inf
    return Outcome((wide,), min(slack, within), measured, proof=proof, paper_slack=slack, paper_proof=proof)


def least_room(*pairs: tuple[Any, float]) -> Any:
    """The least distance of sizes to their bounds, over the bounds; floats may have rounded a bound down."""
    return least(1 + SLIGHT - size / arb(bound) for size, bound in pairs)


def longest(rows: np.ndarray) -> Any:
    """The largest norm of a row."""
    return largest(length(row) for row in rows)


@statement(
    "A-LEM-2",
    "Lemma 2: one step learns the signed frequencies",
    "E1_s = E0_s + (eta0/2) alpha_s v + err_s and p1 = p0 + err_p with |err_s| <= 2.11 eta0 d^(-1/4) and "
    "|err_p| <= 1.13 eta0 d^(-1/4); the paper has 11 for both.",
    kind="finite",
    errata=("A-ERR-13",),
)
def one_step_learns_alpha(
    corpus: Corpus, *, d: int = 1024, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Compute the errors without cancellation, from a random start at width d."""
    drawn = draw_first_step(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    errors = drawn.errors
    scale = errors.first_rate * power_of_width(d, -0.25)
    bounds, printed = (SHARP[0] * scale, SHARP[1] * scale), errors.bound(d)
    most = float(errors.token_errors.max())
    share = max(most / bounds[0], errors.cls_error / bounds[1])
    signal = float(np.abs(errors.alpha).max()) * errors.first_rate

    def room(of_tokens: float, of_p: float) -> Any:
        step = first_step(corpus, drawn.start, errors.first_rate)
        return least_room((longest(step["err_E"]), of_tokens), (length(step["err_p"]), of_p))

    measured = {
        "largest |err_s| / eta0": most / errors.first_rate,
        "|err_p| / eta0": errors.cls_error / errors.first_rate,
        "over the sharp bound": share,
        "over the paper's bound": errors.largest / errors.bound(d),
        "signal to noise of E1.v": signal / 2 * power_of_width(d, 0.5),
    }
    return Outcome(
        drawn.conditions,
        settle_slack(1 - share, lambda: room(*bounds)),
        measured,
        witness=int(errors.token_errors.argmax()),
        paper_slack=settle_slack(1 - errors.largest / printed, lambda: room(printed, printed)),
    )


@statement(
    "A-LEM-11",
    "Lemma 11: the first step keeps the embeddings bounded",
    "On event (14) with d >= 256, |E1_s| <= 2 (1 + 2 eta0) and |p1| <= 2 + 11 eta0 d^(-1/4).",
    kind="finite",
)
def embeddings_stay_bounded(
    corpus: Corpus, *, d: int = 1024, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Measure the norms after the first step, from a random start at width d."""
    drawn = draw_first_step(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    most, own = float(drawn.after.gram.token_norms.max()), math.sqrt(drawn.after.pi)
    rate = drawn.errors.first_rate
    bounds = 2 * (1 + 2 * rate), 2 + 11 * rate * power_of_width(d, -0.25)

    def room() -> Any:
        step = first_step(corpus, drawn.start, rate)
        return least_room((longest(step["E"]), bounds[0]), (length(step["p"]), bounds[1]))

    slack = settle_slack(min(1 - most / bounds[0], 1 - own / bounds[1]), room)
    return Outcome(drawn.conditions, slack, {"largest |E1_s|": most, "|p1|": own, "bounds": bounds})


@statement(
    "A-LEM-12",
    "Lemma 12: the loss after the first step",
    "For d >= (88 eta0^2 + 111 eta0 + 2)^8, L(E1, p1) is at most the mean of log(1 + exp(-(eta0/2) (1/T) "
    "sum_i y alpha_{x_i} + 1/(22 eta0))), and no two logits differ by more than d^(-1/8).",
    kind="finite",
    errata=("A-ERR-14",),
)
def loss_after_first_step(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """The loss after a first step at width d, by default the least that the lemma allows."""
    drawn = draw_first_step(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    hypotheses = need(*drawn.conditions, drawn.wide_for_the_loss())
    share = corpus.weights * drawn.errors.alpha[corpus.tokens]
    gains = corpus.signs * np.add.reduceat(share, corpus.offsets[:-1]) / corpus.lengths
    risk, bound = drawn.after.loss(corpus), loss_bound(gains, drawn.errors.first_rate)
    spread, eighth = float(np.ptp(drawn.after.a)), power_of_width(drawn.d, -0.125)

    def room() -> Any:
        step = first_step(corpus, drawn.start, drawn.errors.first_rate)
        a = step["E"] @ step["p"]
        return least_room((loss(corpus, a, step["E"][:, -1]), bound), (largest(a) - least(a), eighth))

    # a bound below every float is not compared with, but in balls
    below = 1 - risk / bound if bound else -float(risk > 0)
    slack = settle_slack(min(below, 1 - spread / eighth), room)
    measured = {"loss": risk, "bound": bound, "spread of logits": spread, "d^(-1/8)": eighth}
    return Outcome(hypotheses, slack, measured)
