"""A-FIG-T5: Theorem 5 at its own width, and what becomes of p without hypothesis H3 (A-THM-5, A-THM-5S).

Without it there are two basins: where p goes depends on the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, TEAL
from hardmax.embeddings import assumption_4_corpus, pattern_max_margin
from hardmax.embeddings.patterns import distinct_tokens, important_pattern
from hardmax.embeddings.theorem5 import (
    StrongConditions,
    TheoremFive,
    run_theorem_5,
    strong_conditions,
    theorem_5_thresholds,
)
from hardmax.margin.closed_forms import important_only
from hardmax.margin.solution import MaxMargin
from hardmax.papers.figures.claims import Claim, Claims
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Scale, Setting, recipe
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.trained_embeddings.statements import instances
from hardmax.papers.trained_embeddings.statements.instances import slack_corpus

END = 1e6  # |p| at the end of every flow
# |p| at the far starts of A-ORC-6, and their angles to the good direction in degrees, next to the bad one's.
FAR, BETWEEN = 20.0, (20, 45, 65, 75, 95)


@dataclass(frozen=True, eq=False)
class Basins:
    """A-ORC-6: two max-margin directions, and the flow with the hypotheses of A-THM-5S from every start."""

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
    turns = {f"{angle} degrees": np.radians(angle) for angle in BETWEEN}
    starts = {"0": np.zeros(5), "bad": FAR * unit(bad)}
    starts |= {name: FAR * (np.array([np.cos(turn), np.sin(turn)]) @ axes) for name, turn in turns.items()}
    return Basins(
        corpus,
        {"good": good, "bad": bad},
        {name: hm.flow(problem, until_norm=END, start=start) for name, start in starts.items()},
        {name: strong_conditions(problem, [0, 0], start) for name, start in starts.items()},
    )


def unit(best: MaxMargin) -> np.ndarray:
    """The direction of a solution that is known to exist."""
    assert best.direction is not None
    return best.direction


def plane_of(good: MaxMargin, bad: MaxMargin) -> np.ndarray:
    """Two orthonormal rows: along p_hat, and what the bad direction has orthogonal to it."""
    first, other = unit(good), unit(bad)
    second = other - (other @ first) * first
    return np.array([first, second / np.linalg.norm(second)])


def draw_basins(panel: Axes, tables: Tables) -> None:
    """Paths in the plane of the two directions, colored by where they go."""
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
    panel.set(
        xlim=(-4, 70),
        ylim=(-6, 68),
        xlabel=r"$p$ along $\hat p$",
        ylabel=r"$p$ across, towards $\hat p_{\mathrm{bad}}$",
    )
    panel.set_title("(c) two basins")


def paths_table(basins: Basins) -> Table:
    """Every path, in the plane of the two directions."""
    axes = plane_of(*basins.directions.values())
    parts = []
    for start, path in basins.paths.items():
        x, y = (path.points @ axes.T).T
        angles = {f"to_{name}": path.cosine_distances(best) for name, best in basins.directions.items()}
        parts.append({"start": start, "norm": path.p_norms, "x": x, "y": y, **angles})
    return stacked(parts)


def directions_table(basins: Basins) -> Table:
    """The two directions in their plane."""
    axes = plane_of(*basins.directions.values())
    flat = np.array([axes @ unit(each) for each in basins.directions.values()])
    return {"name": np.array(list(basins.directions)), "x": flat[:, 0], "y": flat[:, 1]}


BASINS = Claims(
    "A-FIG-T5",
    """
    basin-norms | |p_hat|^2 of the important and of the bad selection in A-ORC-6 | 1.0, 77/106 ± 1e-12
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
    met = [[each.lead > 0, each.rank == each.tokens, each.holds] for each in (first, second)]
    return BASINS.judge(
        {
            "basin-norms": [good.p_norm**2, bad.p_norm**2],
            "basin-good": basins.paths["0"].cosine_distance(good),
            "basin-bad": basins.paths["bad"].cosine_distance(bad),
            "basin-tokens": (tokens == [[0, 1], [2, 1]], tokens),
            "basin-h3": (met == [[True, True, True], [True, True, False]], met),
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
    """Theorem 5's protocol at the least step and width that equation (10) allows."""
    return run_theorem_5(corpus, until_norm=END, rng=np.random.default_rng([SEED, number, 1]))


def offset(found: TheoremFive) -> float:
    """(eta0/2) (max |alpha| - min |alpha|) over the important tokens: the angle falls like this over |p|."""
    alpha = np.abs(found.corpus.alpha[list(found.important)])
    return 0.5 * float(found.thresholds.first_rate) * float(alpha.max() - alpha.min())


def margins(found: TheoremFive) -> np.ndarray:
    """Least lead of an important token over another of its sequence, along the path, times |p_hat|/|p|."""
    E = found.state.E
    rows = [
        E[star] - E[s]
        for star, tokens in zip(found.important, distinct_tokens(found.corpus), strict=True)
        for s in tokens
        if s != star
    ]
    return (found.path.points @ np.array(rows).T).min(axis=1) * found.best.p_norm / found.path.p_norms


def draw_t5(tables: Tables, canvas: Canvas) -> None:
    """The angle to the max-margin direction, the margin on the way, and the two basins of A-ORC-6."""
    first, second, third = canvas.subplots(1, 3)
    _draw_angles(first, tables)
    for number in np.unique(tables["paths"]["dataset"]):
        rows = part(tables["paths"], "dataset", number)
        second.plot(rows["norm"], rows["margin"], color=COLORS[int(rows["n"][0])], linewidth=0.8)
    second.axhline(1.0, color=GRAY, linestyle=(0, (1, 1.4)), zorder=1)
    second.set(xscale="log", xlim=(1, END), ylim=(-0.75, 1.1), xlabel="$|p|$")
    second.set_ylabel(r"least lead of $s_X^*$, times $|\hat p|/|p|$")
    second.set_title("(b) lead of important tokens")
    draw_basins(third, tables)


def _draw_angles(panel: Axes, tables: Tables) -> None:
    for number in np.unique(tables["paths"]["dataset"]):
        rows = part(tables["paths"], "dataset", number)
        panel.plot(rows["norm"], rows["misalignment"], color=COLORS[int(rows["n"][0])], linewidth=0.8)
    slack = tables["slack"]
    panel.plot(slack["norm"], slack["to_pinv"], color=ORANGE, linestyle=(0, (3, 1.5)), linewidth=1.0)
    look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "ha": "center", "color": ORANGE}
    panel.annotate("to $M^+1$", (2e5, float(slack["to_pinv"][-1])), (0, 3), **look)
    x = np.array([3e2, END])
    panel.plot(x, 3e4 / x**2, color=INK, linestyle=(0, (1, 1.4)), linewidth=0.9)
    panel.annotate(r"$\propto |p|^{-2}$", (8e3, 3e4 / 8e3**2), (3, 2), textcoords="offset points", fontsize=7)
    for n, color in COLORS.items():
        panel.plot([], [], color=color, label=f"$n = {n}$")
    panel.set(xscale="log", yscale="log", xlim=(1, END), ylim=(1e-13, 5), xlabel="$|p|$")
    panel.set_ylabel(r"$1 - \cos(p, \hat p)$")
    panel.legend(loc="lower left")
    panel.set_title("(a) angle to $\\hat p$")


@recipe(
    "A-FIG-T5",
    "Theorem 5 at its own width: p selects the important tokens, and only these",
    draw=draw_t5,
    size=(7.0, 2.5),
    errata=("A-ERR-5", "A-ERR-7", "A-ERR-11", "A-ERR-12"),
)
def fig_t5(setting: Setting) -> Findings:
    """The flow on random data at the width that the theorem asks for, and A-ORC-6."""
    numbers = DATASETS[setting.scale]
    runs = {}
    for number in numbers:
        runs[number] = run(dataset(number), number)
        setting.progress(len(runs) / (len(numbers) + 1))
    slack = run(slack_corpus(), len(DATASETS["paper"]))
    form = important_only([x.tolist() for x in slack.corpus.sequences()], slack.important)
    # M^+ 1 in coordinates of E, which at such a width are those of the tokens; p and v take no part in it.
    pinv = np.array([float(form.coefficients[s]) for s in range(slack.corpus.S)] + [0.0, 0.0])
    basins = bad_basin()
    tables = {
        "paths": _paths(runs),
        "datasets": _datasets(runs),
        "slack": {
            "norm": slack.path.p_norms,
            "to_best": slack.path.cosine_distances(slack.best),
            "to_pinv": slack.path.cosine_distances(pinv),
        },
        "basins": paths_table(basins),
        "directions": directions_table(basins),
    }
    widths = [float(found.d) for found in runs.values()]
    notes = (
        f"{len(runs)} data sets under Assumption 4, each with the least step and width of equation (10): d "
        f"from {min(widths):.1e} to {max(widths):.1e}. E and p are drawn as inner products, and p "
        "follows gradient flow with E fixed, as in the theorem.",
        "(a) The dashed line is the angle to M^+ 1, the closed form in the proof of Lemma 3, on data where "
        "not all constraints are tight (A-ERR-7).",
        "(b) 1 is the largest lead that a vector of that length can have, and a positive one means that only "
        "important tokens are selected; at first another token may lead.",
        "(c) The data of A-ORC-6 satisfy H1 and H2 of A-THM-5S, and H3 at the start 0. Starts on the bad "
        "direction and near it keep an irrelevant token forever. Drawn is the plane of the two directions.",
    )
    return Findings(tables, (*_claims(runs, slack, pinv), *basin_claims(basins)), notes, SEED)


def _paths(runs: Mapping[int, TheoremFive]) -> Table:
    return stacked(
        {
            "dataset": number,
            "n": found.corpus.n,
            "T": found.corpus.T,
            "log_time": found.path.times,
            "norm": found.path.p_norms,
            "misalignment": found.path.cosine_distances(found.best),
            "margin": margins(found),
        }
        for number, found in runs.items()
    )


def _datasets(runs: Mapping[int, TheoremFive]) -> Table:
    return stacked(
        {
            "dataset": number,
            "n": found.corpus.n,
            "T": found.corpus.T,
            "S": found.corpus.S,
            "eta0": int(found.thresholds.first_rate),
            "d": str(found.d),  # digits: no integer of 64 bits holds them
            "offset": offset(found),
            "misalignment": found.misalignment_p,
            "p_hat_norm": found.best.p_norm,
            "loss": found.loss,
            "loss_bound": found.loss_bound,
            "only_important": found.selects_only_important,
        }
        for number, found in runs.items()
    )


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


def _claims(runs: Mapping[int, TheoremFive], slack: TheoremFive, pinv: np.ndarray) -> tuple[Claim, ...]:
    every = [*runs.values(), slack]
    early = []
    for found in every:
        at = int(np.argmax(found.path.p_norms >= 1e3 * max(1.0, offset(found))))
        early.append(found.path.cosine_distance(found.best, at=at))

    def count(held: list[bool]) -> tuple[bool, str]:
        return all(held), f"{sum(held)} of {len(held)}"

    least = theorem_5_thresholds(2, 2, S=3, delta=0.01)
    smallest = (least.least_eta0, least.width)
    return FLOWS.judge(
        {
            "width": (smallest == (64, LEAST_WIDTH), [least.least_eta0, f"{least.width:.6e}"]),
            "hypotheses": count([found.hypotheses_hold for found in every]),
            "strong": count([found.conditions.holds for found in every]),
            "diverges": count([found.path.event is None for found in every]),
            "important": count([found.selects_important for found in every]),
            "only-important": count([found.selects_only_important for found in every]),
            "direction": [found.misalignment_p for found in every],
            "direction-early": early,
            "margin": [margins(found)[-1] for found in every],
            "loss": [found.loss / found.loss_bound for found in every],
            "loss-small": [2 * found.corpus.n * found.loss for found in every],
            "lemma-3": slack.path.cosine_distance(pinv),
        }
    )
