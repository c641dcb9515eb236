"""Lemmas 9 and 13, and section 3's remark: where the flow goes, that it diverges, that descent follows it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.flow import flow
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.measures import smoothness
from hardmax.dynamics.optim import GD
from hardmax.dynamics.train import train
from hardmax.embeddings import one_layer
from hardmax.embeddings.patterns import pattern_max_margin, scores_are_free
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, statement, unmet, unsaid
from hardmax.papers.checking.proof import balls, least, settle_slack
from hardmax.papers.trained_embeddings.statements import common
from hardmax.papers.trained_embeddings.statements.common import Rate

FAR = 1e6  # norm to which flows run
ALIGNED = 1e-6
EPSILON = 1e-3  # the epsilon of Lemma 9 that the end of the flow must meet
ORDER = 0.15  # relative error allowed in "half the step, half the distance"


@statement(
    "A-LEM-9",
    "Lemma 9: the convergence lemma",
    "If |p_t| grows without bound and the loss eventually falls along p_hat at least 1 - epsilon times as "
    "fast as along p_t, for every epsilon, then p_t/|p_t| tends to p_hat/|p_hat| (that the limit exists is "
    "implied).",
    kind="limit",
)
def convergence_lemma(
    corpus: Corpus,
    *,
    p_hat: Any = None,
    E: Any = None,
    v: Any = None,
    first_rate: Rate = None,
    start: Any = None,
) -> Outcome:
    """Measure the ratio along the flow; ``p_hat`` is the important-only max-margin solution if not given.

    Both limits are read off the same end, so that a direction that is not reached there refutes nothing.
    """
    E, v = common.fixed_embeddings(corpus, E, v, first_rate)
    hypotheses = Conditions()
    if p_hat is None:
        hypotheses, chosen = common.pattern_or_important(corpus, None)
        best = pattern_max_margin(corpus, chosen, E)
        hypotheses.append(Hypothesis("the pattern is separable", best.is_feasible, best.margin))
        if not best.is_certified:
            return Outcome(hypotheses)
        p_hat = best.need()
    unit = expect.finite_array("p_hat", p_hat, v.shape)
    if not unit.any():
        return unsaid(hypotheses)
    unit = unit / np.linalg.norm(unit)
    problem = corpus.problem(E, v)
    path = flow(problem, start=start, until_norm=FAR)
    hypotheses.need(Hypothesis("|p_t| grows without bound", common.went_out(path), path.p_norm))
    at = [*(int(np.argmax(path.p_norms >= R)) for R in np.geomspace(1.0, FAR, 7)[:-1]), -1]
    pulls = [gradient(problem, path.points[k]).direction for k in at]
    # -p_hat.grad L / |p_hat| over -p.grad L / |p|
    ratios = [
        float(unit @ pull) / float(path.points[k] @ pull / np.linalg.norm(path.points[k]))
        for k, pull in zip(at, pulls, strict=True)
    ]
    hypotheses.append(Hypothesis("the ratio comes to 1 - epsilon", ratios[-1] >= 1 - EPSILON, ratios[-1]))
    gap, norms = path.cosine_distance(unit), path.p_norms[at]
    return Outcome(hypotheses, 1 - gap / ALIGNED, {"|p_t|": norms, "ratio": ratios, "1 - cos": gap})


@statement(
    "A-LEM-13",
    "Lemma 13: p grows without bound",
    "Under Assumption 4, if the embeddings are independent and every important token scores above the other "
    "tokens of its sequence, the loss falls everywhere along a direction that lifts one important token, and "
    "|p_t| grows without bound.",
    kind="limit",
    draws=("values",),
    errata=("A-ERR-10",),
)
def norm_diverges(
    corpus: Corpus,
    *,
    E: Any = None,
    v: Any = None,
    first_rate: Rate = None,
    start: Any = None,
    rng: int = 0,
    draws: int = 200,
) -> Outcome:
    """Measure the sign of dL/da of the important tokens at random logits and at the start; run the flow.

    What the paper claims without the condition on scores is refuted by points at which lifting a token raises
    the loss, one for each important token.
    """
    chance, draws = expect.generator(rng), expect.whole("draws", draws, least=1)
    E, v = common.fixed_embeddings(corpus, E, v, first_rate)
    hypotheses, important = common.important_tokens(corpus)
    kappa = common.score_lead(corpus, E, v, important)
    hypotheses += (
        Hypothesis("embeddings affinely independent", scores_are_free(corpus, E)),
        Hypothesis("important tokens score highest", kappa > 0, kappa, erratum="A-ERR-10"),
    )
    if unmet([h for h in hypotheses if h.erratum is None]):
        return Outcome(hypotheses)
    if kappa == math.inf:
        return unsaid(hypotheses)
    problem = corpus.problem(E, v)
    points = [scale * chance.normal(size=corpus.S) for scale in np.geomspace(0.1, 1e3, draws)]
    points.append(E @ problem.vector("start", start))
    leads = [least_lead(corpus, a, E @ v, important) for a in points]
    measured: dict[str, Any] = {"least lead": min(leads), "kappa": kappa}
    if min(leads) > 0:
        path = flow(problem, start=start, until_norm=FAR)
        measured |= {"norm": path.p_norm, "event": path.event}
        slack = min(leads) / float(np.ptp(E @ v)) if common.went_out(path) else None
        return Outcome(hypotheses, slack, measured, paper_slack=slack)
    proof, share = raised_somewhere(corpus, points, E, v, important)
    where = points[int(np.argmin(leads))]
    return Outcome(hypotheses, (-share, proof), measured, where, paper_slack=(-share, proof))


def raised_somewhere(
    corpus: Corpus, points: list[np.ndarray], E: np.ndarray, v: np.ndarray, important: tuple[int, ...]
) -> tuple[str | None, float]:
    """Prove in balls that lifting any important token raises the loss somewhere.

    Returns the proof, if there is one, and the share of the tokens with such a point in floats.
    """
    slopes = np.array([one_layer.evaluate(corpus, a, E @ v).A for a in points])
    share = float(np.mean([slopes[:, s].max() > 0 for s in dict.fromkeys(important)]))
    worst = {s: points[int(np.argmax(slopes[:, s]))] for s in important}

    def fall() -> Any:
        c = balls(E) @ balls(v)
        return -least(common.derivatives(corpus, balls(a), c)[0][s] for s, a in worst.items())

    _, proof = settle_slack(-1.0, fall)
    share = max(share, 0.5 / len(important))  # the loss does rise somewhere
    return proof and f"{proof}: lifting any important token raises the loss somewhere", share


def least_lead(corpus: Corpus, a: np.ndarray, c: np.ndarray, important: tuple[int, ...]) -> float:
    """Return the least, over sequences, of the important token's gamma minus the mean gamma of the others.

    -dL/da of an important token is the mean of g Q (1 - Q) times this over the sequences that hold it (Lemma
    8), so where it is positive the loss falls; and it does not underflow where the gradient does.
    """
    leads = []
    for k, star in enumerate(important):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        others = corpus.tokens[slots] != star
        if others.any():
            tokens = corpus.tokens[slots][others]
            logits = a[tokens] + corpus.log_counts[slots][others]
            share = np.exp(logits - np.logaddexp.reduce(logits))
            leads.append(float(corpus.signs[k] * (share @ (c[star] - c[tokens]))))
    return min(leads)


@statement(
    "A-SEC-3",
    "Section 3: descent with small steps follows the flow",
    "With a step of at most 1/L, gradient descent on p stays near the flow at equal times: half the step, "
    "half the distance; and it selects the same tokens.",
    kind="limit",
    label="derived",
)
def descent_follows_flow(
    corpus: Corpus,
    *,
    E: Any = None,
    v: Any = None,
    first_rate: float = 16.0,
    start: Any = None,
    rate: float = 0.5,
    steps: int = 400,
) -> Outcome:
    """Run three descents to one time, with steps of rate/L, half and a quarter of it, and the flow.

    "Half the step, half the distance" is Euler's method in the limit of small steps: at given steps other
    ratios, or distances that are rounding, refute nothing.
    """
    problem = corpus.problem(*common.fixed_embeddings(corpus, E, v, first_rate))
    L = smoothness(problem).tight
    hypotheses = (Hypothesis("step at most 1/L", rate <= 1, rate),)
    if not L:
        return unsaid(hypotheses)
    late = flow(problem, start=start, until_log_time=math.log(steps * rate / L))
    distances = []
    for parts in (1, 2, 4):
        path = train(problem, GD(rate / L / parts), steps=steps * parts, start=start)
        distances.append(float(np.linalg.norm(path.p - late.p)))
    length = float(np.linalg.norm(late.p - late.points[0]))
    if not length or distances[-1] <= 1e-12 * length:  # only rounding, whose ratios mean nothing
        return unsaid(hypotheses)
    ratios = [distances[0] / distances[1], distances[1] / distances[2]]
    # a ratio of two is the sign of a first-order method
    slack = min(1 - abs(ratios[-1] / 2 - 1) / ORDER, 1 - distances[-1] / length)
    same = path.selection_at(-1, tolerance=1e-6) == late.selection_at(-1, tolerance=1e-6)
    measured = {
        "distances": distances,
        "ratios": ratios,
        "path": length,
        "1/L": 1 / L,
        "same selection": same,
    }
    return Outcome(hypotheses, slack if same else -1.0, measured)
