"""Lemmas 6 to 10 and 13, and section 3's remark: gradients, attention, and where the flow goes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.flow import flow
from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.measures import smoothness
from hardmax.dynamics.optim import GD, Normalized
from hardmax.dynamics.train import train
from hardmax.embeddings import one_layer
from hardmax.embeddings.first_step import initial_vectors
from hardmax.embeddings.patterns import pattern_max_margin, scores_are_free, token_selection
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, statement, unmet, unsaid
from hardmax.papers.checking.proof import balls, largest, least, middle, settle_slack
from hardmax.papers.trained_embeddings import common
from hardmax.papers.trained_embeddings.common import Rate, derivatives, fixed_embeddings, masses

GRADIENT = 1e-12  # relative error allowed between two forms of one gradient
DIRECTIONAL = 1e-13
DIGITS = 30.0  # a logit gap beyond which sums over pairs of positions cancel to nothing in floats
ROUNDING = 1e-14
# Share of a gradient along p_hat. Pulls of sequences with opposite labels cancel and leave fewer digits; a
# gradient that is not orthogonal to p_hat has a share of order one.
ALONG = 1e-10
BOUND = 1e-15  # two tokens meet the attention bounds with equality
DIMENSION = 8  # of the random vectors on which identities are tried


def random_vectors(
    corpus: Corpus, norm: float, rng: int | np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw E, p and v in a few dimensions, p of the given norm."""
    E, p, v = initial_vectors(corpus.S, DIMENSION, rng=rng)
    return E, p * (norm / np.linalg.norm(p)), v


