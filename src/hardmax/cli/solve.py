"""`hardmax solve`: the directions that attract in a problem of one's own."""

import itertools
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax._lib.files import whole
from hardmax.cli.errors import DONE, INCOMPLETE, INTERRUPTED
from hardmax.cli.interrupts import none_lost
from hardmax.cli.output import Output, command
from hardmax.cli.solve_critical import critical_fields, critical_text
from hardmax.cli.writing import writable

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.directions.critical import CriticalDirections
    from hardmax.directions.enumerate import Enumeration, FeasibleSelection
    from hardmax.margin.solution import MaxMargin
    from hardmax.problem import Problem
    from hardmax.train.run import Run

PICTURES = (".svg", ".png", ".pdf")
STEPS = 1000  # of the progress bar
LARGE = 20_000  # tokens; one hard-margin problem of more may take seconds
PROOF = re.compile(r"(selection|global)-\d+\.json")  # files in the folder of certificates


@command("hardmax.solve/2")
def solve(
    out: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A problem: .json or .npz (docs/files.md).")],
    every: Annotated[
        bool, typer.Option("--all", help="List every feasible selection, not only those that attract.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Stop after this many feasible selections.")] = 10_000,
    seconds: Annotated[float, typer.Option(help="Stop the search after this many seconds.")] = 60.0,
    exact: Annotated[bool, typer.Option("--exact", help="Solve what is listed in rational numbers.")] = False,
    critical: Annotated[
        bool, typer.Option("--critical", help="List attractors and saddles at infinity with their index.")
    ] = False,
    flow: Annotated[bool, typer.Option("--flow", help="Run gradient flow and say where it goes.")] = False,
    start: Annotated[
        str | None,
        typer.Option(metavar="zero|FILE", help="Start of the flow, zero by default; a JSON list, or .npy."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.svg", help="Draw a problem in 2 dimensions (svg, png, pdf).")
    ] = None,
    certificates: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a proof per selection, for hardmax certify.")
    ] = None,
) -> int:
    """List the directions that attract training, each with a proof.

    Example: hardmax solve problem.json --flow --plot problem.svg
    """
    from hardmax._lib import expect
    from hardmax.directions.enumerate import feasible_selections
    from hardmax.problem import Problem

    started = time.monotonic()
    expect.positive("--seconds", seconds)
    problem = Problem.load(file)
    begin = _start(problem, start, flow)
    inputs = [file, *([] if start is None else [Path(start)])]
    if plot is not None:
        _drawable(problem, plot, inputs)
    if certificates is not None:
        _provable(certificates, inputs)
    answer = _Answer(problem, file, every)
    with out.progress("searching", STEPS) as bar:

        def bar_to(share: float) -> None:
            bar.advance(int(STEPS * share) - bar.done)

        # reading has taken some of the time; the search needs a positive rest to say that it has none
        left = max(started + seconds - time.monotonic(), 1e-9)
        search = feasible_selections(problem, limit=limit, seconds=left, progress=bar_to)
        try:
            with none_lost():
                answer.collect(search, exact)
                answer.globally(limit, exact, started + seconds)
                if critical:
                    from hardmax.directions.critical import critical_directions

                    answer.critical = critical_directions(problem, seconds=seconds)
                if flow:
                    answer.follow(begin, "zero" if start is None else start)
            answer.is_whole = True
        except KeyboardInterrupt:
            out.say("stopping; what was found follows")
    out.result(answer.fields(search), lambda: answer.text(search))
    if certificates is not None:
        out.say(answer.save(certificates))
    if plot is not None:
        answer.draw(plot)
    if not answer.is_whole:
        return INTERRUPTED
    return DONE if answer.status(search) == "complete" else INCOMPLETE


