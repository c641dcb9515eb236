"""C-TAB-VAC: each printed bound compared with the truth, and when it begins to say something."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hardmax.nexttoken.training import STEPS
from hardmax.papers.next_token.statements import printed
from hardmax.papers.next_token.statements.common import Subject, run_of, sizes_of


@dataclass(frozen=True)
class Bound:
    """A printed bound on one dataset: its ``value`` and the ``truth`` at the end of both stages.

    ``from_time`` is the number of steps from which on the bound says something: that a cosine is positive,
    or that its own condition is met. Numbers that do not exist are nan.
    """

    name: str
    data: str
    value: float
    truth: float
    from_time: float


def vacuity(datasets: Mapping[str, Subject]) -> list[Bound]:
    """The bounds of Proposition 1, Corollary 1, Theorems 1 and 2 on datasets or on runs of Algorithm 1.

    Datasets are trained with the paper's rates and 900 steps of each stage.
    """
    found: list[Bound] = []
    for name, data in datasets.items():
        run = run_of(data, STEPS)
        sizes = sizes_of(run, least_frequency=False)
        T, t = run.stage_1_steps, float(run.times[-1])
        if T is None or run.first_rate is None or run.W_ov.margin is None:
            raise ValueError(f"datasets must be a run with a separate stage 1, got another for {name!r}")
        aligned = 1 - run.misalignment_ov
        for constant in (printed.MAIN, printed.APPENDIX):
            value = 1 - printed.proposition_1(sizes, T, run.first_rate, constant)
            # the bound is 1 - scale log t/t; at t = e the scale is e times what it takes off
            scale = math.e * printed.proposition_1(sizes, math.e, run.first_rate, constant)
            row = f"Proposition 1, c = {constant}: cos >="
            found.append(Bound(row, name, value, aligned, printed.first_time(scale, 1)))
        asked = printed.steps_asked_of_stage_1(sizes, run.first_rate)
        found.append(Bound("Corollary 1 and Theorem 2: T >=", name, math.nan, math.nan, asked))
        deficit = printed.theorem_1(sizes, t, run.rate)
        positive = printed.first_time(printed.theorem_1_scale(sizes, run.rate), 2)
        found.append(Bound("Theorem 1: 1 - cos <=", name, deficit, run.misalignment_kq, positive))
        late = printed.steps_asked_of_stage_2(sizes, run.rate)
        found.append(Bound("Theorem 2: t >=", name, math.nan, math.nan, late))
        loss = math.exp(printed.theorem_2_log_loss(sizes, t, run.rate, run.W_ov.margin))
        found.append(Bound("Theorem 2, (4): loss <=", name, loss, run.loss, math.nan))
    return found
