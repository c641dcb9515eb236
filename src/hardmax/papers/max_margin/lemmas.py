"""Lemmas 1 to 6 and 8 to 10, and Assumptions B, C and D: what the theorems are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from flint import arb

import hardmax as hm
from hardmax._lib.arrays import polar
from hardmax._lib.expect import finite_array, generator
from hardmax.directions.assumptions import assumption_b, assumption_c, assumption_d
from hardmax.directions.position import general_position
from hardmax.dynamics.loop import step_factor
from hardmax.margin.att_svm import AttentionRows
from hardmax.papers.checking import check, common, proof
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, need, printed, statement, unmet
from hardmax.papers.checking.proof import RATIONAL, BallProblem, balls, largest, least, length, settle, vector
from hardmax.problem import Problem
from hardmax.problem.keys import Dense
from hardmax.problem.selection import score_gaps

# The step of W is that of p over |u| to this power, without and with normalization (B-ERR-17).
POWER = {False: 2, True: 1}
PAPER_POWER = 2
AGREE = 1e-12


@statement(
    "B-THM-L1",
    "Lemma 1: W and p are the same training",
    "Descent on W with the prompt u, from u p(0)'/|u|^2 and with the step over |u|^2 (over |u| if "
    "normalized), keeps W(t) = u p(t)'/|u|^2.",
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
    tokens = problem._with(table=Dense(values), W=None)  # with the values as keys
    rule = (hm.optim.Normalized if normalized else hm.optim.GD)(rate)
    path = hm.train(tokens, rule, steps=steps, start=np.broadcast_to(start, problem.d), record=1)
    size = float(np.linalg.norm(prompt))
    target = path.points[:, None, :] * (prompt / size**2)[None, :, None]
    allowed = AGREE * (1 + path.p_norms.max())

    def mismatch(power: int) -> float:
        W, worst = target[0], 0.0
        for point in target[1:]:
            now = problem._with(table=Dense(np.ascontiguousarray(tokens.keys @ W.T)), W=W)
            pull = hm.gradient(now, prompt, wrt="W")
            W = W + step_factor(rate / size**power, 1.0, pull.log_norm, normalized, 0.0) * pull.direction
            worst = max(worst, float(np.abs(W - point).max()))
        return worst

    pulls = hm.gradient(tokens, path.points[0]).log_norm > -math.inf

    def first_step(power: int) -> Any:
        """Return the mismatch of the first step in balls, which is not 0 only if the gradient is not.

        There W'u moves |u|^(2 - power) times as far as p, or |u|^(1 - power) if normalized.
        """
        return -abs(length(balls(prompt)) ** ((1 if normalized else 2) - power) - 1) if pulls else arb(0)

    power = POWER[normalized]
    errors = {exponent: mismatch(exponent) for exponent in {power, PAPER_POWER}}
    slack, paper_slack = (
        proof.settle_slack(1 - errors[exponent] / allowed, partial(first_step, exponent))
        for exponent in (power, PAPER_POWER)
    )
    measured = {"largest |W - u p'/|u|^2|": errors[power], "with the step over |u|^2": errors[PAPER_POWER]}
    return Outcome(hypotheses, slack, measured, paper_slack=paper_slack)


@statement(
    "B-THM-L2",
    "Lemmas 2 and 11: the globally best direction exists",
    "With equal labels, one best token per input and v in the range of W', the vector (W')^+ v over the "
    "least score gap separates the best tokens by 1.",
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
        common.strict_best(problem),
        Hypothesis("v in the range of W'", share <= common.ROUNDING, share),
    ]
    measured: dict[str, Any] = {}
    if hypotheses[2].holds:
        best = hm.max_margin(problem)
        measured = {"solver": best.status, "margin": best.margin}
    if unmet(hypotheses):
        return Outcome(hypotheses, measured=measured)
    rows = AttentionRows(problem).constraints(enumerate(hm.best_tokens(problem).tokens)).rows()
    if not len(rows):
        raise check.Unmet(hypotheses)
    # the separator that the lemma names: the head pulled back through W', over the least score gap
    chosen = problem.offsets[:-1] + np.array(hm.best_tokens(problem).tokens)
    gaps = score_gaps(problem, problem.scores[chosen])
    p = np.linalg.pinv(W.T) @ (head.labels[0] * head.v) / float(gaps[gaps > 0].min())
    smallest = float((rows @ p).min(initial=np.inf))
    # keys are W x rounded: what the separator amplifies of that is not a refutation
    noise = common.ROUNDING + 1e-13 * float(np.linalg.norm(p) * np.linalg.norm(problem.keys, axis=1).max())
    slack, proof = smallest - 1 + noise, None
    if best.is_feasible is False:
        slack, proof = -1.0, "Farkas vector: no p separates the best tokens"
    elif slack < 0 and noise < 1e-6:
        proof = f"the separator misses by more than {noise:.1e}, all that rounding can do"
    return Outcome(hypotheses, (slack, proof), {"least margin of the separator": smallest, **measured}, p)


POSITIVE = 1e-6  # nu below this share of the label margin counts as zero


@statement(
    "B-ASM-B",
    "Assumption B: one best token, equal others",
    "Every input has one best token and all its other tokens share one score.",
    label="measured",
    errata=("B-ERR-14",),
)
def equal_others(problem: Problem) -> Outcome:
    """Compare the scores of each input; the witness is [input, two tokens at odds]."""
    hypotheses = need(common.fixed_scores(problem))
    B = assumption_b(problem)
    witness = list(B.witness) if B.witness else None
    return Outcome(hypotheses, 1.0 if B.holds else -1.0, witness=witness)


@statement(
    "B-ASM-C",
    "Assumption C: lost attention costs label margin",
    "For some nu > 0 the label margin of the attended values is at most Gamma - nu max_i (1 - s_i,selected).",
    data="tokens",
    label="measured",
)
def attention_costs_margin(
    problem: Problem, *, selection: Iterable[int], inputs: Iterable[int] | None = None, rng: int = 0
) -> Outcome:
    """Search for the least nu over free attention weights; ``inputs`` restricts it, as Theorem 6 does."""
    hypotheses = need(Hypothesis("values and labels", problem.readout.linear is not None))
    tokens = tuple(selection)
    common.need_rivals(problem, [(t,) for t in tokens], hypotheses)
    C = assumption_c(problem, tokens, inputs=None if inputs is None else set(inputs), rng=rng, draws=400)
    slack = C.nu / C.Gamma - POSITIVE if C.Gamma else -1.0
    witness = None if slack >= 0 else [weights.tolist() for weights in C.witness]
    return Outcome(hypotheses, slack, {"nu": C.nu, "Gamma": C.Gamma}, witness)


@statement(
    "B-ASM-D",
    "Assumption D, through Lemma 14's conditions",
    "Within each set the scores are equal and positive, and every token outside scores strictly less.",
    label="measured",
    errata=("B-ERR-07", "B-ERR-15"),
)
def sets_dominate(problem: Problem, *, sets: Iterable[Iterable[int]] | None = None) -> Outcome:
    """Test Lemma 14's sufficient conditions for the best-scoring tokens, or other sets."""
    hypotheses = need(common.fixed_scores(problem))
    inside = None if sets is None else hm.Selection(tuple(tuple(s) for s in sets))
    common.need_rivals(problem, (inside or hm.best_tokens(problem)).sets, hypotheses)
    D = assumption_d(problem, inside)
    measured = {"epsilon": D.epsilon, "Theta": D.Theta} if D.holds else {}
    return Outcome(hypotheses, D.epsilon if D.holds else -1.0, measured, D.witness)


