"""Summaries of many trials: "k of N" with an interval, the spread of numbers, and the table of them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardmax._lib.json import attributes
from hardmax._lib.terminal import columns
from hardmax.trials.grid import Parameters, cell_key
from hardmax.trials.store import Store

CONFIDENCE = 0.95
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Proportion:
    """k of n, with the Clopper-Pearson interval: it holds the true probability at least 95 times in 100.

    >>> from hardmax.trials.summary import Proportion
    >>> print(Proportion(998, 1000))
    998 of 1000 (99.3% to 100.0%)
    """

    k: int
    n: int

    @property
    def share(self) -> float:
        """Share of true results, k / n."""
        return self.k / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The probabilities for which neither k or more nor k or fewer of n would be rarer than 1 in 40."""
        from scipy.special import betaincinv

        tail, k, n = (1 - CONFIDENCE) / 2, self.k, self.n
        low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
        high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - tail))
        return low, high

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.k} of {self.n} ({low:.1%} to {high:.1%})"


@dataclass(frozen=True)
class Spread:
    """Numbers: how many, their mean with its standard error, and quantiles by their probability.

    ``nans`` are counted apart and enter nothing else. With an infinite number the mean is infinite, or nan if
    both signs occur, and the standard error is nan. One number has no standard error either.

    >>> from hardmax.trials.summary import spread
    >>> print(spread([1.0, 2.0, 4.0, float("nan")]))
    2.333 ± 0.882 (median 2, 1 to 4, n = 3, 1 nan)
    """

    n: int
    nans: int
    mean: float
    standard_error: float
    quantiles: Mapping[float, float]

    @property
    def median(self) -> float:
        """The middle one."""
        return self.quantiles[0.5]

    def __str__(self) -> str:
        low, high = self.quantiles[0.0], self.quantiles[1.0]
        nans = f", {self.nans} nan" if self.nans else ""
        return (
            f"{self.mean:.4g} ± {self.standard_error:.3g} "
            f"(median {self.median:.4g}, {low:.4g} to {high:.4g}, n = {self.n}{nans})"
        )


@dataclass(frozen=True)
class CellSummary:
    """One cell, or several taken together: its parameters, counts of trials, and a summary of each result.

    ``of`` holds a Proportion for a result that is true or false and a Spread for numbers. A result that is
    sometimes one and sometimes the other has both: the Spread under its name, the Proportion under
    "name is true". Each text of a result is counted under "name = text".
    """

    parameters: Parameters
    done: int
    failed: int
    of: Mapping[str, Proportion | Spread]


