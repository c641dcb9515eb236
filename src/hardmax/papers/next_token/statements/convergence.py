"""Lemma 7, Theorem 1 and the sharp rate C-THM-ASY: W_kq converges in direction to W_kq*."""

from __future__ import annotations

import math

import numpy as np

from hardmax._lib.expect import whole
from hardmax.nexttoken.star import Late
from hardmax.nexttoken.training import Training
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, statement, unmet
from hardmax.papers.next_token.statements import common, printed
from hardmax.papers.next_token.statements.common import RELATIVE, SHARP, STEPS, Subject
from hardmax.papers.next_token.statements.proofs import is_above, left_behind

RATIO = 0.01  # measured against predicted 1 - cos, and alpha against it
EXPONENT = 0.05
MOST = 1_000_000  # steps that are taken without being asked for
ALIGNED = 1e-13  # below this 1 - cos and what is compared with it are rounding


def small_step(run: Training) -> Hypothesis:
    """Return the hypothesis that eta is as small as the proofs require: |W_kq*|/e and L_max |W_kq*|^2."""
    length = run.star.norm
    limit = min(length / math.e, run.samples.raw_length * length**2)
    return Hypothesis("eta as small as the proofs ask", run.rate <= limit, {"eta": run.rate, "limit": limit})


@statement(
    "C-LEM-7",
    "Lemma 7: W_kq gains no more from the gradient than W_kq* does",
    "From t_0 = 8 L_max |W_kq*|^2/eta on, <grad L, W> >= (1 + alpha) <grad L, W_kq*> |W|/|W_kq*| with alpha "
    "as small as -(1 - cos(W, W_kq*)); the paper prints "
    "alpha = 4 N L_max^2 |W_kq*|^2 (1 + log(2 L_max |W|))/|W|.",
    kind="limit",
    label="derived",
    errata=("C-ERR-06", "C-ERR-12", "C-ERR-18"),
)
def gradient_aligns(data: Subject, *, steps: int | None = None, rate: float | None = None) -> Outcome:
    """Compare alpha as measured from t_0 on with 1 - cos, up to 2 t_0 unless that is too far."""
    hypotheses = common.legal(data)
    probe = common.run_of(data, 2, rate=rate)
    t_0 = printed.lemma_7_from(common.sizes_of(probe, least_frequency=False), probe.rate)
    steps = min(2 * t_0, MOST) if steps is None else whole("steps", steps, least=2)
    record = np.unique(np.geomspace(max(1, min(t_0, steps // 2)), steps, 10).astype(int)).tolist()
    run = common.run_of(data, steps, rate=rate, record=record)
    sizes = common.sizes_of(run, least_frequency=False)
    late = [i for i, t in enumerate(run.times.tolist()) if t >= t_0]
    hypotheses.need(
        Hypothesis("t >= t_0", bool(late), {"t": run.steps, "t_0": t_0}),
        Hypothesis("N >= 3", sizes.N >= 3, sizes.N, "C-ERR-12"),
    )
    hypotheses += [small_step(run), common.late_from(run)[0]]
    observed = run.observe()
    star = run.star.norm
    alphas = [
        float(observed.gradient_weights[i] / observed.norm[i] / (observed.gradient_star[i] / star)) - 1
        for i in late
    ]
    gaps = [float(observed.misalignment[i]) for i in late]
    off = max(abs(alpha + gap) / max(gap, ALIGNED) for alpha, gap in zip(alphas, gaps, strict=True))
    allowed = [printed.lemma_7(sizes, float(observed.norm[i])) for i in late]
    # from there on Lemma 7 follows from -<G, W*> >= |G|/sqrt 2 and Cauchy-Schwarz alone
    implied = star / SHARP - 1
    measured = {
        "t_0": t_0,
        "alpha": alphas[-1],
        "alpha at t_0": alphas[0],
        "1 - cos": gaps[-1],
        "printed alpha at t_0": allowed[0],
        "printed alpha": allowed[-1],
        "follows from Lemma 6 above": implied,
    }
    return Outcome(
        hypotheses,
        1 - off / RATIO,
        measured,
        paper_slack=min(bound - alpha for bound, alpha in zip(allowed, alphas, strict=True)),
        paper_vacuous=min(allowed) >= implied,
    )


@statement(
    "C-THM-1",
    "Theorem 1: W_kq converges in direction",
    "Under Assumptions 1 to 3: t eta/(sqrt 2 |W_kq*|) <= |W_kq| <= t eta, and 1 - cos(W_kq, W_kq*) falls "
    "faster than log^2 t/t, within 54 L_max^4 |W_kq*|^4 log^2 t/(t eta min pi); the paper prints N for "
    "1/min pi.",
    kind="limit",
    label="derived",
    errata=("C-ERR-01", "C-ERR-02", "C-ERR-06", "C-ERR-10", "C-ERR-16", "C-ERR-18"),
)
def direction_converges(data: Subject, *, steps: int = STEPS, rate: float | None = None) -> Outcome:
    """Test the bounds at all recorded times, and the rate on the second half of them.

    A query so rare that its column cannot have moved refutes the printed bound.
    """
    hypotheses = [*common.assumptions(data), common.pulls(data)]
    if unmet(h for h in hypotheses if h.erratum != "C-ERR-01"):
        return Outcome(hypotheses)
    run = common.run_of(data, steps, rate=rate)
    length = run.star.norm
    enough, middle = common.late_from(run)
    hypotheses += [small_step(run), enough]
    norms = np.sqrt(np.square(run.points).sum(axis=1)).astype(np.float64)
    gaps = [run.star.cosine_distance(a) for a in run.points]
    times = [i for i, t in enumerate(run.times) if t >= 2]
    rates = [float(norms[i] / (run.rate * run.times[i])) for i in times]

    def between(constant: float) -> float:
        return common.guarded(min(rates) * length / constant - 1 + RELATIVE, 1 - max(rates))

    def room(least_frequency: bool) -> tuple[float, float]:
        sizes = common.sizes_of(run, least_frequency=least_frequency)
        allowed = [printed.theorem_1(sizes, float(run.times[i]), run.rate) for i in times]
        return min(bound - gaps[i] for bound, i in zip(allowed, times, strict=True)), allowed[-1]

    (slack, _), (paper_slack, paper) = room(True), room(False)
    measured = {
        "t": float(run.times[-1]),
        "1 - cos": gaps[-1],
        "allowed": paper,
        "norm over t eta": rates[-1],
        "clock": run.clock,
    }
    if middle in times and gaps[middle] > ALIGNED:
        # (1 - cos) t/log^2 t, which Theorem 1's rate keeps bounded
        ends = [(gaps[k], float(run.times[k])) for k in (middle, -1)]
        first, last = (gap * t / math.log(t) ** 2 for gap, t in ends)
        fall = last / first
        measured["(1 - cos) t/log^2 t, end over the middle"] = fall
        slack = min(slack, 1 - fall)
    proof = None
    if paper_slack < 0 and not unmet(common.assumptions(data)) and is_above(least := left_behind(run), paper):
        proof = f"ball arithmetic: rare queries alone keep 1 - cos above {float(least.lower()):.4f}"
    return Outcome(
        hypotheses,
        min(slack, between(SHARP)),
        measured,
        {key: measured[key] for key in ("t", "1 - cos")},
        paper_slack=min(paper_slack, between(0.5)),
        paper_vacuous=paper >= 1,
        paper_proof=proof,
    )


def late_run(data: Subject, steps: int, rate: float | None) -> tuple[Conditions, Training, Late]:
    """Return a run whose late phase is understood: stars, and a step below the threshold."""
    hypotheses = common.legal(data)
    run = common.run_of(data, steps, rate=rate)
    late = run.late
    star = late is not None and run.star.is_star
    hypotheses.need(Hypothesis("one optimal token per query", star, run.star.reason))
    assert late is not None
    limit = late.eta_c  # above it late normalized descent swings
    hypotheses.need(Hypothesis("eta < eta_c", run.rate < limit, {"eta": run.rate, "eta_c": limit}))
    return hypotheses, run, late


@statement(
    "C-THM-ASY",
    "The rate of convergence in direction",
    "For stars and eta < eta_c = 2/(|W_kq*| lambda_max): 1 - cos(W_kq, W_kq*) = |R|^2/(2 eta^2 t^2) "
    "(1 + o(1)), and the part of W_kq off W_kq* tends to R, the minimum of a convex function of the "
    "frequencies; log(L - L*) falls by eta/|W_kq*| per step.",
    kind="limit",
    label="derived",
    errata=("C-ERR-16", "C-ERR-18"),
)
def sharp_rate(data: Subject, *, steps: int = STEPS, rate: float | None = None) -> Outcome:
    """Measure the ratio to the prediction at the end, exponents over the second half, and the residual."""
    hypotheses, run, late = late_run(data, steps, rate)
    enough, i = common.late_from(run)
    hypotheses.need(enough)
    if late.norm_squared < ALIGNED:
        return Outcome(hypotheses, 0.0, vacuous=True)
    observed = run.observe()
    t = float(run.times[-1])
    ratio = float(observed.misalignment[-1]) / late.predicted_misalignment(run.rate * t)
    span = math.log(t / run.times[i])
    exponent = math.log(float(observed.misalignment[-1] / observed.misalignment[i])) / span
    fall = float(observed.log_excess[-1] - observed.log_excess[i]) / (t - float(run.times[i]))
    fall /= late.excess_rate(run.rate)
    measured = {
        "ratio": ratio,
        "exponent": exponent,
        "|R|^2": late.norm_squared,
        "excess rate over predicted": fall,
        "distance from R": float(np.linalg.norm(late.beside(run.a) - late.R)),
        "t": t,
        "eta_c": late.eta_c,
    }
    slack = min(1 - abs(ratio - 1) / RATIO, 1 - abs(exponent + 2) / EXPONENT, 1 - abs(fall - 1) / RATIO)
    return Outcome(hypotheses, slack, measured)
