"""What the theorems use: Lemma 1 (training W is training p), Lemma 2 and Assumptions B, C and D."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib.arrays import cosine_distance
from hardmax._lib.expect import finite_array
from hardmax.directions.assumptions import assumption_b, assumption_c, assumption_d
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.loop import step_factor
from hardmax.dynamics.optim import GD, Normalized
from hardmax.dynamics.train import train
from hardmax.margin.att_svm import AttentionRows, max_margin
from hardmax.papers.checking.check import Hypothesis, Outcome, need, printed, statement, unmet, unsaid
from hardmax.papers.checking.common import ROUNDING, fixed_scores, nothing_outside, strict_best
from hardmax.papers.checking.proof import RATIONAL, balls, length, settle_slack
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.problem.selection import Selection, best_tokens, score_gaps

# The step of W is that of p over |u| to this power, without and with normalization (B-ERR-17).
POWER = {False: 2, True: 1}
PAPER_POWER = 2
AGREE = 1e-12


@statement(
    "B-THM-L1",
    "Lemma 1: W and p are the same training",
    "Descent on W with the prompt u, from u p(0)'/|u|^2 and with the step over |u|^2 (over |u| if "
    "normalized), keeps W(t) = u p(t)'/|u|^2.",
    kind="finite",
    data="tokens",
    hunt={"steps": 20, "normalized": True},
    errata=("B-ERR-17",),
)
def weights_follow_p(
    problem: Problem,
    *,
    u: Any = None,
    start: Any = 0.1,
    steps: int = 200,
    rate: float = 0.1,
    normalized: bool = False,
) -> Outcome:
    """Run both descents step by step and compare them; ``u`` is (1, 2, .., d) if absent."""
    tied = Hypothesis("keys are W x", problem.key_map is not None)
    prompt = np.arange(1.0, problem.d + 1) if u is None else finite_array("u", u, (problem.d,))
    hypotheses = need(tied, Hypothesis("u is not zero", bool(prompt.any()), float(np.linalg.norm(prompt))))
    values = problem.readout.values
    assert values is not None
    seen = problem._with(table=Dense(values), W=None)
    path = train(
        seen,
        (Normalized if normalized else GD)(rate),
        steps=steps,
        start=np.broadcast_to(start, problem.d),
        record=1,
    )
    size = float(np.linalg.norm(prompt))
    target = path.points[:, None, :] * (prompt / size**2)[None, :, None]
    allowed = AGREE * (1 + path.p_norms.max())

    def mismatch(power: int) -> float:
        W, worst = target[0], 0.0
        for point in target[1:]:
            now = problem._with(table=Dense(np.ascontiguousarray(seen.keys @ W.T)), W=W)
            pull = gradient(now, prompt, wrt="W")
            W = W + step_factor(rate / size**power, 1.0, pull.log_norm, normalized, 0.0) * pull.direction
            worst = max(worst, float(np.abs(W - point).max()))
        return worst

    found = mismatch(POWER[normalized])
    paper = found if POWER[normalized] == PAPER_POWER else mismatch(PAPER_POWER)
    pulls = gradient(seen, path.points[0]).log_norm > -math.inf
    slack, proof = _first_step(1 - found / allowed, prompt, normalized, POWER[normalized], pulls)
    paper_slack, paper_proof = _first_step(1 - paper / allowed, prompt, normalized, PAPER_POWER, pulls)
    measured = {"largest |W - u p'/|u|^2|": found, "with the step over |u|^2": paper}
    return Outcome(hypotheses, slack, measured, proof=proof, paper_slack=paper_slack, paper_proof=paper_proof)


def _first_step(
    measured: float, u: np.ndarray, normalized: bool, power: int, pulls: bool
) -> tuple[float | None, str | None]:
    """A mismatch settled at the first step: W'u moves |u|^(2 - power) times as far as p, or |u|^(1 - power)
    if normalized, so that they part exactly if that is not 1 and the gradient is not 0.
    """

    def again() -> Any:
        size = length(balls(u))
        return -abs(size ** ((1 if normalized else 2) - power) - 1) if pulls else arb(0)

    return settle_slack(measured, again)


@statement(
    "B-THM-L2",
    "Lemmas 2 and 11: the globally best direction exists",
    "With equal labels, one best token per input and v in the range of W', the vector (W')^+ v over the "
    "least score gap separates the best tokens by 1.",
    kind="finite",
    data="tokens",
)
def best_tokens_separable(problem: Problem) -> Outcome:
    """Test the explicit separator, and ask the certified solver too."""
    head, W = problem.readout.linear, problem.key_map
    hypotheses = need(Hypothesis("keys are W x of the values", W is not None and head is not None))
    assert head is not None
    assert W is not None
    outside = head.v - W.T @ (np.linalg.pinv(W.T) @ head.v)
    share = float(np.linalg.norm(outside) / np.linalg.norm(head.v)) if head.v.any() else 1.0
    hypotheses += [
        Hypothesis("equal labels", len(set(head.labels.tolist())) == 1, head.labels),
        strict_best(problem),
        Hypothesis("v in the range of W'", share <= ROUNDING, share),
    ]
    solved = max_margin(problem) if hypotheses[2].holds else None
    found = {} if solved is None else {"solver": solved.status, "margin": solved.margin}
    if unmet(hypotheses):
        return Outcome(hypotheses, measured=found)
    assert solved is not None
    rows = AttentionRows(problem).constraints(enumerate(best_tokens(problem).tokens)).rows()
    if not len(rows):
        return unsaid(hypotheses)
    # the separator that the lemma names: the head pulled back through W', over the least score gap
    best = np.array(best_tokens(problem).tokens)
    gaps = score_gaps(problem, problem.scores[problem.offsets[:-1] + best])
    p = np.linalg.pinv(W.T) @ (head.labels[0] * head.v) / float(gaps[gaps > 0].min())
    least = float((rows @ p).min(initial=np.inf))
    # keys are W x rounded: what the separator amplifies of that is not a refutation
    noise = ROUNDING + 1e-13 * float(np.linalg.norm(p) * np.linalg.norm(problem.keys, axis=1).max())
    short = least - 1 + noise
    proof = None
    if solved.is_feasible is False:
        proof = "Farkas vector: no p separates the best tokens"
    elif short < 0 and noise < 1e-6:
        proof = f"the separator misses by more than {noise:.1e}, all that rounding can do"
    slack = -1.0 if solved.is_feasible is False else short
    return Outcome(
        hypotheses, slack, {"least margin of the separator": least, **found}, witness=p, proof=proof
    )


POSITIVE = 1e-6  # nu below this share of the label margin counts as zero


@statement(
    "B-ASM-B",
    "Assumption B: one best token, equal others",
    "Every input has one best token and all its other tokens share one score.",
    kind="finite",
    label="measured",
    errata=("B-ERR-14",),
)
def equal_others(problem: Problem) -> Outcome:
    """Compare the scores of each input; the witness is [input, two tokens at odds]."""
    hypotheses = need(fixed_scores(problem))
    found = assumption_b(problem)
    witness = None if found.witness is None else list(found.witness)
    return Outcome(hypotheses, 1.0 if found.holds else -1.0, witness=witness)


@statement(
    "B-ASM-C",
    "Assumption C: lost attention costs label margin",
    "For some nu > 0 the label margin of the attended values is at most Gamma - nu max_i (1 - s_i,selected).",
    kind="finite",
    data="tokens",
    label="measured",
)
def attention_costs_margin(
    problem: Problem, *, selection: Iterable[int], inputs: Iterable[int] | None = None, rng: int = 0
) -> Outcome:
    """Search for the least nu over free attention weights; ``inputs`` restricts it, as Theorem 6 does."""
    hypotheses = need(Hypothesis("values and labels", problem.readout.linear is not None))
    kept, tokens = None if inputs is None else set(inputs), tuple(selection)
    if nothing_outside(problem, [(t,) for t in tokens]):
        return unsaid(hypotheses)
    found = assumption_c(problem, tokens, inputs=kept, rng=rng, draws=400)
    slack = found.nu / found.Gamma - POSITIVE if found.Gamma else -1.0
    witness = None if slack >= 0 else [weights.tolist() for weights in found.witness]
    return Outcome(hypotheses, slack, {"nu": found.nu, "Gamma": found.Gamma}, witness)


@statement(
    "B-ASM-D",
    "Assumption D, through Lemma 14's conditions",
    "Within each set the scores are equal and positive, and every token outside scores strictly less.",
    kind="finite",
    label="measured",
    errata=("B-ERR-07", "B-ERR-15"),
)
def sets_dominate(problem: Problem, *, sets: Iterable[Iterable[int]] | None = None) -> Outcome:
    """Test Lemma 14's sufficient conditions for the best-scoring tokens, or other sets."""
    hypotheses = need(fixed_scores(problem))
    inside = None if sets is None else Selection(tuple(tuple(s) for s in sets))
    if nothing_outside(problem, (inside or best_tokens(problem)).sets):
        return unsaid(hypotheses)
    found = assumption_d(problem, inside)
    measured = {"epsilon": found.epsilon, "Theta": found.Theta} if found.holds else {}
    return Outcome(hypotheses, found.epsilon if found.holds else -1.0, measured, found.witness)