def spread(values: Sequence[float] | np.ndarray) -> Spread:
    """Summarize numbers."""
    numbers = np.asarray(values, dtype=np.float64)
    numeric = np.sort(numbers[~np.isnan(numbers)])
    n = len(numeric)
    if n == 0:
        nothing = dict.fromkeys(QUANTILES, float("nan"))
        return Spread(0, len(numbers), float("nan"), float("nan"), nothing)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(numeric.mean())
        error = float(numeric.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
        quantiles = np.quantile(numeric, QUANTILES)
        # between two infinities of one sign there is no distance to divide
        quantiles = np.where(np.isnan(quantiles), np.quantile(numeric, QUANTILES, method="lower"), quantiles)
    return Spread(n, len(numbers) - n, mean, error, dict(zip(QUANTILES, quantiles.tolist(), strict=True)))


@dataclass
class _Column:
    """One result of the trials of a group."""

    true: int = 0
    flags: int = 0
    numbers: list[np.ndarray] = field(default_factory=list)
    texts: Counter[str] = field(default_factory=Counter)

    def add(self, values: Sequence[Any]) -> set[type]:
        """Count more values, and return their kinds; an integer beyond 64 bits has the kind object."""
        kinds = set(map(type, values))
        if bool in kinds:
            flags = [value for value in values if type(value) is bool]
            self.true += sum(flags)
            self.flags += len(flags)
        if kinds & {int, float}:
            self.numbers.append(
                np.array([value for value in values if type(value) in (int, float)], np.float64)
            )
        if str in kinds:
            self.texts.update(value for value in values if type(value) is str)
        return set(map(kind_of, values)) if int in kinds else kinds

    def summary(self, name: str) -> dict[str, Proportion | Spread]:
        """Return the summary of the values, each part under its name."""
        of: dict[str, Proportion | Spread] = {}
        if self.flags:
            key = f"{name} is true" if self.numbers else name  # so that neither hides the other
            of[key] = Proportion(self.true, self.flags)
        if self.numbers:
            of[name] = spread(np.concatenate(self.numbers))
        for text in sorted(self.texts):
            of[f"{name} = {text}"] = Proportion(self.texts[text], self.texts.total())
        return of


def kind_of(value: Any) -> type:
    """Return the kind of a scalar; an integer beyond 64 bits has the kind object."""
    return object if type(value) is int and not -(2**63) <= value < 2**63 else type(value)


@dataclass
class _Group:
    parameters: Parameters
    done: int = 0
    failed: int = 0
    columns: dict[str, _Column] = field(default_factory=dict)


class Collected:
    """The results of a sweep by some of its parameters, and the kinds of each in the order of the rows."""

    def __init__(self, store: Store, by: Sequence[str] | None = None) -> None:
        self.kinds: dict[str, set[type]] = {}
        self.groups: dict[str, _Group] = {}
        group_of: dict[int, _Group] = {}
        for cell, done, failed in store.counts():
            parameters = store.parameters(cell)
            chosen = parameters if by is None else {name: parameters.get(name) for name in by}
            group = group_of[cell] = self.groups.setdefault(cell_key(chosen), _Group(chosen))
            group.done += done
            group.failed += failed
        for cell, rows in store.chunks():
            values: defaultdict[str, list[Any]] = defaultdict(list)
            for row in rows:
                for name, value in row.items():
                    values[name].append(value)
            columns = group_of[cell].columns
            for name, column in values.items():
                self.kinds.setdefault(name, set()).update(columns.setdefault(name, _Column()).add(column))

    def summaries(self, names: Iterable[str]) -> list[CellSummary]:
        """Return the groups with these results."""
        cells = []
        for group in self.groups.values():
            of: dict[str, Proportion | Spread] = {}
            for name in names:
                of |= group.columns[name].summary(name) if name in group.columns else {}
            cells.append(CellSummary(group.parameters, group.done, group.failed, of))
        return cells


CELLS = 60  # lines of the table
FAILURES = 5  # failed trials that are shown


def summary_of(store: Store, of: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return every cell with its results: those named, or all that are not texts."""
    collected = Collected(store)
    parameters = {name for _, cell in store.cells() for name in cell}
    results = {name: kinds for name, kinds in collected.kinds.items() if name not in parameters}
    for name in of or ():
        if results and name not in results:
            raise ValueError(f"of must be a result of the trials ({', '.join(results)}), got {name!r}")
    chosen = of or [name for name, kinds in results.items() if kinds & {bool, int, float}]
    return [
        {
            **attributes(cell, "parameters", "done", "failed"),
            "results": {name: _numbers(value) for name, value in cell.of.items()},
        }
        for cell in collected.summaries(chosen)
    ]


def _numbers(value: Proportion | Spread) -> dict[str, Any]:
    if isinstance(value, Proportion):
        low, high = (f"{100 * end:.{int(value.n >= 1000)}f}" for end in value.interval)
        text = f"{value.k} of {value.n} ({low}-{high}%)"
        return {"k": value.k, "n": value.n, "interval": value.interval, "text": text}
    status = "ok" if math.isfinite(value.mean) else "no numbers" if value.n == 0 else "infinite numbers"
    return {
        **attributes(value, "n", "mean", "standard_error"),
        "quantiles": {f"{q:g}": x for q, x in value.quantiles.items()},
        "status": "one number" if value.n == 1 and status == "ok" else status,
        "text": f"{value.mean:.4g} ± {value.standard_error:.2g}" if value.n > 1 else f"{value.mean:.4g}",
    }


def summary_lines(
    cells: Sequence[dict[str, Any]],
    failures: Sequence[dict[str, Any]],
    varying: Sequence[str],
    of: Sequence[str] | None = None,
) -> list[str]:
    """Return lines for a reader: a table of cells with the parameters that vary, then the failures."""
    lines = _table(cells, varying, of)
    for row in failures[:FAILURES]:
        lines += [f"failed: {row['error']}", f"  alone: {row['command']}"]
    if len(failures) > FAILURES:
        lines.append(f"and {len(failures) - FAILURES} more failures are in the JSON")
    return lines


def _side_by_side(rows: list[list[str]], fixed: int) -> list[str]:
    """Align columns; those that do not fit a line follow below, again after the first ``fixed`` columns."""
    widths = [2 + max(map(len, column)) for column in zip(*rows, strict=True)]
    room = columns() + 2
    blocks: list[list[int]] = []
    for at in range(fixed, len(widths)):
        if not blocks or sum(widths[k] for k in [*range(fixed), *blocks[-1], at]) > room:
            blocks.append([])
        blocks[-1].append(at)
    lines = []
    for block in blocks or [[]]:
        lines += ["".join(row[k].rjust(widths[k]) for k in [*range(fixed), *block])[2:] for row in rows]
        lines.append("")
    return lines[:-1]


def _table(cells: Sequence[dict[str, Any]], varying: Sequence[str], of: Sequence[str] | None) -> list[str]:
    """Return a line per cell: its true or false results if there are any and ``of`` names no others."""
    names = list(dict.fromkeys(name for cell in cells for name in cell["results"]))
    flags = [name for name in names if any("k" in cell["results"].get(name, ()) for cell in cells)]
    shown = names if of or not flags else flags
    rows = [[*varying, "trials", *shown]]
    for cell in cells[:CELLS]:
        results = [cell["results"][name]["text"] if name in cell["results"] else "" for name in shown]
        values = [str(cell["parameters"].get(name, "")) for name in varying]
        rows.append([*values, str(cell["done"] + cell["failed"]), *results])
    lines = _side_by_side(rows, len(varying) + 1) if cells else []
    if len(cells) > CELLS:
        lines.append(f"and {len(cells) - CELLS} more cells are in the JSON")
    return lines
