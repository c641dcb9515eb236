"""Small corpora and problems, and which statements of paper A hold there and which do not."""

from __future__ import annotations

from functools import partial

import numpy as np

from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.generators import assumption_4_corpus
from hardmax.data.generators import gaussian
from hardmax.data.small import example
from hardmax.embeddings.first_step import infinite_width
from hardmax.papers.checking.common import identity_embeddings
from hardmax.papers.checking.instances import Instance
from hardmax.problem import Problem

PAIR, FOUR = [1, -1], [1, -1, 1, -1]  # labels

# Two sequences of an important and one common token: the smallest corpus of Assumption 4.
two_by_two = partial(Corpus.from_sequences, [[0, 2], [1, 2]], PAIR)
# Four sequences on which two constraints of the important-only pattern are not tight (A-ERR-7).
slack_corpus = partial(Corpus.from_sequences, [[0, 4, 5, 6], [1, 4, 5, 6], [2, 6, 6, 6], [3, 6, 6, 6]], FOUR)
# Two sequences of an important and the same two other tokens.
three_tokens = partial(Corpus.from_sequences, [[0, 2, 3], [1, 2, 3]], PAIR)
# A corpus without Assumption 4: tokens of every kind, repeated ones too.
mixed_corpus = partial(Corpus.from_sequences, [[0, 1, 1], [2, 0, 3], [3, 3, 1], [2, 2, 0]], FOUR)
# Sequences of one token, between which nothing competes.
lone_tokens = partial(Corpus.from_sequences, [[0], [1]], PAIR)


def generic_embeddings() -> list[list[float]]:
    """Return five tokens in general position."""
    return [
        [1, 0, 1 / 2, -1 / 3, 2], [-1 / 2, 1, 0, 1 / 4, 0], [0, -1 / 3, 1, 1 / 2, 1 / 5],
        [2 / 3, 1 / 2, -1, 1, 1], [1 / 4, 0, 1 / 3, -1, 3 / 2],
    ]  # fmt: skip


# Four sequences over the five tokens of `generic_embeddings`.
generic_corpus = partial(Corpus.from_sequences, [[0, 1, 2], [1, 3, 4], [2, 3, 0], [4, 0, 1]], FOUR)


def trained_problem(corpus: Corpus, first_rate: float) -> Problem:
    """Training of p after a first step at infinite width."""
    limit = infinite_width(corpus, first_rate)
    return corpus.problem(limit.E, limit.v)


def bad_basin() -> Problem:
    """Two sequences with a second direction that attracts, which selects an irrelevant token."""
    E, v = identity_embeddings([8.0, -8.0, 0.5, -0.5])
    return three_tokens().problem(E, v)


BAD = np.array([0, 10, 57, -67, -18]) / 106  # its max-margin solution, with norm^2 77/106


def bad_start() -> np.ndarray:
    """A start in the basin of the wrong direction."""
    return 20 * BAD / np.linalg.norm(BAD)


def designated_problem(lead: float = 8.0, rng: int = 0) -> Problem:
    """A problem of the max-margin paper: random keys, one token per input far above the others."""
    keys = np.random.default_rng(rng).normal(size=(3, 3, 10))
    return Problem(keys, [[lead, 0.0, -1.0]] * 3)


def kindred_embeddings() -> tuple[np.ndarray, np.ndarray]:
    """Important tokens that share most of their embedding, so that separating them is expensive."""
    E = np.array([[1.0, 0.1, 0.0, 0.0, 0.1], [1.0, 0.0, 0.1, 0.0, -0.1], [0.0, 0.0, 0.0, 1.0, 0.0]])
    return E, np.array([0.0, 0.0, 0.0, 0.0, 1.0])


