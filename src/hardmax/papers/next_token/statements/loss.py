"""Theorem 2, how fast the loss falls, and Theorem 3, tokens never compared lie in between."""

from __future__ import annotations

import math

import numpy as np

from hardmax.nexttoken.observables import log_excess_losses, log_off_masses
from hardmax.nexttoken.training import Training
from hardmax.papers.checking.check import Hypothesis, Outcome, statement
from hardmax.papers.next_token.statements import common, printed
from hardmax.papers.next_token.statements.common import RELATIVE, STEPS, Subject
from hardmax.papers.next_token.statements.convergence import late_run
from hardmax.papers.next_token.statements.proofs import outweighs
from hardmax.problem.readouts import OutputValue, best_loss

RATE = 0.01  # relative error of the late slope of log(L - L*)


def log_best_loss(W_ov: OutputValue) -> float:
    """Return log L*, also where L* underflows."""
    assert W_ov.margin is not None
    small = math.log(W_ov.V - 1) - W_ov.margin
    return small if small < -37 else math.log(best_loss(W_ov.V, W_ov.margin))


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
    """Test the recorded points of a run, and the paper's two bounds there, whatever T and t it requires."""
    hypotheses = common.legal(data)
    run = common.run_of(data, steps, rate=rate)
    pairs, W_ov = run.pairs, run.W_ov
    assert W_ov.margin is not None
    sizes, Delta = common.sizes_of(run, least_frequency=False), W_ov.margin
    floor, tight, weight, loss = log_best_loss(W_ov), math.inf, math.inf, math.inf
    excess: list[float] = []
    for t, a in zip(run.times.tolist(), run.points, strict=True):
        off = np.exp(log_off_masses(pairs, a))
        above = log_excess_losses(pairs, W_ov, a)
        # the log of (V - 1) exp(-Delta (2 m_* - 1)) with m_* = 1 - off
        room = math.log(W_ov.V - 1) - Delta * (1 - 2 * off) - np.logaddexp(floor, above)
        tight = min(tight, float(room.min()))
        weight = min(weight, 1 - float(off.max()) - printed.theorem_2_weight(sizes, t, run.rate))
        excess.append(float(np.logaddexp.reduce(pairs.log_weight + above)))
        total = float(np.logaddexp(floor, excess[-1]))  # constant sentences have L* from the start
        loss = min(loss, printed.theorem_2_log_loss(sizes, t, run.rate, Delta) - total)
    enough, middle = common.late_from(run)
    slope = (excess[-1] - excess[middle]) / float(run.times[-1] - run.times[middle])
    assert run.late is not None
    predicted = run.late.excess_rate(run.rate)
    end = float(run.times[-1])
    last = printed.theorem_2_log_loss(sizes, end, run.rate, Delta)
    measured = {
        "late slope of log(L - L*)": slope,
        "predicted": predicted,
        "predicted over C_1": -predicted / printed.attention_rate(sizes, run.rate),
        "least log of bound over loss of a sentence": tight,
        "log L*": floor,
        "least weight over its printed bound": weight,
        "least log of (4) over the loss": loss,
        "log of (4)": last,
        "t": end,
        "asked of t": printed.steps_asked_of_stage_2(sizes, run.rate),
    }
    trivial = last >= math.log(printed.loss_at_start(sizes))
    trivial &= printed.theorem_2_weight(sizes, end, run.rate) <= 1 / sizes.L
    hypotheses.append(enough)
    return Outcome(
        hypotheses,
        min(tight + RELATIVE, 1 - abs(slope / predicted - 1) / RATE),
        measured,
        paper_slack=min(weight, loss) + RELATIVE,
        paper_vacuous=trivial,
    )


GROWTH = 0.01  # relative error of the late growth per step


