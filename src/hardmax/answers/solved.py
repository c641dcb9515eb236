"""What `solve` says: the selections that attract, each with a proof, the best-scoring one, the flow's end."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED
from hardmax.answers.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.text import Text

    from hardmax.directions.critical import CriticalDirections
    from hardmax.directions.enumerate import FeasibleSelection
    from hardmax.limits.decomposition import Decomposition
    from hardmax.margin.solution import MaxMargin
    from hardmax.problem import Problem
    from hardmax.train.run import Run

Best = tuple[tuple[int, ...], "MaxMargin"]


@dataclass(frozen=True, eq=False)
class FlowEnd:
    """Where gradient flow went, and which of the listed directions is ``nearest`` to it.

    >>> import hardmax as hm
    >>> end = hm.solve(hm.data.named("B-FIG-8"), flow=True).flow
    >>> end.start, end.selection, end.nearest, end.misalignment < 1e-11, end.status
    ('zero', (0, 0), 1, True, 'complete')
    """

    start: str
    path: Run
    nearest: int | None
    misalignment: float | None

    @property
    def moved(self) -> bool:
        """Whether the end is not the origin, which selects nothing."""
        return bool(self.path.p.any())

    @property
    def selection(self) -> tuple[int, ...] | None:
        """The token of each input, None if there is not one of each."""
        chosen = self.path.selection() if self.moved else None
        return chosen.tokens if chosen is not None and chosen.is_unique else None

    @property
    def status(self) -> str:
        """Complete, or why something is not known."""
        reasons = [
            (not self.moved, "p is zero and selects nothing"),
            (self.selection is None, "an input selects several tokens"),
            (self.nearest is None, "no listed direction to compare with"),
        ]
        return next((reason for holds, reason in reasons if holds), "complete")

    def fields(self) -> dict[str, Any]:
        """The field `flow` of the JSON."""
        path = self.path
        return {
            "start": self.start,
            "clock": path.clock,
            "log_time": float(path.times[-1]),
            "norm": path.norm,
            "selection": self.selection,
            "direction": path.direction if self.moved else None,
            "event": path.event,
            "nearest": self.nearest,
            "misalignment": self.misalignment,
            "status": self.status,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Solved(Answer):
    """The directions of a problem, as `solve` found them.

    ``selections`` are the feasible ones that attract or may attract, or with ``all`` every one; ``best`` has
    each selection of best-scoring tokens with its solution or the proof that there is none; if all have none,
    ``decomposition`` tells what of p stays finite. ``found`` counts
    all feasible selections that the search met, ``qps`` the problems it solved, and ``cut`` says what ended
    it early, if anything did.

    >>> import hardmax as hm
    >>> found = hm.solve(hm.data.named("B-FIG-8"))
    >>> found.status, [each.selection for each in found.selections], found.exit_code
    ('complete', [(0, 1), (0, 0)], 0)
    >>> print(found)
    problem: n = 2 inputs, T = 2 tokens each, d = 2
    feasible selections: 4, of which attract: 2 (4 problems solved)
    #  selection  direction        margin    attracts   proof      support (i, t)
    ...
    """

    schema: ClassVar[str] = "hardmax.solve/2"

    problem: Problem
    name: str
    selections: tuple[FeasibleSelection, ...]
    best: tuple[Best, ...]
    all_best: bool
    found: int
    qps: int
    cut: str | None
    undecided: tuple[tuple[int, ...], ...]
    interrupted: bool
    critical: CriticalDirections | None
    flow: FlowEnd | None
    norm_name: str = "l2"
    decomposition: Decomposition | None = None

    @property
    def status(self) -> str:
        """Complete if nothing was cut short, and everything that was asked was decided."""
        decided = self.all_best and all(best.is_feasible is not None for _, best in self.best)
        decided = decided and all(found.locally_optimal is not None for found in self.selections)
        decided = decided and (self.critical is None or self.critical.status == "complete")
        decided = decided and (self.decomposition is None or self.decomposition.partition.certified)
        return "complete" if decided and self.cut is None and not self.interrupted else "truncated"

    @property
    def exit_code(self) -> int:
        """0 if complete, 3 if not, 130 after an interrupt."""
        if self.interrupted:
            return INTERRUPTED
        return DONE if self.status == "complete" else INCOMPLETE

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {
            "status": self.status,
            "feasible": self.found if self.cut is None else None,
            "qps": self.qps,
            "norm_name": self.norm_name,
            "multiplicities": [{"token": pair, "count": count} for pair, count in repeated(self.problem)],
            "selections": [selection_fields(found) for found in self.selections],
            "global": [_global_fields(tokens, best) for tokens, best in self.best],
            "flow": None if self.flow is None else self.flow.fields(),
            **({} if self.critical is None else {"critical": _critical_fields(self.critical)}),
            **({} if self.decomposition is None else {"decomposition": _split_fields(self.decomposition)}),
        }

    def table(self) -> Text:
        """What `hardmax solve` prints."""
        from hardmax.answers.solve_table import report

        return report(self)

    def plot(self) -> Figure:
        """Directions, tokens, separators and the flow; for keys in 2 dimensions.

        >>> import hardmax as hm
        >>> len(hm.solve(hm.data.named("B-FIG-8")).plot().axes)
        3
        """
        from hardmax.directions.display import PlaneDisplay

        path = None if self.flow is None else self.flow.path
        return PlaneDisplay.of(self.problem, self.selections, path).plot()

    def _picture(self) -> Figure | None:
        return self.plot() if self.problem.d == 2 else None

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write a certificate per listed selection, and one per infeasible selection of best-scoring tokens.

        >>> import tempfile
        >>> import hardmax as hm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = hm.solve(hm.data.named("B-FIG-8")).save(folder)
        ...     [hm.certify(file).valid for file in files]
        [True, True]
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        proofs = {f"selection-{k}.json": found.max_margin for k, found in enumerate(self.selections)}
        refuted = [best for _, best in self.best if best.is_feasible is False]
        proofs |= {f"global-{k}.json": best for k, best in enumerate(refuted)}
        for name, best in proofs.items():
            best.save(place / name)
        return [place / name for name in proofs]


def repeated(problem: Problem) -> list[tuple[tuple[int, int], int]]:
    """The tokens (i, t) that stand several times in an input, by their lowest index, and how often."""
    import numpy as np

    leaders, counts = np.unique(problem.groups, return_counts=True)
    several = zip(leaders[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True)
    inputs = np.repeat(np.arange(problem.n), problem.sizes)
    return [
        ((int(inputs[slot]), slot - int(problem.offsets[inputs[slot]])), count) for slot, count in several
    ]


def selection_fields(found: FeasibleSelection) -> dict[str, Any]:
    """What `solve` says of one selection."""
    best = found.max_margin
    direction, status = found.direction, "certified"
    if direction is None:
        status = "p is zero: no token competes"
    elif not math.isfinite(best.norm):
        direction, status = None, "p is too long for a float; multiply the keys by a large number"
    elif found.locally_optimal is None:
        status = found.word
    return {
        "selection": found.selection,
        "direction": direction,
        "norm": best.norm,
        "margin_interval": best.margin_interval,
        "kkt": best.kkt,
        "certificate": best.certificate,
        "support": best.support,
        "locally_optimal": found.locally_optimal,
        "globally_optimal": found.globally_optimal,
        "status": status,
    }


def _global_fields(tokens: tuple[int, ...], best: MaxMargin) -> dict[str, Any]:
    fields: dict[str, Any] = {"selection": tokens, "feasible": best.is_feasible}
    if best.is_feasible is None:
        fields["status"] = "undecided"
    if best.farkas is not None:
        weights = enumerate(best.farkas.tolist())
        fields["farkas"] = [{"row": best.constraints.label(j), "weight": w} for j, w in weights if w]
    return fields


def _split_fields(found: Decomposition) -> dict[str, Any]:
    """The field `decomposition` of the JSON; a local p_fin is not looked for here."""
    finite = None if found.is_local else found.finite
    weights = zip(found.bound, found.circulation, strict=True)
    return {
        "selection": found.selection,
        "scope": "local" if found.is_local else "global",
        "kind": found.kind,
        "status": found.status,
        "dimension": found.S.shape[1],
        "bound": [{"row": row, "weight": float(weight)} for row, weight in weights],
        "separable": found.separable,
        "p_fin": None if finite is None else finite.p,
        "radius": None if finite is None else finite.radius,
        "inf_risk": None if finite is None else finite.risk,
        "p_mm": found.p_mm,
    }


def _critical_fields(found: CriticalDirections) -> dict[str, Any]:
    """The field `critical` of the JSON."""
    return {
        "status": found.status,
        "degenerate": list(found.degenerate),
        "dimension": found.dimension,
        "sum": found.sum if found.status == "complete" else None,
        "directions": [
            {
                "index": each.index,
                "selection": each.selection,
                "direction": each.direction,
                "margin": each.margin,
                "rows": each.rows,
                "multipliers": [float(m) for m in each.multipliers],
            }
            for each in found.directions
        ],
    }
