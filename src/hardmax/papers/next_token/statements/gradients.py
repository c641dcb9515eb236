"""Lemmas 4 to 6: the projection of the stage-2 gradient, attention only grows, the norm of W_kq grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax._lib.expect import generator, whole
from hardmax.nexttoken.observables import accuracy, log_masses, log_off_masses
from hardmax.nexttoken.stages import Floats, Ints, Pairs
from hardmax.nexttoken.unmerged import TableModel
from hardmax.papers.checking.check import Hypothesis, Outcome, statement
from hardmax.papers.next_token.statements import common
from hardmax.papers.next_token.statements.common import RELATIVE, SHARP, Subject
from hardmax.papers.next_token.statements.stage1 import collocated, wrong_logits
from hardmax.problem.readouts import OutputValue

STEP = 2.0**-9  # of the difference quotient of fourth order
ALIKE = 1e-9


def projection(model: TableModel, n: Ints, margin: float, W: Floats) -> float:
    """Return Lemma 4's right side: deciding tokens pull with T_y - 1, others with T_n(x)."""
    data = model.samples
    row = np.repeat(np.arange(data.n), np.diff(data.offsets))
    mass = model.attention.data
    along = W[data.tokens, data.query[row]]
    centered = mass * (along - np.add.reduceat(mass * along, data.offsets[:-1])[row])
    pull = model.outputs[row, n[data.tokens]] - (n[data.tokens] == data.target[row])
    return margin * float((data.weight[row] * pull) @ centered)


def slope(model: TableModel, W: Floats) -> float:
    """Return the derivative of the loss along W, from four values of it."""
    h = STEP / float(np.abs(W).max())

    def loss(k: int) -> float:
        return TableModel.of(model.samples, model.A + k * h * W, model.B).loss

    return (8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))) / (12 * h)


@statement(
    "C-LEM-4",
    "Lemma 4: the projection of the stage-2 gradient",
    "If all margins of W_ov are Delta and its wrong logits equal, <grad L, W'> is Delta times the sum over "
    "sentences of T_y - 1 on the deciding tokens and T_n(x) on the others, each with its centred attention.",
    errata=("C-ERR-19",),
)
def projected_gradient(
    data: Subject, *, table: Any = None, margin: float = 3.0, draws: int = 12, rng: int = 0
) -> Outcome:
    """Compare random W_kq and W' with a difference quotient of the loss and the gradient of training."""
    samples = common.samples_of(data)
    n, hypotheses = collocated(data)
    B = OutputValue.aligned(n, margin).table if table is None else np.asarray(table, dtype=np.float64)
    margins = B[n, np.arange(len(n))][:, None] - wrong_logits(n, B)
    spread = float(np.ptp(margins))
    even = Hypothesis("all margins of W_ov are equal", spread <= ALIKE * abs(float(margins.mean())), spread)
    draw = generator(rng)
    off = 0.0
    for _ in range(whole("draws", draws, least=1)):
        model = TableModel.of(samples, draw.standard_normal(B.shape), B)
        W = draw.standard_normal(B.shape)
        lemma = projection(model, n, float(margins.mean()), W)
        scale = float(np.linalg.norm(model.gradient_kq) * np.linalg.norm(W))
        if scale > 0:
            trained = float(np.vdot(model.gradient_kq, W))
            off = max(off, abs(lemma - slope(model, W)) / scale, abs(lemma - trained) / scale)
    measured = {"largest relative difference": off, "Delta": float(margins.mean())}
    return Outcome((*hypotheses, even), 1 - off / ALIKE, measured, vacuous=off == 0.0)


def lead(pairs: Pairs, a: Floats) -> float:
    """Return the least log of m_* over the mass of any other token, over the sentences."""
    log_m = log_masses(pairs, a)
    optimal = np.where(pairs.is_optimal, log_m, -np.inf)
    others = np.where(pairs.is_optimal, -np.inf, log_m)
    starts = pairs.offsets[:-1]
    return float((np.logaddexp.reduceat(optimal, starts) - np.maximum.reduceat(others, starts)).min())


def log_odds(pairs: Pairs, a: Floats) -> Floats:
    """Return log m_- - log m_* of every sentence."""
    off = log_off_masses(pairs, a)
    return off - np.log1p(-np.exp(np.minimum(off, -1e-300)))


@statement(
    "C-LEM-5",
    "Lemma 5: attention on the right token only grows",
    "Under Assumptions 1 to 3, from zero: the mass on the deciding token of every sentence never falls, is "
    "at least 1/L_max, and from the first step on exceeds that of every other token, so that every training "
    "sentence is then continued correctly; each step raises optimal and lowers non-optimal entries.",
    errata=("C-ERR-14",),
)
def attention_grows(data: Subject, *, steps: int = 200, rate: float | None = None) -> Outcome:
    """Measure odds of the other tokens, lead of the deciding one and signs of the gradient at every step."""
    hypotheses = common.legal(data)
    run = common.run_of(data, steps, rate=rate, record=1)
    pairs, star = run.pairs, run.star
    odds = np.array([log_odds(pairs, a) for a in run.points])
    rise = float(np.diff(odds, axis=0).max()) / run.rate
    leads = np.array([lead(pairs, a) for a in run.points])
    signs = 0
    for a in run.points[:: max(1, len(run.points) // 20)]:
        unit = run.stage.direction(a).unit
        signs += int((unit[star.above] >= 0).sum() + (unit[star.below] <= 0).sum())
    length = run.samples.length[pairs.sample]
    least = float(((1 / (1 + np.exp(odds.max(axis=0)))) * length).min())  # m_* L >= 1
    right = [accuracy(pairs, a) for a in run.points[:2]]
    measured = {
        "largest rise of the odds per length": rise,
        "lead at the start": float(leads[0]),
        "least lead from step 1": float(leads[1:].min()),
        "wrong signs": signs,
        "least m_* L": least,
        "accuracy at steps 0 and 1": right,
    }
    slack = common.guarded(min(-rise, float(leads[1:].min())), least - 1, float(leads[0]))
    return Outcome(hypotheses, slack if not signs and right[1] == 1.0 else -1.0, measured)


@statement(
    "C-LEM-6",
    "Lemma 6: the norm of W_kq grows linearly",
    "Under Assumptions 1 to 3, from zero: -<grad L, W_kq*> >= |grad L|/sqrt 2 at every step, so that "
    "t eta >= |W_kq| >= t eta/(sqrt 2 |W_kq*|); the paper prints 2 L_max for sqrt 2, and 2 in Theorem 1.",
    errata=("C-ERR-10", "C-ERR-15"),
)
def norm_of_kq(data: Subject, *, steps: int = 900, rate: float | None = None) -> Outcome:
    """Test the recorded points of a run; the paper's reading takes Lemma 6's own constant."""
    hypotheses = common.legal(data)
    run = common.run_of(data, steps, rate=rate)
    observed, length, L = run.observe(), run.star.norm, run.samples.raw_length
    walked = run.rate * observed.times[1:]
    ratio = float((-observed.gradient_star).min())
    growth = float((observed.norm[1:] / walked).min())
    over = float((observed.norm[1:] / walked).max())

    def slack(constant: float) -> float:
        return common.guarded(min(ratio / constant, growth * length / constant) - 1 + RELATIVE, 1 - over)

    measured = {
        "least -<G, W*>/|G|": ratio,
        "least norm over t eta": growth,
        "|W_kq*|": length,
        "its bound": SHARP / length,
        "its printed bound": 1 / (2 * L * length),
    }
    return Outcome(hypotheses, slack(SHARP), measured, paper_slack=slack(1 / (2 * L)))
