"""Lemma 6: every step has a part along W_kq*, so the norm of W_kq grows linearly."""

from __future__ import annotations

from hardmax.theory.check import Outcome, statement, unmet
from hardmax.theory.paper_c.common import RELATIVE, SHARP, Subject, assumptions, guarded, pulls, run_of


@statement(
    "C-LEM-6",
    "Lemma 6: the norm of W_kq grows linearly",
    "Under Assumptions 1 to 3, from zero: -<grad L, W_kq*> >= |grad L|/sqrt 2 at every step, so that "
    "t eta >= |W_kq| >= t eta/(sqrt 2 |W_kq*|); the paper prints 2 L_max for sqrt 2, and 2 in Theorem 1.",
    kind="finite",
    errata=("C-ERR-10", "C-ERR-15"),
)
def norm_of_kq(data: Subject, *, steps: int = 900, rate: float | None = None) -> Outcome:
    """The recorded points of a run; the paper's reading takes Lemma 6's own constant."""
    hypotheses = (*assumptions(data), pulls(data))
    if unmet(hypotheses):
        return Outcome(hypotheses)
    run = run_of(data, steps, rate=rate)
    seen, length, L = run.observe(), run.star.norm, run.samples.raw_length
    walked = run.rate * seen.times[1:]
    ratio = float((-seen.gradient_star).min())
    growth = float((seen.norm[1:] / walked).min())
    over = float((seen.norm[1:] / walked).max())

    def slack(constant: float) -> float:
        return guarded(min(ratio / constant, growth * length / constant) - 1 + RELATIVE, 1 - over)

    found = {
        "least -<G, W*>/|G|": ratio, "least norm over t eta": growth, "|W_kq*|": length,
        "its bound": SHARP / length, "its printed bound": 1 / (2 * L * length),
    }  # fmt: skip
    return Outcome(hypotheses, slack(SHARP), found, paper_slack=slack(1 / (2 * L)))
