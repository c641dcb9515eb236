"""What statements of the next-token paper share: conditions on a dataset, and runs to test them on."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from hardmax._lib.expect import positive, whole
from hardmax.data.sentences.samples import Samples, Trie
from hardmax.data.sentences.sentences import Sentences
from hardmax.nexttoken.analysis import Analysis, Dataset, analyze
from hardmax.nexttoken.relations import collocation
from hardmax.nexttoken.training import Training, train
from hardmax.papers.checking.check import Conditions, Hypothesis, need
from hardmax.papers.next_token.printed import TextSizes

RELATIVE = 1e-9  # rounding allowed in an inequality that can be tight
SHARP = 1 / math.sqrt(2)  # a column with one entry -h and others that sum to h is at most sqrt(2) h long
STEPS = 30_000  # enough for laws of late training on 20 tokens at the paper's rates
SMALLEST = 1e-100  # of step sizes, and the inverse of the largest
COLLOCATION = ("missing_collocation", "confused", "cycle")

Subject = Dataset | Analysis | Training


def samples_of(data: Subject) -> Samples:
    """Return the samples of a dataset in any form, or of a run on it."""
    if isinstance(data, Samples):
        return data
    if isinstance(data, Training):
        return data.samples
    return Samples.from_trie(analysis_of(data).trie)


def analysis_of(data: Subject) -> Analysis:
    """Return the analysis of a dataset in any form, or of a run on it."""
    if isinstance(data, Analysis):
        return data
    if isinstance(data, Training):
        return analyze(data.samples)
    if not isinstance(data, Samples | Trie | Sentences | Collection):
        raise ValueError(
            "data must be a list of sentences, Samples, a result of hardmax.nexttoken.analyze, or a run of "
            f"hardmax.nexttoken.training.train, got {type(data).__name__}"
        )
    return analyze(data)


def step_size(rate: float | None) -> float | None:
    """Check that the square of a step size is a float, as norms require; None is the paper's own."""
    if rate is not None and not SMALLEST <= positive("rate", rate) <= 1 / SMALLEST:
        raise ValueError(f"rate must be between {SMALLEST:g} and {1 / SMALLEST:g}, got {rate!r}")
    return rate


def run_of(data: Subject, steps: int, *, rate: float | None = None, **options: Any) -> Training:
    """Run Algorithm 1 on a dataset for two steps or more, or return a run as it is."""
    if not isinstance(data, Training):
        return train(samples_of(data), steps=whole("steps", steps, least=2), rate=step_size(rate), **options)
    if data.W_ov.margin is None or data.points[0].any() or data.times[-1] < 2:
        raise ValueError(
            "data must be a run of Algorithm 1 from zero, with two steps or more and W_ov as stage 1 "
            "leaves it; train with neither start nor your own W_ov"
        )
    return data


def guarded(slack: float, *ties: float) -> float:
    """Return the slack of a claim, unless one of its parts that can be tight, as |W| <= t eta, is broken."""
    worst = min(ties) + RELATIVE
    return slack if worst >= 0 else worst


def assumptions(data: Subject) -> list[Hypothesis]:
    """Return Assumption 1, what it omits (reachability, an injective n), and Assumption 3."""
    kinds = [violation.kind for violation in analysis_of(data).violations]

    def without(id: str, *which: str, erratum: str | None = None) -> Hypothesis:
        violated = [kind for kind in kinds if kind in which]
        return Hypothesis(id, not violated, violated, erratum)

    return [
        without("C-ASM-1", *COLLOCATION),
        without("n is injective", "not_injective", erratum="C-ERR-01"),
        without("C-ASM-1R", "nondeterministic", "unreachable", erratum="C-ERR-02"),
        without("C-ASM-3", "assumption3"),
    ]


def pulls(data: Subject) -> Hypothesis:
    """Return the hypothesis that stage 2 has something to learn: two tokens with different next tokens."""
    samples = samples_of(data)
    next_token, starts = collocation(samples)[samples.tokens], samples.offsets[:-1]
    unlike = np.minimum.reduceat(next_token, starts) != np.maximum.reduceat(next_token, starts)
    return Hypothesis("a sentence has two tokens", bool(unlike.any()), int(unlike.sum()))


def legal(data: Subject) -> Conditions:
    """Return the assumptions and that stage 2 has something to learn; end the test if one is not met."""
    return need(*assumptions(data), pulls(data))


def settling_length(run: Training) -> float:
    """Return an arc length eta t by which the part orthogonal to W_kq* has settled; inf if unknown.

    On the way to R the columns first even out the frequencies, over a length of the order of |R| |W_kq*|;
    then the slowest part, inside the column with the most tokens m, shrinks by e in (m + 1) |W_kq*|.
    """
    if run.pairs.log_weight.min() < -700 or run.late is None:
        return math.inf
    most = int(np.bincount(run.star.above).max())
    return run.star.norm * (2 * math.sqrt(run.late.norm_squared) + 8 * (most + 1))


def late_from(run: Training) -> tuple[Hypothesis, int]:
    """Return whether late laws can be judged from about half the run on, and the recorded point there.

    Undecided if the run is too short for it.
    """
    needed, end = settling_length(run), float(run.times[-1])
    middle = int(np.searchsorted(run.times, end / 2, side="right")) - 1
    reached = run.rate * float(run.times[middle])
    measured = {"eta t at half the way": reached, "needed": needed}
    return Hypothesis("late enough", True if reached >= needed else None, measured, "C-ERR-18"), middle


def sizes_of(run: Training, *, least_frequency: bool) -> TextSizes:
    """Return the sizes in the printed bounds; with `least_frequency`, 1/min pi replaces N (C-ERR-06)."""
    samples = run.samples
    N = float(len(np.unique(samples.trie.parent[samples.trie.samples])))
    if least_frequency:
        # one sentence so rare that its frequency is not a float makes every bound infinite, as it should be
        N = math.exp(min(-float(run.pairs.log_weight.min()), 700.0))
    return TextSizes(samples.V, N, samples.raw_length, run.star.norm)
