"""The datasets behind the figures, and stage 2 on them, measured at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hardmax.nexttoken import Training
from hardmax.nexttoken.observables import loss
from hardmax.nexttoken.training import STEPS, train
from hardmax.papers.figures.figure import Scale, Setting
from hardmax.papers.figures.tables import Table, stacked
from hardmax.papers.next_token.statements.instances import drawn

# Two settings of the generator: permutation, chance of lag 0, largest lag, longest sentence.
SHORT, LONG = "cycle, 0.5, 3, 8", "cycle, 0.8, 4, 12"
SHOWN = {"short": 0, "long": 2}  # the seeds drawn as lines
TICKS = range(0, STEPS + 1, 150)
SEEDS: Mapping[Scale, Mapping[str, Sequence[int]]] = {
    "quick": {"short": range(4), "long": (2,)},
    "paper": {"short": range(30), "long": range(30)},
}


@dataclass(frozen=True, eq=False)
class StageRun:
    """Stage 2 on one dataset: loss, 1 - cos to W_kq* and |W_kq| after every step from 0."""

    setting: str
    seed: int
    training: Training
    loss: np.ndarray
    misalignment: np.ndarray
    norm: np.ndarray

    @property
    def exponent(self) -> float:
        """Slope of log(1 - cos) over log t on [300, 900]."""
        late = slice(300, STEPS + 1)
        line = np.polyfit(np.log(self.training.times[late]), np.log(self.misalignment[late]), 1)
        return float(line[0])

    @property
    def straightness(self) -> float:
        """R^2 of a line through |W_kq| against t."""
        return float(np.corrcoef(self.training.times, self.norm)[0, 1] ** 2)

    @property
    def norm_ratio(self) -> np.ndarray:
        """|W_kq|/(t eta) from step 1 on."""
        return self.norm[1:] / (self.training.rate * self.training.times[1:])


@lru_cache(maxsize=64)
def run_of(setting: str, seed: int) -> StageRun:
    """Run Algorithm 1 with the paper's sizes and rates on one dataset; three figures share it."""
    training = train(drawn(setting, rng=seed), record=1)
    pairs, points = training.pairs, training.points
    return StageRun(
        setting,
        seed,
        training,
        np.array([loss(pairs, training.W_ov, a) for a in points]),
        np.array([training.star.cosine_distance(a) for a in points]),
        np.linalg.norm(points, axis=1),
    )


def runs_of(setting: Setting) -> list[StageRun]:
    """Return all runs of a scale."""
    wanted = [(name, seed) for name, seeds in SEEDS[setting.scale].items() for seed in seeds]
    runs = []
    for name, seed in wanted:
        runs.append(run_of(name, seed))
        setting.progress(len(runs) / len(wanted))
    return runs


def curves_table(runs: Sequence[StageRun], column: str, curves: Sequence[np.ndarray]) -> Table:
    """Return the curves of the seeds that are drawn, one row per step; they end at the last step."""
    return stacked(
        {"setting": run.setting, "seed": run.seed, "step": _last_steps(curve), column: curve}
        for run, curve in zip(runs, curves, strict=True)
        if SHOWN[run.setting] == run.seed
    )


def bands_table(runs: Sequence[StageRun], curves: Sequence[np.ndarray]) -> Table:
    """Return least, median and greatest value over the seeds of a setting, one row per step."""
    parts = []
    for name in dict.fromkeys(run.setting for run in runs):
        every = np.array([curve for run, curve in zip(runs, curves, strict=True) if run.setting == name])
        band = {"least": every.min(axis=0), "median": np.median(every, axis=0), "greatest": every.max(axis=0)}
        parts.append({"setting": name, "step": _last_steps(every[0]), **band})
    return stacked(parts)


def _last_steps(curve: np.ndarray) -> np.ndarray:
    """Return the steps of a curve that ends at the last one."""
    return np.arange(STEPS + 1 - len(curve), STEPS + 1)


def runs_table(runs: Sequence[StageRun], **measured: Sequence[float]) -> Table:
    """Return one row per dataset, with what was measured on it."""
    return {
        "setting": np.array([run.setting for run in runs]),
        "seed": np.array([run.seed for run in runs]),
        "N": np.array([run.training.samples.n for run in runs]),
        "L_max": np.array([run.training.samples.raw_length for run in runs]),
        "star_norm_squared": np.array([float(run.training.star.norm_squared) for run in runs]),
        **{name: np.array(values) for name, values in measured.items()},
    }


def spread(values: Sequence[float]) -> list[float]:
    """Return the least, median and greatest value."""
    return [float(np.min(values)), float(np.median(values)), float(np.max(values))]
