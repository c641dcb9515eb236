"""`hardmax solve`: the directions that attract in a problem of one's own."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.app.cli.errors import none_lost
from hardmax.app.cli.output import Output, command, writable
from hardmax.app.cli.own import norm_of_file
from hardmax.app.results.solving import LIMIT, SECONDS, Solving

if TYPE_CHECKING:
    from hardmax.problem import Problem

PICTURES = (".svg", ".png", ".pdf")
STEPS = 1000  # of the progress bar
PROOF = re.compile(r"(selection|global)-\d+\.json")  # files in the folder of certificates


@command
def solve(
    out: Output,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A problem (.json, .npz, .csv), or the name of an example.")
    ],
    every: Annotated[
        bool, typer.Option("--all", help="List every feasible selection, not only those that attract.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Stop after this many feasible selections.")] = LIMIT,
    seconds: Annotated[float, typer.Option(help="Stop the search after this many seconds.")] = SECONDS,
    exact: Annotated[bool, typer.Option("--exact", help="Solve what is listed in rational numbers.")] = False,
    critical: Annotated[
        bool, typer.Option("--critical", help="List attractors and saddles at infinity with their index.")
    ] = False,
    norm: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="In which p is shortest: l1, l2, linf, a power, as l1.5; of W nuclear, spectral; "
            "FILE.py:NAME for one of yours.",
        ),
    ] = "l2",
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
    from hardmax._lib.notebook import save_picture
    from hardmax.data.small import load_problem

    started = time.monotonic()
    expect.positive("--seconds", seconds)
    problem, norm = load_problem(str(file)), norm_of_file(norm)
    begin, start_name = _start(problem, start, flow), "zero" if start is None else start
    inputs = [file, *([] if start is None else [Path(start)])]
    if plot is not None:
        _drawable(problem, plot, inputs)
    if certificates is not None:
        _provable(certificates, inputs)
    # reading has taken some of the time; the search needs a positive rest to say that it has none
    left = max(started + seconds - time.monotonic(), 1e-9)
    job = Solving(problem, every, limit, left, exact, flow, begin, critical, str(file), start_name, norm)
    with out.progress("searching", STEPS) as bar:
        try:
            with none_lost():
                job.run(lambda done, total: bar.advance(STEPS * done // total - bar.done))
        except KeyboardInterrupt:
            out.say("stopping; what was found follows")
    answer = job.answer()
    code = out.show(answer)
    if certificates is not None:
        count = len(answer.save(certificates))
        out.say(f"{count} certificates in {certificates}; check one with hardmax certify")
    if plot is not None:
        save_picture(answer.plot(), plot)
    return code


def _start(problem: "Problem", start: str | None, flow: bool) -> Any:
    """The start of the flow as a vector, None for the origin."""
    from hardmax._lib.archive import read_array
    from hardmax._lib.reading import read_json

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
