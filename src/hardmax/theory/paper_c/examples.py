"""Datasets and runs on which the statements of the next-token paper hold or break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from hardmax.data.sentences.samples import Samples
from hardmax.nexttoken.direction import StageTwo
from hardmax.nexttoken.flow import train_by_flow
from hardmax.nexttoken.generators import generate, named_sentences
from hardmax.nexttoken.pairs import Floats, Pairs
from hardmax.nexttoken.training import Training
from hardmax.problem.output_value import OutputValue

# The settings of C-ALG-GEN behind the tables of the specification, by name.
DRAWN = {
    "cycle": {"rng": 0},
    "long": {"lag0": 0.8, "max_lag": 4, "max_length": 12, "rng": 2},
    "derangement": {"permutation": "derangement", "max_length": 6, "rng": 1},
}


def drawn(name: str) -> Samples:
    """One of three random datasets with 20 tokens: "cycle" (that of C-FIG-2), "long" or "derangement".

    >>> from hardmax.theory.paper_c.examples import drawn
    >>> [(drawn(name).n, drawn(name).raw_length) for name in ("cycle", "long", "derangement")]
    [(46, 7), (107, 12), (39, 6)]
    """
    return Samples.from_sentences(generate(20, **DRAWN[name]).text)  # type: ignore[arg-type]


def two_tokens() -> list[str]:
    """The smallest dataset with an order: Lemma 6 is tight on it, and W_kq* is reached in one step."""
    return ["a b b", "b a"]


def torn() -> list[str]:
    """The sentence [a] has two next tokens."""
    return ["a b", "a c", "b a", "c b"]


def constant() -> list[str]:
    """No sentence has two distinct tokens, so stage 2 has nothing to learn."""
    return ["a b", "b a"]


def shuffled() -> Samples:
    """Sentences cut at random, of a permutation with several cycles."""
    return Samples.from_sentences(generate(12, permutation="uniform", truncate=True, rng=3).text)


def random_start(V: int, scale: float = 1.0, rng: int = 0) -> Floats:
    """A W_ov(0) that is not zero."""
    return scale * np.random.default_rng(rng).standard_normal((V, V))


def random_graphs(count: int = 40, rng: int = 0) -> dict[int, list[tuple[str, str]]]:
    """Bipartite graphs of up to 5 optimal and 6 non-optimal tokens, none isolated; many have slack edges."""
    draw = np.random.default_rng(rng)
    found = {}
    for q in range(count):
        k, m = int(draw.integers(1, 6)), int(draw.integers(1, 7))
        linked = draw.random((k, m)) < 0.4
        linked[np.arange(k), draw.integers(0, m, k)] = True
        linked[draw.integers(0, k, m), np.arange(m)] = True
        found[q] = [(f"o{i}", f"x{j}") for i, j in zip(*np.nonzero(linked), strict=True)]
    return found


@cache
def long_flow(name: str = "C-EX-1", until: float = 1e13, margin: float = 100.0) -> Training:
    """Stage 2 of a named dataset as a flow, far enough for the printed bounds to say something."""
    samples = Samples.from_sentences(named_sentences(name))
    n = Pairs.of(samples).collocation
    return train_by_flow(samples, until, rate=0.025, W_ov=OutputValue.aligned(n, margin))


def rare_sentence(
    times: Sequence[float] = (1e2, 1e5, 1.7e8), *, rate: float = 0.3, log_frequency: float = -1e8
) -> Training:
    """C-ERR-06, formal: Theorem 1's counterexample, whose sentence "c d" has the frequency e^-100,000,000.

    A dataset with that frequency would need more than e^100,000,000 samples; only its logarithm is used here.
    The gradient has the same direction at the start and at the end of the way, one column alone, and the
    column's pull only weakens in between; so it has that direction all along, and W_kq = -t rate direction.

    >>> from hardmax.theory.paper_c.examples import rare_sentence
    >>> round(rare_sentence().misalignment_kq, 5)
    0.29289
    """
    pairs = Pairs.of(Samples.from_sentences(named_sentences("C-ERR-06")))
    is_rare = pairs.query[pairs.pair[pairs.offsets[:-1]]] == pairs.samples.vocabulary.index("d")
    pairs = replace(pairs, log_weight=np.where(is_rare, log_frequency, pairs.log_weight))
    W_ov = OutputValue.aligned(pairs.collocation, 5.0)
    stage = StageTwo(pairs, W_ov)
    unit = stage.direction(np.zeros(pairs.P)).unit
    points = np.array([-t * rate * unit for t in (0.0, *times)])
    assert all(np.array_equal(stage.direction(a).unit, unit) for a in points)
    return Training.of(pairs, W_ov, rate, "step", np.array([0.0, *times]), points)
