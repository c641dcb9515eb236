"""A small picture of a trajectory: computed once, drawn as often as wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax.dynamics.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class TrajectoryDisplay:
    """Curves along a trajectory, ready to draw.

    >>> import hardmax as hm
    >>> path = hm.descend(hm.data.named("B-FIG-1a"), steps=100, rate=0.1)
    >>> figure = path.display(target=[-0.1, 1.0]).plot()
    >>> len(figure.axes)
    3
    """

    clock: str
    times: np.ndarray
    curves: dict[str, np.ndarray]

    @classmethod
    def of(cls, path: Trajectory, target: Any = None) -> TrajectoryDisplay:
        """Measure a trajectory."""
        curves = {"norm of p": path.norms, "attention off the top token": np.array(
            [path.defect(s) for s in range(len(path.points))])}  # fmt: skip
        if target is not None:
            curves["1 - cos to the target"] = path.misalignments(target)
        return cls(path.clock, path.times, curves)

    def plot(self) -> Figure:
        """One panel per curve, side by side; returns the matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.2 * len(self.curves), 2.6), layout="constrained")
        panels = figure.subplots(1, len(self.curves), squeeze=False)[0]
        for panel, (name, curve) in zip(panels, self.curves.items(), strict=True):
            panel.plot(self.times, curve, color="#0072B2", linewidth=1.5)
            panel.set_xlabel(self.clock)
            panel.set_title(name, fontsize=10)
            if name != "norm of p" and np.nanmax(curve) > 0:
                panel.set_yscale("log")
            panel.spines[["top", "right"]].set_visible(False)
        return figure
