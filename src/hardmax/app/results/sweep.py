"""`sweep`: the trials of a TOML file, each run once; counts, summaries and failures of its cells."""

from __future__ import annotations

import math
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.progress import Pace, Watcher
from hardmax._lib.result import Result
from hardmax._lib.terminal import command_line, ending, visible
from hardmax.app.results.session import session, spared, writable

if TYPE_CHECKING:
    from hardmax.app.results.session import Progress as Bar
    from hardmax.trials.plan import Plan
    from hardmax.trials.provenance import Function
    from hardmax.trials.results import Sweep

LINE = 30.0  # seconds between lines of progress where no bar can be drawn


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult(Result):
    """The state of a sweep: counts of trials, the failures, and a summary of each cell.

    ``of`` names the results to show and ``varying`` the parameters in the table. `SweepResult.of_sweep` makes
    one of what `hm.sweep` returned.

    >>> import hardmax as hm
    >>> sweep = hm.sweep(lambda parameters, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 30, workers=0)
    >>> from hardmax.app.results.sweep import SweepResult
    >>> print(SweepResult.of_sweep(sweep))
    d  trials                odd
    2      30  16 of 30 (34-72%)
    5      30  17 of 30 (37-75%)
    60 done, 0 failed, 0 remaining, 0.0 s; results in memory
    """

    schema: ClassVar[str] = "hardmax.sweep/1"
    json_fields: ClassVar = ("seed", "store", "done", "failed", "remaining", "seconds", "failures", "summary")

    seed: int
    store: str
    done: int
    failed: int
    remaining: int
    seconds: float
    failures: tuple[dict[str, Any], ...]
    summary: tuple[dict[str, Any], ...]
    varying: tuple[str, ...]
    of: tuple[str, ...] | None = None
    interrupted: bool = False
    resume_command: str | None = None

    @property
    def interruption(self) -> str | None:
        """After an interrupt: the store of finished trials, and the command that resumes."""
        message = f"interrupted; what is done is kept in {self.store}; go on with: {self.resume_command}"
        return message if self.interrupted else None

    @property
    def headline(self) -> str:
        """The counts of trials, the time, and the store of results."""
        counts = f"{self.done} done, {self.failed} failed, {self.remaining} remaining"
        return f"{counts}, {self.seconds:.1f} s; results in {self.store}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per cell."""
        return [
            {name: value for name, value in cell.items() if not isinstance(value, dict | list)}
            | cell.get("parameters", {})
            for cell in self.summary
        ]

    @classmethod
    def of_sweep(
        cls,
        sweep: Sweep,
        *,
        store: str | None = None,
        of: Sequence[str] | None = None,
        varying: Sequence[str] | None = None,
        seconds: float = 0.0,
        command: str | None = None,
        interrupted: bool = False,
        resume_command: str | None = None,
    ) -> SweepResult:
        """Return the result of a sweep; ``command`` runs it again, or one of its trials alone."""
        from hardmax.trials.results import failures_of
        from hardmax.trials.summary import summary_of

        return cls(
            sweep.store.meta["seed"],
            store or str(sweep.store.path or "memory"),
            sweep.done,
            sweep.failed,
            sweep.remaining,
            seconds,
            tuple(failures_of(sweep, command)),
            tuple(summary_of(sweep.store, of)),
            tuple(sweep.parameters if varying is None else varying),
            None if of is None else tuple(of),
            interrupted,
            resume_command,
        )

    @property
    def exit_code(self) -> int:
        """0 if all is done, 1 if trials failed, 3 if some remain, 130 after an interrupt."""
        is_incomplete = self.remaining > 0
        is_wrong = self.failed > 0 and not is_incomplete
        return ending(interrupted=self.interrupted, wrong=is_wrong, incomplete=is_incomplete)

    def table(self) -> str:
        """Return what `hardmax sweep` prints."""
        from hardmax.trials.summary import summary_lines

        lines = summary_lines(self.summary, self.failures, self.varying, self.of)
        return "\n".join([*lines, self.headline])


