"""What a trial measures, descent by any rule and where it went (B-FIG-9), and the experiments known by name.

A row does not depend, to the bit, on the other problems it was computed with.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import misalignment
from hardmax._lib.parallel import serial_blas
from hardmax.data.generators import fig9_oracle, gaussian, sphere
from hardmax.data.small import named
from hardmax.limits.late import late_residual
from hardmax.margin.att_svm import max_margin_batch
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem
from hardmax.problem.losses import as_loss
from hardmax.train.descent import descend_batch, descend_quietly
from hardmax.train.steps import Normalized, Step
from hardmax.trials import optimizers
from hardmax.trials.experiments_blocks import Block, blocks
from hardmax.trials.rules import STEP, rule_of, rule_parameters

SATURATED = 1e-5  # the largest mean attention off the selected tokens that counts as saturated
MEASURE = (
    "saturated",
    "defect",
    "selection",
    "norm",
    "certified",
    "locally_optimal",
    "globally_optimal",
    "score_gap",
    "misalignment",
    "margin",
)
COLUMNS = (*MEASURE, "deficit", "event", "eta_ratio")  # the last take longer, or are seldom asked for


def outcomes(
    problems: Sequence[Problem],
    step: Step = STEP,
    *,
    steps: int = 1000,
    starts: Sequence[Any] | None = None,
    measure: Sequence[str] = MEASURE,
    workers: int | None = None,
) -> list[dict[str, Any]]:
    """Train p on every problem by a step rule and say where it went, one row per problem.

    ``saturated``: the mean attention off the selected tokens, ``defect``, is at most 1e-5. ``selection``: the
    tokens as text, "0 3 1"; tokens that tie as "0=2 3 1". ``certified``: their max-margin direction p_mm is
    proved optimal. ``locally_optimal``, ``globally_optimal``: saturated, and each selected token scores above
    its neighbours, or best of its input. ``score_gap``: the least lead over a neighbour, inf if there is
    none. ``misalignment``: 1 - cos of p to p_mm; ``margin``: 1/|p_mm|; ``norm``: |p|. All these are in l2.
    ``deficit``: how far p is from the max margin of its selection in the norm of the rule; ``event``: that of
    the run. ``eta_ratio``: the rate over eta_c, above which p swings (B-NEW-3), for locally optimal
    selections and normalised descent in l2 at a constant rate. What is undefined is nan.

    Args:
        problems: to train on.
        step: the rule of a step.
        steps: how many to take.
        starts: p(0) of every problem; the origin by default.
        measure: the columns of a row, by the names above.
        workers: the number of threads; one for each core by default.

    >>> import hardmax as hm
    >>> from hardmax.trials.experiments import outcomes
    >>> rows = outcomes(list(hm.data.fig9_oracle(d=10, trials=20)))
    >>> rows[0]["selection"], rows[0]["saturated"], sum(row["globally_optimal"] for row in rows)
    ('5 1 4 2', True, 5)
    """
    check_columns(measure)
    problems = list(problems)
    rows: list[dict[str, Any]] = [{} for _ in problems]
    with serial_blas():  # sums must not depend on how many threads a process has
        if starts is None:
            paths = descend_batch(problems, step, steps=steps, workers=workers)
        else:
            pairs = zip(problems, starts, strict=True)
            paths = [
                descend_quietly(problem, step, steps=steps, start=start, record=())
                for problem, start in pairs
            ]
        for block in blocks(paths):
            columns = _columns(block, measure, step, workers)
            for at, i in enumerate(block.members):
                rows[i] = {name: columns[name][at] for name in measure}
    return rows


def check_columns(measure: Sequence[str]) -> None:
    """Refuse what cannot be measured."""
    unknown = [name for name in measure if name not in COLUMNS]
    if unknown or not measure:
        raise ValueError(f"measure must be some of {', '.join(COLUMNS)}, got {', '.join(unknown) or 'none'}")


def _columns(block: Block, measure: Sequence[str], step: Step, workers: int | None) -> dict[str, list[Any]]:
    """The columns of a block, at least those asked for."""
    defects = block.defects
    saturated = defects <= SATURATED
    selections = block.selections
    columns: dict[str, list[Any]] = {
        "saturated": saturated.tolist(),
        "defect": defects.tolist(),
        "selection": [" ".join("=".join(map(str, tied)) for tied in chosen) for chosen in selections],
        "norm": [path.norm for path in block.paths],
        "event": [path.event for path in block.paths],
    }
    if "deficit" in measure:
        columns["deficit"] = [
            math.nan if each is None or not p.any() else each.deficit(p)
            for p, each in zip(block.points, _directions(block, selections, workers, step.norm), strict=True)
        ]
    if set(measure) <= columns.keys():
        return columns
    best = _directions(block, selections, workers)
    gaps = block.score_gaps(best)
    locally = saturated & (gaps > 0.0)
    columns |= {
        "certified": [each is not None and each.is_certified for each in best],
        "locally_optimal": locally.tolist(),
        "globally_optimal": (locally & block.are_best).tolist(),
        "score_gap": gaps.tolist(),
        "margin": [math.nan if each is None else each.margin for each in best],
        "misalignment": [
            math.nan if each is None or each.direction is None or not p.any() else misalignment(p, each)
            for p, each in zip(block.points, best, strict=True)
        ],
    }
    if "eta_ratio" in measure:
        rate = step.constant_rate if isinstance(step, Normalized) and step.norm == "l2" else math.nan
        columns["eta_ratio"] = [
            rate / late_residual(path.problem, each).eta_c if good and each and each.norm else math.nan
            for path, each, good in zip(block.paths, best, columns["locally_optimal"], strict=True)
        ]
    return columns


def _directions(
    block: Block, selections: Sequence[tuple[tuple[int, ...], ...]], workers: int | None, norm: str = "l2"
) -> list[MaxMargin | None]:
    """p_mm of every selection in a norm; None where tokens tie or nothing is known of it."""
    unique = [at for at, sets in enumerate(selections) if all(len(tied) == 1 for tied in sets)]
    found = max_margin_batch(
        [block.paths[at].problem for at in unique],
        [[t for (t,) in selections[at]] for at in unique],
        workers,
        norm,
    )
    best: list[MaxMargin | None] = [None] * len(selections)
    for at, each in zip(unique, found, strict=True):
        best[at] = each if each.is_certified and each.p is not None else None
    return best


RANDOM = {"sphere": sphere, "gaussian": gaussian}
STREAM = "fig9-oracle"
FIGURES = ("B-FIG-1a", "B-FIG-1b", "B-FIG-1c", "B-FIG-3a", "B-FIG-3b", "B-FIG-8")
OPTIMIZERS = "optimizers"
EXPERIMENTS = (*RANDOM, STREAM, *FIGURES, OPTIMIZERS)
SHARED = ("steps", "start", "measure", "rule")
COMPARED = ("rate", "decay", "steps")
LEAST = {"n": 1, "T": 1, "d": 1, "number": 0, "steps": 0}


def built_in(parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The built-in experiments: one row of `outcomes` per seed.

    ``parameters["experiment"]`` says where problems come from. "sphere" and "gaussian" draw one per trial
    (``n``, ``T``, ``d``); "fig9-oracle" takes problem ``number`` of the fixed stream of ``d``; the id of a
    figure, as in "B-FIG-8", is that figure's data, where only the start is random. ``start`` is the standard
    deviation of the coordinates of p(0), or p(0) itself as text, "2 0": 0 by default, 1 for a figure's data.
    ``rule`` names a rule of `hm.steps`, "Normalized" by default, whose parameters stand beside it: ``rate``,
    1 by default, ``decay``, ``power`` and so on, ``betas`` as one text. ``steps`` and ``measure``, names in
    one text, are those of `outcomes`; ``loss`` names a loss. "optimizers" compares rules on "gaussian"
    problems (trials/optimizers.py), and has ``rate``, ``decay`` and ``steps``.

    >>> from hardmax.trials.experiments import built_in
    >>> parameters = {"experiment": "sphere", "n": 2, "T": 3, "d": 5, "measure": "selection saturated"}
    >>> built_in(parameters, seeds=[0, 1])
    [{'selection': '1 2', 'saturated': True}, {'selection': '0 2', 'saturated': True}]
    """
    experiment = check_parameters(parameters)
    if experiment == OPTIMIZERS:
        return optimizers.trials(parameters, seeds)
    own = {name: parameters[name] for name in _own(experiment) if name in parameters}
    chance = [np.random.default_rng(seed) for seed in seeds]
    problems: list[Problem]
    if experiment in RANDOM:
        problems = [RANDOM[experiment](**own, rng=rng) for rng in chance]
    else:
        problems = [_of_stream(**own) if experiment == STREAM else named(experiment, **own)] * len(chance)
    start = parameters.get("start", 1.0 if experiment in FIGURES else 0.0)
    starts = None
    if isinstance(start, str):
        starts = [_numbers(start)] * len(problems)
    elif start != 0:
        starts = [start * rng.normal(size=problem.d) for problem, rng in zip(problems, chance, strict=True)]
    how = {"steps": parameters["steps"]} if "steps" in parameters else {}
    step = rule_of(parameters)
    return outcomes(problems, step, starts=starts, measure=_measured(parameters), workers=1, **how)


