"""What a run proves by itself (D-THM-3): its weights are multipliers, its end a point; both bound the margin.

From the origin a normalised step adds rate V/|V|, V = D'w with the weights w of the rows, to the dual point,
which so is D'L with L the sum of rate w/|V|. The duality gap of p and L is exactly the mean slack of the rows
under L, over the norm of p. It falls whatever the rate, since a row collects weight only while it is not
exponentially behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.margin.att_svm import AttentionRows
from hardmax.margin.norms.in_norm import proved_by
from hardmax.margin.solution import MaxMargin
from hardmax.problem.coordinates import scaled
from hardmax.problem.layout import slots_of
from hardmax.train.rules.running import descend_compiled, descend_plain, runs_compiled
from hardmax.train.schedule import Rule
from hardmax.train.steps import Step

if TYPE_CHECKING:
    from hardmax.train.run import Run


def certificate(run: Run) -> MaxMargin:
    """The end of a run with the multipliers it collected, as an answer to its max-margin problem."""
    step = run.step
    if not isinstance(step, Step) or run.heads is not None:
        raise ValueError(
            f"run must be a training of p by one step rule, got {run.method or 'a run without one'}; ask "
            "max_margin(problem, run.selection())"
        )
    if not run.final.any():
        raise ValueError("run must have left the origin, got p = 0; take more steps")
    tokens = run.selection().tokens
    rows = AttentionRows(run.problem).constraints(enumerate(tokens))
    if not rows.count:
        raise ValueError("run must be on inputs with several tokens, got none; no row asks for a margin")
    weights = np.maximum(_collected(run, step, rows.labels or ()), 0.0)  # negative ones prove nothing
    if not weights.any():
        weights = np.ones(rows.count)
    return replace(proved_by(rows, step.norm, run.final, weights), selection=tokens)


def _collected(run: Run, step: Step, labels: Sequence[Any]) -> np.ndarray:
    """L of the rows (i, t): minus the weight that slot t of input i gathered, taking the steps once more."""
    problem, scale = run.problem, scaled(run.problem)
    slots = slots_of(scale.problem)
    rule = Rule.of(step, int(run.times[-1]), scale, by_update=True)
    p, totals = np.array(scale.point(run.points[0])), np.zeros(len(slots.tokens))
    ends, batch = np.array([0, len(rule.rates)]), run.batch or 0
    loop = descend_compiled if runs_compiled(scale.problem, rule) else descend_plain
    loop(scale.problem, p, rule, ends, batch=batch, totals=totals)
    at = np.array([problem.offsets[i] + t for i, t in labels])
    if slots.group is None:
        return -totals[at]
    merged = slots.group[at]
    return -totals[merged] / np.bincount(merged)[merged]  # twins share what their key gathered