@printed("B-ERR-18")
def score_as_key(problem: Problem) -> Outcome:
    """Test the printed sentence: the score as one more key coordinate leaves the others' direction alone."""
    tokens = hm.best_tokens(problem)
    one = Hypothesis("one best token per input", tokens.is_unique)
    plane = hm.max_margin(problem, tokens.tokens, exact=True) if tokens.is_unique else None
    parts = zip(problem.split(problem.keys[problem.tokens]), problem.split(problem.scores), strict=True)
    lifted = [np.column_stack([keys, scores]) for keys, scores in parts]
    hypotheses = (one, Hypothesis("separable", plane is not None and plane.is_feasible))
    if unmet(hypotheses) or plane is None or plane.exact is None or plane.exact.p is None:
        return Outcome(hypotheses)
    space = hm.max_margin(Problem(lifted, problem.split(problem.scores)), tokens.tokens, exact=True)
    if space.exact is None or space.exact.p is None or plane.direction is None:
        return Outcome(hypotheses)
    u, w = list(plane.exact.p), list(space.exact.p)[: problem.d]
    turned = any(u[i] * w[j] != u[j] * w[i] for i in range(len(u)) for j in range(i))
    if not any(w):
        return Outcome(hypotheses, 0.0, vacuous=True)
    gap = hm.cosine_distance([float(x) for x in u], [float(x) for x in w])
    slack = (-max(gap, 1e-300), RATIONAL) if turned else 0.0
    return Outcome(hypotheses, slack, {"1 - cos": gap})


