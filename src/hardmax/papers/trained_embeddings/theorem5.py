"""Theorem 5 with Lemmas 14 and 18, and A-THM-5S: what p selects after the first step, and where it goes.

A-THM-5S has three tests on fixed keys under which the flow must select exactly the designated tokens.
A-FIG-T5 shows Theorem 5 at its own width, and the two basins that there are without the third test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, TEAL
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.flow import flow
from hardmax.embeddings import assumption_4_corpus, pattern_max_margin, theorem5
from hardmax.embeddings.patterns import distinct_tokens, important_pattern
from hardmax.embeddings.theorem5 import StrongConditions, TheoremFive
from hardmax.margin.att_svm import max_margin
from hardmax.margin.closed_forms import important_only
from hardmax.margin.rationals import to_float
from hardmax.margin.solution import MaxMargin
from hardmax.papers.checking.check import Conditions, Hypothesis, Outcome, Unmet, need, statement, unsaid
from hardmax.papers.checking.common import decreasing_loss, fixed_scores, strict_best
from hardmax.papers.figures.claims import Claim, Claims
from hardmax.papers.figures.figure import Findings, Scale, Setting, recipe
from hardmax.papers.figures.tables import DOTTED, Axes, Canvas, Tables, name_axes, part, stacked
from hardmax.papers.trained_embeddings import common, instances
from hardmax.papers.trained_embeddings.common import DELTA, Rate, Width
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

ALIGNED = 1e-8
RISE = 1e-13  # a relative rise of the loss that is rounding


def flow_after_first_step(
    corpus: Corpus, d: Width, first_rate: Rate, delta: float, rng: int
) -> tuple[Conditions, TheoremFive]:
    """Return Assumption 4, (10) and event (14), and the run; end the test if no token competes."""
    hypotheses, _ = common.important_tokens(corpus)
    first_rate = common.step_of(corpus, first_rate)
    least = theorem5.theorem_5_thresholds(corpus.n, corpus.T, corpus.S, delta=delta, first_rate=first_rate)
    width = least.width if d is None else d
    hypotheses.need(
        Hypothesis("eta0 >= 4 n^2 T^2", least.first_rate >= least.least_eta0, float(least.first_rate)),
        Hypothesis("d as in (10)", width >= least.width, to_float(Fraction(width, least.width))),
    )
    if int(np.diff(corpus.offsets).max()) == 1:
        raise Unmet(hypotheses)
    run = theorem5.run_theorem_5(corpus, d=d, first_rate=first_rate, delta=delta, rng=rng)
    hypotheses.append(Hypothesis("event (14)", run.event.holds, run.event.overlap))
    return hypotheses, run


def far_enough(run: TheoremFive) -> Hypothesis:
    """Return the hypothesis that the end of the flow may be taken for its limit."""
    return common.late_enough(run.path.problem, run.best, run.path.p_norm)


def described(run: TheoremFive) -> dict[str, Any]:
    """Return the values that every statement about a run reports."""
    return {
        "d": to_float(Fraction(run.d)),
        "norm": run.path.p_norm,
        "event": run.path.event,
        "selected": run.pattern,
        "only important tokens": run.selects_only_important,
        "1 - cos to its own": run.misalignment_p,
        "(H1)-(H3)": run.conditions.holds,
    }


def own_direction(run: TheoremFive) -> float:
    """Return the slack of 1 - cos between p and the max-margin direction of its own selection."""
    return 1 - run.misalignment_p / ALIGNED


@statement(
    "A-THM-5",
    "Theorem 5: p selects the important tokens, by the largest margin",
    "Under Assumption 4 and (10), with probability at least 1 - delta, |p_t| grows without bound, and the "
    "limit of p_t/|p_t| selects the important token of every sequence and is the max-margin direction of its "
    "own selection.",
    kind="limit",
    errata=("A-ERR-11", "A-ERR-12"),
)
def important_tokens_win(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Draw a first step at width d, by default the least that (10) allows, and follow the flow from there."""
    hypotheses, run = flow_after_first_step(corpus, d, first_rate, delta, rng)
    slack = own_direction(run) if run.selects_important else -1.0
    hypotheses.append(far_enough(run))
    return Outcome(hypotheses, slack if common.went_out(run.path) else None, described(run), run.pattern)