def _start(problem: "Problem", start: str | None, flow: bool) -> Any:
    """The start of the flow as a vector, None for the origin."""
    from hardmax._lib.reading import read_array, read_json

    if start is not None and not flow:
        raise ValueError("--start says where the flow begins; add --flow")
    if start is None or start == "zero":
        return None
    path = Path(start)
    try:
        p = read_array(path) if path.suffix == ".npy" else read_json(path, "a list of numbers")
    except ValueError:
        raise ValueError(f"{path} must hold {problem.d} numbers, as a JSON list or .npy") from None
    return problem.vector(str(path), p)


def _drawable(problem: "Problem", plot: Path, inputs: Sequence[Path]) -> None:
    if problem.d != 2:
        raise ValueError(f"--plot draws keys in 2 dimensions and these have {problem.d}; leave --plot out")
    if plot.suffix not in PICTURES:
        raise ValueError(f"--plot writes {', '.join(PICTURES)}, got the ending {plot.suffix!r}")
    writable("--plot", plot, *inputs)


def _provable(folder: Path, inputs: Sequence[Path]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--certificates {folder}: this is a file; give the name of a folder")
    for file in map(os.path.realpath, inputs):
        place, name = os.path.split(file)
        if PROOF.fullmatch(name) and place == os.path.realpath(folder):
            raise ValueError(f"--certificates {folder}: it may overwrite {name}; choose another folder")


class _Answer:
    """What has been found so far; an interrupt leaves it usable."""

    def __init__(self, problem: "Problem", file: Path, every: bool) -> None:
        self.problem, self.file, self.every = problem, file, every
        self.listed: list[FeasibleSelection] = []
        self.best: list[tuple[tuple[int, ...], MaxMargin]] = []
        self.all_best = self.is_whole = False
        self.critical: CriticalDirections | None = None
        self.flow: dict[str, Any] | None = None
        self.path: Run | None = None

    def collect(self, search: "Enumeration", exact: bool) -> None:
        from dataclasses import replace

        from hardmax.directions.neighbors import score_gap
        from hardmax.margin.att_svm import max_margin

        for found in search:
            if self.every or found.locally_optimal is not False:
                if exact:
                    proof = max_margin(self.problem, found.selection, exact=True)
                    found = replace(found, max_margin=proof, score_gap=score_gap(self.problem, proof))
                self.listed.append(found)

    def globally(self, limit: int, exact: bool, end: float) -> None:
        """Selections of best-scoring tokens; ties may make more of them than the limit or the time allows.

        The first is worth a moment beyond the time, unless the problem is large.
        """
        from hardmax.margin.att_svm import global_max_margins
        from hardmax.problem.selection import optimal_tokens

        if time.monotonic() > end and len(self.problem.tokens) > LARGE:
            return
        selections = global_max_margins(self.problem, exact=exact)
        for found in itertools.islice(selections, min(limit, sys.maxsize)):
            self.best.append(found)
            if time.monotonic() > end:
                break
        self.all_best = len(self.best) == math.prod(map(len, optimal_tokens(self.problem).sets))

    def status(self, search: "Enumeration") -> str:
        """Complete if nothing was cut short, and everything that was asked was decided."""
        decided = self.all_best and all(best.is_feasible is not None for _, best in self.best)
        decided = decided and all(found.locally_optimal is not None for found in self.listed)
        decided = decided and (self.critical is None or self.critical.status == "complete")
        return "complete" if self.is_whole and search.status == "complete" and decided else "truncated"

    def follow(self, begin: Any, name: str) -> None:
        from hardmax._lib.arrays import misalignment
        from hardmax.train.flow import flow

        path = self.path = flow(self.problem, start=begin)
        moved = bool(path.p.any())
        chosen = path.selection() if moved else None
        angles = {
            k: misalignment(path.p, f.direction)
            for k, f in enumerate(self.listed)
            if moved and f.direction is not None and math.isfinite(f.max_margin.norm)
        }
        nearest = min(angles, key=lambda k: angles[k], default=None)
        reasons = [
            (not moved, "p is zero and selects nothing"),
            (chosen is not None and not chosen.is_unique, "an input selects several tokens"),
            (nearest is None, "no listed direction to compare with"),
        ]
        self.flow = {
            "start": name,
            "clock": path.clock,
            "log_time": float(path.times[-1]),
            "norm": path.norm,
            "selection": chosen.tokens if chosen is not None and chosen.is_unique else None,
            "direction": path.direction if moved else None,
            "event": path.event,
            "nearest": nearest,
            "misalignment": None if nearest is None else angles[nearest],
            "status": next((reason for holds, reason in reasons if holds), "complete"),
        }

    def save(self, folder: Path) -> str:
        """One certificate per listed selection, and one per infeasible selection of best-scoring tokens."""
        folder.mkdir(parents=True, exist_ok=True)
        proofs = {f"selection-{k}.json": found.max_margin for k, found in enumerate(self.listed)}
        refuted = [best for _, best in self.best if best.is_feasible is False]
        proofs |= {f"global-{k}.json": best for k, best in enumerate(refuted)}
        for name, best in proofs.items():
            best.save(folder / name)
        return f"{len(proofs)} certificates in {folder}; check one with hardmax certify"

    def draw(self, plot: Path) -> None:
        from matplotlib import rc_context

        from hardmax.directions.display import PlaneDisplay

        figure = PlaneDisplay.of(self.problem, self.listed, self.path).plot()
        dated = "CreationDate" if plot.suffix == ".pdf" else "Date"
        # without dates the same picture is the same file
        with rc_context({"svg.hashsalt": "hardmax"}), whole(plot) as file:
            metadata = None if plot.suffix == ".png" else {dated: None}
            figure.savefig(file, format=plot.suffix[1:], dpi=200, metadata=metadata)

    def fields(self, search: "Enumeration") -> dict[str, Any]:
        """The JSON of the contract."""
        return {
            "status": self.status(search),
            "feasible": search.found if search.status == "complete" else None,
            "qps": search.qps,
            "norm_name": "l2",
            "multiplicities": [{"token": pair, "count": count} for pair, count in repeated(self.problem)],
            "selections": [_selection_fields(found) for found in self.listed],
            "global": [_global_fields(tokens, best) for tokens, best in self.best],
            "flow": self.flow,
            **({} if self.critical is None else {"critical": critical_fields(self.critical)}),
        }

    def text(self, search: "Enumeration") -> "Text":
        from hardmax.cli.solve_text import report

        found = report(self.problem, self.file, search, self.listed, self.best, self.flow)
        if self.critical is not None:
            found.append("\n").append_text(critical_text(self.critical))
        return found


def repeated(problem: "Problem") -> list[tuple[tuple[int, int], int]]:
    """The tokens (i, t) that stand several times in an input, by their lowest index, and how often."""
    import numpy as np

    leaders, counts = np.unique(problem.groups, return_counts=True)
    several = zip(leaders[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True)
    inputs = np.repeat(np.arange(problem.n), problem.sizes)
    return [
        ((int(inputs[slot]), slot - int(problem.offsets[inputs[slot]])), count) for slot, count in several
    ]


def _selection_fields(found: "FeasibleSelection") -> dict[str, Any]:
    best = found.max_margin
    direction, status = found.direction, "certified"
    if direction is None:
        status = "p is zero: no token competes"
    elif not math.isfinite(best.norm):
        direction, status = None, "p is too long for a float; multiply the keys by a large number"
    elif found.locally_optimal is None:
        status = "doubtful"
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


def _global_fields(tokens: tuple[int, ...], best: "MaxMargin") -> dict[str, Any]:
    fields: dict[str, Any] = {"selection": tokens, "feasible": best.is_feasible}
    if best.is_feasible is None:
        fields["status"] = "undecided"
    if best.farkas is not None:
        weights = enumerate(best.farkas.tolist())
        fields["farkas"] = [{"row": best.constraints.label(j), "weight": w} for j, w in weights if w]
    return fields