@printed("B-ERR-19")
def low_score_first(problem: Problem) -> Outcome:
    """Test the printed sentence: the first logistic step pulls more at the input with the lower score.

    As in the rule of thumb, margins are equal and the other token scores 0, so that the best scores decide.
    """
    two = Hypothesis("two inputs", problem.n >= 2)
    gaps = sorted(float(part.max()) for part in problem.split(problem.scores)[:2])
    hypotheses = need(two, Hypothesis("two different positive scores", 0 < gaps[0] < gaps[-1]))

    def room() -> Any:
        low, high = (arb(gap) / (1 + (arb(gap) / 2).exp()) for gap in gaps)
        return low / high - 1

    return Outcome(hypotheses, proof.settle_slack(float(room().mid()), room), {"scores": gaps})


def remainder(
    s: np.ndarray, keys: np.ndarray, scores: np.ndarray, q: np.ndarray, first: int
) -> tuple[Any, Any]:
    """Lemma 3's second-order remainder and its bound, of floats or of balls."""
    a, lost = keys @ q, np.delete(s, first).sum()
    longest = largest(np.sqrt((keys * keys).sum(axis=1)))
    bound = 2 * (largest(scores) - least(scores)) * (longest * length(q)) * lost**2
    covariance = s @ (a * scores) - (s @ a) * (s @ scores)
    pairs = ((a[first] - a) * s) @ (scores[first] - scores)
    return abs(covariance - pairs), bound


@statement(
    "B-THM-L3",
    "Lemma 3: first-order form of the key covariance",
    "For any p, q and any token, the covariance of k.q and the scores under the attention differs from its "
    "first-order sum by at most 2 Gamma A (1 - s)^2.",
    data="tokens",
    hunt={"draws": 100},
    errata=("B-ERR-16",),
)
def covariance_expansion(problem: Problem, *, rng: int = 0, draws: int = 2000) -> Outcome:
    """Sample p, q and tokens; draws with 1 - s below 1e-4, where rounding rules, are left out."""
    hypotheses = need(common.fixed_scores(problem))
    chance = generator(rng)
    ratios: list[tuple[float, Any]] = [(0.0, None)]  # of the remainder and its bound, and where
    keys, scores = (problem.split(x) for x in (problem.keys[problem.tokens], problem.scores))
    if common.longest_difference(problem) == 0:
        raise check.Unmet(hypotheses)
    scale = common.unit_length(problem)
    for _ in range(draws):
        p = chance.normal(size=problem.d) * scale * 10.0 ** chance.uniform(-2, 1)
        q = chance.normal(size=problem.d)
        i = int(chance.integers(problem.n))
        s = hm.attention(problem, p)[i]
        first = int(np.argmax(s)) if chance.random() < 0.5 else int(chance.integers(len(s)))
        off, bound = remainder(s, keys[i], scores[i], q, first)
        if np.delete(s, first).sum() > 1e-4 and bound != 0.0:
            ratios.append((float(off / bound), {"input": i, "token": first, "p": p, "q": q}))
    worst, witness = max(ratios, key=lambda ratio: ratio[0])
    used = len(ratios) - 1

    def room(exact: BallProblem) -> Any:
        i, s = witness["input"], exact.attention(witness["input"], balls(witness["p"]))
        off, bound = remainder(s, exact.keys[i], exact.scores[i], balls(witness["q"]), witness["token"])
        return 1 - off / bound

    slack = settle(problem, 1 + common.ROUNDING - worst, room)
    measured = {"largest remainder over bound": worst, "draws used": used}
    return Outcome(hypotheses, slack, measured, witness, vacuous=used == 0)


def best_direction(problem: Problem, *conditions: Hypothesis) -> tuple[Conditions, hm.MaxMargin, np.ndarray]:
    """Return the max margin of the best tokens, its direction and the conditions, separability the last.

    The test ends if a condition is not met or no token competes.
    """
    separable, best = common.separable_best(problem)
    hypotheses = need(*conditions, separable)
    if best is None or best.direction is None:
        raise check.Unmet(hypotheses)
    return hypotheses, best, best.direction


