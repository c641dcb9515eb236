"""The two basins of A-ORC-6, for A-FIG-T5: where p goes if hypothesis H3 of A-THM-5S fails at the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import hardmax as hm
from hardmax.embeddings import important_pattern, pattern_max_margin
from hardmax.embeddings.patterns import distinct_tokens
from hardmax.embeddings.theorem5 import StrongConditions, strong_conditions
from hardmax.figures.claims import Claim, at_most, near, true
from hardmax.figures.style import BLUE, RED
from hardmax.figures.tables import Table, Tables, part
from hardmax.margin.solution import MaxMargin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

END = 1e6  # |p| at the end of every flow
# |p| at the far starts of A-ORC-6, and their angles to the good direction in degrees, beside the bad one's.
FAR, BETWEEN = 20.0, (20, 45, 65, 75, 95)


@dataclass(frozen=True, eq=False)
class Basins:
    """A-ORC-6: two max-margin directions, and the flow with the hypotheses of A-THM-5S from every start."""

    corpus: hm.Corpus
    directions: Mapping[str, MaxMargin]
    paths: Mapping[str, hm.Run]
    conditions: Mapping[str, StrongConditions]

    def tokens(self, start: str) -> list[int]:
        """What the flow from a start selects."""
        chosen = self.paths[start].selection().tokens
        return [tokens[t] for tokens, t in zip(distinct_tokens(self.corpus), chosen, strict=True)]


def bad_basin() -> Basins:
    """The flow from 0 and from far out, on the bad direction and between it and the good one."""
    from hardmax.theory.paper_a import instances as examples

    corpus, problem = examples.three_tokens(), examples.bad_basin()
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
    """Two orthonormal rows: along p_hat, and what the bad direction has beside it."""
    first, other = unit(good), unit(bad)
    second = other - (other @ first) * first
    return np.array([first, second / np.linalg.norm(second)])


def draw_basins(panel: Axes, tables: Tables) -> None:
    """Paths in the plane of the two directions, coloured by where they go."""
    rows = tables["basins"]
    for start in dict.fromkeys(rows["start"].tolist()):
        path = part(rows, "start", start)
        color = RED if path["to_bad"][-1] < path["to_good"][-1] else BLUE
        panel.plot(path["x"], path["y"], color=color, linewidth=0.9, zorder=2)
        panel.plot(path["x"][0], path["y"][0], "o", color=color, markersize=3, markeredgewidth=0)
    for name, color, label, place in (("good", BLUE, r"$\hat p$", (61, 4)),
                                       ("bad", RED, r"$\hat p_{\mathrm{bad}}$", (13, 60))):  # fmt: skip
        ray = part(tables["directions"], "name", name)
        x, y = 80 * ray["x"][0], 80 * ray["y"][0]
        panel.plot([0, x], [0, y], color=color, alpha=0.3, linewidth=3, zorder=1)
        panel.text(*place, label, color=color, va="center", fontsize=8)
    panel.set(xlim=(-4, 70), ylim=(-6, 68), xlabel=r"$p$ along $\hat p$",
              ylabel=r"$p$ across, towards $\hat p_{\mathrm{bad}}$")  # fmt: skip
    panel.set_title("(c) two basins")


def paths_table(basins: Basins) -> Table:
    """Every path, in the plane of the two directions."""
    axes = plane_of(*basins.directions.values())
    paths = basins.paths.values()
    flat = np.concatenate([path.points @ axes.T for path in paths])
    return {
        "start": np.repeat(list(basins.paths), [len(path.points) for path in paths]),
        "norm": np.concatenate([path.norms for path in paths]),
        "x": flat[:, 0],
        "y": flat[:, 1],
        "to_good": np.concatenate([path.misalignments(basins.directions["good"]) for path in paths]),
        "to_bad": np.concatenate([path.misalignments(basins.directions["bad"]) for path in paths]),
    }


def directions_table(basins: Basins) -> Table:
    """The two directions in their plane."""
    axes = plane_of(*basins.directions.values())
    flat = np.array([axes @ unit(each) for each in basins.directions.values()])
    return {"name": np.array(list(basins.directions)), "x": flat[:, 0], "y": flat[:, 1]}


def basin_claims(basins: Basins) -> tuple[Claim, ...]:
    """What the flows from 0 and from far out on the bad direction must show."""
    good, bad = (basins.directions[name] for name in ("good", "bad"))
    tokens = [basins.tokens(start) for start in ("0", "bad")]
    first, second = (basins.conditions[start] for start in ("0", "bad"))
    met = [[each.lead > 0, each.rank == each.tokens, each.holds] for each in (first, second)]
    name = "A-FIG-T5."
    return (
        near(name + "basin-norms", "|p_hat|^2 of the important and of the bad selection in A-ORC-6",
             [good.norm**2, bad.norm**2], [1.0, 77 / 106], 1e-12),
        at_most(name + "basin-good", "1 - cos to the important selection's direction, from p = 0",
                basins.paths["0"].misalignment(good), 1e-9),
        at_most(name + "basin-bad", "1 - cos to the bad direction, from p = 20 p_bad/|p_bad|",
                basins.paths["bad"].misalignment(bad), 1e-9),
        true(name + "basin-tokens", "tokens selected from the two starts", tokens == [[0, 1], [2, 1]], tokens,
             "[0, 1] and [2, 1], of which 2 is irrelevant"),
        true(name + "basin-h3", "H1, H2 and all of H1 to H3 at the two starts",
             met == [[True, True, True], [True, True, False]], met, "all at 0, all but H3 at the other"),
    )  # fmt: skip
