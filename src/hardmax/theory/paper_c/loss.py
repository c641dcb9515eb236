"""Theorem 2: attention and loss under stage 2, and how fast the loss really falls."""

from __future__ import annotations

import math

import numpy as np

from hardmax.nexttoken.measures import log_excess_losses, log_off_masses
from hardmax.nexttoken.output_value import OutputValue, best_loss
from hardmax.nexttoken.pairs import Floats
from hardmax.theory.check import Outcome, statement, unmet
from hardmax.theory.paper_c import printed
from hardmax.theory.paper_c.common import (
    RELATIVE,
    STEPS,
    Subject,
    assumptions,
    late_from,
    pulls,
    run_of,
    sizes_of,
)

RATE = 0.01  # relative error of the late slope of log(L - L*)


def log_best_loss(W_ov: OutputValue) -> float:
    """log L*, also where L* underflows."""
    assert W_ov.margin is not None
    small = math.log(W_ov.V - 1) - W_ov.margin
    return small if small < -37 else math.log(best_loss(W_ov.V, W_ov.margin))


def log_sentence_bound(V: int, margin: float, off: Floats) -> Floats:
    """log of (V - 1) exp(-Delta (2 m_* - 1)) with m_* = 1 - off."""
    return math.log(V - 1) - margin * (1 - 2 * off)


@statement(
    "C-THM-2",
    "Theorem 2: attention and loss converge",
    "At every t the loss of a sentence is at most (V-1) exp(-Delta (2 m_* - 1)), Delta = T eta0/|W_ov*|; the "
    "loss tends to L* = log(1 + (V-1) exp(-Delta)) > 0, and log(L - L*) falls by eta/|W_kq*| per step. The "
    "paper bounds the weight m_* by 1/(1 + L_max exp(-C_1 t)) and the loss by (4), for T and t beyond reach.",
    kind="limit",
    label="derived",
    errata=("C-ERR-08", "C-ERR-09", "C-ERR-11", "C-ERR-18", "C-ERR-19"),
)
def loss_converges(data: Subject, *, steps: int = STEPS, rate: float | None = None) -> Outcome:
    """The recorded points of a run; the paper's two bounds at all of them, whatever T and t it asks for."""
    hypotheses = [*assumptions(data), pulls(data)]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    run = run_of(data, steps, rate=rate)
    pairs, W_ov = run.pairs, run.W_ov
    assert W_ov.margin is not None
    sizes, Delta = sizes_of(run, least_frequency=False), W_ov.margin
    floor, tight, weight, loss = log_best_loss(W_ov), math.inf, math.inf, math.inf
    excess: list[float] = []
    for t, a in zip(run.times.tolist(), run.points, strict=True):
        off = np.exp(log_off_masses(pairs, a))
        above = log_excess_losses(pairs, W_ov, a)
        room = log_sentence_bound(W_ov.V, Delta, off) - np.logaddexp(floor, above)
        tight = min(tight, float(room.min()))
        weight = min(weight, 1 - float(off.max()) - printed.theorem_2_weight(sizes, t, run.rate))
        excess.append(float(np.logaddexp.reduce(pairs.log_weight + above)))
        total = float(np.logaddexp(floor, excess[-1]))  # constant sentences have L* from the start
        loss = min(loss, printed.theorem_2_log_loss(sizes, t, run.rate, Delta) - total)
    enough, middle = late_from(run)
    slope = (excess[-1] - excess[middle]) / float(run.times[-1] - run.times[middle])
    assert run.late is not None
    predicted = run.late.excess_rate(run.rate)
    end = float(run.times[-1])
    last = printed.theorem_2_log_loss(sizes, end, run.rate, Delta)
    found = {
        "late slope of log(L - L*)": slope, "predicted": predicted,
        "predicted over C_1": -predicted / printed.attention_rate(sizes, run.rate),
        "least log of bound over loss of a sentence": tight, "log L*": floor,
        "least weight over its printed bound": weight, "least log of (4) over the loss": loss,
        "log of (4)": last, "t": end, "asked of t": printed.steps_asked_of_stage_2(sizes, run.rate),
    }  # fmt: skip
    trivial = last >= math.log(printed.loss_at_start(sizes))
    trivial &= printed.theorem_2_weight(sizes, end, run.rate) <= 1 / sizes.L
    hypotheses.append(enough)
    return Outcome(
        tuple(hypotheses), min(tight + RELATIVE, 1 - abs(slope / predicted - 1) / RATE), found,
        paper_slack=min(weight, loss) + RELATIVE, paper_vacuous=trivial,
    )  # fmt: skip