def equal_losers(problem: Problem) -> Hypothesis:
    """Return the hypothesis that Assumption B holds."""
    B = assumption_b(problem)
    return Hypothesis("B-ASM-B", B.holds, B.witness)


@statement(
    "B-THM-L4",
    "Lemma 4: p_mm is a descent direction everywhere",
    "Under Assumption B, with separable best tokens, -grad L(p) has a positive product with p_mm at every p.",
    hunt={"draws": 50},
    errata=("B-ERR-01",),
)
def descent_everywhere(problem: Problem, *, rng: int = 0, draws: int = 400) -> Outcome:
    """Sample p over five decades of length and take the least cosine."""
    hypotheses, _, along = best_direction(problem, common.decreasing_loss(problem), equal_losers(problem))
    points = list(common.random_points(problem, draws, generator(rng), 1e-2, 1e3))
    cosines = [float(hm.gradient(problem, p).direction @ along) for p in points]
    lowest, witness = min(cosines), points[int(np.argmin(cosines))]

    def again(exact: BallProblem) -> Any:
        pull, p_mm = exact.pull(balls(witness)), exact_solution(problem)
        return pull @ p_mm / (length(pull) * length(p_mm))

    slack = settle(problem, lowest or -1.0, again)  # a product of exactly zero is not descent
    return Outcome(hypotheses, slack, {"least cosine of -grad L and p_mm": lowest}, witness)


def exact_solution(problem: Problem) -> np.ndarray:
    """p_mm of the best tokens in balls, from its rational solution; or balls that decide nothing."""
    best = hm.max_margin(problem, exact=True)
    if best.exact is None or best.exact.p is None:
        return vector([arb(0, 1)] * problem.d)
    return vector(arb(x.numerator) / arb(x.denominator) for x in best.exact.p)


REACHES = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)  # radii of Lemma 5, in margins


def radial_room(pull: np.ndarray, p: np.ndarray, along: np.ndarray, pi: Any) -> Any:
    """1 + pi minus how much more the gradient pulls along p than along p_mm, of floats or of balls."""
    return 1 + pi - pull @ p / length(p) / (pull @ along)


@statement(
    "B-THM-L5",
    "Lemma 5: far out, no direction beats p_mm (n = 1)",
    "With one input and Assumption B, for every pi > 0 there is a radius beyond which the gradient's "
    "component along p is at most 1 + pi times its component along p_mm; explicitly, log(T - 1)/(pi margin).",
    hunt={"draws": 60},
)
def radial_pull_bounded(problem: Problem, *, rng: int = 0, draws: int = 1440) -> Outcome:
    """The worst ratio over directions at growing radii, against the bound with its constant.

    Under Assumption B the pull along p/|p| is the mean of its leads over the losers, weighted by e^-lead |p|,
    so at most the least lead plus log(T - 1)/|p|; and no direction has a least lead above the margin.
    """
    one = Hypothesis("n = 1", problem.n == 1, problem.n)
    hypotheses, best, along = best_direction(
        problem, one, equal_losers(problem), common.decreasing_loss(problem)
    )
    directions = common.unit_directions(problem.d, draws, generator(rng))
    losers = int(problem.sizes[0]) - 1
    worst, rooms, where = [], [], []
    for reach in REACHES:
        points = reach / best.margin * directions
        pulls = np.array([hm.gradient(problem, p).direction for p in points])
        ratios = (pulls * directions).sum(axis=1) / (pulls @ along)
        worst.append(float(ratios.max()))
        rooms.append(1 + math.log(losers) / reach - worst[-1])
        where.append(points[int(ratios.argmax())])
    witness = where[int(np.argmin(rooms))]

    def room(exact: BallProblem) -> Any:
        p, p_mm = balls(witness), exact_solution(problem)
        pi = arb(losers).log() * length(p_mm) / length(p)
        return radial_room(exact.pull(p), p, p_mm / length(p_mm), pi)

    slack = settle(problem, min(rooms) + common.ROUNDING, room)
    measured = {"radii": [reach / best.margin for reach in REACHES], "worst ratio": worst}
    return Outcome(hypotheses, slack, measured, witness if min(rooms) < 0 else None)


