"""The measurements of a trial: descent by any rule and its result (B-FIG-9), and the built-in experiments.

A row does not depend, to the bit, on the other problems it was computed with.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arrays import cosine_distance, lengths
from hardmax._lib.parallel import serial_blas
from hardmax.data.generators import fig9_oracle, gaussian, sphere
from hardmax.data.small import example
from hardmax.directions.neighbors import known_gap, row_gaps
from hardmax.dynamics.optim import RULES as ALL
from hardmax.dynamics.optim import Adam, Coordinate, Mirror, Normalized, Optimizer, Sign, Signum
from hardmax.dynamics.run import Run
from hardmax.dynamics.train import train, train_quietly
from hardmax.limits.late import late_residual
from hardmax.margin.att_svm import max_margin
from hardmax.margin.measure import enclose_many
from hardmax.margin.solution import MaxMargin
from hardmax.problem import Problem
from hardmax.problem.losses import as_loss
from hardmax.problem.selection import slot_gaps
from hardmax.trials.grid import STORED

# Rules of matrices are left out: the experiments draw keys of a vector p.
RULES = {name: rule for name, rule in ALL.items() if name not in ("Spectral", "Muon")}
SPOKEN = {old: name for name, old in STORED.items()}
RATE = 1.0  # where none is given, as in B-FIG-9
STEP = Normalized(RATE)


def rule_parameters(name: Any) -> dict[str, str]:
    """Return the parameters of an optimizer: the names in stores, and those of the class."""
    if name not in RULES:
        raise ValueError(f"optimizer must be one of {', '.join(RULES)}, got {name!r:.60}")
    return {STORED.get(field.name, field.name): field.name for field in fields(RULES[name])}


def rule_of(parameters: Mapping[str, Any]) -> Optimizer:
    """Return the optimizer of a cell; normalized gradient descent by default."""
    name = parameters.get("rule", "Normalized")
    names = rule_parameters(name)
    values = {"rate": RATE, **{stored: parameters[stored] for stored in names if stored in parameters}}
    if isinstance(betas := values.get("betas"), str):
        try:
            values["betas"] = tuple(float(word) for word in betas.split())
        except ValueError:
            raise ValueError(f"betas must be two numbers in one text, got {betas!r:.60}") from None
    try:
        return RULES[name](**{names[stored]: value for stored, value in values.items()})
    except TypeError:
        missing = [names[stored] for stored in names if stored not in values and stored != "decay"]
        raise ValueError(f"optimizer {name} requires {', '.join(missing)}") from None


REACHED = 0.05  # the largest deficit that counts as at the max margin
BASE = "normalized"  # the rule that the others' selections are compared with

BY_OPTIMIZER: dict[str, Callable[[float, float], Optimizer]] = {
    "coordinate": lambda rate, decay: Coordinate(rate, decay=decay),
    "normalized": lambda rate, decay: Normalized(rate, decay=decay),
    "mirror3": lambda rate, decay: Mirror(rate, 3.0, decay=decay),
    "sign": lambda rate, decay: Sign(rate, decay=decay),
    "signum": lambda rate, decay: Signum(rate, 0.9, decay=decay),
    "adam": lambda rate, decay: Adam(rate, (0.9, 0.99), eps=0.0, decay=decay),
}


def compare(
    problems: Sequence[Problem], *, rate: float = 0.1, decay: float = 0.0, steps: int = 5000
) -> list[dict[str, bool]]:
    """Run every rule of `BY_OPTIMIZER` on every problem; return a row of true and false per problem.

    A column named as a rule: it selects one token per input, and p ends within 5 percent of the max margin of
    these tokens in the rule's own norm. ``adam_parts`` and the like: the rule selects other tokens than
    normalized gradient descent does. ``any_parts``: any two of them do.

    Args:
        problems: to train on.
        rate: the step size of all rules, each in its own norm.
        decay: a, where the rate at step t is rate/(t+1)^a.
        steps: how many to take.

    >>> import hardmax as hm
    >>> from hardmax.trials.experiments import compare
    >>> row = compare([hm.data.example("space-a")], steps=1000)[0]
    >>> [name for name in ("normalized", "sign", "adam", "sign_parts", "adam_parts") if row[name]]
    ['normalized', 'sign', 'adam', 'sign_parts', 'adam_parts']
    """
    ends: dict[str, list[dict[str, Any]]] = {}
    for name, rule in BY_OPTIMIZER.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rates beyond a threshold are part of the question
            columns = ("selection", "deficit")
            ends[name] = outcomes(problems, rule(rate, decay), steps=steps, measure=columns, workers=1)
    rows = []
    for at in range(len(problems)):
        selected = {name: column[at]["selection"] for name, column in ends.items()}
        row = {name: bool(column[at]["deficit"] <= REACHED) for name, column in ends.items()}
        row |= {f"{name}_parts": selected[name] != selected[BASE] for name in selected if name != BASE}
        row["any_parts"] = len(set(selected.values())) > 1
        rows.append(row)
    return rows


SIZE = 128  # problems of a block: two threads' worth of certified directions
NUMBERS = 4_000_000  # of the keys of a block: large problems go one by one
NEAR = 1e-8  # ten times the tolerance of a tie: beyond it there is none


def _blocks(problems: Sequence[Problem]) -> Iterator[list[int]]:
    """Group problems by their layout, in blocks of limited size."""
    groups: dict[tuple[bytes, int], list[int]] = {}
    for i, problem in enumerate(problems):
        groups.setdefault((problem.offsets.tobytes(), problem.d), []).append(i)
    for members in groups.values():
        problem = problems[members[0]]
        size = max(1, min(SIZE, NUMBERS // (len(problem.tokens) * problem.d)))
        for first in range(0, len(members), size):
            yield members[first : first + size]


Sets = tuple[tuple[int, ...], ...]  # the tokens of every input that tie


def _ends(runs: Sequence[Run]) -> tuple[np.ndarray, list[Sets], np.ndarray]:
    """Return where runs end whose problems have one layout.

    The token with the largest logit of every input, (B, n); the selections, whose ties are looked for only
    where one is possible; and the mean attention off the top tokens.
    """
    starts, sizes = runs[0].problem.offsets[:-1], runs[0].problem.sizes
    points = np.stack([run.p for run in runs])
    keys = np.stack([run.problem.keys[run.problem.tokens] for run in runs])  # at every slot, (B, L, d)
    parts = np.split(_times(keys, points), starts[1:], axis=1)
    tops = np.stack([part.argmax(axis=1) for part in parts], axis=1)
    slots = tops + starts
    # The rows of ATT-SVM, and zero at the top token; a lead is its logit minus that of the slot.
    differences = np.repeat(np.take_along_axis(keys, slots[:, :, None], axis=1), sizes, axis=1) - keys
    leads = _times(differences, points)
    groups = np.stack([run.problem.groups for run in runs])
    copies = groups == np.repeat(np.take_along_axis(groups, slots, axis=1), sizes, axis=1)
    others = np.add.reduceat(np.where(copies, 0.0, np.exp(-leads)), starts, axis=1)
    selected = np.add.reduceat(copies, starts, axis=1, dtype=float)
    distances = np.sqrt(np.einsum("bld,bld->bl", differences, differences))
    reach = NEAR * lengths(points)[:, None] * np.maximum.reduceat(distances, starts, axis=1)
    has_tie = (leads <= np.repeat(reach, sizes, axis=1)).sum(axis=1) != len(sizes)
    selections: list[Sets] = [
        run.selection.sets if tied else tuple((t,) for t in row)
        for run, row, tied in zip(runs, tops.tolist(), has_tie.tolist(), strict=True)
    ]
    return tops, selections, (others / (selected + others)).mean(axis=1)


def _times(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return rows @ vector per problem: a sum over the whole block could depend on what else is in it."""
    return np.matmul(rows, vectors[:, :, None])[:, :, 0]


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
    step: Optimizer = STEP,
    *,
    steps: int = 1000,
    starts: Sequence[Any] | None = None,
    measure: Sequence[str] = MEASURE,
    workers: int | None = None,
) -> list[dict[str, Any]]:
    """Train p on every problem by an optimizer and report the result, one row per problem.

    ``saturated``: the mean attention off the selected tokens, ``defect``, is at most 1e-5. ``selection``: the
    tokens as text, "0 3 1"; tokens that tie as "0=2 3 1". ``certified``: their max-margin direction p_mm is
    proved optimal. ``locally_optimal``, ``globally_optimal``: saturated, and each selected token scores above
    its neighbors, or best of its input. ``score_gap``: the least lead over a neighbor, inf if there is
    none. ``misalignment``: 1 - cos of p to p_mm; ``margin``: 1/|p_mm|; ``norm``: |p|. All these are in l2.
    ``deficit``: how far p is from the max margin of its selection in the norm of the rule; ``event``: that of
    the run. ``eta_ratio``: the rate over eta_c, above which p swings (B-NEW-3), for locally optimal
    selections and normalized descent in l2 at a constant rate. What is undefined is nan.

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
            runs = train(problems, step, steps=steps, workers=workers)
        else:
            pairs = zip(problems, starts, strict=True)
            runs = [
                train_quietly(problem, step, steps=steps, start=start, record=()) for problem, start in pairs
            ]
        for members in _blocks(problems):
            columns = _columns([runs[i] for i in members], measure, step, workers)
            for at, i in enumerate(members):
                rows[i] = {name: columns[name][at] for name in measure}
    return rows


def check_columns(measure: Sequence[str]) -> None:
    """Refuse what cannot be measured."""
    unknown = [name for name in measure if name not in COLUMNS]
    if unknown or not measure:
        raise ValueError(f"measure must be some of {', '.join(COLUMNS)}, got {', '.join(unknown) or 'none'}")


def _columns(
    runs: Sequence[Run], measure: Sequence[str], step: Optimizer, workers: int | None
) -> dict[str, list[Any]]:
    """Return the columns of runs whose problems have one layout, at least the measured ones."""
    tops, selections, defects = _ends(runs)
    saturated = defects <= SATURATED
    columns: dict[str, list[Any]] = {
        "saturated": saturated.tolist(),
        "defect": defects.tolist(),
        "selection": [" ".join("=".join(map(str, tied)) for tied in sets) for sets in selections],
        "norm": [run.p_norm for run in runs],
        "event": [run.event for run in runs],
    }
    if "deficit" in measure:
        best = _directions(runs, selections, workers, step.norm)
        columns["deficit"] = [
            math.nan if direction is None or not run.p.any() else direction.margin_gap(run.p)
            for run, direction in zip(runs, best, strict=True)
        ]
    if set(measure) <= columns.keys():
        return columns
    best = _directions(runs, selections, workers)
    pairs = list(zip(runs, best, strict=True))
    enclose_many([direction for direction in best if direction is not None])
    gaps = [
        math.nan if direction is None else known_gap(direction, row_gaps(run.problem, direction))
        for run, direction in pairs
    ]
    locally = [bool(end and gap > 0.0) for end, gap in zip(saturated, gaps, strict=True)]
    columns |= {
        "certified": [direction is not None and direction.is_certified for direction in best],
        "locally_optimal": locally,
        "globally_optimal": [
            is_optimal and bool(slot_gaps(run.problem, top).min() >= 0.0)
            for run, top, is_optimal in zip(runs, tops, locally, strict=True)
        ],
        "score_gap": gaps,
        "margin": [math.nan if direction is None else direction.margin for direction in best],
        "misalignment": [
            math.nan
            if direction is None or direction.direction is None or not run.p.any()
            else cosine_distance(run.p, direction)
            for run, direction in pairs
        ],
    }
    if "eta_ratio" in measure:
        rate = step.constant_rate if isinstance(step, Normalized) and step.norm == "l2" else math.nan
        columns["eta_ratio"] = [
            rate / late_residual(run.problem, direction).eta_c
            if is_optimal and direction and direction.p_norm
            else math.nan
            for (run, direction), is_optimal in zip(pairs, locally, strict=True)
        ]
    return columns


def _directions(
    runs: Sequence[Run], selections: Sequence[Sets], workers: int | None, norm: str = "l2"
) -> list[MaxMargin | None]:
    """Return p_mm of every selection in a norm; None where tokens tie or it is not certified."""
    unique = [at for at, sets in enumerate(selections) if all(len(tied) == 1 for tied in sets)]
    solutions = max_margin(
        [runs[at].problem for at in unique],
        [[t for (t,) in selections[at]] for at in unique],
        workers=workers,
        norm=norm,
    )
    best: list[MaxMargin | None] = [None] * len(selections)
    for at, solution in zip(unique, solutions, strict=True):
        best[at] = solution if solution.is_certified and solution.p is not None else None
    return best


RANDOM = {"sphere": sphere, "gaussian": gaussian}
STREAM = "fig9-oracle"
FIGURES = ("B-FIG-1a", "B-FIG-1b", "B-FIG-1c", "B-FIG-3a", "B-FIG-3b", "B-FIG-8")
OPTIMIZERS = "optimizers"
RANDOM_PARAMETERS = ("n", "T", "d", "loss")
EXPERIMENTS: dict[str, tuple[str, ...]] = {  # with the parameters of their problems
    **dict.fromkeys(RANDOM, RANDOM_PARAMETERS),
    STREAM: ("d", "number"),
    **dict.fromkeys(FIGURES, ("loss",)),
    OPTIMIZERS: RANDOM_PARAMETERS,
}
SHARED = ("steps", "start", "measure", "rule")
COMPARED = ("rate", "decay", "steps")
LEAST = {"n": 1, "T": 1, "d": 1, "number": 0, "steps": 0}


def built_in(parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Run a built-in experiment: return one row of `outcomes` per seed.

    ``parameters["experiment"]`` says where problems come from. "sphere" and "gaussian" draw one per trial
    (``n``, ``T``, ``d``); "fig9-oracle" takes problem ``number`` of the fixed stream of ``d``; the id of a
    figure, as in "B-FIG-8", is that figure's data, where only the start is random. ``start`` is the standard
    deviation of the coordinates of p(0), or p(0) itself as text, "2 0": 0 by default, 1 for a figure's data.
    ``rule`` (in sweep files ``optimizer``) names an optimizer, "Normalized" by default, whose parameters are
    given next to it: ``rate`` (``lr``), 1 by default, ``decay``, ``power``, ``betas`` as one text, and so on.
    ``steps`` and ``measure``, names in
    one text, are those of `outcomes`; ``loss`` names a loss. "optimizers" compares rules on "gaussian"
    problems (trials/experiments.py), and has ``rate``, ``decay`` and ``steps``.

    >>> from hardmax.trials.experiments import built_in
    >>> parameters = {"experiment": "sphere", "n": 2, "T": 3, "d": 5, "measure": "selection saturated"}
    >>> built_in(parameters, seeds=[0, 1])
    [{'selection': '1 2', 'saturated': True}, {'selection': '0 2', 'saturated': True}]
    """
    experiment = check_parameters(parameters)
    options = {name: parameters[name] for name in EXPERIMENTS[experiment] if name in parameters}
    chance = [np.random.default_rng(seed) for seed in seeds]
    problems: list[Problem]
    if experiment == OPTIMIZERS:
        settings = {name: parameters[name] for name in COMPARED if name in parameters}
        return compare([gaussian(**options, rng=rng) for rng in chance], **settings)
    if experiment in RANDOM:
        problems = [RANDOM[experiment](**options, rng=rng) for rng in chance]
    else:
        problems = [_of_stream(**options) if experiment == STREAM else example(experiment, **options)]
        problems *= len(chance)
    start = parameters.get("start", 1.0 if experiment in FIGURES else 0.0)
    starts = None
    if isinstance(start, str):
        starts = [_numbers(start)] * len(problems)
    elif start != 0:
        starts = [start * rng.normal(size=problem.d) for problem, rng in zip(problems, chance, strict=True)]
    steps = parameters.get("steps", 1000)
    measure = _measured(parameters)
    return outcomes(problems, rule_of(parameters), steps=steps, starts=starts, measure=measure, workers=1)


