"""Event (14) and Lemmas 2, 11 and 12: the start, and what one step makes of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.first_step import StructuredState, draw_initial, loss_bound
from hardmax.papers.checking.check import Hypothesis, Outcome, need, statement
from hardmax.papers.checking.proof import balls, largest, least, length, settle_slack
from hardmax.papers.trained_embeddings.statements.common import (
    DELTA,
    Rate,
    Width,
    derivatives,
    draw_first_step,
    masses,
)

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


def loss_in_balls(corpus: Corpus, a: np.ndarray, c: np.ndarray) -> Any:
    """Return the mean of log(1 + exp(-y f))."""
    terms = [(1 + (-y * (Q @ c[tokens])).exp()).log() for tokens, Q, y in masses(corpus, a)]
    return sum(terms, arb(0)) / corpus.n


def first_step_in_balls(corpus: Corpus, start: StructuredState, first_rate: float) -> dict[str, np.ndarray]:
    """Return E1 and p1 after a step from a start, and their errors beyond E0 + (eta0/2) alpha v and p0."""
    noise, step, v = balls(start.noise), arb(float(first_rate)), balls(start.v)
    E0 = np.column_stack([balls(np.eye(start.S, start.S + 1)) + noise[:-1], balls(start.c)])
    p0 = np.append(noise[-1] + balls(np.eye(start.S + 1)[-1]), balls([start.rho]))
    A, C = derivatives(corpus, E0 @ p0, E0 @ v)
    alpha = balls(np.zeros(corpus.S))
    for k in range(corpus.n):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        share = arb(int(corpus.labels[k])) / (int(corpus.lengths[k]) * corpus.n)
        alpha[corpus.tokens[slots]] += np.array([share * int(m) for m in corpus.counts[slots]])
    moved_E, moved_p = -step * (np.outer(A, p0) + np.outer(C, v)), -step * (E0.T @ A)
    return {
        "E": E0 + moved_E,
        "p": p0 + moved_p,
        "err_p": moved_p,
        "err_E": moved_E - np.outer(alpha, v) * (step / 2),
    }


@statement(
    "A-EVT-14",
    "Event (14): small overlaps and norms at the start",
    "With probability at least 1 - delta all overlaps |E_s.v|, |E_s.p|, |p.v| are at most sqrt(2 "
    "log(S^2/delta)/d) and all norms at most 2; where d >= (2 log(S^2/delta))^2 the first bound is at most "
    "d^(-1/4).",
)
def initial_event_is_likely(
    corpus: Corpus, *, d: int = 256, delta: float = 0.1, draws: int = 200, rng: int = 0
) -> Outcome:
    """Measure the frequency over random starts at width d.

    Chance can make it low: only a bound on the probability itself refutes.
    """
    chance, draws = expect.generator(rng), expect.whole("draws", draws, least=1)
    events = [draw_initial(corpus.S, d, rng=chance).initial_event(d, delta) for _ in range(draws)]
    frequency = sum(event.holds for event in events) / draws
    bound, quarter = events[0].overlap_bound, power_of_width(d, -0.25)
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
        "largest overlap": max(event.overlap for event in events),
        "overlap bound": bound,
        "largest norm": max(event.norm for event in events),
        "probability at most": likely,
    }
    within = 1 - bound / quarter if d >= least else math.inf
    return Outcome((wide,), min(slack, within), measured, proof=proof, paper_slack=slack, paper_proof=proof)


def least_room(*pairs: tuple[Any, float]) -> Any:
    """Return the least distance of sizes to their bounds, over the bounds, which may be rounded down."""
    return least(1 + SLIGHT - size / arb(bound) for size, bound in pairs)


@statement(
    "A-LEM-2",
    "Lemma 2: one step learns the signed frequencies",
    "E1_s = E0_s + (eta0/2) alpha_s v + err_s and p1 = p0 + err_p with |err_s| <= 2.11 eta0 d^(-1/4) and "
    "|err_p| <= 1.13 eta0 d^(-1/4); the paper has 11 for both.",
    errata=("A-ERR-13",),
)
def one_step_learns_alpha(
    corpus: Corpus, *, d: int = 1024, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Compute the errors without cancellation, from a random start at width d."""
    draw = draw_first_step(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    errors = draw.errors
    scale = errors.first_rate * power_of_width(d, -0.25)
    bounds, printed = (SHARP[0] * scale, SHARP[1] * scale), errors.bound(d)
    most = float(errors.token_errors.max())
    share = max(most / bounds[0], errors.cls_error / bounds[1])
    signal = float(np.abs(errors.alpha).max()) * errors.first_rate

    def room(of_tokens: float, of_p: float) -> Any:
        step = first_step_in_balls(corpus, draw.start, errors.first_rate)
        return least_room((largest(map(length, step["err_E"])), of_tokens), (length(step["err_p"]), of_p))

    measured = {
        "largest |err_s| / eta0": most / errors.first_rate,
        "|err_p| / eta0": errors.cls_error / errors.first_rate,
        "over the sharp bound": share,
        "over the paper's bound": errors.largest / errors.bound(d),
        "signal to noise of E1.v": signal / 2 * power_of_width(d, 0.5),
    }
    return Outcome(
        draw.conditions,
        settle_slack(1 - share, lambda: room(*bounds)),
        measured,
        witness=int(errors.token_errors.argmax()),
        paper_slack=settle_slack(1 - errors.largest / printed, lambda: room(printed, printed)),
    )


@statement(
    "A-LEM-11",
    "Lemma 11: the first step keeps the embeddings bounded",
    "On event (14) with d >= 256, |E1_s| <= 2 (1 + 2 eta0) and |p1| <= 2 + 11 eta0 d^(-1/4).",
)
def embeddings_stay_bounded(
    corpus: Corpus, *, d: int = 1024, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Measure the norms after the first step, from a random start at width d."""
    draw = draw_first_step(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    most, norm = float(draw.after.gram.token_norms.max()), math.sqrt(draw.after.pi)
    rate = draw.errors.first_rate
    bounds = 2 * (1 + 2 * rate), 2 + 11 * rate * power_of_width(d, -0.25)

    def room() -> Any:
        step = first_step_in_balls(corpus, draw.start, rate)
        return least_room((largest(map(length, step["E"])), bounds[0]), (length(step["p"]), bounds[1]))

    slack = settle_slack(min(1 - most / bounds[0], 1 - norm / bounds[1]), room)
    return Outcome(draw.conditions, slack, {"largest |E1_s|": most, "|p1|": norm, "bounds": bounds})


@statement(
    "A-LEM-12",
    "Lemma 12: the loss after the first step",
    "For d >= (88 eta0^2 + 111 eta0 + 2)^8, L(E1, p1) is at most the mean of log(1 + exp(-(eta0/2) (1/T) "
    "sum_i y alpha_{x_i} + 1/(22 eta0))), and no two logits differ by more than d^(-1/8).",
    errata=("A-ERR-14",),
)
def loss_after_first_step(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Compute the loss after a first step at width d, by default the least that the lemma allows."""
    draw = draw_first_step(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    hypotheses = need(*draw.conditions, draw.wide_for_the_loss())
    share = corpus.weights * draw.errors.alpha[corpus.tokens]
    gains = corpus.signs * np.add.reduceat(share, corpus.offsets[:-1]) / corpus.lengths
    risk, bound = draw.after.loss(corpus), loss_bound(gains, draw.errors.first_rate)
    spread, eighth = float(np.ptp(draw.after.a)), power_of_width(draw.d, -0.125)

    def room() -> Any:
        step = first_step_in_balls(corpus, draw.start, draw.errors.first_rate)
        a = step["E"] @ step["p"]
        return least_room(
            (loss_in_balls(corpus, a, step["E"][:, -1]), bound), (largest(a) - least(a), eighth)
        )

    # a bound below every float is not compared with, but in balls
    below = 1 - risk / bound if bound else -float(risk > 0)
    slack = settle_slack(min(below, 1 - spread / eighth), room)
    measured = {"loss": risk, "bound": bound, "spread of logits": spread, "d^(-1/8)": eighth}
    return Outcome(hypotheses, slack, measured)