def positional_gradients(corpus: Corpus, E: np.ndarray, p: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """Return Lemma 7 as printed: gradients by E and p from sums over pairs of positions, floats or balls."""
    a, c = E @ p, E @ v
    by_a, by_c = np.zeros(corpus.S, dtype=a.dtype), np.zeros(corpus.S, dtype=a.dtype)
    for X, y in zip(corpus.sequences(), corpus.labels.tolist(), strict=True):
        q = np.exp(a[X] - a[X].max())
        q = q / q.sum()
        g = 1 / (1 + np.exp(y * (q @ c[X])))
        pairs = np.outer(q * c[X], q)
        np.fill_diagonal(pairs, 0)
        np.add.at(by_a, X, -y * g / corpus.n * (pairs.sum(axis=1) - pairs.sum(axis=0)))
        np.add.at(by_c, X, -y * g / corpus.n * q)
    return [np.outer(by_a, p) + np.outer(by_c, v), E.T @ by_a]


@statement(
    "A-LEM-7",
    "Lemma 7: gradients in closed form",
    "With A = dL/da and C = dL/dc the gradients are A p' + C v' by E and E' A by p, the same as sums over "
    "pairs of positions; A sums to zero.",
)
def closed_form_gradients(corpus: Corpus, *, norm: float = 1.0, rng: int = 0) -> Outcome:
    """Compare both forms at random vectors with |p| = ``norm``, where sums over pairs keep their digits."""
    E, p, v = random_vectors(corpus, norm, rng)
    spread = float(np.ptp(E @ p))
    hypotheses = need(
        Hypothesis(f"logits within {DIGITS:g}, for the sums over pairs", spread <= DIGITS, spread)
    )
    point = one_layer.evaluate(corpus, E @ p, E @ v)
    gradients = one_layer.gradients_at(point, E, p, v)
    printed = positional_gradients(corpus, E, p, v)
    scale = float(np.abs(point.A).sum())
    errors = [
        float(np.abs(x - y).max() / np.abs(y).max())
        for x, y in zip((gradients.E, gradients.p), printed, strict=True)
        if y.any()
    ]
    if not scale:
        return unsaid(hypotheses)
    drift = abs(float(point.A.sum())) / scale

    def room() -> Any:
        exact = [balls(x) for x in (E, p, v)]
        A, C = derivatives(corpus, exact[0] @ exact[1], exact[0] @ exact[2])
        ours = (np.outer(A, exact[1]) + np.outer(C, exact[2]), exact[0].T @ A)
        rooms = [arb(1)]
        for x, y in zip(ours, positional_gradients(corpus, *exact), strict=True):
            if (size := largest(np.abs(y).flat)) > 0:
                rooms.append(1 - largest(np.abs(x - y).flat) / size / arb(GRADIENT))
        return least(rooms)

    slack = settle_slack(1 - max(*errors, drift) / GRADIENT, room)
    return Outcome(hypotheses, slack, {"relative errors": errors, "sum of A over its size": drift})


@statement(
    "A-LEM-8",
    "Lemma 8: the gradient along a direction",
    "For every p_hat, -p_hat.grad_p L is the mean of g times the sum over pairs i < j of (a_hat_i - a_hat_j) "
    "q_i q_j (gamma_i - gamma_j), and equals -sum_s a_hat_s A_s.",
    hunt={"draws": 5},
)
def directional_gradient(corpus: Corpus, *, norm: float = 1.0, rng: int = 0, draws: int = 20) -> Outcome:
    """Compare both forms at random vectors and directions, while the gradient itself is a float."""
    chance, draws = expect.generator(rng), expect.whole("draws", draws, least=1)
    E, p, v = random_vectors(corpus, norm, chance)
    point = one_layer.evaluate(corpus, E @ p, E @ v)
    hypotheses = need(
        Hypothesis("the gradient does not underflow", point.log_scale > -300.0, point.log_scale)
    )
    if not point.A.any():
        return unsaid(hypotheses)
    worst = 0.0
    for _ in range(draws):
        rise = E @ chance.normal(size=DIMENSION)
        pairs = one_layer.pairwise_pull(corpus, E @ p, E @ v, rise)
        whole = -float(rise @ point.A)
        worst = max(worst, abs(pairs - whole) / float(np.abs(rise) @ np.abs(point.A)))
    return Outcome(hypotheses, 1 - worst / DIRECTIONAL, {"largest relative difference": worst})


def attention_rooms(
    corpus: Corpus, a: np.ndarray, q: np.ndarray, one: Any = 1.0
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return distances to Lemma 10's four bounds and to the paper's (2), for logits and attentions.

    They are floats, or balls with ``one`` a ball too. A position that is tau below m selected ones, out of T,
    has between e^-tau/T and 1/(1 + m e^tau).
    """
    logits, floats = a[corpus.tokens], np.array([middle(x) for x in a])[corpus.tokens]
    starts = corpus.offsets[:-1]
    highest = corpus.per_slot(np.maximum.reduceat(floats, starts))
    top, T = floats == highest, corpus.per_slot(corpus.lengths)
    first = np.flatnonzero(top)[np.searchsorted(np.flatnonzero(top), starts)]
    tau = logits[corpus.per_slot(first)] - logits
    m = corpus.per_slot(np.add.reduceat(corpus.weights * top, starts))
    q_top, q_low, gap = q[top], q[~top], tau[~top]
    rooms = [
        q_top - one / T[top],
        one / m[top] - q_top,
        1 / (1 + m[~top] * np.exp(gap)) - q_low,
        q_low - np.exp(-gap) / T[~top],
    ]
    return rooms, 1 / (1 + 1 * np.exp(gap)) - q_low


@statement(
    "A-LEM-10",
    "Lemma 10: bounds on the attention",
    "A selected position has attention between 1/T and 1/m, m the number of selected ones; one that is tau "
    "below it has at most 1/(1 + m e^tau) (the paper: 1/(1 + e^tau)) and at least 1/(T e^tau).",
    hunt={"draws": 50},
    errata=("A-ERR-14",),
)
def attention_bounds(corpus: Corpus, *, rng: int = 0, draws: int = 200) -> Outcome:
    """Test random logits, some of them tied, at several scales."""
    chance, draws = expect.generator(rng), expect.whole("draws", draws, least=1)
    competing = int((np.diff(corpus.offsets) > 1).sum())
    hypotheses = need(Hypothesis("some sequence has two different tokens", competing > 0, competing))
    slack, printed, worst = np.inf, np.inf, np.zeros(corpus.S)
    for scale in np.geomspace(0.1, 100.0, draws):
        a = scale * np.round(2 * chance.normal(size=corpus.S)) / 2
        rooms, second = attention_rooms(corpus, a, one_layer.token_mass(corpus, a) / corpus.weights)
        nearest = min(float(x.min(initial=np.inf)) for x in rooms)
        slack, worst = min((slack, worst), (nearest, a), key=lambda pair: pair[0])
        printed = min(printed, float(second.min(initial=np.inf)))
    measured = {"least distance to a bound": slack, "to the paper's (2)": printed}

    def room() -> Any:
        q = np.concatenate([mass for _, mass, _ in masses(corpus, balls(worst))]) / corpus.counts.astype(int)
        rooms, _ = attention_rooms(corpus, balls(worst), q, arb(1))
        return least(np.concatenate(rooms)) + arb(BOUND)

    settled = settle_slack(slack + BOUND, room)
    witness = worst if settled[1] else None
    return Outcome(hypotheses, settled, measured, witness, paper_slack=min(slack, printed) + BOUND)


@statement(
    "A-LEM-6",
    "Lemma 6: a direction that selects every token is not a limit",
    "If p_hat ties all tokens of every sequence, p_hat is orthogonal to every gradient by p, so p_hat.p_t "
    "stays as it is and a diverging p_t tends to a direction orthogonal to p_hat.",
    hunt={"draws": 20},
    errata=("A-ERR-11",),
)
def everything_selected_is_no_limit(
    corpus: Corpus,
    *,
    p_hat: Any = None,
    E: Any = None,
    v: Any = None,
    first_rate: Rate = None,
    rng: int = 0,
    draws: int = 50,
) -> Outcome:
    """Test gradients at random p of many norms, and descent from p_hat; p_hat is random if not given.

    It ties its tokens to rounding only, so that a part of a gradient along it refutes nothing.
    """
    chance, draws = expect.generator(rng), expect.whole("draws", draws, least=1)
    E, v = fixed_embeddings(corpus, E, v, first_rate)
    if p_hat is None:
        vector = chance.normal(size=E.shape[1])
        across = _orthogonal_to_differences(corpus, E, vector)
    else:
        across = vector = expect.finite_array("p_hat", p_hat, v.shape)
    size = float(np.linalg.norm(across) / np.linalg.norm(vector)) if vector.any() else 0.0
    tied = size > 1e-9 and token_selection(corpus, E, across).is_everything
    hypotheses = need(Hypothesis("p_hat ties every sequence", tied, size))
    unit, worst = across / np.linalg.norm(across), 0.0
    for norm in np.geomspace(0.1, 1e3, draws):
        p = chance.normal(size=v.size)
        point = one_layer.evaluate(corpus, E @ (p * (norm / np.linalg.norm(p))), E @ v)
        pull = np.abs(point.A_hat) @ np.linalg.norm(E, axis=1)
        worst = max(worst, abs(float(unit @ (E.T @ point.A_hat))) / float(pull) if pull else 0.0)
    path = train(corpus.problem(E, v), Normalized(0.1), steps=1000, start=unit)
    drift = float(np.abs(path.points @ unit - 1).max())
    cosine = float(path.p @ unit) / path.p_norm
    measured = {
        "largest share of a gradient along p_hat": worst,
        "change of p_hat.p_t": drift,
        "cosine with p_hat at the end": cosine,
        "norm at the end": path.p_norm,
        "event": path.event,
    }
    noise = ROUNDING * path.p_norm * v.size
    return Outcome(hypotheses, min(1 - worst / ALONG, 1 - drift / noise), measured, witness=unit)


def _orthogonal_to_differences(corpus: Corpus, E: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return x without its part in the span of the differences of tokens that share a sequence."""
    firsts = corpus.per_slot(corpus.tokens[corpus.offsets[:-1]])
    D = E[corpus.tokens] - E[firsts]
    _, values, axes = np.linalg.svd(D, full_matrices=False)
    span = axes[values > 1e-12 * values.max(initial=0.0)]
    for _ in range(2):  # twice is enough for orthogonality to the last digit
        x = x - span.T @ (span @ x)
    return x


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
