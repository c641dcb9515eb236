"""Run: where a training went, and what can be measured along it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect, notebook
from hardmax._lib.archive import read_arrays, write_arrays
from hardmax._lib.arrays import as_matrix, cosine_distance, lengths
from hardmax._lib.notebook import Pictured, picture
from hardmax._lib.plotting import axes_of, draw_path
from hardmax._lib.style import BLUE
from hardmax.dynamics import measures
from hardmax.dynamics.driver import Rule, StepTask
from hardmax.dynamics.gradient import gradient, risk_of, settle_at, with_readout
from hardmax.dynamics.measures import SignedLog
from hardmax.dynamics.optim import Optimizer, as_text, from_text
from hardmax.dynamics.optim.rules import need_optimizer
from hardmax.dynamics.stepping import by_rule, points_from
from hardmax.margin.att_svm import AttentionRows
from hardmax.margin.norms import norm
from hardmax.margin.norms.solving import proved_by
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem
from hardmax.problem.coordinates import scaled
from hardmax.problem.files import problem_arrays, problem_of_arrays
from hardmax.problem.problem import slots_of
from hardmax.problem.selection import Selection, selected_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hardmax.dynamics.laws import Forecast

TIE = 1e-9  # of attention logits, relative to the largest
FLOOR = 1e-20  # attention goes on falling, exponentially in |p|
LONG = 1000.0  # on a linear axis the first units of log t would be a vertical line


@dataclass(frozen=True, eq=False)
class Run:
    """Result of a training: snapshots of p along a named clock, and measurements on them.

    ``clock`` is "step", "log t" or another; ``times`` are read off it. ``points`` holds p at each of them, or
    None where only ``observed`` numbers were kept on the way, as for embeddings, whose E is too large;
    ``final`` always exists. ``event`` records why it stopped, or is None. These stop a run:
    "stationary point", "no competing token", "tie", "precision exhausted" (pulls that cancel to rounding),
    "runaway" (the step that would pass 1e250 is not taken), "loss reached" (by ``until_loss``). These do
    not: "cycle" (p and all that the optimizer remembers repeat bit for bit), "frozen momentum" (the gradient
    had no effect in the last 100 steps or more). Indices ``at`` count snapshots; -1 is the last. Trainings of
    other models extend this class.

    >>> import hardmax as hm
    >>> path = hm.train(hm.data.example("B-FIG-1a"), hm.optim.Normalized(0.1), steps=1000)
    >>> path
    Run(normalized gradient descent to step = 1000, |p| = 99.8044, event=None)
    >>> path.selection
    (0,)
    """

    source: Problem | Callable[[], Problem]  # or a function that makes it
    clock: str
    times: np.ndarray  # (S,) steps, or log t
    points: Any  # (S, d), or None
    event: str | None = None
    v_points: np.ndarray | None = None  # (S, e), joint training only
    method: str = ""
    observed: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> one entry for each time
    end: np.ndarray | None = None  # (d,) the last point, where the others were not kept
    optimizer: Optimizer | tuple[Optimizer, Optimizer] | None = None  # or those of p and v; None for a flow
    batch: int | None = None  # inputs of a step, in turn; None for all of them
    flow_norm: str = "l2"  # the norm of a flow; an optimizer has its own

    def __repr__(self) -> str:
        end = f"{self.clock} = {self._last_time:g}, |p| = {self.p_norm:g}"
        return f"{type(self).__name__}({self.method} to {end}, event={self.event!r})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Any]] = [(self.clock, self._last_time), ("|p|", self.p_norm)]
        if self.points is not None:
            chosen = self.selection if self.p.any() else "none: p is zero"
            rows += [("tokens selected", chosen), ("attention off them", self.off_top_attention())]
        if len(self.losses):
            rows.append(("risk", float(self.losses[-1])))
        rows.append(("stopped by", self.event or "its end"))
        return notebook.table(f"Run of {self.method or 'p'}", ["at the end", ""], rows)

    @property
    def _last_time(self) -> float:
        return float(self.times[-1]) if len(self.times) else 0.0

    @cached_property
    def problem(self) -> Problem:
        """The problem of the training; where keys were trained too, the problem of the end."""
        return self.source() if callable(self.source) else self.source

    @property
    def final(self) -> np.ndarray:
        """Last point of the run."""
        last = self.end if self.points is None else self.points[-1]
        assert last is not None, "a run without points has an end"
        return np.asarray(last)

    @property
    def p(self) -> np.ndarray:
        """Final point p (alias of `final`)."""
        return self.final

    @property
    def W(self) -> np.ndarray:
        """Final point as a matrix of the problem's shape, where the inputs have queries."""
        return self.W_at(-1)

    def W_at(self, at: int) -> np.ndarray:
        """Return W at a snapshot.

        >>> import hardmax as hm
        >>> problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0, 0.0]], [[1.0, 0.0]])
        >>> hm.train(problem, hm.optim.Normalized(0.1), steps=10).W_at(5).round(2).tolist()
        [[0.25, 0.25, 0.0], [-0.25, -0.25, 0.0]]
        """
        return as_matrix(self._point(at), self.problem.shape)

    @property
    def norm(self) -> str | None:
        """The norm whose max margin its geometry is about: that of the rule of p, or of the flow.

        >>> import hardmax as hm
        >>> problem = hm.data.example("B-FIG-8")
        >>> hm.flow(problem, norm=1.5).norm, hm.train(problem, hm.optim.Sign(0.1)).norm
        ('l1.5', 'linf')
        """
        rule = self.optimizer[0] if isinstance(self.optimizer, tuple) else self.optimizer
        return self.flow_norm if rule is None else rule.norm

    @property
    def p_norm(self) -> float:
        """|p| at the end."""
        return float(lengths(self.p))

    @property
    def direction(self) -> np.ndarray:
        """p/|p| at the end; nan where p is zero."""
        if self.points is not None:
            return self.directions[-1]
        with np.errstate(invalid="ignore"):
            return np.asarray(self.final, dtype=np.float64) / self.p_norm

    @property
    def logit_error(self) -> float:
        """Rounding error of the attention logits at the end: gaps below it mean nothing.

        It grows with |p|; at 1e12 about 1e-4 is left, while the direction keeps all its digits.
        """
        keys = self.problem.keys
        return float(np.finfo(float).eps * self.p_norm * (2.0 * lengths(keys / 2 - keys[0] / 2)).max())

    @cached_property
    def p_norms(self) -> np.ndarray:
        """|p| at every snapshot; nan where it was neither kept nor observed."""
        if self.points is not None:
            return lengths(self.points)
        if "norms" in self.observed:
            return np.asarray(self.observed["norms"])
        return np.append(np.full(max(len(self.times) - 1, 0), math.nan), self.p_norm)[: len(self.times)]

    @cached_property
    def directions(self) -> np.ndarray:
        """Unit vectors p/|p|; rows of nan where p is zero, which has no direction."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._every_point() / self.p_norms[:, None])

    def cosine_distance(self, other: Any, at: int = -1) -> float:
        """1 - cos of the angle to another direction, as half the squared distance of unit vectors.

        ``other`` is a vector of any length, a MaxMargin or another Run.

        >>> import hardmax as hm
        >>> path = hm.train(hm.data.example("B-FIG-1a"), hm.optim.Normalized(0.1), steps=1000)
        >>> f"{path.cosine_distance([-0.1, 1.0]):.3g}"
        '0.000256'
        """
        return cosine_distance(self._point(at), other)

    def cosine_distances(self, other: Any) -> np.ndarray:
        """1 - cos at every snapshot; nan where p is zero."""
        return np.array([cosine_distance(p, other) if p.any() else math.nan for p in self._every_point()])

    def margin_gap(self, best: MaxMargin, at: int = -1) -> float:
        """Return the gap of the direction to a max margin, in its norm: see `MaxMargin.margin_gap`.

        >>> import hardmax as hm
        >>> problem = hm.data.example("B-FIG-8")
        >>> run = hm.train(problem, hm.optim.Sign(0.01), steps=10_000)
        >>> f"{run.margin_gap(hm.max_margin(problem, run.selection, norm=run.norm)):.3g}"
        '0.007'
        """
        if not isinstance(best, MaxMargin):
            raise ValueError(
                f"best must be a MaxMargin, got {type(best).__name__}; make it with "
                "hm.max_margin(problem, run.selection, norm=run.norm)"
            )
        return best.margin_gap(self._point(at))

    def margin_bounds(self) -> MaxMargin:
        """Return the bounds that the run proves, without a solver, for the margin of its selection (D-THM-3).

        The proof is the final p, and as multipliers the weights that the steps gave the constraints; to sum
        these, the steps are taken once more. The interval holds for any run in its norm. It closes at any
        rate for GD, Normalized in l2 and Mirror.

        >>> import hardmax as hm
        >>> problem = hm.data.example("B-FIG-8")
        >>> proof = hm.train(problem, hm.optim.Normalized(3.0), steps=10_000).margin_bounds()
        >>> [round(x, 5) for x in proof.margin_interval], round(hm.max_margin(problem).margin, 6)
        ([0.3162, 0.31623], 0.316228)
        """
        step = self.optimizer
        if not isinstance(step, Optimizer) or self.v_points is not None:
            raise ValueError(
                f"run must be a training of p by one step rule, got {self.method or 'a run without one'}; "
                "ask max_margin(problem, run.selection)"
            )
        if not self.final.any():
            raise ValueError("run must have left the origin, got p = 0; take more steps")
        tokens = self.selection.tokens
        rows = AttentionRows(self.problem).constraints(enumerate(tokens))
        if not rows.count:
            raise ValueError("run must be on inputs with several tokens, got none; no constraint remains")
        weights = np.maximum(_collected(self, step, rows.labels or ()), 0.0)  # negative ones prove nothing
        if not weights.any():
            weights = np.ones(rows.count)
        return replace(proved_by(rows, step.norm, self.final, weights), selection=tokens)

    def forecast(self) -> Forecast:
        """Return the forecast of theory for the optimizer at its rate and the final selection.

        >>> import hardmax as hm
        >>> run = hm.train(hm.data.example("B-FIG-8"), hm.optim.Signum(0.1), steps=1000)
        >>> run.forecast().is_beyond, run.event
        (False, None)
        """
        from hardmax.dynamics.laws import forecast

        return forecast(self.problem, need_optimizer(self.optimizer, "optimizer of the run"), self.selection)

    @property
    def selection(self) -> Selection:
        """Tokens that p attends to most at the end; ties are kept, and copies of a token are one token."""
        return self.selection_at(-1)

    def selection_at(self, at: int, tolerance: float = TIE) -> Selection:
        """Return the tokens that p attends to most at a snapshot.

        >>> import hardmax as hm
        >>> run = hm.train(hm.data.example("B-FIG-8"), hm.optim.GD(lr=1.0), steps=1000)
        >>> run.selection_at(1), run.selection
        ((1, 0), (0, 0))
        """
        return selected_tokens(self._problem(at), self._p(at), tolerance)

    @cached_property
    def first_step(self) -> Selection:
        """Tokens that p attends to most after one step of its rule, or, for a flow, as soon as it moves.

        From the origin attention is uniform, and this is where the geometry of a rule first appears. It often
        stays so, but need not. The step is taken once more, so that this works for any run.

        >>> import hardmax as hm
        >>> run = hm.train(hm.data.example("space-a"), hm.optim.Sign(0.1), steps=10_000)
        >>> run.first_step.tokens, run.selection
        ((0, 0), (0, 1))
        """
        if type(self) is not Run or self.v_points is not None or self.points is None:
            raise ValueError(
                f"run must be one that trains p alone and keeps its points, got {self.method or 'another'}; "
                "record step 1 and ask selection_at(1)"
            )
        start = self._point(0)
        if isinstance(self.optimizer, Optimizer):
            moved = points_from(self.problem, self.optimizer, 1, start[None], batch=self.batch)[0, -1]
            return selected_tokens(self.problem, moved, TIE)
        if start.any():
            return self.selection_at(0)
        ball = norm(self.flow_norm)  # the direction of mirror flow too, from the origin
        return selected_tokens(self.problem, ball.step(gradient(self.problem, start).vector * -1.0), TIE)

    def attention(self, at: int = -1) -> list[np.ndarray]:
        """Return the attention weights of every input."""
        return measures.attention(self._problem(at), self._p(at))

    def attended(self, threshold: float = 1e-3, at: int = -1) -> Selection:
        """Return the tokens with at least that much attention."""
        return measures.attended(self._problem(at), self._p(at), threshold)

    def predictions(self, inputs: Problem | None = None, at: int = -1) -> np.ndarray:
        """Return the predictions u_i of the trained inputs, or of those of another problem.

        They are signed by the labels: positive is right. Another problem has its own labels and values; where
        v was trained, the trained one is used.

        >>> import hardmax as hm
        >>> path = hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), steps=100)
        >>> new = hm.Problem([[[1.0, 0.0], [-1.0, 0.0]]], [[2.0, -3.0]])
        >>> path.predictions(new).round(3).tolist(), path.accuracy(new)
        ([1.981], 1.0)
        """
        return measures.predictions(self._problem(at, inputs), self._p(at))

    def accuracy(self, inputs: Problem | None = None, at: int = -1) -> float:
        """Return the share of correct predictions, on the trained inputs or on those of another problem."""
        return float((self.predictions(inputs, at) > 0.0).mean())

    def off_top_attention(self, at: int = -1) -> float:
        """Return the mean attention that is not on the top token."""
        return measures.off_top_attention(self._problem(at), self._p(at))

    @cached_property
    def losses(self) -> np.ndarray:
        """Risk at every snapshot."""
        if "losses" in self.observed:
            return np.asarray(self.observed["losses"])
        self._every_point()
        settled = (settle_at(self._problem(s), self._p(s)) for s in range(len(self.points)))
        return np.array([risk_of(self.problem, s) for s in settled])

    def excess(self, selection: Any = None, at: int = -1) -> SignedLog:
        """Return the risk minus that of a selection, the final one by default, as sign and log."""
        chosen = self.selection.tokens if selection is None else tuple(selection)
        return measures.excess_loss(self._problem(at), self._p(at), chosen)

    def _point(self, at: int) -> np.ndarray:
        """The point of a snapshot."""
        if self.points is not None:
            return np.asarray(self.points[at])
        if at != -1:
            raise ValueError(f"at must be -1, got {at}: this run kept observables on the way, not points")
        return self.final

    def _p(self, at: int) -> np.ndarray:
        """The point as the problem takes it."""
        return self._point(at)

    def _every_point(self) -> np.ndarray:
        if self.points is None:
            raise ValueError("points were not kept in this run, only observables; ask for its end, at=-1")
        return np.asarray(self.points)

    def _problem(self, at: int, inputs: Problem | None = None) -> Problem:
        """The problem, or one with other inputs, with the head of that snapshot."""
        problem = self.problem if inputs is None else inputs
        if self.v_points is None:
            return problem
        return with_readout(problem, self.v_points[at])

    def save(self, path: str | Path) -> None:
        """Write the fields of `Run` and the problem to one npz file, without those that a subclass adds."""
        arrays: dict[str, Any] = {f"problem_{name}": a for name, a in problem_arrays(self.problem).items()}
        arrays |= {f"observed_{name}": a for name, a in self.observed.items()}
        arrays |= {"times": self.times, "clock": self.clock, "method": self.method}
        arrays |= {"event": self.event or "", "step": as_text(self.optimizer), "batch": self.batch or 0}
        arrays["flow_norm"] = self.flow_norm
        if self.points is None:
            arrays["end"] = self.final
        else:
            arrays["points"] = np.array([self._p(s) for s in range(len(self.times))])
        if self.v_points is not None:
            arrays["heads"] = self.v_points
        write_arrays(path, arrays)

    @staticmethod
    def load(path: str | Path) -> Run:
        """Read what `save` wrote, of whatever training.

        >>> import hardmax as hm, tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "path.npz"
        >>> hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(0.1), steps=10).save(file)
        >>> hm.Run.load(file).times[-1]
        np.int64(10)
        """
        arrays = read_arrays(path)
        has_names = {"times", "clock", "event", "method"} <= arrays.keys()
        if not has_names or not arrays.keys() & {"points", "end"}:
            raise ValueError(f"{path} does not hold a run; it holds {', '.join(sorted(arrays)) or 'nothing'}")

        def of(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}

        problem = problem_of_arrays(Problem, of("problem_"), Path(path))
        times = expect.finite_array("times", arrays["times"], (None,))
        if "points" in arrays and not len(times):
            raise ValueError(f"{path} does not hold a run: it has no points")
        shapes = {"points": (len(times), problem.d), "heads": (len(times), None), "end": (problem.d,)}
        points, heads, end = (
            expect.finite_array(name, arrays[name], shape) if name in arrays else None
            for name, shape in shapes.items()
        )
        return Run(
            problem,
            str(arrays["clock"]),
            arrays["times"],
            points,
            str(arrays["event"]) or None,
            heads,
            str(arrays["method"]),
            of("observed_"),
            end,
            from_text(str(arrays.get("step", ""))),
            int(arrays.get("batch", 0)) or None,
            norm(str(arrays.get("flow_norm", "l2"))).name,
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw p in the plane of `Problem.plot`, its length on a logarithmic scale; return the axes.

        A run that did not keep its points is drawn by its losses.

        >>> import hardmax as hm
        >>> hm.flow(hm.data.example("B-FIG-8")).plot().get_title()
        'p, with log radius'
        """
        ax = axes_of(ax)
        if self.points is not None:
            return draw_path(ax, self._every_point(), self.problem.plane)
        ax.plot(self.times, self.losses, color=BLUE)
        ax.set(xlabel=self.clock, ylabel="loss")
        return ax

    def display(self, target: Any = None) -> RunDisplay:
        """Return curves to ``plot()``: norm, attention off the top token, and 1 - cos to a target.

        For a run without points they are the norm and the risk, as far as they were observed.
        """
        return RunDisplay.of(self, target)


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
            observed = {"norm of p": path.observed.get("norms"), "risk": path.losses}
            return cls(path.clock, path.times, {name: x for name, x in observed.items() if x is not None})
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
        """Draw one panel per curve, side by side, and return the matplotlib figure."""
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


def _collected(run: Run, step: Optimizer, labels: Sequence[Any]) -> np.ndarray:
    """L of the rows (i, t): minus the weight that slot t of input i gathered, taking the steps once more."""
    problem, scale = run.problem, scaled(run.problem)
    slots = slots_of(scale.problem)
    rule = Rule.of(step, int(run.times[-1]), scale, by_update=True)
    p, totals = np.array(scale.point(run.points[0])), np.zeros(len(slots.tokens))
    ends = np.array([0, len(rule.rates)])
    by_rule(StepTask(scale.problem, rule, ends, p, "primal", run.batch or 0, totals=totals))
    at = np.array([problem.offsets[i] + t for i, t in labels])
    if slots.group is None:
        return -totals[at]
    merged = slots.group[at]
    return -totals[merged] / np.bincount(merged)[merged]  # twins share the sum of their key
