"""`hardmax sweep`: the trials of a TOML file, each run once."""

import math
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax._lib.extras import install
from hardmax._lib.terminal import visible
from hardmax.app.cli.errors import Interrupted
from hardmax.app.cli.output import Output, command, spared, writable
from hardmax.app.results.swept import OneTrial, Swept

if TYPE_CHECKING:
    from hardmax.app.cli.output import ProgressBar as Bar
    from hardmax.trials.plan import Plan
    from hardmax.trials.work import Pace

LINE = 30.0  # seconds between lines of progress where no bar can be drawn


@command
def sweep(
    out: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to run (docs/sweeps.md).")],
    backend: Annotated[str, typer.Option(metavar="local|dask|ray", help="Where trials run.")] = "local",
    address: Annotated[
        str | None, typer.Option(metavar="A", help="The cluster to join; without it one is started here.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where results are kept; FILE.sqlite beside FILE.toml by default."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after this many seconds; the same command goes on.")
    ] = None,
    of: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A result to summarise; may be repeated.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all rows as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all rows as Parquet.")] = None,
    trial: Annotated[
        str | None, typer.Option(metavar="CELL:TRIAL", help="Run one trial alone and record nothing.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE|FILE.py", help="Code that FILE.toml may run besides files beside it."),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed trials again.")] = False,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Go on although code, libraries or data changed.")
    ] = False,
) -> int:
    """Run many trials over a grid; what is done is not run again.

    A FILE.toml may name Python code beside it, which is run: run only files that you trust.

    Example: hardmax sweep conjecture.toml --seconds 600 --csv rows.csv
    """
    from hardmax.trials.plan import read_plan
    from hardmax.trials.results import Sweep
    from hardmax.trials.store.errors import sqlite_errors
    from hardmax.trials.sweep import watched_sweep as run

    with _standard_output_free():
        plan = read_plan(file, allow or ())
    place = plan.store if store is None else store
    again = ["hardmax", "sweep", str(file), *([] if store is None else ["--store", str(store)])]
    again += [word for name in allow or () for word in ("--allow", name)]
    if seconds is not None and math.isnan(seconds):
        raise ValueError("--seconds must be a number, got nan")
    if trial is not None:
        if csv is not None or parquet is not None:
            raise ValueError("--trial runs one trial and records nothing; leave --csv and --parquet out")
        return _alone(out, plan, place, trial)
    _exportable(plan, place, {"--csv": csv, "--parquet": parquet})
    start, interrupted = time.monotonic(), False
    with out.progress("sweeping", 1) as bar, sqlite_errors(place), _standard_output_free():
        watch = _Watch(out, bar, seconds)
        try:
            found = run(
                plan.function,
                plan.grid,
                plan.trials,
                store=place,
                rng=plan.seed,
                batched=plan.batched,
                backend=backend,
                address=address,
                watch=watch.see,
                retry_failed=retry_failed,
                allow_changes=allow_changes,
                **plan.options,
            )
        except (KeyboardInterrupt, _OutOfTime) as stop:
            interrupted = isinstance(stop, KeyboardInterrupt)
            try:
                found = Sweep.open(place)
            except ValueError:
                if interrupted:  # before there was anything to keep
                    raise stop from None
                raise
        except ValueError as error:
            raise ValueError(str(error).replace("allow_changes=True", "--allow-changes")) from None
    answer = Swept.of_sweep(
        found,
        store=str(place),
        of=of or None,
        varying=plan.varying,
        seconds=time.monotonic() - start,
        command=shlex.join(again),
        interrupted=interrupted,
    )
    code = out.show(answer)
    for target, export in ((csv, found.to_csv), (parquet, found.to_parquet)):
        if target is not None:
            export(target)
    where = ["--backend", backend] if backend != "local" else []
    where += [] if address is None else ["--address", address]
    goes_on = f"go on with: {shlex.join(again + where)}"
    if interrupted:
        raise Interrupted(f"interrupted; what is done is kept in {place}; {goes_on}")
    if answer.remaining:
        out.say(f"{seconds:g} seconds are over; {goes_on}")
    return code


def _exportable(plan: "Plan", store: Path, targets: dict[str, Path | None]) -> None:
    """Refuse now what cannot be written when all trials are done, or would overwrite what they need."""
    needed = list(plan.files)
    spared("--store", store, *needed)
    needed += [store, *(store.with_name(store.name + ending) for ending in ("-wal", "-shm", ".lock"))]
    for option, target in targets.items():
        if target is not None:
            writable(option, target, *needed)
            needed.append(target)
    if targets["--parquet"] is not None:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ValueError(f"--parquet needs pyarrow ({error}): {install('export')}") from None


class _OutOfTime(Exception):
    """The seconds given are over."""


class _Watch:
    """Shows progress, and stops the sweep when its time is over."""

    def __init__(self, out: Output, bar: "Bar", seconds: float | None) -> None:
        self.out = out
        self.bar = bar
        self.end = None if seconds is None else time.monotonic() + seconds
        self.next_line = time.monotonic() + LINE

    def see(self, progress: "Pace") -> None:
        """Take note of a finished batch."""
        settled = progress.done + progress.failed
        if progress.compiling:
            pace = "compiling kernels"
        elif math.isfinite(progress.remaining):
            pace = f"{progress.rate:,.3g} trials/s, {_duration(progress.remaining)} left"
        else:
            pace = "none finished yet"
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        self.bar.total = progress.total
        self.bar.rename(f"{settled:,} of {progress.total:,} trials{failed}, {pace}")
        self.bar.advance(settled - self.bar.done)
        if not self.bar.allowed and time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + LINE
            self.out.say(self.bar.what)
        if self.end is not None and time.monotonic() >= self.end and settled < progress.total:
            raise _OutOfTime


def _alone(out: Output, plan: "Plan", store: Path, which: str) -> int:
    """Run one trial in this process. What it raises is the user's own, so its traceback is shown."""
    from hardmax.trials.results import Sweep

    opened = Sweep.open(store)
    cells, trials = opened.cells(), opened.store.meta["trials"]
    cell, _, trial = which.partition(":")
    fits = re.fullmatch("[0-9]{1,18}:[0-9]{1,18}", which) is not None
    if not (fits and int(cell) < len(cells) and int(trial) < trials):
        raise ValueError(f"--trial must be CELL:TRIAL, 0:0 to {len(cells) - 1}:{trials - 1}, got {which!r}")
    with _standard_output_free():
        answer = OneTrial.run(opened, int(cell), int(trial), plan.function, str(store))
    if answer.trace is not None:
        print(visible(answer.trace), end="", file=sys.stderr)
    return out.show(answer)


@contextmanager
def _standard_output_free() -> Iterator[None]:
    """Keep standard output for the result: what a user's file or a worker prints goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