@statement(
    "B-THM-L6",
    "Lemma 6: the risk is smooth and descent goes down",
    "The gradient is L_p-Lipschitz (and by the tighter constant), each step with eta <= 1/L_p lowers the "
    "risk by at least eta/2 |grad|^2, and the squared gradients have a finite sum.",
    hunt={"draws": 40, "steps": 40},
)
def smooth_and_descending(
    problem: Problem, *, rate: float | None = None, rng: int = 0, draws: int = 400, steps: int = 500
) -> Outcome:
    """Sample secants, then descend; ``rate`` is 1/L_p if absent."""
    bound = hm.dynamics.smoothness(problem)
    if bound.tight == 0.0:  # nothing competes: the risk is constant
        raise check.Unmet((common.decreasing_loss(problem),))
    eta = 1 / bound.L_p if rate is None else rate
    hypotheses = (
        common.decreasing_loss(problem),
        Hypothesis("eta <= 1/L_p", eta <= (1 + 1e-12) / bound.L_p, eta * bound.L_p),
    )
    chance, curvature, unit = generator(rng), 0.0, common.unit_length(problem)
    secant = (np.zeros(problem.d), np.ones(problem.d))
    for p in common.random_points(problem, draws, chance, 1e-2, 1e1):
        step = chance.normal(size=problem.d) * unit * 10.0 ** chance.uniform(-3, 0)
        change = np.linalg.norm(hm.gradient(problem, p + step).vector - hm.gradient(problem, p).vector)
        if change / np.linalg.norm(step) > curvature:
            curvature, secant = float(change / np.linalg.norm(step)), (p, p + step)
    start = chance.normal(size=problem.d) * unit
    path = hm.train(problem, hm.optim.GD(eta), steps=steps, record=1, start=start)
    risks = np.array([hm.loss(problem, p) for p in path.points])
    squares = np.array([float(np.sum(hm.gradient(problem, p).vector ** 2)) for p in path.points[:-1]])
    missed = risks[:-1] - risks[1:] - eta / 2 * squares
    t = int(np.argmin(missed))
    # the risk of a step is known to its last digit only; a sum of falls is the sum of what the steps miss
    noise = 1e-14 * float(np.abs(risks).max())
    limit = min(bound.tight, bound.L_p)

    def room(exact: BallProblem) -> Any:
        p, q = (balls(x) for x in secant)
        return limit * (1 + common.ROUNDING) - length(exact.pull(q) - exact.pull(p)) / length(q - p)

    def fall(exact: BallProblem) -> Any:
        p = balls(path.points[t])
        pull = exact.pull(p)
        return exact.risk(p) - exact.risk(p + arb(eta) * pull) - arb(eta) / 2 * (pull @ pull)

    smooth, smooth_proof = settle(problem, 1 + common.ROUNDING - curvature / limit, room)
    falls, falls_proof = settle(problem, float(missed[t]) + noise, fall)
    measured = {
        "largest secant over L_p": curvature / bound.L_p,
        "largest secant over the tighter constant": curvature / bound.tight,
        "least fall minus eta/2 |grad|^2": float(missed[t]),
        "sum of |grad|^2": float(squares.sum()),
        "2/eta (L(0) - L(end))": 2 / eta * float(risks[0] - risks[-1]),
    }
    witness: Any = None
    if smooth_proof or falls_proof:
        witness = {"secant": secant} if smooth_proof else {"p": path.points[t], "step": t}
    slack = None if smooth is None or falls is None else min(smooth, falls)
    return Outcome(hypotheses, (slack, smooth_proof or falls_proof), measured, witness)


def score_leads(problem: Problem, direction: hm.directions.Direction) -> list[float]:
    """Return how much higher the selected token scores than each directional neighbor."""
    above = score_gaps(problem, problem.scores[problem.offsets[:-1] + np.array(direction.selected.tokens)])
    return [float(above[problem.offsets[i] + t]) for i, t in direction.neighbors]


