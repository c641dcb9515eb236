"""Where the first step of a run points: the geometry of a rule, before the loss has had a say."""

from __future__ import annotations

import numpy as np

from hardmax.dynamics.gradient import gradient
from hardmax.dynamics.run import Run
from hardmax.dynamics.train import train_quietly
from hardmax.margin.norms import norm
from hardmax.problem.selection import Selection, selected_tokens

TIE = 1e-9  # of the attention logits, as in `Run.selection`


def first_step(run: Run) -> Selection:
    """The tokens that a run selects after one step; the step is taken once more."""
    if type(run) is not Run or run.v_points is not None or run.points is None:
        raise ValueError(
            f"run must be one that trains p alone and keeps its points, got {run.method or 'another'}; "
            "record step 1 and ask selection(at=1)"
        )
    start = np.asarray(run.points[0])
    if run.optimizer is not None:
        return train_quietly(run.problem, run.optimizer, steps=1, start=start, batch=run.batch).selection
    if start.any():
        return run.selection_at(0)
    ball = norm(run.flow_norm)  # the direction of mirror flow too, from the origin
    return selected_tokens(run.problem, ball.step(gradient(run.problem, start).vector * -1.0), TIE)
