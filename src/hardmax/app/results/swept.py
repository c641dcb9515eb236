"""What `sweep` says: how many trials of each cell came out how, and of one trial alone what it returned."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, NOT_AS_EXPECTED
from hardmax.app.results.answer import Answer

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.trials.provenance import Function
    from hardmax.trials.results import Sweep


@dataclass(frozen=True, eq=False, repr=False)
class Swept(Answer):
    """The state of a sweep: counts of trials, the failures, and a summary of each cell.

    ``of`` names the results to show and ``varying`` the parameters that stand in the table. `Swept.of_sweep`
    tells what `hardmax.sweep` returned.

    >>> import hardmax as hm
    >>> found = hm.sweep(lambda parameters, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 30, workers=0)
    >>> hm.answers.Swept.of_sweep(found)
    d  trials                odd
    2      30  16 of 30 (34-72%)
    5      30  17 of 30 (37-75%)
    60 done, 0 failed, 0 remaining, 0.0 s; results in memory
    """

    schema: ClassVar[str] = "hardmax.sweep/1"

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

    @classmethod
    def of_sweep(
        cls,
        found: Sweep,
        *,
        store: str | None = None,
        of: Sequence[str] | None = None,
        varying: Sequence[str] | None = None,
        seconds: float = 0.0,
        command: str | None = None,
        interrupted: bool = False,
    ) -> Swept:
        """What a sweep found; ``command`` runs it again, and with ``--trial`` one of its trials alone."""
        from hardmax.trials.summary import failures_of, summary_of

        return cls(
            found.store.meta["seed"],
            store or _place(found),
            found.done,
            found.failed,
            found.remaining,
            seconds,
            tuple(failures_of(found, command)),
            tuple(summary_of(found, of)),
            tuple(found.parameters if varying is None else varying),
            None if of is None else tuple(of),
            interrupted,
        )

    @property
    def exit_code(self) -> int:
        """0 if all is done, 1 if trials failed, 3 if some remain, 130 after an interrupt."""
        if self.interrupted:
            return INTERRUPTED
        if self.remaining:
            return INCOMPLETE
        return NOT_AS_EXPECTED if self.failed else DONE

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {
            "seed": self.seed,
            "store": self.store,
            "done": self.done,
            "failed": self.failed,
            "remaining": self.remaining,
            "seconds": self.seconds,
            "failures": self.failures,
            "summary": self.summary,
        }

    def table(self) -> Text:
        """What `hardmax sweep` prints."""
        from rich.text import Text

        from hardmax.trials.summary import told

        lines = told(self.summary, self.failures, self.varying, self.of)
        counts = f"{self.done} done, {self.failed} failed, {self.remaining} remaining"
        return Text("\n".join([*lines, f"{counts}, {self.seconds:.1f} s; results in {self.store}"]))


@dataclass(frozen=True, eq=False, repr=False)
class OneTrial(Answer):
    """One trial that was run alone: its ``row``, or the ``error`` that it raised and the ``trace`` of it.

    >>> import hardmax as hm
    >>> found = hm.sweep(lambda parameters, seed: {"odd": seed % 2 == 1}, {"d": [2, 5]}, 3, workers=0)
    >>> hm.answers.OneTrial.run(found, 1, 2)
    d = 5
    cell = 1
    trial = 2
    seed = 3954438669427764931
    odd = True
    """

    schema: ClassVar[str] = "hardmax.sweep/1"

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
    ) -> OneTrial:
        """Run a trial of a sweep in this process; what it raises is the user's own, and is kept."""
        from hardmax.trials.grid import cell_key, seeds
        from hardmax.trials.results import function_of, run_one

        parameters = sweep.cells()[cell]
        (seed,) = seeds(sweep.store.meta["seed"], cell_key(parameters), trial, trial + 1)
        made = function_of(sweep, function)
        where = (store or _place(sweep), cell, trial, seed, parameters)
        try:
            return cls(*where, run_one(sweep, cell, trial, made))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return cls(*where, None, f"{type(error).__name__}: {error}", traceback.format_exc())

    @property
    def exit_code(self) -> int:
        """0 if it returned a row, 1 if it raised."""
        return DONE if self.error is None else NOT_AS_EXPECTED

    @property
    def status(self) -> str:
        """Complete, or what in the row is not finite."""
        if self.row is None:
            return "it raised"
        odd = [name for name, x in self.row.items() if isinstance(x, float) and not math.isfinite(x)]
        return f"not finite: {', '.join(odd)}" if odd else "complete"

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {
            "store": self.store,
            "cell": self.cell,
            "trial": self.trial,
            "seed": self.seed,
            "parameters": self.parameters,
            "error": self.error,
            "row": self.row,
            "status": self.status,
        }

    def table(self) -> str:
        """What `hardmax sweep --trial` prints."""
        found = {"error": self.error} if self.row is None else self.row
        shown = {**self.parameters, "cell": self.cell, "trial": self.trial, "seed": self.seed}
        return "\n".join(f"{name} = {value}" for name, value in (shown | found).items())


def _place(found: Sweep) -> str:
    return "memory" if found.store.path is None else str(found.store.path)