@statement(
    "B-THM-L8",
    "Lemma 8: the larger margin wins far out",
    "Unit p and q select the same tokens, p by the larger margin: if both are neighbor-optimal, L(Rp) < "
    "L(Rq) beyond a radius set by first and second margins; if q's one neighbor scores higher, L(Rq) < "
    "L(Rp).",
    errata=("B-ERR-09", "B-ERR-16"),
)
def larger_margin_wins(problem: Problem, *, p: Any, q: Any) -> Outcome:
    """Compare the two risks at the corrected radius and at the paper's, which the margins alone set."""
    lengths, units = polar(np.array([problem.vector("p", p), problem.vector("q", q)]))
    hypotheses = need(Hypothesis("p and q are not zero", bool(lengths.all()), lengths.tolist()))
    first, second = (hm.directions.directional_margin(problem, x) for x in units)
    hypotheses.need(
        Hypothesis("one selection, without ties", first.unique and first.selected == second.selected),
        Hypothesis("p has the larger margin", first.Gamma > second.Gamma, first.Gamma - second.Gamma),
    )
    wins = first.neighbor_optimal and second.neighbor_optimal
    loses = [lead < 0 for lead in score_leads(problem, second)] == [True]
    case = "(i)" if wins else "(ii)" if loses else None
    hypotheses.need(Hypothesis("case (i) or (ii)", case is not None, case))
    better, worse_one = units if wins else units[::-1]

    def compare(R: float) -> tuple[float, proof.Settled]:
        risks = [hm.dynamics.excess_loss(problem, R * x, first.selected.tokens) for x in (better, worse_one)]
        advantage = common.lead(*risks) or -1.0
        points = balls(R * better), balls(R * worse_one)
        return advantage, settle(
            problem, advantage, lambda exact: exact.risk(points[1]) - exact.risk(points[0])
        )

    gap = first.Gamma - second.Gamma  # all that the paper's radius resolves (B-ERR-09)
    radii = [common.late_radius(problem, x) for x in (min(gap, first.delta, second.delta), gap)]
    (lead, slack), (paper, paper_slack) = (compare(R) for R in radii)
    measured = {"R": radii[0], "lead": lead, "paper's R": radii[1], "lead there": paper}
    return Outcome(hypotheses, slack, measured, paper_slack=paper_slack)


@statement(
    "B-THM-L9",
    "Lemma 9: a direction whose neighbors score higher is beaten by finite ones",
    "If every directional neighbor of p scores above the selected token, L(Rp) lies below the risk of the "
    "selection for all large R.",
)
def better_neighbors(problem: Problem, *, p: Any) -> Outcome:
    """The sign of the excess risk at three radii beyond the threshold."""
    size, unit = polar(problem.vector("p", p))
    hypotheses = need(Hypothesis("p is not zero", bool(size > 0), float(size)))
    along = hm.directions.directional_margin(problem, unit)
    hypotheses.need(Hypothesis("one token selected per input", along.unique))
    worse = score_leads(problem, along)
    hypotheses.need(Hypothesis("all neighbours score higher", max(worse, default=1.0) < 0, worse))
    R, tokens = common.late_radius(problem, min(along.delta, along.Gamma)), along.selected.tokens
    points = [m * R * unit for m in (1.0, 2.0, 4.0)]
    excess = [hm.dynamics.excess_loss(problem, p, tokens) for p in points]
    rooms = [-e.sign for e in excess]
    witness = points[int(np.argmin(rooms))]
    slack = settle(problem, float(min(rooms)), lambda exact: -exact.excess(balls(witness), tokens))
    measured = {"R": R, "log of the gain": [e.log for e in excess]}
    return Outcome(hypotheses, slack, measured, witness if slack[1] else None)


@statement(
    "B-THM-L10",
    "Lemma 10: few directional neighbors",
    "With keys in general position, no direction that selects one token per input has more than d "
    "neighbours.",
    hunt={"draws": 30},
    errata=("B-ERR-10",),
)
def few_neighbors(problem: Problem, *, rng: int = 0, draws: int = 500) -> Outcome:
    """Random directions, and the max-margin directions of all feasible selections, which have the most.

    Rows that are tight to rounding are counted; where there are too many, those that are tight in rational
    numbers, at the rational p_mm.
    """
    position = general_position(problem, rng=rng)
    hypotheses = (Hypothesis("general position", position.holds, position.witness),)
    random = common.unit_directions(problem.d, draws, generator(rng))
    directions = [hm.directions.directional_margin(problem, q) for q in random]
    most = max((len(direction.neighbors) for direction in directions if direction.unique), default=0)
    bound, where, proof = problem.d, None, None
    for feasible in hm.selections(problem, limit=200):
        if feasible.direction is None:
            continue
        near = len(hm.directions.directional_margin(problem, feasible.direction).neighbors)
        if near > bound:
            exact = hm.max_margin(problem, feasible.selection, exact=True).exact
            if exact is None:
                return Outcome(hypotheses, None, {"most neighbors": near, "of": feasible.selection})
            near = sum(exact.tight)
        if near > most:
            most, where = near, feasible.direction
            proof = RATIONAL if near > bound else None
    slack = (float(bound - most), proof)
    return Outcome(hypotheses, slack, {"most neighbors": most}, witness=where, vacuous=most == 0)