def check_parameters(parameters: Mapping[str, Any]) -> str:
    """Refuse parameters that the experiment cannot run with, before any trial does; return the experiment.

    >>> from hardmax.trials.experiments import check_parameters
    >>> check_parameters({"experiment": "sphere", "n": 2, "depth": 3})
    Traceback (most recent call last):
    ValueError: depth is not a parameter of sphere; it has n, T, d, loss, steps, start, measure, rule, and of
    Normalized rate, decay, epsilon, norm
    """
    experiment = parameters.get("experiment")
    if experiment not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}, got {experiment!r}")
    rule, of_rule = parameters.get("rule", "Normalized"), tuple[str, ...]()
    known = (*_own(experiment), *(COMPARED if experiment == OPTIMIZERS else SHARED))
    if experiment != OPTIMIZERS:
        of_rule = rule_parameters(rule)
    for name, value in parameters.items():
        if name not in (*known, *of_rule, "experiment"):
            more = f", and of {rule} {', '.join(of_rule)}" if of_rule else ""
            raise ValueError(f"{name} is not a parameter of {experiment}; it has {', '.join(known)}{more}")
        if name in LEAST:
            expect.whole(name, value, LEAST[name])
    if experiment == STREAM and not {"d", "number"} <= parameters.keys():
        raise ValueError(f"{STREAM} needs d and number, which counts the problems of that d's stream from 0")
    if isinstance(rule_of(parameters).rate, str):
        raise ValueError(f"rate must be a positive number, got {parameters['rate']!r}")
    as_loss(parameters.get("loss", "logistic"))
    check_columns(_measured(parameters))
    start = parameters.get("start", 0)
    _numbers(start) if isinstance(start, str) else expect.finite_array("start", start, ())
    return experiment


