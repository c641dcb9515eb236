"""The plane of a two-dimensional problem: tokens, separators and directions; computed once, drawn at will."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.notebook import Pictured, picture
from hardmax._lib.plotting import INPUTS
from hardmax._lib.style import BLUE, GRAY, RED
from hardmax.directions.enumerate import FeasibleSelection
from hardmax.problem import Problem
from hardmax.problem.selection import best_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from hardmax.dynamics.run import Run

PANELS = 5  # selections drawn with their tokens


@dataclass(frozen=True, eq=False)
class PlaneDisplay(Pictured):
    """Directions on the rim of a disc that shows the whole p-plane, then a panel of tokens per selection.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> figure = hm.directions.PlaneDisplay.of(problem, list(hm.attractors(problem))).plot()
    >>> len(figure.axes)
    3

    Several paths show which starts go where:

    >>> starts = [0.0, 2.0], [2.0, -2.0]
    >>> paths = [hm.train(problem, hm.optim.Normalized(0.1), steps=300, start=p) for p in starts]
    >>> len(hm.directions.PlaneDisplay.of(problem, list(hm.attractors(problem)), paths).paths)
    2
    """

    problem: Problem
    found: tuple[FeasibleSelection, ...]
    paths: tuple[np.ndarray, ...]  # (S, 2) each: p along a dynamic, as p/(1 + |p|)

    @classmethod
    def of(
        cls, problem: Problem, found: Sequence[FeasibleSelection], paths: Run | Sequence[Run] | None = None
    ) -> PlaneDisplay:
        """Collect all that is drawn: selections with their directions and, if given, paths of a dynamic."""
        if problem.d != 2:
            raise ValueError(f"a picture needs keys in 2 dimensions, got {problem.d}; leave the plot out")
        runs = [] if paths is None else list(paths) if isinstance(paths, Sequence) else [paths]
        disc = tuple(run.points / (1 + run.p_norms[:, None]) for run in runs)

        def rank(f: FeasibleSelection) -> tuple[bool, bool, float]:
            return not f.attracts.verdict, not f.is_best, -f.max_margin.margin

        return cls(problem, tuple(sorted(found, key=rank)), disc)

    def plot(self) -> Figure:
        """Draw the disc and the tokens of up to five selections; return the matplotlib figure."""
        count = 1 + min(len(self.found), PANELS)
        columns = 2 if count in (2, 4) else min(count, 3)
        lines = math.ceil(count / columns)
        figure = picture((3.1 * columns, 3.3 * lines + 0.4))
        # inches, so that no title touches an edge or the panel above it
        figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.12)
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        self._disc(panels[0])
        for letter, panel, selection in zip("bcdef", panels[1:], self.found, strict=False):
            self._tokens(panel, selection, letter)
        for panel in panels[count:]:
            panel.remove()
        if len(self.found):
            figure.legend(handles=self._key(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
        return figure

    def _key(self) -> list[Line2D]:
        from matplotlib.lines import Line2D

        inputs = [
            Line2D([], [], color=color, marker=marker, linestyle="", mfc="white", label=f"input {i}")
            for i, (color, marker) in enumerate(INPUTS[: self.problem.n])
        ]
        best = Line2D([], [], color="#444444", marker="o", linestyle="", label="filled: best score")
        ring = Line2D([], [], color="black", marker="o", linestyle="", markerfacecolor="none", markersize=9)
        ring.set_label("ringed: selected")
        cut = Line2D([], [], color="#444444", linestyle=":", label="separator of a tight input")
        return [*(inputs if self.problem.n <= len(INPUTS) else []), best, ring, cut]

    def _disc(self, panel: Axes) -> None:
        from matplotlib.patches import Circle

        panel.add_patch(Circle((0, 0), 1, facecolor="#f7f7f7", edgecolor="#444444", linewidth=0.8))
        names = {id(f): letter for f, letter in zip(self.found, "bcdef", strict=False)}
        for f in self.found[::-1]:
            if f.direction is None:
                continue
            x, y = f.direction
            color, width = (RED, 1.6) if f.attracts.verdict else (GRAY, 0.8)
            panel.plot([0, x], [0, y], "--" if f.is_best else "-", color=color, linewidth=width)
            if id(f) in names:
                panel.text(1.12 * x, 1.12 * y, names[id(f)], ha="center", va="center", fontsize=9)
        for path in self.paths:
            panel.plot(*path.T, color=BLUE, linewidth=1.4)
            panel.plot(*path[0], marker="o", color=BLUE, markersize=4)
        panel.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
        note = "red attract, dashed is best" + (", blue is training" if self.paths else "")
        panel.set_title("(a) directions of p\nall p, drawn as p/(1+|p|)", fontsize=10)
        panel.set_xlabel(note, fontsize=8, labelpad=0)

    def _tokens(self, panel: Axes, selection: FeasibleSelection, letter: str) -> None:
        problem = self.problem
        every = problem.keys[problem.tokens]
        middle = (every.max(axis=0) + every.min(axis=0)) / 2
        reach = 0.62 * float(np.ptp(every, axis=0).max() or 1.0)
        best = best_tokens(problem).sets
        direction = selection.direction
        tight = {label[0] for label in selection.max_margin.support}
        for i, keys in enumerate(problem.split(every)):
            color, marker = INPUTS[i % len(INPUTS)]
            token = selection.selection[i]
            if direction is not None and i in tight:
                levels = np.sort(keys @ direction)
                self._line(panel, direction, float(levels[-2:].mean()), middle, color)
            for t, key in enumerate(keys):
                face = color if t in best[i] else "white"
                panel.plot(*key, marker, color=color, markerfacecolor=face, markersize=5.5, zorder=3)
            panel.plot(*keys[token], "o", color="black", markerfacecolor="none", markersize=11, zorder=4)
        if direction is not None:
            color = RED if selection.attracts.verdict else GRAY
            arrow = {"arrowstyle": "-|>", "color": color, "alpha": 0.7, "linewidth": 1.6}
            half = 0.45 * reach * direction
            panel.annotate("", middle + half, middle - half, arrowprops=arrow, zorder=2)
        bounds = [(m - 1.15 * reach, m + 1.15 * reach) for m in middle]
        panel.set(xlim=bounds[0], ylim=bounds[1], aspect="equal")
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
        kind = {True: "attracts", False: "does not attract", None: "in doubt"}[selection.attracts.verdict]
        kind = "globally optimal" if selection.is_best else kind
        panel.set_title(f"({letter}) tokens {_text(selection.selection)}\n{kind}", fontsize=10)

    @staticmethod
    def _line(panel: Axes, direction: Any, level: float, middle: Any, color: str) -> None:
        """The separator of an input: perpendicular to p, half way from the selected key to the next one."""
        foot = middle + (level - middle @ direction) * direction
        along = np.array([-direction[1], direction[0]])
        panel.axline(foot, foot + along, color=color, linestyle=":", linewidth=1.2, zorder=1)


def _text(selection: tuple[int, ...]) -> str:
    text = " ".join(map(str, selection))
    return text if len(text) <= 16 else text[:13] + "..."
