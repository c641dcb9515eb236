"""`hardmax hunt`: a counterexample to a claim, shrunk and proved."""

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hardmax.app.cli.checks import options_of
from hardmax.app.cli.errors import Interrupted
from hardmax.app.cli.output import Output, ProgressBar, command
from hardmax.app.results.hunts import Hunted, Hunting, catalogue, judge_file


@command
def hunt(
    out: Output,
    claim: Annotated[
        str | None,
        typer.Argument(
            metavar="CLAIM",
            help="An ID, FILE.py:NAME (the file is executed), or a line such as 'selection == 1'.",
        ),
    ] = None,
    reading: Annotated[
        str, typer.Option(metavar="corrected|paper", help="A statement as corrected, or as printed.")
    ] = "corrected",
    space: Annotated[
        str | None, typer.Option(metavar="RANGES", help="Sizes to try, as n=2..4,T=2..4,d=2..3.")
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Loss of every problem: logistic, exponential or correlation; all by default.",
        ),
    ] = None,
    tries: Annotated[
        int | None, typer.Option(metavar="N", help="Units of work; 100 without --seconds.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after the units under way then.")] = None,
    seed: Annotated[int, typer.Option(help="Of all units.")] = 0,
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keeps the units: the same command goes on.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write data, picture and LaTeX there.")
    ] = None,
    on: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge the claim on this file; no search.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="With --on: what the claim is told, as start=[0,1]."),
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Say which one more condition leaves nothing to find.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--catalogue", help="Hunt all printed statements known to be false, 60 s each.")
    ] = False,
    backend: Annotated[str, typer.Option(metavar="local|dask|ray", help="Where units run.")] = "local",
    address: Annotated[str | None, typer.Option(metavar="A", help="The cluster to join.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; one for each core by default.")] = None,
) -> int:
    """Search for a counterexample, shrink it and prove it.

    FILE.py:NAME executes the file, as Python does; hunt files that you trust.

    Example: hardmax hunt B-THM-1 --reading paper, or hardmax hunt "selection == 1 given margin > 0.5"
    """
    if whole == (claim is not None):
        raise ValueError("give a CLAIM to hunt, or --catalogue, one of the two")
    if loss is not None and (whole or on is not None):
        raise ValueError("--loss must be left out with --catalogue and with --on, whose file has its loss")
    if claim is None:
        with out.progress("hunting", 24) as bar:
            found = catalogue(seconds or 60.0, rng=seed, workers=workers, tell=partial(_next, bar))
        return out.show(found)
    if on is not None:
        return out.show(judge_file(claim, on, reading, options_of(given or ())))
    with out.progress(f"hunting {claim}", tries or 100) as bar:
        job = Hunting(
            claim,
            reading=reading,
            space=space,
            tries=tries,
            seconds=seconds,
            rng=seed,
            store=store,
            backend=backend,
            address=address,
            workers=workers,
            loss=loss,
            progress=lambda done, total: bar.advance(done - bar.done),
        )
        try:
            try:
                job.run()
                interrupted = False
            except KeyboardInterrupt:
                out.say("stopping; the best so far is shrunk (press again to leave at once)")
                interrupted = True
            answer: Hunted = job.answer(interrupted, suggest and not interrupted)
        finally:
            job.close()
    if out_dir is not None:
        answer = answer.save(out_dir)
    code = out.show(answer)
    if interrupted:
        kept = (
            f"what is done is kept in {store}; " if store is not None else "without --store nothing is kept; "
        )
        given = ["hardmax", "hunt", claim, *(["--store", str(store)] if store is not None else [])]
        raise Interrupted(f"interrupted; {kept}go on with: {shlex.join(given)} and the same options")
    return code


def _next(bar: ProgressBar, what: str) -> None:
    bar.rename(f"hunting {what}")
    bar.advance()