@statement(
    "A-LEM-14",
    "Lemma 14: important tokens are selected",
    "Under Assumption 4 and (10) the loss after the first step is below 1/(2n) and never rises, and a limit "
    "of p_t/|p_t| selects the important token of every sequence.",
    kind="limit",
    errata=("A-ERR-17",),
)
def loss_settles_the_selection(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Measure the loss along the flow, and the lead of the important tokens at its end."""
    hypotheses, run = flow_after_first_step(corpus, d, first_rate, delta, rng)
    losses = run.path.losses
    rise = float(np.diff(losses).max(initial=-np.inf)) / float(losses[0]) if losses[0] else 0.0
    # the least score of an important token over another of its sequence at the end, over |p|
    a, stars = run.state.E @ run.path.direction, run.corpus.per_slot(np.array(run.important))
    other = run.corpus.tokens != stars
    lead = float((a[stars] - a[run.corpus.tokens])[other].min(initial=np.inf))
    # a loss below 1/(2n) leaves no sequence without its important token
    slack = min(1 - run.loss / (1 / (2 * run.corpus.n)), lead, 1 - rise / RISE)
    extra = {"loss after the first step": run.loss, "largest rise": rise, "least lead over |p|": lead}
    hypotheses.append(far_enough(run))
    return Outcome(hypotheses, slack, described(run) | extra, witness=run.pattern)


@statement(
    "A-LEM-18",
    "Lemma 18: the limit is its own max-margin direction",
    "Under the conditions of Lemma 14 a limit of p_t/|p_t| that selects one token per sequence is the "
    "max-margin direction of its own selection.",
    kind="limit",
    errata=("A-ERR-12",),
)
def limit_is_its_own_direction(
    corpus: Corpus, *, d: Width = None, first_rate: Rate = None, delta: float = DELTA, rng: int = 0
) -> Outcome:
    """Measure 1 - cos of the end of the flow with the max-margin direction of its selection."""
    hypotheses, run = flow_after_first_step(corpus, d, first_rate, delta, rng)
    tied = max(len(chosen) for chosen in run.pattern)
    untied = Hypothesis("the limit has no ties", tied == 1, tied, erratum="A-ERR-12")
    slack = own_direction(run)
    hypotheses += [untied, far_enough(run)]
    return Outcome(hypotheses, slack, described(run), witness=run.pattern, paper_slack=slack)


FAR = 1e8  # the flow runs to this many times |p_hat|


def strong_hypotheses(problem: Problem, tests: StrongConditions) -> list[Hypothesis]:
    """Return (H1), (H2) and (H3) as hypotheses, with their implicit conditions.

    The loss must not be negative, or the loss of one input would say nothing about the mean.
    """
    least = float(np.min(problem.loss.value(problem.scores)))
    return [
        Hypothesis("designated tokens stand nowhere else", tests.apart),
        Hypothesis("the loss is never negative", least >= 0, least),
        Hypothesis("(H1) they score highest", tests.lead > 0, tests.lead),
        Hypothesis("(H2) keys linearly independent", tests.rank == tests.tokens, [tests.rank, tests.tokens]),
        # the risk at the start is below what one input without its designated token costs
        Hypothesis("(H3) a good start", tests.loss < tests.loss_bound, [tests.loss, tests.loss_bound]),
    ]


@statement(
    "A-THM-5S",
    "Theorem 5 strengthened: the flow selects exactly the designated tokens",
    "Let keys be fixed and each input have a designated token that is nowhere an ordinary one. If (H1) it "
    "scores above the other tokens of its input, (H2) the keys are linearly independent and (H3) the risk at "
    "the start is below what losing one designated token (in all copies of its input) would cost, then |p_t| "
    "grows without bound and "
    "p_t/|p_t| tends to the max-margin direction of the designated tokens.",
    kind="limit",
    label="derived",
    errata=("A-ERR-11", "A-ERR-12"),
)
def designated_tokens_win(problem: Problem, *, start: Any = None, rival: Any = None) -> Outcome:
    """Follow the flow from ``start``; the designated tokens are those that score highest.

    How near it comes to another direction ``rival`` is reported too. A flow that has not come near is not a
    counterexample.
    """
    hypotheses = need(fixed_scores(problem))
    hypotheses.need(decreasing_loss(problem), strict_best(problem))
    designated = best_tokens(problem).tokens
    hypotheses += strong_hypotheses(problem, theorem5.strong_conditions(problem, designated, start))
    best = max_margin(problem, designated)
    if best.direction is None:
        return unsaid(hypotheses) if best.is_feasible else Outcome(hypotheses)
    far = FAR * max(best.p_norm, float(np.linalg.norm(problem.vector("start", start))))
    path = flow(problem, start=start, until_norm=far)
    measured = {"norm": path.p_norm, "event": path.event}
    hypotheses.append(common.late_enough(problem, best, path.p_norm))
    if not path.p.any():
        return Outcome(hypotheses, measured=measured)
    measured["1 - cos"] = path.cosine_distance(best)
    if rival is not None:
        measured["1 - cos to the rival"] = path.cosine_distance(rival)
    slack = 1 - path.cosine_distance(best) / ALIGNED
    return Outcome(hypotheses, slack if path.event is None else None, measured)


END = 1e6  # |p| at the end of every flow
# |p| at the far starts, and their angles to the good direction in degrees, next to the bad one's.
START_NORM, BETWEEN = 20.0, (20, 45, 65, 75, 95)


@dataclass(frozen=True, eq=False)
class Basins:
    """Two max-margin directions of one corpus, and the flow from every start, with its hypotheses."""

    corpus: hm.Corpus
    directions: Mapping[str, MaxMargin]
    paths: Mapping[str, hm.Run]
    conditions: Mapping[str, StrongConditions]

    def tokens(self, start: str) -> list[int]:
        """Return the tokens that the flow from a start selects."""
        chosen = self.paths[start].selection.tokens
        return [tokens[t] for tokens, t in zip(distinct_tokens(self.corpus), chosen, strict=True)]


def bad_basin() -> Basins:
    """The flow from 0 and from far out, on the bad direction and between it and the good one."""
    corpus, problem = instances.three_tokens(), instances.bad_basin()
    good = pattern_max_margin(corpus, important_pattern(corpus), problem.keys, exact=True)
    bad = pattern_max_margin(corpus, [[2], [1]], problem.keys, exact=True)
    axes = plane_of(good, bad)
    assert bad.direction is not None
    turns = {f"{angle} degrees": np.radians(angle) for angle in BETWEEN}
    starts = {"0": np.zeros(5), "bad": START_NORM * bad.direction}
    starts |= {
        name: START_NORM * (np.array([np.cos(turn), np.sin(turn)]) @ axes) for name, turn in turns.items()
    }
    return Basins(
        corpus,
        {"good": good, "bad": bad},
        {name: hm.flow(problem, until_norm=END, start=start) for name, start in starts.items()},
        {name: theorem5.strong_conditions(problem, [0, 0], start) for name, start in starts.items()},
    )


def plane_of(good: MaxMargin, bad: MaxMargin) -> np.ndarray:
    """Return two orthonormal rows: along p_hat, and the part of the bad direction orthogonal to it."""
    assert good.direction is not None
    assert bad.direction is not None
    first, other = good.direction, bad.direction
    second = other - (other @ first) * first
    return np.array([first, second / np.linalg.norm(second)])


def draw_basins(panel: Axes, tables: Tables) -> None:
    """Draw paths in the plane of the two directions, colored by where they go."""
    rows = tables["basins"]
    for start in dict.fromkeys(rows["start"].tolist()):
        path = part(rows, "start", start)
        color = RED if path["to_bad"][-1] < path["to_good"][-1] else BLUE
        panel.plot(path["x"], path["y"], color=color, linewidth=0.9, zorder=2)
        panel.plot(path["x"][0], path["y"][0], "o", color=color, markersize=3, markeredgewidth=0)
    for name, color, label, place in (
        ("good", BLUE, r"$\hat p$", (61, 4)),
        ("bad", RED, r"$\hat p_{\mathrm{bad}}$", (13, 60)),
    ):
        ray = part(tables["directions"], "name", name)
        x, y = 80 * ray["x"][0], 80 * ray["y"][0]
        panel.plot([0, x], [0, y], color=color, alpha=0.3, linewidth=3, zorder=1)
        panel.text(*place, label, color=color, va="center", fontsize=8)
    across = r"$p$ across, towards $\hat p_{\mathrm{bad}}$"
    name_axes(panel, "(c) two basins", r"$p$ along $\hat p$", across, xlim=(-4, 70), ylim=(-6, 68))


def basin_tables(basins: Basins) -> Tables:
    """Return every path and the two directions, in the plane of the two directions."""
    axes = plane_of(*basins.directions.values())
    parts = []
    for start, path in basins.paths.items():
        x, y = (path.points @ axes.T).T
        angles = {f"to_{name}": path.cosine_distances(best) for name, best in basins.directions.items()}
        parts.append({"start": start, "norm": path.p_norms, "x": x, "y": y, **angles})
    flat = np.array([axes @ best.direction for best in basins.directions.values()])
    directions = {"name": np.array(list(basins.directions)), "x": flat[:, 0], "y": flat[:, 1]}
    return {"basins": stacked(parts), "directions": directions}


BASINS = Claims(
    "A-FIG-T5",
    """
    basin-norms | |p_hat|^2 of the important and of the bad selection of the data in (c) | 1.0, 77/106 ± 1e-12
    basin-good | 1 - cos to the important selection's direction, from p = 0 | ≤ 1e-9
    basin-bad | 1 - cos to the bad direction, from p = 20 p_bad/|p_bad| | ≤ 1e-9
    basin-tokens | tokens selected from the two starts | [0, 1] and [2, 1], of which 2 is irrelevant
    basin-h3 | H1, H2 and all of H1 to H3 at the two starts | all at 0, all but H3 at the other
    """,
)


def basin_claims(basins: Basins) -> tuple[Claim, ...]:
    """Make the claims about the flows from 0 and from far out on the bad direction."""
    good, bad = (basins.directions[name] for name in ("good", "bad"))
    tokens = [basins.tokens(start) for start in ("0", "bad")]
    first, second = (basins.conditions[start] for start in ("0", "bad"))
    hold = [[tests.lead > 0, tests.rank == tests.tokens, tests.holds] for tests in (first, second)]
    return BASINS.judge(
        {
            "basin-norms": [good.p_norm**2, bad.p_norm**2],
            "basin-good": basins.paths["0"].cosine_distance(good),
            "basin-bad": basins.paths["bad"].cosine_distance(bad),
            "basin-tokens": (tokens == [[0, 1], [2, 1]], tokens),
            "basin-h3": (hold == [[True, True, True], [True, True, False]], hold),
        }
    )


SEED = 0
# Data sets by number: n is 2, 4, 6, 8 in turn, and T is 2 to 5, changing every fourth time.
DATASETS: dict[Scale, tuple[int, ...]] = {"quick": (0, 1, 3, 5, 6, 13, 15, 24), "paper": tuple(range(25))}
COLORS = {2: TEAL, 4: BLUE, 6: GREEN, 8: PURPLE}
# Equation (10) for n = T = 2.
LEAST_WIDTH = 333095854256270749197319367637054590514299136


def dataset(number: int) -> hm.Corpus:
    """A random corpus under Assumption 4; how many important tokens share a sign is random too."""
    n, T = (2, 4, 6, 8)[number % 4], (2, 3, 4, 5)[number // 4 % 4]
    rng = np.random.default_rng([SEED, number])
    stars = (int(rng.integers(1, n // 2 + 1)), int(rng.integers(1, n // 2 + 1)))
    others = int(rng.integers(1, min(T, n // 2 * (T - 1)) + 1))
    return assumption_4_corpus(n, T, important=stars, irrelevant=others, rng=rng)


def run(corpus: hm.Corpus, number: int) -> TheoremFive:
    """Run Theorem 5's protocol at the least step and width that equation (10) allows."""
    return theorem5.run_theorem_5(corpus, until_norm=END, rng=np.random.default_rng([SEED, number, 1]))


def offset(run: TheoremFive) -> float:
    """Return (eta0/2) (max |alpha| - min |alpha|) over the important tokens.

    The angle falls like this over |p|.
    """
    alpha = np.abs(run.corpus.alpha[list(run.important)])
    return 0.5 * float(run.thresholds.first_rate) * float(alpha.max() - alpha.min())


def margins(run: TheoremFive) -> np.ndarray:
    """Return the least lead of an important token over another of its sequence, times |p_hat|/|p|."""
    E = run.state.E
    rows = [
        E[star] - E[s]
        for star, tokens in zip(run.important, distinct_tokens(run.corpus), strict=True)
        for s in tokens
        if s != star
    ]
    return (run.path.points @ np.array(rows).T).min(axis=1) * run.best.p_norm / run.path.p_norms


def draw_t5(tables: Tables, canvas: Canvas) -> None:
    """Draw the angle to the max-margin direction, the margin on the way, and the two basins."""
    first, second, third = canvas.subplots(1, 3)
    for number in np.unique(tables["paths"]["dataset"]):
        rows = part(tables["paths"], "dataset", number)
        color = COLORS[int(rows["n"][0])]
        first.plot(rows["norm"], rows["misalignment"], color=color, linewidth=0.8)
        second.plot(rows["norm"], rows["margin"], color=color, linewidth=0.8)
    slack = tables["slack"]
    first.plot(slack["norm"], slack["to_pinv"], color=ORANGE, linestyle=(0, (3, 1.5)), linewidth=1.0)
    end = (2e5, float(slack["to_pinv"][-1]))
    first.annotate(
        "to $M^+1$", end, (0, 3), textcoords="offset points", fontsize=7, ha="center", color=ORANGE
    )
    x = np.array([3e2, END])
    first.plot(x, 3e4 / x**2, color=INK, linestyle=DOTTED, linewidth=0.9)
    first.annotate(r"$\propto |p|^{-2}$", (8e3, 3e4 / 8e3**2), (3, 2), textcoords="offset points", fontsize=7)
    for n, color in COLORS.items():
        first.plot([], [], color=color, label=f"$n = {n}$")
    angle = r"$1 - \cos(p, \hat p)$"
    name_axes(first, "(a) angle to $\\hat p$", "$|p|$", angle, "xy", xlim=(1, END), ylim=(1e-13, 5))
    first.legend(loc="lower left")
    second.axhline(1.0, color=GRAY, linestyle=DOTTED, zorder=1)
    lead, limits = r"least lead of $s_X^*$, times $|\hat p|/|p|$", {"xlim": (1, END), "ylim": (-0.75, 1.1)}
    name_axes(second, "(b) lead of important tokens", "$|p|$", lead, "x", **limits)
    draw_basins(third, tables)


@recipe(
    "A-FIG-T5",
    "Theorem 5 at its own width: p selects the important tokens, and only these",
    draw=draw_t5,
    size=(7.0, 2.5),
    errata=("A-ERR-5", "A-ERR-7", "A-ERR-11", "A-ERR-12"),
)
def fig_t5(setting: Setting) -> Findings:
    """Run the flow on random data at the width that the theorem requires, and from both basins."""
    numbers = DATASETS[setting.scale]
    runs = {}
    for number in numbers:
        runs[number] = run(dataset(number), number)
        setting.progress(len(runs) / (len(numbers) + 1))
    slack = run(instances.slack_corpus(), len(DATASETS["paper"]))
    form = important_only([x.tolist() for x in slack.corpus.sequences()], slack.important)
    # M^+ 1 in coordinates of E, which at such a width are those of the tokens; p and v take no part in it.
    pinv = np.array([float(form.coefficients[s]) for s in range(slack.corpus.S)] + [0.0, 0.0])
    basins = bad_basin()
    tables = {
        "paths": stacked(
            {
                "dataset": number,
                "n": result.corpus.n,
                "T": result.corpus.T,
                "log_time": result.path.times,
                "norm": result.path.p_norms,
                "misalignment": result.path.cosine_distances(result.best),
                "margin": margins(result),
            }
            for number, result in runs.items()
        ),
        "datasets": stacked(
            {
                "dataset": number,
                "n": result.corpus.n,
                "T": result.corpus.T,
                "S": result.corpus.S,
                "eta0": int(result.thresholds.first_rate),
                "d": str(result.d),  # digits: no integer of 64 bits holds them
                "offset": offset(result),
                "misalignment": result.misalignment_p,
                "p_hat_norm": result.best.p_norm,
                "loss": result.loss,
                "loss_bound": result.loss_bound,
                "only_important": result.selects_only_important,
            }
            for number, result in runs.items()
        ),
        "slack": {
            "norm": slack.path.p_norms,
            "to_best": slack.path.cosine_distances(slack.best),
            "to_pinv": slack.path.cosine_distances(pinv),
        },
        **basin_tables(basins),
    }
    widths = [float(result.d) for result in runs.values()]
    notes = (
        f"{len(runs)} data sets under Assumption 4, each with the least step and width of equation (10): d "
        f"from {min(widths):.1e} to {max(widths):.1e}. E and p are drawn as inner products, and p "
        "follows gradient flow with E fixed, as in the theorem.",
        "(a) The dashed line is the angle to M^+ 1, the closed form in the proof of Lemma 3, on data where "
        "not all constraints are tight (A-ERR-7).",
        "(b) 1 is the largest lead that a vector of that length can have, and a positive one means that only "
        "important tokens are selected; at first another token may lead.",
        "(c) These data satisfy H1 and H2 of A-THM-5S, and H3 at the start 0. Starts on the bad "
        "direction and near it keep an irrelevant token forever. Drawn is the plane of the two directions.",
    )
    return Findings(tables, (*flow_claims(runs, slack, pinv), *basin_claims(basins)), notes, SEED)


FLOWS = Claims(
    "A-FIG-T5",
    f"""
    width | least step and width for n = T = 2 | 64 and 3.330959e+44
    hypotheses | data sets and draws that satisfy equation (10) and event (14) | all
    strong | of these, with H1 to H3 of A-THM-5S | all
    diverges | flows that reach |p| = 1e6 | all | |p| diverges
    important | flows that select every important token | all | all
    only-important | flows that select no other token | all | left open
    direction | 1 - cos to the max-margin direction at |p| = 1e6 | ≤ 1e-8 | 0 in the limit
    direction-early | the same at |p| = 1000 max(1, eta0 (max |alpha| - min |alpha|)/2) | ≤ 1e-5
    margin | lead of the important tokens at the end, of the largest possible | ≥ 0.999
    loss | loss after the first step, over the bound of Lemma 12 | ≤ 1.0 | ≤ 1
    loss-small | the same loss times 2n, below which no important token can be lost | ≤ 1.0 | < 1
    lemma-3 | 1 - cos to M^+ 1 on the data of A-ERR-7, 1 - sqrt(35/36) | {1 - np.sqrt(35 / 36)} ± 1e-5
        | 0, by the proof of Lemma 3
    """,
)


def flow_claims(runs: Mapping[int, TheoremFive], slack: TheoremFive, pinv: np.ndarray) -> tuple[Claim, ...]:
    """Make the claims about the flows on random data; ``pinv`` is M^+ 1 of the data of ``slack``."""
    every = [*runs.values(), slack]
    early = []
    for result in every:
        at = int(np.argmax(result.path.p_norms >= 1e3 * max(1.0, offset(result))))
        early.append(result.path.cosine_distance(result.best, at=at))

    def count(holds: list[bool]) -> tuple[bool, str]:
        return all(holds), f"{sum(holds)} of {len(holds)}"

    least = theorem5.theorem_5_thresholds(2, 2, S=3, delta=0.01)
    smallest = (least.least_eta0, least.width)
    return FLOWS.judge(
        {
            "width": (smallest == (64, LEAST_WIDTH), [least.least_eta0, f"{least.width:.6e}"]),
            "hypotheses": count([result.hypotheses_hold for result in every]),
            "strong": count([result.conditions.holds for result in every]),
            "diverges": count([result.path.event is None for result in every]),
            "important": count([result.selects_important for result in every]),
            "only-important": count([result.selects_only_important for result in every]),
            "direction": [result.misalignment_p for result in every],
            "direction-early": early,
            "margin": [margins(result)[-1] for result in every],
            "loss": [result.loss / result.loss_bound for result in every],
            "loss-small": [2 * result.corpus.n * result.loss for result in every],
            "lemma-3": slack.path.cosine_distance(pinv),
        }
    )
