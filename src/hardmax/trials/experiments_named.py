"""The experiments that a sweep knows by name: where the problems of trials come from.

Each trial draws from a generator of its own seed: first the problem, then the start.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hardmax import _inputs
from hardmax.data.generators import fig9_oracle, gaussian, sphere
from hardmax.data.named import named
from hardmax.heads import as_loss
from hardmax.problem import Problem
from hardmax.trials.experiments import MEASURE, check_columns, outcomes

RANDOM = {"sphere": sphere, "gaussian": gaussian}
STREAM = "fig9-oracle"
FIGURES = ("B-FIG-1a", "B-FIG-1b", "B-FIG-1c", "B-FIG-3a", "B-FIG-3b", "B-FIG-8")
EXPERIMENTS = (*RANDOM, STREAM, *FIGURES)
SHARED = ("step", "steps", "start", "measure")
LEAST = {"n": 1, "T": 1, "d": 1, "number": 0, "steps": 0}


def built_in(parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The built-in experiments: one row of `outcomes` per seed.

    ``parameters["experiment"]`` says where problems come from. "sphere" and "gaussian" draw one per trial
    (``n``, ``T``, ``d``); "fig9-oracle" takes problem ``number`` of the fixed stream of ``d``; the id of a
    figure, as in "B-FIG-8", is that figure's data, where only the start is random. ``start`` is the standard
    deviation of the coordinates of p(0), or p(0) itself as text, "2 0": 0 by default, 1 for a figure's data.
    ``step``, ``steps`` and ``measure``, names in one text, are those of `outcomes`; ``loss`` names a loss.

    >>> from hardmax.trials.experiments_named import built_in
    >>> parameters = {"experiment": "sphere", "n": 2, "T": 3, "d": 5, "measure": "selection saturated"}
    >>> built_in(parameters, seeds=[0, 1])
    [{'selection': '1 2', 'saturated': True}, {'selection': '0 2', 'saturated': True}]
    """
    experiment = check_parameters(parameters)
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
    how = {name: parameters[name] for name in ("step", "steps") if name in parameters}
    return outcomes(problems, starts=starts, measure=_columns(parameters), workers=1, **how)


def check_parameters(parameters: Mapping[str, Any]) -> str:
    """Refuse parameters that the experiment cannot run with, before any trial does; return the experiment.

    >>> from hardmax.trials.experiments_named import check_parameters
    >>> check_parameters({"experiment": "sphere", "n": 2, "depth": 3})
    Traceback (most recent call last):
    ValueError: depth is not a parameter of sphere; it has n, T, d, loss, step, steps, start, measure
    """
    experiment = parameters.get("experiment")
    if experiment not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}, got {experiment!r}")
    known = (*_own(experiment), *SHARED)
    for name, value in parameters.items():
        if name not in (*known, "experiment"):
            raise ValueError(f"{name} is not a parameter of {experiment}; it has {', '.join(known)}")
        if name in LEAST:
            _inputs.whole(name, value, LEAST[name])
    if experiment == STREAM and not {"d", "number"} <= parameters.keys():
        raise ValueError(f"{STREAM} needs d and number, which counts the problems of that d's stream from 0")
    _inputs.positive("step", parameters.get("step", 1.0))
    as_loss(parameters.get("loss", "logistic"))
    check_columns(_columns(parameters))
    start = parameters.get("start", 0)
    _numbers(start) if isinstance(start, str) else _inputs.finite_array("start", start, ())
    return experiment


def _own(experiment: str) -> tuple[str, ...]:
    if experiment in RANDOM:
        return "n", "T", "d", "loss"
    return ("d", "number") if experiment == STREAM else ("loss",)


def _columns(parameters: Mapping[str, Any]) -> Sequence[str]:
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
            f"start must be numbers in one text, as in '2 0', got {_inputs._short(text)}"
        ) from None
    return _inputs.finite_array("start", numbers, (None,))


# Where this process stands in the streams it reads: trials come in order, and each draw needs those before.
_streams: dict[int, tuple[int, Iterator[Problem]]] = {}


def _of_stream(d: int, number: int) -> Problem:
    d, number = _inputs.whole("d", d, 1), _inputs.whole("number", number)
    position, stream = _streams.get(d, (0, fig9_oracle(d, sys.maxsize)))
    if position > number:
        position, stream = 0, fig9_oracle(d, sys.maxsize)
    problem = next(itertools.islice(stream, number - position, None))
    _streams[d] = number + 1, stream
    return problem
