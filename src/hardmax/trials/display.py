"""Phase diagrams: how often something is true over parameters of a sweep; computed once, drawn at will."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.notebook import Pictured, picture
from hardmax.trials.summary import Proportion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hardmax.trials.results import Sweep

PANEL = (1.75, 1.25)  # inches, and what stands around the panels
AROUND = (1.5, 0.75)
TEXT: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}


@dataclass(frozen=True, eq=False)
class PhaseDisplay(Pictured):
    """The share of trials in which a result is true: a field for each (x, y), a panel for each ``across``.

    Every result has its row of panels. Fields have one size, whatever lies between the values that were run.

    >>> import hardmax as hm
    >>> def trial(at, seed):
    ...     return {"small": seed % 8 < at["a"] * at["b"]}
    >>> found = hm.sweep(trial, {"a": [1, 2], "b": [1, 4]}, trials=50, workers=0)
    >>> phases = hm.trials.PhaseDisplay.of(found, ["small"], x="a", y="b")
    >>> phases.shares[0, 0, 1, 1], len(phases.plot().axes)   # the panel and its scale
    (np.float64(1.0), 2)
    """

    results: tuple[str, ...]
    x: str
    y: str
    across: str | None
    values: dict[str, list[Any]]
    shares: np.ndarray  # (results, across, y, x), nan where nothing was run

    @classmethod
    def of(
        cls, sweep: Sweep, results: Sequence[str], x: str, y: str, across: str | None = None
    ) -> PhaseDisplay:
        """Count results of a sweep; trials that differ in other parameters only are counted together."""
        names = [name for name in (across, y, x) if name is not None]
        cells = sweep.summary(by=names, of=results)
        values = {name: _ordered(cell.parameters.get(name) for cell in cells) for name in names}
        shares = np.full((len(results), *map(len, values.values())), np.nan)
        for cell in cells:
            field = tuple(known.index(cell.parameters.get(name)) for name, known in values.items())
            for at, name in enumerate(results):
                share = cell.of.get(name)
                if share is not None and not isinstance(share, Proportion):
                    raise ValueError(f"results must be true or false in every trial, {name!r} is not")
                shares[(at, *field)] = np.nan if share is None else share.share
        return cls(tuple(results), x, y, across, values, shares.reshape(len(results), -1, *shares.shape[-2:]))

    def plot(self) -> Figure:
        """Draw the matplotlib figure; its first axes are the panels, row by row."""
        from matplotlib import rc_context

        rows, columns = self.shares.shape[:2]
        with rc_context(TEXT):
            figure = picture((PANEL[0] * columns + AROUND[0], PANEL[1] * rows + AROUND[1]))
            panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
            for at, name in enumerate(self.results):
                for panel, shares in zip(panels[at], self.shares[at], strict=True):
                    field = self._panel(panel, shares)
                scale = figure.colorbar(field, ax=panels[at], pad=0.02, aspect=12, ticks=[0, 0.5, 1])
                scale.set_label(f"P({name.replace('_', ' ')})")
                scale.outline.set_visible(False)
            if self.across is not None:
                for panel, value in zip(panels[0], self.values[self.across], strict=True):
                    panel.set_title(f"{_symbol(self.across)} = {value}")
            for panel in panels[-1]:
                panel.set_xlabel(_symbol(self.x))
            for panel in panels[:, 0]:
                panel.set_ylabel(_symbol(self.y), rotation=0 if len(self.y) == 1 else 90)
        return figure

    def _panel(self, panel: Axes, shares: np.ndarray) -> Any:
        edges = [np.arange(len(self.values[name]) + 1) - 0.5 for name in (self.x, self.y)]
        field = panel.pcolormesh(*edges, shares, cmap="cividis", vmin=0, vmax=1)
        field.set(edgecolor="white", linewidth=0.3)
        for axis, name in ((panel.xaxis, self.x), (panel.yaxis, self.y)):
            axis.set_ticks(range(len(self.values[name])), labels=[str(value) for value in self.values[name]])
            axis.set_tick_params(length=0)
        panel.spines[:].set_visible(False)
        return field


def _ordered(values: Iterable[Any]) -> list[Any]:
    """Sort numbers by size; leave others in their order."""
    known = list(dict.fromkeys(values))
    return sorted(known) if all(isinstance(value, (int, float)) for value in known) else known


def _symbol(name: str) -> str:
    """Return letters as in formulas, words as they are."""
    return f"${name}$" if len(name) == 1 else name.replace("_", " ")
