"""`hm.train`: steps of an optimizer, on one model or on a list of thousands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, overload

from hardmax._lib import expect
from hardmax._lib.arguments import WrongType, check_arguments
from hardmax._lib.parallel import cores
from hardmax.dynamics.driver import RunWatch
from hardmax.dynamics.lanes.loops import train_side_by_side
from hardmax.dynamics.lanes.vectors import LANES
from hardmax.dynamics.models import STEPS, Model, Optimizers, Record, Vector
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates


@overload
def train(
    model: Problem | Model,
    optimizer: Optimizers | None = None,
    *,
    steps: int | None = None,
    start: Any = None,
    record: Record = None,
    batch: int | None = None,
    coordinates: Coordinates | None = None,
    workers: int | None = None,
    **options: Any,
) -> Run: ...


@overload
def train(
    model: Sequence[Problem] | Sequence[Model],
    optimizer: Optimizers | None = None,
    *,
    steps: int | None = None,
    start: Any = None,
    record: Record = None,
    batch: int | None = None,
    coordinates: Coordinates | None = None,
    workers: int | None = None,
    **options: Any,
) -> list[Run]: ...


@check_arguments
def train(
    model: Problem | Model | Sequence[Problem] | Sequence[Model],
    optimizer: Optimizer | tuple[Optimizer, Optimizer] | Mapping[str, Optimizer] | None = None,
    *,
    steps: int | None = None,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    batch: int | None = None,
    coordinates: Coordinates | None = None,
    workers: int | None = None,
    **options: Any,
) -> Run | list[Run]:
    """Train a model with an optimizer; a list of models gives a list of runs.

    Each run of a list is bit-for-bit independent of the others. Small problems of one layout run side
    by side in vector registers, which takes about half the time; they agree with a run of their own up to
    rounding, all others to the bit.

    Args:
        model: a `Problem`, whose p is trained, or `problem.joint()`, `problem.matrix(prompt)`,
            `problem.factors(rank)`, `decomposition.remainder`, `corpus.model(d)`, `samples.model()`; or a
            list of them.
        optimizer: from `hm.optim`, or your own; where a model has two blocks, one for both, a pair, or a
            dict by the names of the blocks.
        steps: number of steps, default 1000.
        start: p(0), the origin by default; of other models W(0), which is the problem's own W by default, or
            a pair (K, Q), which has no default.
        record: the steps to keep: a list of them, every k-th, or by default about 200; the two ends are
            always kept, and nothing else by default where ``model`` is a list.
        batch: the inputs of a step, all of them by default: with b of them step k takes the inputs k b,
            ..., k b + b - 1; batches cycle through the inputs in order.
        coordinates: "auto", "primal", "gram" or "qr"; they change the speed only.
        workers: threads for a list of models; all cores by default.
        options: ``milestones``, the steps from which on the learning rate is a tenth of what it was;
            ``progress(done, total)``, called at the recorded steps; ``until_loss``, which ends the run at the
            first recorded step where the loss is at most this; ``checkpoint``, a file that gets the state
            every ``checkpoint_every`` (10) recorded steps and at the end. The same call resumes from it and
            gives the same bits. Models of papers A and C may take others.

    Returns:
        A `Run`, or a list of them. Where a constant learning rate is beyond the threshold at which the
        optimizer loses the direction it is known for (`hm.limits.forecast`), a single training of p issues a
        `hm.limits.RateWarning`.

    See also: `hm.flow`, the limit of infinitely small steps.

    >>> import hardmax as hm
    >>> run = hm.train(hm.data.example("B-FIG-8"), hm.optim.Normalized(lr=0.1), steps=1000, start=[2.0, 0.0])
    >>> run.selection   # input 1 keeps its worse token: a direction that attracts
    (0, 1)
    >>> model = hm.data.example("B-FIG-3a").joint()
    >>> both = hm.train(model, hm.optim.Normalized(lr=0.1), steps=1000, start=[0.0, -1.0])
    >>> both.p.round(4).tolist(), both.v_points[-1].round(5).tolist()
    ([95.293, 23.4802], [0.22192, 99.78082])
    >>> problems = list(hm.data.fig9_oracle(d=10, trials=50))
    >>> runs = hm.train(problems, hm.optim.Normalized(lr=1.0), steps=100)
    >>> alone = hm.train(problems[7], hm.optim.Normalized(lr=1.0), steps=100)
    >>> len(runs), bool(abs(runs[7].p - alone.p).max() < 1e-12 * alone.p_norm)
    (50, True)
    """
    if optimizer is None:
        raise TypeError(
            "optimizer must be given, because training has no default; choose one of hm.optim, such as "
            "hm.optim.GD(lr=0.1)"
        )
    arguments = {"steps": steps, "start": start, "record": record, "batch": batch, "coordinates": coordinates}
    arguments |= options
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if not isinstance(model, Problem | Model):
        return _train_list(list(model), optimizer, workers, **{"record": (), **arguments})
    if isinstance(model, Model):
        return model._train(optimizer, **arguments | ({} if workers is None else {"workers": workers}))
    if workers is not None:
        raise ValueError("workers must be None where one problem is trained; give a list of problems")
    step = optimizer if isinstance(optimizer, Optimizer) and "batch" not in arguments else None
    if step is not None and step.has_threshold and not math.isnan(step.constant_rate):
        from hardmax.dynamics.laws import warn_of_rate

        warn_of_rate(model, step)
    return train_quietly(model, optimizer, **arguments)


def train_quietly(model: Any, optimizer: Any, **options: Any) -> Run:
    """Train one model without a warning of the rate."""
    if isinstance(model, Problem):
        model = Vector(model)
    if not isinstance(model, Model):
        raise WrongType(f"model must be a hardmax.Problem or a model, got {type(model).__name__}")
    run: Run = model._train(optimizer, **options)
    return run


def _train_list(models: list[Any], optimizer: Any, workers: int | None, **options: Any) -> list[Run]:
    """Train each model; small problems of one layout that are neighbors go through lanes side by side."""
    if "checkpoint" in options:
        raise ValueError("checkpoint must be left out for a list of models; train them one by one")
    others = {"batch", "milestones", *RunWatch._fields}
    is_plain = isinstance(optimizer, Optimizer) and others.isdisjoint(options)

    def run(chunk: list[Any]) -> list[Run]:
        runs: dict[int, Run] = {}
        if is_plain and all(isinstance(model, Problem) for model in chunk):
            steps = expect.whole("steps", options.get("steps", STEPS))
            runs = train_side_by_side(chunk, optimizer, **{**options, "steps": steps})
        return [
            runs.get(place) or train_quietly(model, optimizer, **options) for place, model in enumerate(chunk)
        ]

    count = cores() if workers is None else expect.whole("workers", workers, 1)
    if count == 1 or len(models) < 2:
        return run(models)
    size = min(64, LANES * -(-len(models) // (LANES * count)))
    chunks = [models[i : i + size] for i in range(0, len(models), size)]
    with ThreadPoolExecutor(count) as pool:  # the compiled loops release the interpreter
        return [result for part in pool.map(run, chunks) for result in part]
