"""Datasets and runs, and which statements of the next-token paper hold there and which do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from hardmax.data.sentences.samples import Samples
from hardmax.nexttoken.generators import generate, named_sentences
from hardmax.nexttoken.stages import Floats, Pairs, StageTwo
from hardmax.nexttoken.training import Training, train_by_flow
from hardmax.papers.checking.instances import Instance
from hardmax.problem.readouts import OutputValue

# The settings of the generator behind the tables and the figures, by name.
DRAWN: dict[str, dict[str, Any]] = {
    "short": {"rng": 0},
    "long": {"lag0": 0.8, "max_lag": 4, "max_length": 12, "rng": 2},
    "derangement": {"permutation": "derangement", "max_length": 6, "rng": 1},
}


def drawn(name: str, **changes: Any) -> Samples:
    """Draw one of three random datasets with 20 tokens: "short", "long" or "derangement"."""
    return Samples.from_sentences(generate(**(DRAWN[name] | changes)).text)


def two_tokens() -> list[str]:
    """The smallest dataset with an order: Lemma 6 is tight on it, and W_kq* is reached in one step."""
    return ["a b b", "b a"]


def two_next_tokens() -> list[str]:
    """Return sentences in which [a] has two next tokens."""
    return ["a b", "a c", "b a", "c b"]


def constant() -> list[str]:
    """No sentence has two distinct tokens, so stage 2 has nothing to learn."""
    return ["a b", "b a"]


def shuffled() -> Samples:
    """Return sentences cut at random, of a permutation with several cycles."""
    return Samples.from_sentences(generate(12, permutation="uniform", truncate=True, rng=3).text)


def random_start(V: int, scale: float = 1.0, rng: int = 0) -> Floats:
    """Return a W_ov(0) that is not zero."""
    return scale * np.random.default_rng(rng).standard_normal((V, V))


def random_graphs(count: int = 40, rng: int = 0) -> dict[int, list[tuple[str, str]]]:
    """Return bipartite graphs of up to 5 optimal and 6 non-optimal tokens, many with slack edges."""
    draw = np.random.default_rng(rng)
    graphs = {}
    for q in range(count):
        k, m = int(draw.integers(1, 6)), int(draw.integers(1, 7))
        linked = draw.random((k, m)) < 0.4
        linked[np.arange(k), draw.integers(0, m, k)] = True
        linked[draw.integers(0, k, m), np.arange(m)] = True
        graphs[q] = [(f"o{i}", f"x{j}") for i, j in zip(*np.nonzero(linked), strict=True)]
    return graphs


@cache
def long_flow(name: str = "C-EX-1", until: float = 1e13, margin: float = 100.0) -> Training:
    """Follow stage 2 of a named dataset as a flow, until the printed bounds become informative."""
    samples = Samples.from_sentences(named_sentences(name))
    n = Pairs.of(samples).collocation
    return train_by_flow(samples, until, rate=0.025, W_ov=OutputValue.aligned(n, margin))


def rare_sentence(
    times: Sequence[float] = (1e2, 1e5, 1.7e8), *, rate: float = 0.3, log_frequency: float = -1e8
) -> Training:
    """Return Theorem 1's formal counterexample (C-ERR-06): "c d" has the frequency e^-100,000,000.

    A dataset with that frequency would need more than e^100,000,000 samples; only its logarithm is used here.
    The gradient has the same direction at the start and at the end of the way, one column alone, and the
    column's pull only weakens in between; so it has that direction all along, and W_kq = -t rate direction.
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


EX1, FIG2, CEX = (partial(named_sentences, name) for name in ("C-EX-1", "C-FIG-2", "C-CEX-P2"))
EXT1, EXT2, EXT3 = (partial(named_sentences, f"C-EXT-{k}") for k in (1, 2, 3))
UNREACHABLE, PAIRED = partial(named_sentences, "C-ERR-02"), partial(named_sentences, "C-ERR-06")
LONG, DERANGED = (partial(drawn, name) for name in ("long", "derangement"))
TWO, TORN, FLOW, RARE = two_tokens, two_next_tokens, long_flow, rare_sentence
OFF = {"start": random_start(4)}
OFTEN = {"rate": 0.025, "steps": 100, "repeats": 3000}


