"""Lemma 1: training the weights W with a fixed prompt is training p."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hardmax._inputs import finite_array
from hardmax.dynamics.descent import descend
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.loops import step_factor
from hardmax.heads import Scores
from hardmax.problem import Problem
from hardmax.theory.check import Hypothesis, Outcome, statement, unmet

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
    assert not isinstance(problem.head, Scores)
    seen = replace(problem, keys=problem.head.values, W=None)
    path = descend(
        seen, steps, rate, normalized=normalized, start=np.broadcast_to(start, problem.d), record=1
    )
    size = float(np.linalg.norm(prompt))
    target = path.points[:, None, :] * (prompt / size**2)[None, :, None]
    allowed = AGREE * (1 + path.norms.max())

    def mismatch(power: int) -> float:
        W, worst = target[0], 0.0
        for point in target[1:]:
            now = replace(problem, keys=np.ascontiguousarray(seen.keys @ W.T), W=W)
            pull = gradient(now, prompt, wrt="W")
            W = W + step_factor(rate / size**power, 1.0, pull.log_norm, normalized, 0.0) * pull.direction
            worst = max(worst, float(np.abs(W - point).max()))
        return worst

    found = mismatch(POWER[normalized])
    paper = found if POWER[normalized] == PAPER_POWER else mismatch(PAPER_POWER)
    return Outcome(
        hypotheses,
        slack=1 - found / allowed,
        measured={"largest |W - u p'/|u|^2|": found, "with the step over |u|^2": paper},
        paper_slack=1 - paper / allowed,
    )
