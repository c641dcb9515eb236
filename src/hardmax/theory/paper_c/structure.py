"""C-THM-STRUCT: a legal dataset is a set of chains of one permutation."""

from __future__ import annotations

import numpy as np

from hardmax.nexttoken.pairs import Ints
from hardmax.nexttoken.samples import Samples
from hardmax.nexttoken.structure import structure
from hardmax.theory.check import Outcome, statement, unmet
from hardmax.theory.paper_c.common import Subject, analysis_of, assumptions, samples_of


def broken_segments(samples: Samples, n: Ints) -> list[str]:
    """Sentences whose distinct tokens, in order of first appearance, are not s, n(s), n(n(s)), ..."""
    row = np.repeat(np.arange(samples.n), np.diff(samples.offsets))
    same = row[1:] == row[:-1]
    broken = same & (n[samples.tokens[:-1]] != samples.tokens[1:])
    return [samples.sentence(i) for i in np.unique(row[1:][broken]).tolist()]


def prefixes(sentences: list[list[int]]) -> set[tuple[int, ...]]:
    """All beginnings of two tokens or more."""
    return {tuple(each[:end]) for each in sentences for end in range(2, len(each) + 1)}


def most_sentences(samples: Samples) -> int:
    """V(L_max - 1), which N cannot exceed."""
    return samples.V * (samples.raw_length - 1)


@statement(
    "C-THM-STRUCT",
    "A legal dataset is a set of chains",
    "With an injective n, prefix closure, determinism, reachability and no confused token: the distinct "
    "tokens of a sentence are s, n(s), n(n(s)), ...; every query with a non-constant sentence has exactly "
    "one optimal token, which decides all of them; first token and length determine a sentence; "
    "N <= V(L_max - 1); and n, the lags and the lengths reproduce the dataset.",
    kind="finite",
    label="derived",
)
def rigid(data: Subject) -> Outcome:
    """Each part by itself on the samples; the last one by generating the dataset again."""
    hypotheses = tuple(h for h in assumptions(data) if h.id != "C-ASM-3")
    analysis, samples = analysis_of(data), samples_of(data)
    queries, tokens = analysis.orders.of_type("optimal")
    most = int(np.bincount(queries, minlength=1).max())
    broken = broken_segments(samples, analysis.n)
    found = {"sentences that are no segment": broken[:3], "most optimal tokens of a query": most}
    if unmet(hypotheses):
        return Outcome(hypotheses, measured=found)
    optimal = np.full(samples.V, -1)
    optimal[queries] = tokens
    varied = np.diff(samples.offsets) > 1
    undecided = int((analysis.n[optimal[samples.query]] != samples.target)[varied].sum())
    first = samples.tokens[samples.offsets[:-1]]
    twice = samples.n - len(set(zip(first.tolist(), samples.length.tolist(), strict=True)))
    raw = samples.trie.sentences
    given = [raw.tokens[a:b].tolist() for a, b in zip(raw.offsets[:-1], raw.offsets[1:], strict=True)]
    lost = len(prefixes(given) ^ prefixes(structure(analysis).sentences()))
    found |= {
        "samples not decided by the optimal token": undecided, "samples lost or added": lost,
        "equal first token and length": twice, "N": samples.n, "V(L_max - 1)": most_sentences(samples),
    }  # fmt: skip
    faults = len(broken) + undecided + twice + lost + (most > 1)
    room = 1 - samples.n / most_sentences(samples)
    slack = room if not faults else -float(faults)
    proof = "whole numbers: sentences are counted" if slack < 0 else None
    return Outcome(hypotheses, slack, found, vacuous=not varied.any(), proof=proof)
