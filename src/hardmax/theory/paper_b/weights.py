"""Lemma 1: training the weights W with a fixed prompt is training p."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib.expect import finite_array
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet
from hardmax.theory.proof import balls, length, settle_slack
from hardmax.train.descent import descend
from hardmax.train.gradient import gradient
from hardmax.train.loops import step_factor
from hardmax.train.steps import GD, Normalized

# The step of W is that of p over |u| to this power, without and with normalisation (B-ERR-17).
POWER = {False: 2, True: 1}
PAPER_POWER = 2
AGREE = 1e-12


@statement(
    "B-THM-L1",
    "Lemma 1: W and p are the same training",
    "Descent on W with the prompt u, from u p(0)'/|u|^2 and with the step over |u|^2 (over |u| if "
    "normalised), keeps W(t) = u p(t)'/|u|^2.",
    kind="finite",
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
    hypotheses = (tied, Hypothesis("u is not zero", bool(prompt.any()), float(np.linalg.norm(prompt))))
    if unmet(hypotheses):
        return Outcome(hypotheses)
    values = problem.head.values
    assert values is not None
    seen = replace(problem, table=Dense(values), W=None)
    path = descend(
        seen,
        (Normalized if normalized else GD)(rate),
        steps=steps,
        start=np.broadcast_to(start, problem.d),
        record=1,
    )
    size = float(np.linalg.norm(prompt))
    target = path.points[:, None, :] * (prompt / size**2)[None, :, None]
    allowed = AGREE * (1 + path.norms.max())

    def mismatch(power: int) -> float:
        W, worst = target[0], 0.0
        for point in target[1:]:
            now = replace(problem, table=Dense(np.ascontiguousarray(seen.keys @ W.T)), W=W)
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
    if normalised, so that they part exactly if that is not 1 and the gradient is not 0.
    """

    def again() -> Any:
        size = length(balls(u))
        return -abs(size ** ((1 if normalized else 2) - power) - 1) if pulls else arb(0)

    return settle_slack(measured, again)
