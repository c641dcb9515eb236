"""Selection patterns of a corpus: S_X, S2_X, S<_X, their max-margin problem, who realizes them.

A pattern names, for every sequence X, the set Z_X of distinct tokens that share the largest score p.E_s.
Ties are part of it: the max-margin problem of a pattern holds them as equalities (A-DEF-11, A-ERR-8).

With affinely independent embeddings the scores may be any numbers up to a common constant. A pattern is then
realizable exactly if, with tied tokens merged, no class has to beat itself and "selected beats unselected"
has no cycle. Without independence this is only necessary, and the certified solver has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.data.corpora.corpus import Corpus
from hardmax.data.corpora.statistics import assumption_4
from hardmax.margin.closed_forms import Classes, pattern
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import solve
from hardmax.problem.selection import Selection

Pattern = tuple[tuple[int, ...], ...]

TOLERANCE = 1e-9


@dataclass(frozen=True)
class TokenSelection:
    """The tokens of every sequence by score: the highest, the second highest, and the rest.

    Scores tie within ``tolerance`` times |p| and the longest difference of embeddings in the sequence.
    ``doubtful`` lists (sequence, token) that ten times that tolerance would place in another set. ``gap`` is
    the least step from a selected token to a second one, ``second_gap`` from there to the rest; inf if there
    is none.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2, 3], [1, 2, 3]], [1, -1])
    >>> found = hm.embeddings.token_selection(corpus, [[1, 0], [2, 0], [1, 5], [0, 1]], p=[1.0, 0.0])
    >>> found.selected, found.second, found.rest, found.gap
    (((0, 2), (1,)), ((3,), (2,)), ((), (3,)), 1.0)
    """

    selected: Pattern
    second: Pattern
    rest: Pattern
    tolerance: float
    gap: float
    second_gap: float
    doubtful: tuple[tuple[int, int], ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether every sequence selects all its tokens."""
        return not any(self.second)


@check_arguments
def token_selection(corpus: Corpus, E: Any, p: Any, tolerance: float = TOLERANCE) -> TokenSelection:
    """Return S_X(p), S2_X(p) and S<_X(p) of every sequence, as sets of distinct tokens; ties are kept.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2, 2], [1, 2, 2]], [1, -1])
    >>> E = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> hm.embeddings.token_selection(corpus, E, [1e9, 1.0, 1e9]).selected
    ((0, 2), (2,))
    """
    E = expect.finite_array("E", E, (corpus.S, None))
    p = expect.finite_array("p", p, (E.shape[1],))
    tolerance = expect.nonnegative("tolerance", tolerance)
    differences = E[corpus.tokens] - E[_tops(corpus, E @ p)]
    longest = np.maximum.reduceat(np.linalg.norm(differences, axis=1), corpus.offsets[:-1])
    # Differences of embeddings first: the scores are large, their gaps need not be.
    return _levels(corpus, differences @ p, tolerance * float(np.linalg.norm(p)) * longest, tolerance)


@check_arguments
def score_selection(corpus: Corpus, scores: Any) -> TokenSelection:
    """Return the selection by the scores of all tokens, which tie only if they are equal."""
    scores = expect.finite_array("scores", scores, (corpus.S,))
    gaps = scores[corpus.tokens] - scores[_tops(corpus, scores)]
    return _levels(corpus, gaps, np.zeros(corpus.n), 0.0)


@check_arguments
def important_pattern(corpus: Corpus) -> Pattern:
    """Return the pattern of exactly the important token of every sequence; it needs Assumption 4."""
    assumption = assumption_4(corpus)
    if assumption.important is None:
        raise ValueError(f"corpus must satisfy Assumption 4 to have important tokens: {assumption.witness}")
    return tuple((int(s),) for s in assumption.important)


@check_arguments
def pattern_max_margin(
    corpus: Corpus,
    selection: TokenSelection | Sequence[Iterable[int]],
    E: Any = None,
    *,
    gram: Any = None,
    exact: bool = False,
) -> MaxMargin:
    """Solve for the shortest p that ties the tokens of a pattern and lifts them over the others by 1.

    Give the embeddings ``E`` or their inner products ``gram``. A pattern that no p makes is infeasible, with
    proof; one that ties everything has no constraint and the solution 0. Its ``selection`` are sets of
    tokens by their numbers in the corpus.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    >>> E = hm.embeddings.first_step.infinite_width(corpus, 64).E
    >>> solve = hm.embeddings.pattern_max_margin
    >>> [str(solve(corpus, Z, E, exact=True).exact.norm_squared) for Z in ([[0], [1]], [[0, 2], [1]])]
    ['2/3', '22/129']
    """
    chosen = selection.selected if isinstance(selection, TokenSelection) else selection
    if E is not None:
        E = expect.finite_array("E", E, (corpus.S, None))
    sets = tuple(tuple(int(s) for s in inside) for inside in chosen)
    solution = solve(pattern(distinct_tokens(corpus), sets, E, gram), exact)
    return replace(solution, selection=Selection(sets))


@check_arguments
def local_gap(corpus: Corpus, c: Any, selection: TokenSelection) -> float:
    """Return mu, the least sum over selected positions of gamma_i - gamma_j, j in S2_X (A-DEF-16).

    ``c`` are the values v.E_s. The direction is locally optimal if this is positive; inf if no token is
    second anywhere.
    """
    c = expect.finite_array("c", c, (corpus.S,))
    least = np.inf
    for k, (inside, near) in enumerate(zip(selection.selected, selection.second, strict=True)):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        times = dict(zip(corpus.tokens[slots].tolist(), corpus.counts[slots].tolist(), strict=True))
        for j in near:
            gain = sum(times[i] * (c[i] - c[j]) for i in inside)
            least = min(least, float(corpus.signs[k] * gain))
    return least