@dataclass(frozen=True, eq=False, repr=False)
class TrialResult(Result):
    """One trial that was run alone: its ``row``, or the ``error`` that it raised and the ``trace`` of it.

    >>> import hardmax as hm
    >>> sweep = hm.sweep(lambda parameters, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 3, workers=0)
    >>> from hardmax.app.results.sweep import TrialResult
    >>> print(TrialResult.run(sweep, 1, 2))
    d = 5
    cell = 1
    trial = 2
    seed = 3954438669427764931
    odd = True
    """

    schema: ClassVar[str] = "hardmax.sweep/1"
    json_fields: ClassVar = ("store", "cell", "trial", "seed", "parameters", "error", "row", "status")

    store: str
    cell: int
    trial: int
    seed: int
    parameters: dict[str, Any]
    row: dict[str, Any] | None
    error: str | None = None
    trace: str | None = None

    @classmethod
    def run(
        cls,
        sweep: Sweep,
        cell: int,
        trial: int,
        function: Function | str | None = None,
        store: str | None = None,
    ) -> TrialResult:
        """Run a trial of a sweep in this process; the result keeps an error that the user's code raises."""
        from hardmax.trials.grid import cell_key, seeds
        from hardmax.trials.results import function_of, run_one

        parameters = sweep.cells()[cell]
        (seed,) = seeds(sweep.store.meta["seed"], cell_key(parameters), trial, trial + 1)
        run = partial(run_one, sweep, cell, trial, function_of(sweep, function))
        facts = (store or str(sweep.store.path or "memory"), cell, trial, seed, parameters)
        try:
            return cls(*facts, run())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return cls(*facts, None, f"{type(error).__name__}: {error}", traceback.format_exc())

    @property
    def exit_code(self) -> int:
        """0 if it returned a row, 1 if it raised."""
        return ending(wrong=self.error is not None)

    @property
    def status(self) -> str:
        """Complete, or the names of values in the row that are not finite."""
        if self.row is None:
            return "it raised"
        odd = [name for name, x in self.row.items() if isinstance(x, float) and not math.isfinite(x)]
        return f"not finite: {', '.join(odd)}" if odd else "complete"

    def table(self) -> str:
        """Return what `hardmax sweep --trial` prints."""
        values = {**self.parameters, "cell": self.cell, "trial": self.trial, "seed": self.seed}
        values |= {"error": self.error} if self.row is None else self.row
        return "\n".join(f"{name} = {value}" for name, value in values.items())


@check_arguments
def sweep_file(
    file: str | os.PathLike[str],
    *,
    backend: Literal["local", "dask", "ray"] = "local",
    address: str | None = None,
    store: str | os.PathLike[str] | None = None,
    seconds: float | None = None,
    of: Sequence[str] | None = None,
    csv: str | os.PathLike[str] | None = None,
    parquet: str | os.PathLike[str] | None = None,
    trial: str | None = None,
    allow: Sequence[str] | None = None,
    retry_failed: bool = False,
    allow_changes: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> SweepResult | TrialResult:
    r"""Run a function over a parameter grid; resumable.

    Args:
        file: TOML file that describes the sweep. It may name Python code, which is run.
        backend: Where trials run.
        address: Address of the cluster to join; without it one is started here.
        store: File that keeps results; by default FILE.sqlite next to FILE.toml.
        seconds: Stop after this many seconds; the same command resumes.
        of: Result to summarize; may be repeated.
        csv: Write all rows as CSV.
        parquet: Write all rows as Parquet.
        trial: Run one trial alone and record nothing.
        allow: Module or file that FILE.toml may run in addition to files next to it.
        retry_failed: Run failed trials again.
        allow_changes: Resume although code, libraries or data have changed.
        progress: Called with the number of trials done and of all trials.

    See also:
        `hm.sweep` runs a Python function.

    >>> import hardmax as hm, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "small.toml")
    ...     plan = 'experiment = "sphere"\ntrials = 5\n[grid]\nn = [2]\nT = [3]\nd = [4]\n'
    ...     _ = file.write_text(plan)
    ...     result = hm.trials.sweep_file(file, seconds=60)
    >>> result.exit_code
    0
    """
    from hardmax.trials.plan import read_plan
    from hardmax.trials.results import Sweep
    from hardmax.trials.store import sqlite_errors
    from hardmax.trials.sweep import sweep as run

    allow, of = ([] if names is None else [*names] for names in (allow, of))
    with session().stdout_free():
        plan = read_plan(Path(file), allow)
    place = plan.store if store is None else Path(store)
    again = partial(command_line, "sweep", file, store=store, allow=allow)
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"seconds must be a number, 0 or more, got {seconds}")
    if trial is not None:
        if csv is not None or parquet is not None:
            raise ValueError("`trial` runs one trial and records nothing; leave `csv` and `parquet` out")
        return _alone(plan, place, trial)
    _check_exports(plan, place, {"csv": csv, "parquet": parquet})
    start, interrupted = time.monotonic(), False
    with session().progress("sweeping", 1, progress) as bar, sqlite_errors(place), session().stdout_free():
        watch = _Watch(bar, seconds)
        try:
            outcome = run(
                plan.function,
                plan.grid,
                plan.trials,
                store=place,
                rng=plan.seed,
                batched=plan.batched,
                backend=backend,
                address=address,
                progress=watch,
                retry_failed=retry_failed,
                allow_changes=allow_changes,
                **plan.options,
            )
        except KeyboardInterrupt as stop:
            interrupted = True
            session().keep("")
            try:
                outcome = Sweep.open(place)
            except ValueError:  # no trial was finished
                raise stop from None
        except _OutOfTime:
            outcome = Sweep.open(place)
    result = SweepResult.of_sweep(
        outcome,
        store=str(place),
        of=of or None,
        varying=plan.varying,
        seconds=time.monotonic() - start,
        command=again(),
        interrupted=interrupted,
        resume_command=again(backend=None if backend == "local" else backend, address=address),
    )
    session().show(result)
    for target, export in ((csv, outcome.to_csv), (parquet, outcome.to_parquet)):
        if target is not None:
            export(target)
    if result.remaining and not interrupted:
        session().say(f"{seconds:g} seconds are over; go on with: {result.resume_command}")
    return result