def unseen(run: Training, repeats: int) -> list[tuple[list[str], str, float]]:
    """Return inputs [x_0, non-optimal tokens, q] for queries q that are non-optimal under themselves.

    Each has the next token that x_0 alone would have, and the lead of x_0 in attention. W_kq[x_0, q] is 0 for
    every x_0 that q was never trained with, so that one of them represents all.
    """
    pairs, words, n = run.pairs, run.samples.vocabulary, run.pairs.collocation
    lows: dict[int, set[int]] = {}
    for p in run.star.below.tolist():
        lows.setdefault(int(pairs.query[p]), set()).add(p)
    inputs = []
    for q, low in sorted(lows.items()):
        query = next((p for p in low if pairs.token[p] == q), None)
        comparable = set(pairs.token[pairs.query == q].tolist())
        free = next((x for x in range(run.samples.V) if x not in comparable), None)
        if query is None or free is None:
            continue
        others = [words[pairs.token[p]] for p in sorted(low) if p != query]
        for inside, used in ([], [query]), (others, sorted(low)):
            sentence = [words[free], *inside * repeats, *[words[q]] * repeats]
            gap = -float(max(run.a[p] for p in used)) - math.log(repeats)
            inputs.append((sentence, words[n[free]], gap))
    return inputs


@statement(
    "C-THM-3",
    "Theorem 3: non-comparable tokens lie in between",
    "From the first step on, W_kq[o, q] > 0 = W_kq[x_0, q] > W_kq[x, q] for optimal o, non-comparable x_0 "
    "and non-optimal x; the gaps grow by eta W_kq*/|W_kq*| per step; and an input of one x_0 and non-optimal "
    "tokens, none so often that it outweighs x_0, is continued by n(x_0). D.2 prints the gaps' growth with a "
    "negative term.",
    kind="limit",
    hunt={"steps": 100, "repeats": 3000},
    label="derived",
    errata=("C-ERR-17", "C-ERR-18"),
)
def in_between(data: Subject, *, steps: int = STEPS, rate: float | None = None, repeats: int = 1) -> Outcome:
    """Test signs at every recorded step, growth over the second half, and predictions at the end.

    ``repeats`` is how often each non-optimal token occurs in the unseen inputs.
    """
    hypotheses, run, _ = late_run(data, steps, rate)
    assert run.star.values is not None
    growth = run.rate * run.star.values / run.star.norm  # per step of every entry, late in training
    moved = np.union1d(run.star.above, run.star.below)
    inputs = unseen(run, repeats)
    beaten = min((gap for _, _, gap in inputs), default=math.inf)
    hypotheses.append(Hypothesis("no token outweighs x_0", beaten > 0, beaten, "C-ERR-17"))
    enough, middle = common.late_from(run)
    hypotheses.append(enough)
    wrong = [
        " ".join(sentence[:8]) for sentence, due, _ in inputs if run.predict(sentence).next(1)[0][0] != due
    ]
    points = zip(run.times[1:], run.points[1:], strict=True)
    ordered = float(min((np.asarray(a)[moved] / (t * growth[moved])).min() for t, a in points))
    late = (run.points[-1] - run.points[middle])[moved] / float(run.times[-1] - run.times[middle])
    off = float(np.abs(late / growth[moved] - 1).max())
    sizes, t = common.sizes_of(run, least_frequency=False), float(run.times[-1])
    gaps = np.abs(run.star.values[moved])
    bounds = [printed.theorem_3(sizes, t, run.rate, float(gap)) for gap in gaps]
    room = float((np.abs(np.asarray(run.a, dtype=np.float64)[moved]) - bounds).min()) / (t * run.rate)
    measured = {
        "least entry over its late growth, any step": ordered,
        "late growth off by": off,
        "C_0": float(np.abs(growth[moved]).min()),
        "least entry over t": float(np.abs(run.a[moved]).min()) / t,
        "inputs": len(inputs),
        "predicted otherwise": wrong,
        "least bound of D.2": min(bounds),
        "t": t,
    }
    right = -1.0 if wrong else 1.0
    certain = bool(wrong) and outweighs(repeats, t * run.rate)
    return Outcome(
        hypotheses,
        min(ordered, 1 - off / GROWTH, right),
        measured,
        wrong or None,
        paper_slack=min(room, right),
        paper_vacuous=max(bounds) <= 0,
        paper_proof=f"{repeats} copies outweigh x_0, as |W_kq| <= t eta" if certain else None,
    )