def check_parameters(parameters: Mapping[str, Any]) -> str:
    """Refuse parameters that the experiment cannot run with, before any trial does; return the experiment.

    >>> from hardmax.trials.experiments import check_parameters
    >>> check_parameters({"experiment": "sphere", "n": 2, "depth": 3})
    Traceback (most recent call last):
    ValueError: depth is not a parameter of sphere; it has n, T, d, loss, steps, start, measure, optimizer,
    and of Normalized lr, decay, eps, norm
    """
    experiment = parameters.get("experiment")
    if experiment not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}, got {experiment!r}")
    compares = experiment == OPTIMIZERS
    rule = parameters.get("rule", "Normalized")
    names = (*EXPERIMENTS[experiment], *(COMPARED if compares else SHARED))
    of_rule = {} if compares else rule_parameters(rule)
    for name, value in parameters.items():
        if name not in (*names, *of_rule, "experiment"):
            listed = ", ".join(SPOKEN.get(name, name) for name in names)
            more = f", and of {rule} {', '.join(of_rule.values())}" if of_rule else ""
            raise ValueError(f"{name} is not a parameter of {experiment}; it has {listed}{more}")
        if name in LEAST:
            expect.whole(name, value, LEAST[name])
    if experiment == STREAM and not {"d", "number"} <= parameters.keys():
        raise ValueError(f"{STREAM} needs d and number, which counts the problems of that d's stream from 0")
    if isinstance(rule_of(parameters).lr, str):
        raise ValueError(f"lr must be a positive number, got {parameters['rate']!r}")
    as_loss(parameters.get("loss", "logistic"))
    check_columns(_measured(parameters))
    start = parameters.get("start", 0)
    _numbers(start) if isinstance(start, str) else expect.finite_array("start", start, ())
    return experiment


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


# How far this process is in the streams it reads: trials come in order, and each draw needs those before.
_streams: dict[int, tuple[int, Iterator[Problem]]] = {}


def _of_stream(d: int, number: int) -> Problem:
    d, number = expect.whole("d", d, 1), expect.whole("number", number)
    position, stream = _streams.get(d, (0, fig9_oracle(d, sys.maxsize)))
    if position > number:
        position, stream = 0, fig9_oracle(d, sys.maxsize)
    problem = next(itertools.islice(stream, number - position, None))
    _streams[d] = number + 1, stream
    return problem