@printed("B-ERR-18")
def score_as_key(problem: Problem) -> Outcome:
    """As printed: the score as one more coordinate of the keys leaves the direction of the others alone."""
    tokens = best_tokens(problem)
    one = Hypothesis("one best token per input", tokens.is_unique)
    plane = max_margin(problem, tokens.tokens, exact=True) if tokens.is_unique else None
    parts = zip(problem.split(problem.keys[problem.tokens]), problem.split(problem.scores), strict=True)
    lifted = [np.column_stack([keys, scores]) for keys, scores in parts]
    hypotheses = (one, Hypothesis("separable", plane is not None and plane.is_feasible))
    if unmet(hypotheses) or plane is None or plane.exact is None or plane.exact.p is None:
        return Outcome(hypotheses)
    space = max_margin(Problem(lifted, problem.split(problem.scores)), tokens.tokens, exact=True)
    if space.exact is None or space.exact.p is None or plane.direction is None:
        return Outcome(hypotheses)
    u, w = list(plane.exact.p), list(space.exact.p)[: problem.d]
    turned = any(u[i] * w[j] != u[j] * w[i] for i in range(len(u)) for j in range(i))
    if not any(w):
        return Outcome(hypotheses, 0.0, vacuous=True)
    gap = cosine_distance([float(x) for x in u], [float(x) for x in w])
    return Outcome(
        hypotheses, -max(gap, 1e-300) if turned else 0.0, {"1 - cos": gap}, proof=RATIONAL if turned else None
    )


@printed("B-ERR-19")
def low_score_first(problem: Problem) -> Outcome:
    """As printed: in the first step the logistic loss pulls more at the input with the lower score.

    As in the rule of thumb, margins are equal and the other token scores 0, so that the best scores decide.
    """
    two = Hypothesis("two inputs", problem.n >= 2)
    gaps = sorted(float(part.max()) for part in problem.split(problem.scores)[:2])
    hypotheses = need(two, Hypothesis("two different positive scores", 0 < gaps[0] < gaps[-1]))

    def room() -> Any:
        low, high = (arb(gap) / (1 + (arb(gap) / 2).exp()) for gap in gaps)
        return low / high - 1

    slack, proof = settle_slack(float(room().mid()), room)
    return Outcome(hypotheses, slack, {"scores": gaps}, proof=proof)