def _own(experiment: str) -> tuple[str, ...]:
    if experiment in RANDOM or experiment == OPTIMIZERS:
        return "n", "T", "d", "loss"
    return ("d", "number") if experiment == STREAM else ("loss",)


def _measured(parameters: Mapping[str, Any]) -> Sequence[str]:
    measure = parameters.get("measure")
    if measure is None:
        return MEASURE
    if not isinstance(measure, str):
        raise ValueError(f"measure must be names in one text, got {measure!r}")
    return measure.split()


def _numbers(text: str) -> np.ndarray:
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        raise ValueError(
            f"start must be numbers in one text, as in '2 0', got {expect._short(text)}"
        ) from None
    return expect.finite_array("start", numbers, (None,))


# Where this process stands in the streams it reads: trials come in order, and each draw needs those before.
_streams: dict[int, tuple[int, Iterator[Problem]]] = {}


def _of_stream(d: int, number: int) -> Problem:
    d, number = expect.whole("d", d, 1), expect.whole("number", number)
    position, stream = _streams.get(d, (0, fig9_oracle(d, sys.maxsize)))
    if position > number:
        position, stream = 0, fig9_oracle(d, sys.maxsize)
    problem = next(itertools.islice(stream, number - position, None))
    _streams[d] = number + 1, stream
    return problem
