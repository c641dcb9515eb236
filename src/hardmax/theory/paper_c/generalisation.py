"""Theorem 3: tokens never compared under a query come to lie between its optimal and non-optimal ones."""

from __future__ import annotations

import math

import numpy as np

from hardmax.nexttoken.training import Training
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet
from hardmax.theory.paper_c import printed
from hardmax.theory.paper_c.common import STEPS, Subject, assumptions, late_from, pulls, run_of, sizes_of
from hardmax.theory.paper_c.convergence import late_hypotheses
from hardmax.theory.paper_c.proofs import outweighs

GROWTH = 0.01  # relative error of the late growth per step


def late_growth(run: Training) -> np.ndarray:
    """Growth per step of every entry late in training: eta W_kq*/|W_kq*|."""
    assert run.star.values is not None
    return run.rate * run.star.values / run.star.norm


def unseen(run: Training, repeats: int) -> list[tuple[list[str], str, float]]:
    """Inputs [x_0, non-optimal tokens, q] for queries q that are non-optimal under themselves.

    With the next token that x_0 alone would have, and how far attention prefers x_0. W_kq[x_0, q] is 0 for
    every x_0 that q was never trained with, so that one of them stands for all.
    """
    pairs, words, n = run.pairs, run.samples.vocabulary, run.pairs.collocation
    lows: dict[int, set[int]] = {}
    for p in run.star.below.tolist():
        lows.setdefault(int(pairs.query[p]), set()).add(p)
    found = []
    for q, low in sorted(lows.items()):
        if q not in {int(pairs.token[p]) for p in low}:
            continue
        seen = set(pairs.token[pairs.query == q].tolist())
        free = next((x for x in range(run.samples.V) if x not in seen), None)
        if free is None:
            continue
        own = next(p for p in low if pairs.token[p] == q)
        others = [words[pairs.token[p]] for p in sorted(low) if p != own]
        for inside, used in ([], [own]), (others, sorted(low)):
            sentence = [words[free], *inside * repeats, *[words[q]] * repeats]
            gap = -float(max(run.a[p] for p in used)) - math.log(repeats)
            found.append((sentence, words[n[free]], gap))
    return found


@statement(
    "C-THM-3",
    "Theorem 3: non-comparable tokens lie in between",
    "From the first step on, W_kq[o, q] > 0 = W_kq[x_0, q] > W_kq[x, q] for optimal o, non-comparable x_0 "
    "and non-optimal x; the gaps grow by eta W_kq*/|W_kq*| per step; and an input of one x_0 and non-optimal "
    "tokens, none so often that it outweighs x_0, is continued by n(x_0). D.2 prints the gaps' growth with a "
    "negative term.",
    kind="limit",
    label="derived",
    errata=("C-ERR-17", "C-ERR-18"),
)
def in_between(data: Subject, *, steps: int = STEPS, rate: float | None = None, repeats: int = 1) -> Outcome:
    """Signs at every recorded step, growth over the second half, and predictions at the end.

    ``repeats`` is how often each non-optimal token stands in the unseen inputs.
    """
    hypotheses = [*assumptions(data), pulls(data)]
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    run = run_of(data, steps, rate=rate)
    hypotheses += late_hypotheses(run)
    if unmet(hypotheses):
        return Outcome(tuple(hypotheses))
    growth = late_growth(run)
    moved = np.union1d(run.star.above, run.star.below)
    inputs = unseen(run, repeats)
    beaten = min((gap for _, _, gap in inputs), default=math.inf)
    hypotheses.append(Hypothesis("no token outweighs x_0", beaten > 0, beaten, "C-ERR-17"))
    enough, middle = late_from(run)
    hypotheses.append(enough)
    missed = [
        " ".join(sentence[:8]) for sentence, due, _ in inputs if run.predict(sentence).next(1)[0][0] != due
    ]
    steps_taken = zip(run.times[1:], run.points[1:], strict=True)
    ordered = float(min((np.asarray(a)[moved] / (t * growth[moved])).min() for t, a in steps_taken))
    late = (run.points[-1] - run.points[middle])[moved] / float(run.times[-1] - run.times[middle])
    off = float(np.abs(late / growth[moved] - 1).max())
    assert run.star.values is not None
    sizes, t = sizes_of(run, least_frequency=False), float(run.times[-1])
    apart = np.abs(run.star.values[moved])
    bounds = [printed.theorem_3(sizes, t, run.rate, float(gap)) for gap in apart]
    room = float((np.abs(np.asarray(run.a, dtype=np.float64)[moved]) - bounds).min()) / (t * run.rate)
    found = {
        "least entry over its late growth, any step": ordered, "late growth off by": off,
        "C_0": float(np.abs(growth[moved]).min()),
        "least entry over t": float(np.abs(run.a[moved]).min()) / t, "inputs": len(inputs),
        "predicted otherwise": missed, "least bound of D.2": min(bounds), "t": t,
    }  # fmt: skip
    right = -1.0 if missed else 1.0
    certain = bool(missed) and outweighs(repeats, t * run.rate)
    return Outcome(
        tuple(hypotheses), min(ordered, 1 - off / GROWTH, right), found, missed or None,
        paper_slack=min(room, right), paper_vacuous=max(bounds) <= 0,
        paper_proof=f"{repeats} copies outweigh x_0, as |W_kq| <= t eta" if certain else None,
    )  # fmt: skip
