"""A small picture of a trajectory: computed once, drawn as often as wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.notebook import Pictured, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax.dynamics.run import Run

FLOOR = 1e-20  # attention goes on falling, exponentially in |p|
LONG = 1000.0  # what happens at log t = 10 would be a vertical line beside the end


@dataclass(frozen=True, eq=False)
class RunDisplay(Pictured):
    """Curves along a trajectory, ready to draw.

    >>> import hardmax as hm
    >>> path = hm.train(hm.data.example("B-FIG-1a"), hm.optim.Normalized(0.1), steps=100)
    >>> figure = path.display(target=[-0.1, 1.0]).plot()
    >>> len(figure.axes)
    3
    """

    clock: str
    times: np.ndarray
    curves: dict[str, np.ndarray]

    @classmethod
    def of(cls, path: Run, target: Any = None) -> RunDisplay:
        """Measure a trajectory."""
        if path.points is None:
            seen = {"norm of p": path.observed.get("norms"), "risk": path.losses}
            return cls(path.clock, path.times, {name: x for name, x in seen.items() if x is not None})
        curves = {
            "norm of p": path.p_norms,
            "attention off the top token": np.array(
                [path.off_top_attention(s) for s in range(len(path.points))]
            ),
        }
        if target is not None:
            curves["1 - cos to the target"] = path.cosine_distances(target)
        return cls(path.clock, path.times, curves)

    def plot(self) -> Figure:
        """One panel per curve, side by side; returns the matplotlib figure."""
        figure = picture((3.2 * len(self.curves), 2.6))
        panels = figure.subplots(1, len(self.curves), squeeze=False)[0]
        is_long = self.clock == "log t" and bool(self.times[-1] > LONG)
        for panel, (name, curve) in zip(panels, self.curves.items(), strict=True):
            panel.plot(self.times, curve, color="#0072B2", linewidth=1.5)
            panel.set_xlabel(self.clock)
            panel.set_title(name, fontsize=10)
            if (is_long or name != "norm of p") and np.nanmax(curve) > 0:
                least = max(float(np.nanmin(curve[curve > 0])), FLOOR)
                panel.set(yscale="log", ylim=(least / 2, 2 * float(np.nanmax(curve))))
            if is_long:
                panel.set(xscale="log", xlim=(1.0, self.times[-1]))
            panel.spines[["top", "right"]].set_visible(False)
        return figure
