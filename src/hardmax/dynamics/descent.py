"""Training by steps, one problem or thousands in one call: the verbs `descend` and `descend_batch`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.parallel import cores
from hardmax.dynamics.blocks import need_step
from hardmax.dynamics.factors import train_factors
from hardmax.dynamics.joint import train_both
from hardmax.dynamics.lanes.batches import train_side_by_side
from hardmax.dynamics.run import Run
from hardmax.dynamics.split import Split, beside, lifted, need_span
from hardmax.dynamics.steps import Normalized, Step
from hardmax.dynamics.vector import train_p, train_W
from hardmax.problem import Problem
from hardmax.problem.coordinates import Coordinates

STEP = Normalized(0.1)


@check_arguments
def descend(
    problem: Problem,
    step: Step | tuple[Step, Step] = STEP,
    *,
    steps: int = 1000,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
    wrt: str | tuple[str, str] = "p",
    prompt: Any = None,
    batch: int | None = None,
    split: Split | None = None,
    factors: int | None = None,
) -> Run:
    """Train p, or W, or its factors, or p and the head v together, step by step.

    Args:
        problem: what is trained on.
        step: the rule of a step, from `hm.steps` or your own; a pair of them where two vectors are trained.
        steps: how many to take.
        start: p(0), the origin by default; W(0), the problem's own W, where W is trained. A trained v starts
            at the problem's head. A pair (K, Q) where factors are trained, which has no default.
        record: the steps to keep: a list, every k-th, or by default about 200. The two ends are always kept.
        coordinates: "auto", "primal", "gram" or "qr" (docs/dynamics.md); they change the speed only.
        wrt: what is trained: "p", "W", or ("p", "v"), in the order of the pair of rules. The ratio of the
            two rates decides where p goes when not every input is a support vector (B-NEW-1).
        prompt: the vector u that W is trained with.
        batch: the number of inputs of a step, all of them by default: with b of them step k sees the inputs
            k b, ..., k b + b - 1, and after the last input comes the first.
        split: what `hm.decompose` says of the problem: p_fin stays, and what diverges is trained beside it,
            without the cancellation that ends other trainings of data that do not separate.
        factors: the number m of columns of K and Q, where the inputs have queries and W = K Q' is trained
            through them: by one rule together, or by a pair of rules, one of each (docs/queries.md).

    Where the rate is beyond a threshold at which the rule loses the direction it is known for
    (`hm.train.forecast`), a `hm.train.RateWarning` says so.

    >>> import hardmax as hm
    >>> run = hm.descend(hm.data.named("B-FIG-8"), hm.steps.Normalized(0.1), steps=1000, start=[2.0, 0.0])
    >>> run.selection().tokens   # input 1 keeps its worse token: a locally optimal direction
    (0, 1)
    >>> both = hm.descend(hm.data.named("B-FIG-3a"), steps=1000, start=[0.0, -1.0], wrt=("p", "v"))
    >>> both.p.round(4).tolist(), both.heads[-1].round(5).tolist()
    ([95.293, 23.4802], [0.22192, 99.78082])
    """
    if split is not None:
        return _train_beside(
            descend,
            problem,
            step,
            split,
            steps=steps,
            start=start,
            record=record,
            coordinates=coordinates,
            wrt=wrt,
            prompt=prompt,
            batch=batch,
            factors=factors,
        )
    may_warn = isinstance(problem, Problem) and wrt == "p" and batch is None and factors is None
    if may_warn and isinstance(step, Step) and step.has_threshold and not math.isnan(step.constant_rate):
        from hardmax.dynamics.laws.forecasting import warn_of_rate

        warn_of_rate(problem, step)
    return descend_quietly(
        problem,
        step,
        steps=steps,
        start=start,
        record=record,
        coordinates=coordinates,
        wrt=wrt,
        prompt=prompt,
        batch=batch,
        factors=factors,
    )


def _train_beside(
    train: Callable[..., Run],
    problem: Problem,
    step: Any,
    split: Split,
    *,
    start: Any = None,
    wrt: Any = "p",
    prompt: Any = None,
    batch: Any = None,
    factors: Any = None,
    **kept: Any,
) -> Run:
    """What diverges, trained beside p_fin by one of the verbs here."""
    if wrt != "p" or any(each is not None for each in (prompt, batch, factors)):
        raise ValueError("split must be None where wrt, prompt, batch or factors is given: it is about p")
    r, rule = beside(split, problem, start), need_span(need_step(step))
    return lifted(split, train(split.late, rule, start=r, **kept))


def descend_quietly(
    problem: Problem,
    step: Step | tuple[Step, Step] = STEP,
    *,
    steps: int = 1000,
    start: Any = None,
    record: int | Sequence[int] | None = None,
    coordinates: Coordinates = "auto",
    wrt: str | tuple[str, str] = "p",
    prompt: Any = None,
    batch: int | None = None,
    factors: int | None = None,
) -> Run:
    """`descend` without a warning of the rate."""
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem must be a hardmax.Problem, got {type(problem).__name__}; for many problems call "
            "descend_batch"
        )
    steps = expect.whole("steps", steps)
    kept: dict[str, Any] = {"start": start, "record": record, "coordinates": coordinates}
    if batch is not None and wrt != "p":
        raise ValueError(f"batch must be None where wrt is {wrt!r}, got {batch}; batches are for p")
    if factors is not None:
        if wrt != "p" or prompt is not None or batch is not None:
            raise ValueError("factors must come without wrt, prompt and batch, got one: K and Q are trained")
        return train_factors(problem, step, steps, factors=factors, **kept)
    if wrt == "W":
        return train_W(problem, need_step(step), steps, prompt=prompt, **kept)
    if prompt is not None:
        raise ValueError('prompt is for training W: say wrt="W", or leave it out')
    if wrt == "p":
        return train_p(problem, need_step(step), steps, batch=batch, **kept)
    if not isinstance(wrt, tuple | list) or sorted(wrt) != ["p", "v"]:
        raise ValueError(f'wrt must be "p", "W" or ("p", "v"), got {wrt!r}')
    pair = step if isinstance(step, tuple | list) else (step, step)
    if len(pair) != 2:
        raise ValueError(f"step must be one rule, or one for each of {tuple(wrt)!r}, got {len(pair)}")
    rules = {name: need_step(each, f"step of {name}") for name, each in zip(wrt, pair, strict=True)}
    return train_both(problem, rules["p"], rules["v"], steps, **kept)


def _side_by_side(
    chunk: Sequence[tuple[Problem, Split | None]],
    step: Any,
    record: int | Sequence[int] | None,
    *,
    steps: int = 1000,
    start: Any = None,
    coordinates: Coordinates = "auto",
    **others: Any,
) -> dict[int, Run]:
    """The runs that lanes can take, by their places; none where there is more to train than p."""
    more = any(value is not None and (name, value) != ("wrt", "p") for name, value in others.items())
    if more or not isinstance(step, Step):
        return {}
    if not all(isinstance(problem, Problem) and part is None for problem, part in chunk):
        return {}
    return train_side_by_side(
        [problem for problem, _ in chunk],
        step,
        expect.whole("steps", steps),
        start=start,
        record=record,
        coordinates=coordinates,
    )


@check_arguments
def descend_batch(
    problems: Sequence[Problem],
    step: Step | tuple[Step, Step] = STEP,
    *,
    record: int | Sequence[int] | None = (),
    workers: int | None = None,
    split: Sequence[Split] | None = None,
    **options: Any,
) -> list[Run]:
    """`descend` on many problems in one call, each result the same to the bit whatever the others are.

    Small problems of one layout run side by side in vector registers, by every rule that is compiled, which
    takes about half the time; with `descend` they agree up to rounding (which a chaotic rule amplifies), all
    others to the bit.

    Args:
        problems: what is trained on.
        step: the rule of all of them.
        record: as for `descend`, but only the two ends of each run are kept by default.
        workers: how many threads; all cores by default.
        split: what `hm.decompose` says of each problem, as many as problems.
        options: all else that `descend` takes, the same for all of them.

    It gives no `RateWarning`.

    >>> import hardmax as hm
    >>> problems = list(hm.data.fig9_oracle(d=10, trials=50))
    >>> runs = hm.descend_batch(problems, hm.steps.Normalized(1.0), steps=100)
    >>> alone = hm.descend(problems[7], hm.steps.Normalized(1.0), steps=100)
    >>> len(runs), bool(abs(runs[7].p - alone.p).max() < 1e-12 * alone.norm)
    (50, True)
    """

    def run(chunk: Sequence[tuple[Problem, Split | None]]) -> list[Run]:
        found = _side_by_side(chunk, step, record, **options)
        for place, (problem, part) in enumerate(chunk):
            if part is not None:
                found[place] = _train_beside(descend_quietly, problem, step, part, record=record, **options)
            elif place not in found:
                found[place] = descend_quietly(problem, step, record=record, **options)
        return [found[place] for place in range(len(chunk))]

    if isinstance(problems, Problem):
        raise ValueError("problems must be a list, got one problem; call descend")
    problems = list(problems)
    if split is not None and (not isinstance(split, Sequence) or len(split) != len(problems)):
        got = len(split) if isinstance(split, Sequence) else f"one {type(split).__name__}"
        raise ValueError(
            f"split must be a list, one hm.decompose(problem) for each of {len(problems)} problems, got "
            f"{got}; decompose each"
        )
    pairs = list(zip(problems, [None] * len(problems) if split is None else split, strict=True))
    count = cores() if workers is None else expect.whole("workers", workers, 1)
    if count == 1 or len(pairs) < 2:
        return run(pairs)
    size = min(64, 4 * -(-len(pairs) // (4 * count)))  # four go side by side
    chunks = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    with ThreadPoolExecutor(count) as pool:  # the compiled loops release the interpreter
        return [path for part in pool.map(run, chunks) for path in part]
