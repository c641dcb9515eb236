"""Stage 2 in the limit of small steps: the normalized gradient flow of its problem, along its arc length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.data.sentences.samples import Samples
from hardmax.dynamics.fields import ARC_LENGTH
from hardmax.dynamics.flow import along_arc, follow
from hardmax.nexttoken.pairs import Floats, Ints, Pairs
from hardmax.nexttoken.stages import StageTwo, stage_1
from hardmax.nexttoken.training import FIRST_RATE, RATE, STEPS, Training, point
from hardmax.problem.readouts import OutputValue


@check_arguments
def train_by_flow(
    samples: Samples,
    until: float,
    *,
    stage1: int = STEPS,
    rate: float | None = None,
    first_rate: float | None = None,
    record: Sequence[float] | None = None,
    W_ov: OutputValue | None = None,
    start: Any = None,
    n: Ints | None = None,
) -> Training:
    """Algorithm 1 with stage 2 as a flow, to the time ``until`` on the clock of steps of size ``rate``.

    The flow is what steps tend to as ``rate`` does to zero with the arc length rate x time fixed: that of
    `hm.flow` with the clock "arc length": along edges where that form is exact, so that a step costs no more
    than the sentences do, and with dense matrices of the pairs where it is not. Times to ``record`` are every
    factor of 2 by default.
    """
    pairs = Pairs.of(samples, n)
    root = np.sqrt(samples.V)
    first_rate = expect.positive("first_rate", FIRST_RATE / root if first_rate is None else first_rate)
    rate = expect.positive("rate", RATE / root if rate is None else rate)
    end = expect.positive("until", until)
    if not rate * end <= 1e15:  # beyond it steps of the flow vanish in rounding
        raise ValueError(f"until times rate must be at most 1e15, got {rate * end:g}")
    given = W_ov is not None
    if W_ov is None:
        W_ov = stage_1(pairs.collocation, expect.whole("stage1", stage1), first_rate)
    wanted = _times(end, rate) if record is None else np.unique([*map(float, record), end])
    if wanted[0] <= 0.0 or wanted[-1] > end:
        raise ValueError(f"record must be times above 0 and up to until = {end:g}, got {record!r}")
    stage = StageTwo(pairs, W_ov)
    p = np.zeros(stage.problem.d)
    p[: pairs.P] = point(pairs, start)
    lengths = rate * wanted
    reached, points, event = follow(along_arc(stage.problem, p), p, (), lengths[-1], lengths)
    times = np.append(0.0, wanted) if event is None else reached / rate
    return Training.of(
        pairs,
        W_ov,
        rate,
        "flow",
        times,
        points[:, : pairs.P],
        event=event,
        stage=stage,
        first_rate=None if given else first_rate,
        stage_1_steps=None if given else int(stage1),
    )


def _times(end: float, rate: float) -> Floats:
    """Every factor of 2 from the first leg on."""
    first = ARC_LENGTH.first / rate
    if end <= first:
        return np.array([end])
    count = int(np.floor(np.log2(end / first)))
    return np.unique([*(first * 2.0 ** np.arange(count + 1)), end])