def distinct_tokens(corpus: Corpus) -> list[list[int]]:
    """The distinct tokens of every sequence, ascending."""
    return [part.tolist() for part in np.split(corpus.tokens, corpus.offsets[1:-1])]


def _tops(corpus: Corpus, scores: np.ndarray) -> np.ndarray:
    """A token with the largest score of its sequence, for every slot."""
    parts = np.split(corpus.tokens, corpus.offsets[1:-1])
    return corpus.per_slot(np.array([tokens[np.argmax(scores[tokens])] for tokens in parts]))


def _levels(corpus: Corpus, gaps: np.ndarray, within: np.ndarray, tolerance: float) -> TokenSelection:
    """Split the tokens of every sequence by their scores relative to its top token's."""
    sets: list[tuple[tuple[int, ...], ...]] = []
    doubtful: list[tuple[int, int]] = []
    gap = second_gap = np.inf
    for k, width in enumerate(within.tolist()):
        slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
        tokens, below = corpus.tokens[slots], -gaps[slots]
        first = below <= width
        low = below[~first].min(initial=np.inf)
        second = ~first & (below <= low + width)
        rest = ~(first | second)
        near = (~first & (below <= 10 * width)) | (rest & (below <= low + 10 * width))
        doubtful += [(k, s) for s in tokens[near].tolist()]
        gap = min(gap, low - float(below[first].max()))
        second_gap = min(second_gap, below[rest].min(initial=np.inf) - below[second].max(initial=0.0))
        sets.append(tuple(tuple(tokens[part].tolist()) for part in (first, second, rest)))
    selected, second_best, others = zip(*sets, strict=True)
    return TokenSelection(
        selected, second_best, others, tolerance, float(gap), float(second_gap), tuple(doubtful)
    )


RANK = 1e-12  # singular values above this share of the largest are not rounding


def affinely_independent(E: Any) -> bool:
    """Whether differences of rows are independent, so that p.E_s can be any numbers up to a constant.

    A near dependence counts as a dependence, because False only costs time.
    """
    rows = expect.finite_array("E", E, (None, None))
    differences = rows[1:] - rows[0]
    if len(differences) > rows.shape[1]:
        return False
    values = np.linalg.svd(differences, compute_uv=False)
    return not len(values) or bool(values[-1] > RANK * values[0])


def scores_are_free(corpus: Corpus, E: Any) -> bool:
    """Whether the embeddings of the tokens that occur are affinely independent."""
    return affinely_independent(expect.finite_array("E", E, (corpus.S, None))[np.unique(corpus.tokens)])


def is_consistent(sequences: Sequence[Sequence[int]], selection: Sequence[Iterable[int]]) -> bool:
    """Whether some scores make the pattern: no class beats itself, and there is no cycle."""
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
    try:
        TopologicalSorter(above).prepare()
    except CycleError:  # a class that beats itself is a cycle of length one
        return False
    return True


@check_arguments
def realizable(corpus: Corpus, selection: Sequence[Iterable[int]], E: Any = None) -> bool | None:
    """Whether some p selects exactly this pattern; None if even exact arithmetic gave up.

    Without ``E`` the embeddings are taken to be independent, as they are at infinite width.
    """
    sequences = distinct_tokens(corpus)
    selection = [set(chosen) for chosen in selection]
    if len(selection) != len(sequences) or not all(selection):
        raise ValueError(f"selection must be {len(sequences)} sets of tokens, one per sequence, none empty")
    if not is_consistent(sequences, selection):
        return False
    if E is None or scores_are_free(corpus, E):
        return True
    return _certified(sequences, selection, E)


@check_arguments
def realizable_patterns(
    corpus: Corpus, E: Any = None, *, containing: Sequence[int] | None = None
) -> Iterator[Pattern]:
    """Yield all realizable patterns, or those whose set of sequence k contains the token ``containing[k]``.

    There are up to (2^T - 1)^n of them; a part that is impossible is never completed.
    """
    sequences = distinct_tokens(corpus)
    fixed: list[tuple[int, ...]] = [()] * corpus.n
    if containing is not None:
        if len(containing) != corpus.n or any(
            s not in tokens for s, tokens in zip(containing, sequences, strict=True)
        ):
            raise ValueError(
                f"containing must be {corpus.n} tokens, one of each sequence, got {containing!r}"
            )
        fixed = [(int(s),) for s in containing]
    choices = [_subsets(*choice) for choice in zip(sequences, fixed, strict=True)]
    free = E is None or scores_are_free(corpus, E)

    def extend(start: Pattern) -> Iterator[Pattern]:
        k = len(start)
        if k == len(sequences):
            yield start
            return
        for inside in choices[k]:
            longer = (*start, inside)
            if not is_consistent(sequences[: k + 1], longer):
                continue
            possible = free or _certified(sequences[: k + 1], longer, E)
            if possible is None:
                raise ValueError(
                    f"E: whether some p makes the pattern {longer} could not be decided; use fewer tokens"
                )
            if possible:
                yield from extend(longer)

    return extend(())


def _certified(sequences: list[list[int]], selection: Sequence[Iterable[int]], E: Any) -> bool | None:
    return solve(pattern(sequences, list(selection), np.asarray(E, dtype=float))).is_feasible


def _subsets(tokens: list[int], fixed: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Subsets that hold the fixed tokens and are not empty, smallest first."""
    others = [s for s in tokens if s not in fixed]
    sizes = range(0 if fixed else 1, len(others) + 1)
    return [tuple(sorted((*fixed, *more))) for size in sizes for more in combinations(others, size)]
