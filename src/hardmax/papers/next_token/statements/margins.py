"""Columns of W_kq* (Proposition 2, C-THM-BLOCK) and the rigid form of legal data (C-THM-STRUCT)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from hardmax.data.sentences.samples import Samples
from hardmax.margin.closed_forms import Block, Edge, blocks, kq_column
from hardmax.margin.constraints import Constraints
from hardmax.margin.exact import decide
from hardmax.nexttoken.generators import structure
from hardmax.nexttoken.stages import Ints
from hardmax.papers.checking.check import (
    Conditions,
    Hypothesis,
    Outcome,
    need,
    printed,
    statement,
    unmet,
    unsaid,
)
from hardmax.papers.next_token.statements.common import Subject, analysis_of, assumptions, samples_of

Graphs = Mapping[Any, list[Edge]]


def graphs_of(data: Subject | Graphs) -> tuple[dict[Any, list[Edge]], list[Hypothesis]]:
    """Return the edges (optimal, non-optimal) of each query, and the hypothesis that no token is both."""
    if isinstance(data, Mapping):
        graphs, injective = {q: list(edges) for q, edges in data.items() if edges}, None
    else:
        analysis = analysis_of(data)
        words = analysis.trie.sentences.vocabulary
        graphs = {
            words[q]: [(words[o], words[x]) for o, x in edges] for q, edges in analysis.orders.edges().items()
        }
        injective = next((v.witnesses for v in analysis.violations if v.kind == "not_injective"), ())
    confused = {q: sorted({o for o, _ in e} & {x for _, x in e}, key=str) for q, e in graphs.items()}
    confused = {q: both for q, both in confused.items() if both}
    hypotheses = [Hypothesis("no confused token", not confused, confused)]
    if injective is not None:
        hypotheses.append(Hypothesis("n is injective", not injective, injective, "C-ERR-05"))
    return graphs, hypotheses


def multipliers(edges: list[Edge], block: Block) -> dict[Edge, Fraction] | None:
    """Return exact lambda >= 0 on the edges inside a block that sum to its values; None if there are none.

    Each optimal token sends m units and each non-optimal one takes k: a flow of k m units proves that the
    block's values solve its problem, since all its edges are tight.
    """
    k, m = len(block.optimal), len(block.non_optimal)
    top = {o: 1 + i for i, o in enumerate(block.optimal)}
    low = {x: 1 + k + j for j, x in enumerate(block.non_optimal)}
    inside = sorted({(o, x) for o, x in edges if o in top and x in low}, key=str)
    sink = 1 + k + m
    arcs = [(0, i, m) for i in top.values()] + [(j, sink, k) for j in low.values()]
    arcs += [(top[o], low[x], k * m) for o, x in inside]
    heads, tails, sizes = (np.array(column, dtype=np.int32) for column in zip(*arcs, strict=True))
    flow = maximum_flow(csr_array((sizes, (heads, tails)), shape=(sink + 1, sink + 1)), 0, sink)
    if flow.flow_value < k * m:
        return None
    return {(o, x): Fraction(int(flow.flow[top[o], low[x]]), k + m) for o, x in inside}


def printed_column(edges: list[Edge]) -> tuple[Block, dict[Any, Fraction]]:
    """Proposition 2: all optimal tokens of a query at m/(k+m), all non-optimal ones at -k/(k+m)."""
    whole = Block(tuple(dict.fromkeys(o for o, _ in edges)), tuple(dict.fromkeys(x for _, x in edges)))
    high, low = whole.values
    return whole, {**dict.fromkeys(whole.optimal, high), **dict.fromkeys(whole.non_optimal, low)}


def is_proved(edges: list[Edge], block: Block, column: Mapping[Any, Fraction]) -> bool:
    """Whether multipliers on the tight relations inside a block prove its part of a column to be shortest."""
    weights = multipliers(edges, block)
    if weights is None:
        return False
    sums = dict.fromkeys((*block.optimal, *block.non_optimal), Fraction(0))
    for (o, x), weight in weights.items():
        sums[o] += weight
        sums[x] -= weight
    tight = all(column[o] - column[x] == 1 for (o, x), weight in weights.items() if weight)
    return tight and all(column[token] == value for token, value in sums.items())


def square(column: Mapping[Any, Fraction]) -> Fraction:
    """Return |w|^2."""
    return sum((w * w for w in column.values()), Fraction(0))


@statement(
    "C-THM-P2",
    "Proposition 2: the columns of W_kq*",
    "For injective n, W_kq* is m/(m+1) at the optimal token of a query, -1/(m+1) at its m non-optimal ones "
    "and 0 elsewhere; the paper's proof claims m/(k+m) and -k/(k+m) for any number k of optimal tokens.",
    errata=("C-ERR-01", "C-ERR-05"),
)
def printed_columns(data: Subject | Graphs) -> Outcome:
    """Test whether the printed column, which keeps every relation, is shortest: if multipliers prove it."""
    graphs, hypotheses = graphs_of(data)
    if not isinstance(data, Mapping):  # an injective n gives stars on legal data only (C-THM-STRUCT)
        hypotheses += [h for h in assumptions(data) if h.id in ("C-ASM-1", "C-ASM-1R")]
    if not hypotheses[0].holds:
        return Outcome(hypotheses)
    if not graphs:
        return unsaid(hypotheses)
    paper = best = Fraction(0)
    several, wrong, is_shorter = 0, {}, False
    for q, edges in graphs.items():
        whole, column = printed_column(edges)
        several = max(several, len(whole.optimal))
        proved = is_proved(edges, whole, column)
        true = column if proved else kq_column(edges)
        paper, best = paper + square(column), best + square(true)
        keeps = all(true[o] - true[x] >= 1 for o, x in edges)
        is_shorter |= keeps and square(true) < square(column)
        if not proved:
            wrong[q] = {str(token): (str(column[token]), str(value)) for token, value in true.items()}
    measured = {
        "|W*|^2 as printed": str(paper),
        "|W*|^2": str(best),
        "queries": len(graphs),
        "most optimal tokens of a query": several,
    }
    proof = "rational arithmetic: a shorter column keeps every relation" if is_shorter else None
    slack = float(best / paper - 1), proof
    return Outcome(hypotheses, slack, measured, wrong or None, paper_slack=slack)


@statement(
    "C-THM-BLOCK",
    "The columns of W_kq* by blocks",
    "Without confused tokens, a column of W_kq* is made of blocks, each with Proposition 2's values for its "
    "own numbers of optimal and non-optimal tokens: the set of optimal tokens with the fewest neighbors per "
    "token first, the largest such, then the rest.",
    label="derived",
    errata=("C-ERR-05",),
)
def block_columns(data: Subject | Graphs) -> Outcome:
    """Prove exactly that every relation is kept and that multipliers >= 0 on tight ones sum to the column."""
    graphs, hypotheses = graphs_of(data)
    hypotheses = hypotheses[:1]
    if unmet(hypotheses) or not graphs:
        return unsaid(hypotheses)
    least, unproved, count, total = Fraction(1), 0, 0, Fraction(0)
    for edges in graphs.values():
        column = kq_column(edges)
        least = min(least, *(column[o] - column[x] - 1 for o, x in edges))
        for block in blocks(edges):
            count += 1
            unproved += not is_proved(edges, block, column)
        total += square(column)
    measured = {
        "least slack of a relation": str(least),
        "blocks": count,
        "queries": len(graphs),
        "unproved blocks": unproved,
        "|W*|^2": str(total),
    }
    proof = "rational arithmetic: a relation is broken" if least < 0 else None
    if unproved and proof is None and any(shortest(e) < square(kq_column(e)) for e in graphs.values()):
        proof = "rational arithmetic: a shorter column keeps every relation"
    return Outcome(hypotheses, float(least) if not unproved else -1.0, measured, proof=proof)


def shortest(edges: list[Edge]) -> Fraction:
    """Return |w|^2 of the shortest column that keeps every relation, by the rational solver for any rows."""
    tokens = list(dict.fromkeys(token for edge in edges for token in edge))
    rows = [[(token == o) - float(token == x) for token in tokens] for o, x in edges]
    return decide(Constraints.dense(rows)).norm_squared


def broken_segments(samples: Samples, n: Ints) -> list[str]:
    """Return the sentences whose distinct tokens are not s, n(s), n(n(s)), ... in order of appearance."""
    row = np.repeat(np.arange(samples.n), np.diff(samples.offsets))
    same = row[1:] == row[:-1]
    broken = same & (n[samples.tokens[:-1]] != samples.tokens[1:])
    return [samples.sentence(i) for i in np.unique(row[1:][broken]).tolist()]


def prefixes(sentences: list[list[int]]) -> set[tuple[int, ...]]:
    """Return all beginnings of two tokens or more."""
    return {tuple(sentence[:end]) for sentence in sentences for end in range(2, len(sentence) + 1)}


@statement(
    "C-THM-STRUCT",
    "A legal dataset is a set of chains",
    "With an injective n, prefix closure, determinism, reachability and no confused token: the distinct "
    "tokens of a sentence are s, n(s), n(n(s)), ...; every query with a non-constant sentence has exactly "
    "one optimal token, which decides all of them; first token and length determine a sentence; "
    "N <= V(L_max - 1); and n, the lags and the lengths reproduce the dataset.",
    label="derived",
)
def rigid(data: Subject) -> Outcome:
    """Test each part by itself on the samples; the last one by generating the dataset again."""
    hypotheses = tuple(h for h in assumptions(data) if h.id != "C-ASM-3")
    analysis, samples = analysis_of(data), samples_of(data)
    queries, tokens = analysis.orders.of_type("optimal")
    most = int(np.bincount(queries, minlength=1).max())
    broken = broken_segments(samples, analysis.n)
    measured = {"sentences that are not a segment": broken[:3], "most optimal tokens of a query": most}
    if unmet(hypotheses):
        return Outcome(hypotheses, measured=measured)
    optimal = np.full(samples.V, -1)
    optimal[queries] = tokens
    varied = np.diff(samples.offsets) > 1
    undecided = int((analysis.n[optimal[samples.query]] != samples.target)[varied].sum())
    first = samples.tokens[samples.offsets[:-1]]
    twice = samples.n - len(set(zip(first.tolist(), samples.length.tolist(), strict=True)))
    raw = samples.trie.sentences
    sentences = [raw.tokens[a:b].tolist() for a, b in zip(raw.offsets[:-1], raw.offsets[1:], strict=True)]
    unlike = len(prefixes(sentences) ^ prefixes(structure(analysis).sentences()))
    most_sentences = samples.V * (samples.raw_length - 1)
    measured |= {
        "samples not decided by the optimal token": undecided,
        "samples lost or added": unlike,
        "equal first token and length": twice,
        "N": samples.n,
        "V(L_max - 1)": most_sentences,
    }
    faults = len(broken) + undecided + twice + unlike + (most > 1)
    room = 1 - samples.n / most_sentences
    slack = room if not faults else -float(faults)
    proof = "whole numbers: sentences are counted" if slack < 0 else None
    return Outcome(hypotheses, slack, measured, vacuous=not varied.any(), proof=proof)


@printed("C-ERR-02", data="sentences")
def next_token_is_reached(data: Subject) -> Outcome:
    """As printed: under Assumption 1 some token of every sentence leads to its next token."""
    analysis = analysis_of(data)
    hypotheses = need(Hypothesis("C-ASM-1", analysis.assumptions["C-ASM-1"]))
    count = sum(violation.kind == "unreachable" for violation in analysis.violations)
    return _counted(hypotheses, "out of reach", count)


def _counted(hypotheses: Conditions, name: str, count: int) -> Outcome:
    """Return the outcome of a claim that something does not occur."""
    proof = "counted" if count else None
    return Outcome(hypotheses, -1.0 if count else 1.0, {name: count}, proof=proof)


@printed("C-ERR-04", data="sentences")
def strangers_are_absent(data: Subject) -> Outcome:
    """As printed: a token that is non-comparable under a query never occurs in a sentence with that query."""
    analysis = analysis_of(data)
    hypotheses = need(Hypothesis("legal data", analysis.legal))
    samples = Samples.from_trie(analysis.trie)
    words = list(samples.vocabulary)
    there = 0
    for i in range(samples.n):
        tokens = [words.index(word) for word in samples.sentence(i).split()]
        types = analysis.orders.types(tokens[-1])
        there += sum(types[x] == "non_comparable" for x in set(tokens))
    return _counted(hypotheses, "there", there)
