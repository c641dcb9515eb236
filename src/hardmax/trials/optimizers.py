"""Whether each optimiser ends at the max margin of its own norm, and which of them part (D-CONJ-0, D-THM-4).

One trial is one random problem on which every rule is run from the origin at one rate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hardmax.data.generators import gaussian
from hardmax.margin.att_svm import max_margin_batch
from hardmax.problem import Problem
from hardmax.train.descent import descend_batch
from hardmax.train.run import Run
from hardmax.train.steps import Adam, Coordinate, Mirror, Normalized, Sign, Signum, Step

REACHED = 0.05  # the largest deficit that counts as at the max margin
BASE = "normalized"  # the rule that the others' selections are compared with

RULES: dict[str, Callable[[float, float], Step]] = {
    "coordinate": lambda rate, decay: Coordinate(rate, decay=decay),
    "normalized": lambda rate, decay: Normalized(rate, decay=decay),
    "mirror3": lambda rate, decay: Mirror(rate, 3.0, decay=decay),
    "sign": lambda rate, decay: Sign(rate, decay=decay),
    "signum": lambda rate, decay: Signum(rate, 0.9, decay=decay),
    "adam": lambda rate, decay: Adam(rate, (0.9, 0.99), epsilon=0.0, decay=decay),
}


def compare(
    problems: Sequence[Problem], *, rate: float = 0.1, decay: float = 0.0, steps: int = 5000
) -> list[dict[str, bool]]:
    """Run every rule of `RULES` on every problem: a row for each, of true and false.

    A column named as a rule: it selects one token per input, and p ends within 5 percent of the max margin of
    these tokens in the rule's own norm. ``adam_parts`` and the like: the rule selects other tokens than
    normalised gradient descent does. ``any_parts``: any two of them do.

    Args:
        problems: to train on.
        rate: the step size of all rules, each in its own norm.
        decay: a, where the rate at step t is rate/(t+1)^a.
        steps: how many to take.

    >>> import hardmax as hm
    >>> from hardmax.trials.optimizers import compare
    >>> row = compare([hm.data.named("space-a")], steps=1000)[0]
    >>> [name for name in ("normalized", "sign", "adam", "sign_parts", "adam_parts") if row[name]]
    ['normalized', 'sign', 'adam', 'sign_parts', 'adam_parts']
    """
    rows: list[dict[str, bool]] = [{} for _ in problems]
    chosen: dict[str, list[str]] = {}
    for name, rule in RULES.items():
        step = rule(rate, decay)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rates beyond a threshold are part of the question
            runs = descend_batch(problems, step, steps=steps, workers=1)
        chosen[name] = [str(run.selection()) for run in runs]
        for row, reached in zip(rows, _reached(runs, step.norm), strict=True):
            row[name] = reached
    for at, row in enumerate(rows):
        told = {name: chosen[name][at] for name in RULES}
        row |= {f"{name}_parts": told[name] != told[BASE] for name in RULES if name != BASE}
        row["any_parts"] = len(set(told.values())) > 1
    return rows


def _reached(runs: Sequence[Run], norm: str) -> list[bool]:
    """Whether each run is at the max margin of what it selects; not where tokens tie or none is found."""
    selections = [run.selection() for run in runs]
    clear = [at for at, each in enumerate(selections) if all(len(tied) == 1 for tied in each.sets)]
    found = max_margin_batch(
        [runs[at].problem for at in clear], [selections[at].tokens for at in clear], workers=1, norm=norm
    )
    reached = [False] * len(runs)
    for at, best in zip(clear, found, strict=True):
        reached[at] = bool(best.is_certified and best.p is not None and best.deficit(runs[at].p) <= REACHED)
    return reached


def trials(parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, bool]]:
    """One row of `compare` per seed, on problems of `hm.data.gaussian`."""
    drawn = {name: parameters[name] for name in ("n", "T", "d", "loss") if name in parameters}
    how = {name: parameters[name] for name in ("rate", "decay", "steps") if name in parameters}
    return compare([gaussian(**drawn, rng=np.random.default_rng(seed)) for seed in seeds], **how)
