"""The trials behind B-FIG-9 and B-FIG-10, as tables with a row per trial.

The protocol: n = 4 inputs of T = 6 tokens, tokens and head uniform on the sphere, labels +-1, logistic loss,
1,000 steps of normalised gradient descent from zero with step 1. A sweep draws every trial from its own seed;
the control is the fixed stream `hm.data.fig9_oracle`, whose outcomes are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import hardmax as hm
from hardmax.figures.figure import Scale
from hardmax.figures.tables import Table
from hardmax.margin.measure import enclose_many

if TYPE_CHECKING:
    from hardmax.figures.paper_b.official import Arithmetic
    from hardmax.problem import Problem

DIMENSIONS = (2, 5, 10, 100, 300, 500)
TRIALS: dict[Scale, int] = {"quick": 200, "paper": 1000}
FEW = 100  # trials per d on which the official kinds of arithmetic are shown
SEED = 1
EXACT = "exact"
LATE = (10_000, 100_000)  # steps; a bounded norm no longer grows in between

Rows = Sequence[Mapping[str, Any]]
_swept: dict[Scale, Table] = {}


def sweep_table(scale: Scale, progress: Callable[[float], None]) -> Table:
    """The sweep over d; run once in a process, for three figures are drawn from it."""
    from hardmax.trials.experiments import built_in

    if scale not in _swept:
        grid = {"experiment": "sphere", "n": 4, "T": 6, "d": DIMENSIONS}
        found = hm.sweep(
            built_in,
            grid,
            TRIALS[scale],
            seed=SEED,
            batched=True,
            progress=lambda so_far: progress(so_far.done / so_far.total),
        )
        for failure in found.failures():
            raise RuntimeError(f"a trial failed ({failure.error}); run it alone by {failure.command}")
        rows = list(found.rows())
        _swept[scale] = trials_table(rows) | {"seed": np.array([row["seed"] for row in rows])}
    return _swept[scale]


def trials_table(rows: Rows) -> dict[str, np.ndarray]:
    """What `outcomes` says of each trial, with its d and its number."""
    columns = (
        "d",
        "trial",
        "saturated",
        "locally_optimal",
        "globally_optimal",
        "certified",
        "score_gap",
        "misalignment",
        "defect",
        "norm",
        "margin",
        "selection",
    )
    return {name: np.array([row[name] for row in rows]) for name in columns}


def arithmetic_table(trials: Table, count: int = FEW) -> dict[str, np.ndarray]:
    """Exact arithmetic against the official kinds, on the first trials per d of a sweep."""
    from hardmax.figures.paper_b.official import OFFICIAL

    rows: list[Mapping[str, Any]] = []
    for d in DIMENSIONS:
        of = (trials["d"] == d) & (trials["trial"] < count)
        problems = [hm.data.sphere(4, 6, d, rng=int(seed)) for seed in trials["seed"][of]]
        exact = (
            {name: trials[name][i] for name in ("saturated", "score_gap", "misalignment", "norm")}
            for i in np.flatnonzero(of)
        )
        rows += [{"arithmetic": EXACT, "d": d, **row} for row in exact]
        rows += plain_rows(problems, d, OFFICIAL)
    return plain_table(rows)


def plain_rows(problems: Sequence[Problem], d: int, kinds: Sequence[Arithmetic]) -> list[dict[str, Any]]:
    """Where official kinds of arithmetic go, measured exactly."""
    from hardmax.figures.paper_b.official import official_end
    from hardmax.trials.experiments import outcomes

    rows: list[dict[str, Any]] = []
    for kind in kinds:
        ends = official_end(problems, kind)
        rows += [
            {"arithmetic": kind.name, "d": d, **row} for row in outcomes(problems, steps=0, starts=list(ends))
        ]
    return rows


def plain_table(rows: Rows) -> dict[str, np.ndarray]:
    """Rows of several kinds of arithmetic as a table."""
    columns = ("arithmetic", "d", "saturated", "score_gap", "misalignment", "norm")
    return {name: np.array([row[name] for row in rows]) for name in columns}


def control_table(count: int) -> dict[str, np.ndarray]:
    """The first trials per d of the control stream, with the least slack of a row that is not tight."""
    rows: list[Mapping[str, Any]] = []
    for d in DIMENSIONS:
        problems = list(hm.data.fig9_oracle(d, count))
        found = _numbered(problems, d)
        slacks = _resting_slacks(problems, found)
        rows += [row | {"slack": slack} for row, slack in zip(found, slacks, strict=True)]
    return trials_table(rows) | {"slack": np.array([row["slack"] for row in rows])}


def control_arithmetic_table(control: Table) -> dict[str, np.ndarray]:
    """Plain float64 with an epsilon, the kinds whose outcome is known, on the whole control stream."""
    from hardmax.figures.paper_b.official import OFFICIAL

    kinds = [kind for kind in OFFICIAL if kind.precision == "float64" and kind.epsilon]
    count = int(control["trial"].max()) + 1
    streams = ((d, list(hm.data.fig9_oracle(d, count))) for d in DIMENSIONS)
    return plain_table([row for d, problems in streams for row in plain_rows(problems, d, kinds)])


def sensitivity_table(count: int = 200) -> dict[str, np.ndarray]:
    """The first trials of the control stream with another loss, a random start, or ten times the steps."""
    rows: list[Mapping[str, Any]] = []
    for d in DIMENSIONS:
        problems = list(hm.data.fig9_oracle(d, count))
        starts = 0.01 * np.random.default_rng([SEED, d]).normal(size=(count, d))
        variants: dict[str, list[dict[str, Any]]] = {
            "exponential loss": _numbered([_with_loss(each, "exponential") for each in problems], d),
            "correlation loss": _numbered([_with_loss(each, "correlation") for each in problems], d),
            "start 0.01 N(0, I)": _numbered(problems, d, starts=list(starts)),
            "10,000 steps": _numbered(problems, d, steps=10_000),
        }
        rows += [row | {"variant": name} for name, found in variants.items() for row in found]
    return trials_table(rows) | {"variant": np.array([row["variant"] for row in rows])}


def negative_table(control: Table) -> dict[str, np.ndarray]:
    """The saturated trials of the control with a higher-scoring neighbour: does their p go to infinity?

    ``proxy`` is positive where ATT-SVM' is closer to p than ATT-SVM, as appendix E expects (B-APP-E).
    """
    chosen = np.flatnonzero(control["saturated"] & (control["score_gap"] < 0))
    late, proxy = [], []
    for i in chosen:
        *_, problem = hm.data.fig9_oracle(int(control["d"][i]), int(control["trial"][i]) + 1)
        late.append(hm.descend(problem, hm.steps.Normalized(1.0), steps=LATE[1], record=[LATE[0]]).norms[1:])
        proxy.append(hm.check("B-APP-E", problem).slack)
    early, end = np.array(late).reshape(-1, 2).T
    kept = {name: control[name][chosen] for name in ("d", "trial", "score_gap", "misalignment")}
    return kept | {"norm_1e4": early, "norm_1e5": end, "proxy": np.array(proxy, dtype=float)}


def _numbered(problems: Sequence[Problem], d: int, **options: Any) -> list[dict[str, Any]]:
    from hardmax.trials.experiments import outcomes

    return [{"d": d, "trial": trial, **row} for trial, row in enumerate(outcomes(problems, **options))]


def _with_loss(problem: Problem, loss: str) -> Problem:
    from hardmax.problem.losses import as_loss

    assert problem.head.linear is not None
    return replace(problem, head=replace(problem.head.linear, loss=as_loss(loss)))


def _resting_slacks(problems: Sequence[Problem], rows: Rows) -> list[float]:
    """Least slack of a token that is no neighbour: how far the verdicts are from hanging on rounding."""
    chosen = [[int(token) for token in row["selection"].split()] for row in rows]
    slacks, solved = [], hm.max_margin_batch(problems, chosen)
    enclose_many(solved)
    for best in solved:
        assert best.slack is not None  # p itself separates what it selects
        slacks.append(float(best.slack[~best.tight].min(initial=np.inf)))
    return slacks