TWO, SLACK, THREE = two_by_two, slack_corpus, three_tokens
MIXED, LONE = mixed_corpus, lone_tokens
RANDOM, SHORTER = (partial(assumption_4_corpus, 6, T, rng=0) for T in (4, 3))
FIG8 = partial(example, "B-FIG-8")
BETWEEN = dict(zip("Ev", identity_embeddings([0.0, 0.0, 1.0, -1.0]), strict=True))
KINDRED = dict(zip("Ev", kindred_embeddings(), strict=True))
GENERIC = {"E": generic_embeddings(), "selection": [[0], [3], [3], [0, 4]]}
TIE, ALL_TIED = {"selection": [[0, 2], [1]]}, {"selection": [[0, 2], [1, 2]]}
ONE_TIE = {"scores": [3.0, 4.0, 4.0, 4.0, 3.0, 1.0, 0.0], "first_rate": 64.0}
INSIDE = {"start": bad_start(), "rival": BAD}
ALL_TIGHT = [3 / 7] * 4 + [-4 / 7] * 3 + [0.0]  # M^+ 1 of the corpus with slack constraints

INSTANCES: list[Instance] = [
    Instance("A-DEF-16", "2 x 2", "holds", partial(trained_problem, TWO(), 64.0)),
    Instance("A-DEF-16", "random keys", "holds", partial(gaussian, n=2, T=3, d=4, rng=9)),
    Instance("A-DEF-16", "bad basin", "holds", bad_basin),
    Instance("A-DEF-16", "B-FIG-8, no tight row in one input", "not applicable", FIG8, {"selection": (0, 1)}),
    Instance("A-ERR-5", "2 x 2", "holds", TWO),
    Instance("A-ERR-5", "n = 6, T = 4", "holds", RANDOM),
    Instance("A-ERR-5", "2 x 2, as the paper expects", "fails", TWO, reading="paper"),
    Instance("A-ERR-5", "no Assumption 4", "not applicable", MIXED),
    Instance("A-EVT-14", "S = 7, d = 256", "holds", SLACK),
    Instance("A-EVT-14", "S = 7, d = 1e60", "holds", SLACK, {"d": 10**60}),
    Instance("A-EVT-14", "S = 7, d = 2", "not applicable", SLACK, {"d": 2}),
    Instance("A-EVT-14", "S = 7, d = 2, no width asked", "fails", SLACK, {"d": 2}, reading="paper"),
    Instance("A-LEM-2", "no Assumption 4, d = 1024", "holds", MIXED),
    Instance("A-LEM-2", "n = 6, T = 4, at Theorem 5's width", "holds", RANDOM, {"d": 10**70}),
    Instance("A-LEM-2", "n = 6, T = 4, d = 128", "not applicable", RANDOM, {"d": 128}),
    Instance("A-LEM-3", "2 x 2", "holds", TWO),
    Instance("A-LEM-3", "2 x 2 with a tie", "holds", TWO, TIE),
    Instance("A-LEM-3", "2 x 2 with a tie, closed form", "fails", TWO, TIE, reading="paper"),
    Instance("A-LEM-3", "slack constraints", "holds", SLACK),
    Instance("A-LEM-3", "slack constraints, closed form", "fails", SLACK, reading="paper"),
    Instance("A-LEM-3", "inconsistent M p = 1, closed form", "fails", THREE, TIE, reading="paper"),
    Instance("A-LEM-3", "generic embeddings with a tie", "holds", generic_corpus, GENERIC),
    Instance("A-LEM-3", "everything tied", "not applicable", TWO, ALL_TIED),
    Instance("A-LEM-3P", "2 x 2", "holds", TWO),
    Instance("A-LEM-3P", "slack constraints: Gale fails", "holds", SLACK),
    Instance("A-LEM-3P", "n = 6, T = 4", "holds", RANDOM),
    Instance("A-LEM-3P", "one token per sequence", "vacuous", LONE),
    Instance("A-LEM-3P", "no Assumption 4", "not applicable", MIXED),
    Instance("A-LEM-6", "slack constraints", "holds", SLACK),
    Instance("A-LEM-6", "important tokens only", "not applicable", TWO, {"p_hat": [1.0, 1.0, -2.0, 0.0]}),
    Instance("A-LEM-7", "no Assumption 4", "holds", MIXED),
    Instance("A-LEM-7", "n = 6, T = 4", "holds", RANDOM),
    Instance("A-LEM-7", "|p| = 1000", "not applicable", MIXED, {"norm": 1e3}),
    Instance("A-LEM-8", "no Assumption 4", "holds", MIXED),
    Instance("A-LEM-8", "|p| = 50", "holds", RANDOM, {"norm": 50.0}),
    Instance("A-LEM-8", "|p| = 10000", "not applicable", MIXED, {"norm": 1e4}),
    Instance("A-LEM-9", "slack constraints, p_hat", "holds", SLACK),
    Instance("A-LEM-9", "slack constraints, M^+ 1", "not applicable", SLACK, {"p_hat": ALL_TIGHT}),
    Instance("A-LEM-10", "no Assumption 4", "holds", MIXED),
    Instance("A-LEM-10", "one token per sequence", "not applicable", LONE),
    Instance("A-LEM-11", "n = 6, T = 4, eta0 = 0.01", "holds", RANDOM, {"first_rate": 0.01}),
    Instance("A-LEM-11", "n = 6, T = 4, eta0 = 2304", "holds", RANDOM),
    Instance("A-LEM-11", "n = 6, T = 4, d = 128", "not applicable", RANDOM, {"d": 128}),
    Instance("A-LEM-12", "2 x 2", "holds", TWO),
    Instance("A-LEM-12", "no Assumption 4", "holds", MIXED),
    Instance("A-LEM-12", "2 x 2, d = 1e40", "not applicable", TWO, {"d": 10**40}),
    Instance("A-LEM-13", "slack constraints", "holds", SLACK),
    Instance("A-LEM-13", "values of others alone", "not applicable", THREE, BETWEEN),
    Instance("A-LEM-13", "values of others alone, as printed", "fails", THREE, BETWEEN, reading="paper"),
    Instance("A-LEM-14", "slack constraints", "holds", SLACK),
    Instance("A-LEM-14", "eta0 = 0.5", "not applicable", SLACK, {"first_rate": 0.5}),
    Instance("A-LEM-17", "one tie", "holds", SLACK, ONE_TIE),
    Instance("A-LEM-17", "an irrelevant token first", "not applicable", TWO, {"scores": [0.0, 2.0, 1.0]}),
    Instance("A-LEM-18", "2 x 2", "holds", TWO),
    Instance("A-LEM-18", "no Assumption 4", "not applicable", MIXED),
    Instance("A-LEM-19", "kindred important tokens", "holds", TWO, KINDRED),
    Instance("A-LEM-19", "2 x 2 after the first step", "not applicable", TWO),
    Instance("A-LEM-19", "n = 6, T = 3 after the first step", "not applicable", SHORTER),
    Instance("A-LEM-20", "slack constraints", "holds", SLACK),
    Instance("A-LEM-20", "generic embeddings with a tie", "holds", generic_corpus, GENERIC),
    Instance("A-LEM-20", "everything tied", "not applicable", TWO, ALL_TIED),
    Instance("A-LEM-21", "2 x 2", "holds", TWO),
    Instance("A-LEM-21", "n = 6, T = 4", "holds", RANDOM),
    Instance("A-LEM-21", "n = 6, T = 4, d = 1024", "not applicable", RANDOM, {"d": 1024}),
    Instance("A-SEC-3", "slack constraints", "holds", SLACK),
    Instance("A-SEC-3", "n = 6, T = 4", "holds", RANDOM),
    Instance("A-SEC-3", "a step of 100/L", "not applicable", SLACK, {"rate": 100.0}),
    Instance("A-THM-5", "2 x 2", "holds", TWO),
    Instance("A-THM-5", "n = 6, T = 4", "holds", RANDOM),
    Instance("A-THM-5", "n = 6, T = 4, d = 64", "not applicable", RANDOM, {"d": 64}),
    Instance("A-THM-5", "no Assumption 4", "not applicable", MIXED),
    Instance("A-THM-5S", "2 x 2", "holds", partial(trained_problem, TWO(), 64.0)),
    Instance("A-THM-5S", "slack constraints", "holds", partial(trained_problem, SLACK(), 1024.0)),
    Instance("A-THM-5S", "random keys of the max-margin paper", "holds", designated_problem),
    Instance("A-THM-5S", "bad basin, from the origin", "holds", bad_basin),
    Instance("A-THM-5S", "bad basin, from inside it", "not applicable", bad_basin, INSIDE),
    Instance("A-THM-5S", "B-FIG-8, dependent keys", "not applicable", FIG8),
]
