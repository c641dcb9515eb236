"""Every pattern that some p realises, by combinatorics where the embeddings are independent (A-DEF-11).

With affinely independent embeddings the scores may be any numbers up to a common constant. A pattern is then
realisable exactly if, with tied tokens merged, no class has to beat itself and "selected beats unselected"
has no cycle. Without independence this is only necessary, and the certified solver has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.embeddings.patterns import Pattern, distinct_tokens
from hardmax.margin.pattern_rows import Classes, pattern
from hardmax.margin.solve import solve

RANK = 1e-12  # singular values above this share of the largest are not rounding


def affinely_independent(E: Any) -> bool:
    """Whether differences of rows are independent, so that p.E_s can be any numbers up to a constant.

    A near dependence counts as one, because False only costs time.

    >>> from hardmax.embeddings.pattern_enumeration import affinely_independent
    >>> affinely_independent([[0.0], [1.0]]), affinely_independent([[0.0], [1.0], [2.0]])
    (True, False)
    """
    rows = expect.finite_array("E", E, (None, None))
    differences = rows[1:] - rows[0]
    if len(differences) > rows.shape[1]:
        return False
    values = np.linalg.svd(differences, compute_uv=False)
    return not len(values) or bool(values[-1] > RANK * values[0])


def scores_are_free(corpus: Corpus, E: Any) -> bool:
    """Whether the embeddings of the tokens that occur are affinely independent.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.pattern_enumeration import scores_are_free
    >>> scores_are_free(hm.Corpus.from_counts([[1, 2, 0]], [1]), E=[[1.0], [0.0], [0.0]])
    True
    """
    return affinely_independent(expect.finite_array("E", E, (corpus.S, None))[np.unique(corpus.tokens)])


def is_consistent(sequences: Sequence[Sequence[int]], selection: Sequence[Iterable[int]]) -> bool:
    """Whether scores exist that make the pattern: no class beats itself, and there is no cycle.

    >>> from hardmax.embeddings.pattern_enumeration import is_consistent
    >>> is_consistent([[0, 1], [0, 1]], [[0], [0, 1]])
    False
    >>> is_consistent([[0, 1], [1, 2], [2, 0]], [[0], [1], [0]])
    True
    """
    above: dict[int, set[int]] = {}
    sets = [sorted(set(chosen)) for chosen in selection]
    classes = Classes()
    for inside in sets:
        for s in inside[1:]:
            classes.merge(inside[0], s)
    for tokens, inside in zip(sequences, sets, strict=True):
        losers = {classes[r] for r in tokens if r not in inside}
        if losers:
            above.setdefault(classes[inside[0]], set()).update(losers)
    return _acyclic(above)


def realizable(corpus: Corpus, selection: Sequence[Iterable[int]], E: Any = None) -> bool | None:
    """Whether some p selects exactly this pattern; None if even exact arithmetic gave up.

    Without ``E`` the embeddings are taken to be independent, as they are at infinite width.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> hm.embeddings.realizable(corpus, [[0], [1]])
    True
    >>> hm.embeddings.realizable(corpus, [[0], [1]], E=[[1], [-1], [0]])
    False
    """
    sequences = distinct_tokens(corpus)
    if not is_consistent(sequences, selection):
        return False
    if E is None or scores_are_free(corpus, E):
        return True
    return _certified(sequences, selection, E)


def realizable_patterns(
    corpus: Corpus, E: Any = None, *, containing: Sequence[int] | None = None
) -> Iterator[Pattern]:
    """All realisable patterns, or those whose set of sequence k contains the token ``containing[k]``.

    There are up to (2^T - 1)^n of them; a part that is impossible is never completed.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> list(hm.embeddings.realizable_patterns(corpus, containing=[0, 1]))
    [((0,), (1,)), ((0,), (1, 2)), ((0, 2), (1,)), ((0, 2), (1, 2))]
    """
    sequences = distinct_tokens(corpus)
    if containing is None:
        choices = [_subsets(tokens, ()) for tokens in sequences]
    else:
        if len(containing) != corpus.n or any(
            s not in tokens for s, tokens in zip(containing, sequences, strict=True)
        ):
            raise ValueError(
                f"containing must be {corpus.n} tokens, one of each sequence, got {containing!r}"
            )
        choices = [_subsets(tokens, (int(s),)) for s, tokens in zip(containing, sequences, strict=True)]
    free = E is None or scores_are_free(corpus, E)
    return _grown(sequences, choices, (), None if free else E)


def _grown(
    sequences: list[list[int]], choices: list[list[tuple[int, ...]]], start: Pattern, E: Any
) -> Iterator[Pattern]:
    k = len(start)
    if k == len(sequences):
        yield start
        return
    for inside in choices[k]:
        grown = (*start, inside)
        if not is_consistent(sequences[: k + 1], grown):
            continue
        possible = True if E is None else _certified(sequences[: k + 1], grown, E)
        if possible is None:
            raise ValueError(
                f"E: whether some p makes the pattern {grown} could not be decided; use fewer tokens"
            )
        if possible:
            yield from _grown(sequences, choices, grown, E)


def _certified(sequences: list[list[int]], selection: Sequence[Iterable[int]], E: Any) -> bool | None:
    return solve(pattern(sequences, list(selection), np.asarray(E, dtype=float))).is_feasible


def _subsets(tokens: list[int], fixed: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Subsets that hold the fixed tokens and are not empty, smallest first."""
    others = [s for s in tokens if s not in fixed]
    sizes = range(0 if fixed else 1, len(others) + 1)
    return [tuple(sorted((*fixed, *more))) for size in sizes for more in combinations(others, size)]


def _acyclic(above: dict[int, set[int]]) -> bool:
    """A class that beats itself is a cycle of length one."""
    try:
        TopologicalSorter(above).prepare()
    except CycleError:
        return False
    return True