INSTANCES: list[Instance] = [
    Instance("C-COR-1", "two tokens, T = 50,000", "holds", TWO, {"steps": 50_000}),
    Instance("C-COR-1", "two tokens, below 3 Delta", "fails", TWO, {"steps": 50_000}, reading="paper"),
    Instance("C-COR-1", "C-FIG-2, T = 2e9", "holds", FIG2, {"steps": 2 * 10**9}),
    Instance("C-COR-1", "C-FIG-2, T = 900", "not applicable", FIG2),
    Instance("C-LEM-1", "Example 1", "holds", EX1),
    Instance("C-LEM-1", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-1", "a sentence with two next tokens", "not applicable", TORN),
    Instance("C-LEM-2", "Example 1", "holds", EX1),
    Instance("C-LEM-2", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-2", "a sentence with two next tokens", "not applicable", TORN),
    Instance("C-LEM-3", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-3", "Example 1 from a random start", "not applicable", EX1, OFF),
    Instance("C-LEM-4", "Example 1", "holds", EX1),
    Instance("C-LEM-4", "two deciding tokens in a sentence", "holds", EXT2),
    Instance("C-LEM-4", "Example 1, any W_ov", "not applicable", EX1, {"table": random_start(4)}),
    Instance("C-LEM-5", "Example 1", "holds", EX1),
    Instance("C-LEM-5", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-5", "a token too often", "not applicable", EXT3),
    Instance("C-LEM-5", "constant sentences only", "not applicable", constant),
    Instance("C-LEM-6", "two tokens", "holds", TWO),
    Instance("C-LEM-6", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-6", "a token too often", "not applicable", EXT3),
    Instance("C-LEM-7", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-7", "C-FIG-2, the printed alpha", "vacuous", FIG2, reading="paper"),
    Instance("C-LEM-7", "Example 1 by flow, the printed alpha", "holds", FLOW, reading="paper"),
    Instance("C-LEM-7", "C-FIG-2, 900 steps", "not applicable", FIG2, {"steps": 900}),
    Instance("C-PROP-1", "C-FIG-2", "holds", FIG2),
    Instance("C-PROP-1", "C-FIG-2, the printed bound", "vacuous", FIG2, reading="paper"),
    Instance("C-PROP-1", "C-FIG-2, a million steps", "holds", FIG2, {"steps": 10**6}, reading="paper"),
    Instance("C-PROP-1", "Example 1 from a random start", "not applicable", EX1, OFF),
    Instance("C-THM-1", "Example 1", "holds", EX1, {"rate": 0.025}),
    Instance("C-THM-1", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-1", "C-FIG-2, the printed bound", "vacuous", FIG2, reading="paper"),
    Instance("C-THM-1", "Example 1 by flow, the printed bound", "holds", FLOW, reading="paper"),
    Instance("C-THM-1", "a sentence too rare (formal)", "fails", RARE, reading="paper"),
    Instance("C-THM-1", "two deciding tokens in a sentence", "not applicable", EXT2),
    Instance("C-THM-2", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-2", "Example 1", "holds", EX1, {"rate": 0.025}),
    Instance("C-THM-2", "C-FIG-2, 900 steps, as printed", "vacuous", FIG2, {"steps": 900}, reading="paper"),
    Instance("C-THM-2", "Example 1 by flow, as printed", "holds", FLOW, reading="paper"),
    Instance("C-THM-2", "a next token out of reach", "not applicable", UNREACHABLE),
    Instance("C-THM-3", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-3", "Example 1", "holds", EX1, {"rate": 0.025}),
    Instance("C-THM-3", "C-FIG-2, D.2 as printed", "vacuous", FIG2, reading="paper"),
    Instance("C-THM-3", "Example 1 by flow, D.2 as printed", "holds", FLOW, reading="paper"),
    Instance("C-THM-3", "Example 1, 100 steps, non-optimal tokens 3,000 times", "not applicable", EX1, OFTEN),
    Instance("C-THM-3", "Example 1, however often they occur", "fails", EX1, OFTEN, reading="paper"),
    Instance("C-THM-ASY", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-ASY", "longer sentences", "holds", LONG, {"steps": 100_000}),
    Instance("C-THM-ASY", "derangement", "holds", DERANGED),
    Instance("C-THM-ASY", "Example 1, just below eta_c", "holds", EX1, {"rate": 2.85, "steps": 3000}),
    Instance(
        "C-THM-ASY", "Example 1, just above eta_c", "not applicable", EX1, {"rate": 3.03, "steps": 3000}
    ),
    Instance("C-THM-ASY", "slack relations", "not applicable", CEX),
    Instance("C-THM-BLOCK", "slack relations", "holds", CEX),
    Instance("C-THM-BLOCK", "random graphs", "holds", random_graphs),
    Instance("C-THM-BLOCK", "a confused token", "not applicable", EXT1),
    Instance("C-THM-P2", "Example 1", "holds", EX1),
    Instance("C-THM-P2", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-P2", "slack relations", "not applicable", CEX),
    Instance("C-THM-P2", "slack relations, as the paper proves it", "fails", CEX, reading="paper"),
    Instance("C-THM-S1", "Example 1", "holds", EX1),
    Instance("C-THM-S1", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-S1", "Example 1 from a random start", "holds", EX1, {**OFF, "steps": 6000}),
    Instance("C-THM-S1", "a sentence with two next tokens", "not applicable", TORN),
    Instance("C-THM-STRUCT", "Example 1", "holds", EX1),
    Instance("C-THM-STRUCT", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-STRUCT", "a uniform permutation", "holds", shuffled),
    Instance("C-THM-STRUCT", "n is not injective", "not applicable", CEX),
]