def _check_exports(plan: Plan, store: Path, targets: dict[str, str | os.PathLike[str] | None]) -> None:
    """Refuse files that could not be written at the end, or that would overwrite inputs."""
    needed: list[Any] = list(plan.files)
    spared("store", store, *needed)
    needed += [store, *(store.with_name(store.name + ending) for ending in ("-wal", "-shm", ".lock"))]
    for name, target in targets.items():
        writable(name, target, *needed)
        needed.append(target)
    if targets["parquet"] is not None:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ImportError(f"`parquet` needs pyarrow ({error}): {install('export')}") from None


class _OutOfTime(Exception):
    """The time limit was reached."""


class _Watch(Watcher):
    """Show progress, and stop the sweep when its time is over."""

    def __init__(self, bar: Bar, seconds: float | None) -> None:
        self.bar = bar
        self.end = None if seconds is None else time.monotonic() + seconds
        self.next_line = time.monotonic() + LINE

    def see(self, pace: Pace) -> None:
        """Take note of a finished batch."""
        settled = pace.done + pace.failed
        if pace.compiling:
            speed = "compiling kernels"
        elif math.isfinite(pace.remaining):
            speed = f"{pace.rate:,.3g} trials/s, {_duration(pace.remaining)} left"
        else:
            speed = "none finished yet"
        failed = f", {pace.failed:,} failed" if pace.failed else ""
        self.bar.rename(f"{settled:,} of {pace.total:,} trials{failed}, {speed}")
        self.bar.to(settled, pace.total)
        if not self.bar.allowed and time.monotonic() >= self.next_line:
            self.next_line = time.monotonic() + LINE
            session().say(self.bar.what)
        if self.end is not None and time.monotonic() >= self.end and settled < pace.total:
            raise _OutOfTime


def _alone(plan: Plan, store: Path, which: str) -> TrialResult:
    """Run one trial in this process; print the traceback of an error, which is the user's own."""
    from hardmax.trials.results import Sweep

    opened = Sweep.open(store)
    cells, trials = opened.cells(), opened.store.meta["trials"]
    cell, _, trial = which.partition(":")
    fits = re.fullmatch("[0-9]{1,18}:[0-9]{1,18}", which) is not None
    if not (fits and int(cell) < len(cells) and int(trial) < trials):
        raise ValueError(f"trial must be CELL:TRIAL, 0:0 to {len(cells) - 1}:{trials - 1}, got {which!r}")
    with session().stdout_free():
        result = TrialResult.run(opened, int(cell), int(trial), plan.function, str(store))
    if result.trace is not None:
        print(visible(result.trace), end="", file=sys.stderr)
    return result


def _duration(seconds: float) -> str:
    """Return seconds as a person reads them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
