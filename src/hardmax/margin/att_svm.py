"""ATT-SVM, the max-margin problem of a selection: `hm.max_margin`; and ATT-SVM'."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, overload

import numpy as np

from hardmax._lib.arguments import WrongType, check_arguments
from hardmax.margin.batch import solve_batch
from hardmax.margin.constraints import Constraints, Floats, Ints, Label
from hardmax.margin.norms import Norm
from hardmax.margin.norms import norm as norm_of
from hardmax.margin.solution import MaxMargin
from hardmax.margin.solve import exactly, solve
from hardmax.problem import Problem
from hardmax.problem.keys import Products
from hardmax.problem.selection import Selection, best_tokens, chosen_tokens, leaders

RESOLUTION = 1e-6  # margins below this, relative to the longest row, may come from rounding a Gram matrix


@overload
def max_margin(
    problem: Problem | Constraints,
    selection: Any = None,
    *,
    exact: bool = False,
    norm: Norm | str | float = "l2",
    workers: int | None = None,
) -> MaxMargin: ...


@overload
def max_margin(
    problem: Sequence[Problem] | Sequence[Constraints],
    selection: Sequence[Any] | None = None,
    *,
    exact: bool = False,
    norm: Norm | str | float = "l2",
    workers: int | None = None,
) -> list[MaxMargin]: ...


@check_arguments
def max_margin(
    problem: Problem | Constraints | Sequence[Problem] | Sequence[Constraints],
    selection: Any = None,
    *,
    exact: bool = False,
    norm: Norm | str | float = "l2",
    workers: int | None = None,
) -> MaxMargin | list[MaxMargin]:
    """Return the shortest p by which every selected key beats the other keys of its input by 1.

    Rows are labeled (i, t). Copies of a token (equal key and score) are one token, named by the lowest index;
    a twin of the selected key with another score makes the selection infeasible. Inputs with one token add no
    constraints; without any constraint p is zero.

    A list of problems gives a list of solutions, computed on all cores, each with its certificate. l1, l2 and
    linf are compiled; in l1 and linf an optimum that is proved to be the only one comes in floats and makes
    its ``face`` when that is needed.

    Args:
        problem: a `Problem`, or `Constraints` to solve directly, or a list of either.
        selection: one token per input, or a run or another result, whose selection is taken; "best" for the
            selection of best-scoring tokens with the largest margin; by default the best-scoring tokens,
            which must not tie. For a list of problems, a list.
        exact: compute in rational numbers.
        norm: the norm in which p is shortest: "l1", "l2", "linf", or a power such as "l1.5" or 1.5.
        workers: threads for a list; one for each core by default.

    Returns:
        A `MaxMargin`, which proves that p is optimal or that there is none; or a list of them.

    >>> import hardmax as hm
    >>> problem = hm.data.example("B-FIG-8")
    >>> best = hm.max_margin(problem, [0, 0])
    >>> best.p.round(12).tolist(), best.support
    ([1.0, 3.0], ((0, 1), (1, 1)))
    >>> hm.max_margin(problem, [0, 1], exact=True).exact.norm_squared
    Fraction(1, 1)
    >>> hm.max_margin(problem, [0, 0], norm="l1")
    MaxMargin(certified, l1 margin=0.25, support=((0, 1), (1, 1)))
    >>> [round(best.margin, 6) for best in hm.max_margin([problem, problem], [[0, 0], [0, 1]])]
    [0.316228, 1.0]
    """
    if not isinstance(problem, Problem | Constraints):
        return _solve_list(list(problem), selection, exact, norm, workers)
    if workers is not None:
        raise ValueError("workers must be None for one problem; give a list of problems")
    if isinstance(problem, Constraints):
        if selection is not None:
            raise ValueError("selection must be None with Constraints, whose rows say what is selected")
        return norm_of(norm).solve(problem, exact)
    if isinstance(selection, str):
        if selection != "best":
            raise ValueError(
                f'selection must be a token number per input, a result with a selection, or "best", got '
                f"{selection!r}"
            )
        solutions = (best for _, best in best_max_margins(problem, exact=exact, norm=norm))
        # an undecided solution counts with the margin that is proved
        return max(solutions, key=lambda best: best.margin_interval[0] if best.p_norm != 0 else math.inf)
    tokens = leaders(problem, best_tokens(problem) if selection is None else chosen_tokens(selection))
    return AttentionRows(problem).solve(list(enumerate(tokens)), exact, norm).selecting(tokens)


def _solve_list(
    problems: list[Any], selections: Any, exact: bool, norm: Norm | str | float, workers: int | None
) -> list[MaxMargin]:
    kinds = {type(problem) for problem in problems}
    if Constraints in kinds:
        if kinds != {Constraints} or selections is not None:
            raise ValueError(
                "problem must be a list of Problems, or of Constraints without selections, got both"
            )
        if exact:
            return [norm_of(norm).solve(constraints, exact) for constraints in problems]
        return solve_batch(problems, workers=workers, norm=norm)
    if not all(issubclass(kind, Problem) for kind in kinds):
        raise WrongType("problem must be a list of Problem or of Constraints, got something else in it")
    is_array = isinstance(selections, np.ndarray) and selections.ndim > 0
    listed = is_array or (isinstance(selections, Sequence) and not isinstance(selections, str))
    if listed and len(problems) != len(selections):
        raise ValueError(
            f"selection must be {len(problems)} selections, one per problem, got {len(selections)}"
        )
    wanted = list(selections) if listed else [selections] * len(problems)
    pairs = list(zip(problems, wanted, strict=True))
    if exact or any(isinstance(selection, str) for selection in wanted):
        return [max_margin(problem, selection, exact=exact, norm=norm) for problem, selection in pairs]
    chosen = [leaders(p, best_tokens(p) if s is None else chosen_tokens(s)) for p, s in pairs]
    rows = [AttentionRows(problem) for problem in problems]
    dense = [k for k, problem in enumerate(problems) if problem.gram is None]
    stack = [rows[k].constraints(enumerate(chosen[k])) for k in dense]
    solutions = dict(zip(dense, solve_batch(stack, workers=workers, norm=norm), strict=True))
    return [
        (solutions.get(k) or rows[k].solve(enumerate(tokens), norm=norm)).selecting(tokens)
        for k, tokens in enumerate(chosen)
    ]


def best_max_margins(
    problem: Problem,
    *,
    exact: bool = False,
    known: Mapping[tuple[int, ...], MaxMargin] | None = None,
    norm: Norm | str | float = "l2",
) -> Iterator[tuple[tuple[int, ...], MaxMargin]]:
    """Yield each selection of best-scoring tokens with its solution, or with its Farkas vector.

    There is one selection without ties, else one for every combination of tied tokens. Solutions in
    ``known``, by their selection, are not computed again.
    """
    rows = AttentionRows(problem)
    for tokens in itertools.product(*best_tokens(problem).sets):
        best = (known or {}).get(tokens)
        yield tokens, best or rows.solve(enumerate(tokens), exact, norm).selecting(tokens)


# The rows of no input, so that a selection of nothing has rows too.
NOTHING: tuple[Ints, Ints, tuple[Label, ...]] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), ())


class AttentionRows:
    """The rows k_selected - k_t of a problem, by input and selected token; partial selections are allowed.

    ``names`` are the tokens of each input, without copies; a selected token must be one of them.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.slots = distinct_tokens(problem)[problem.tokens]
        firsts = problem.groups == np.arange(len(self.slots))
        self.names = [np.flatnonzero(first) for first in problem.split(firsts)]
        self._pieces: dict[tuple[int, int], tuple[Ints, Ints, tuple[Label, ...]]] = {}

    def constraints(self, chosen: Iterable[tuple[int, int]]) -> Constraints:
        """The rows of the inputs in ``chosen``, pairs (input, selected token), in that order."""
        pieces = [self._piece(*pair) for pair in chosen]
        pluses, minuses, names = zip(NOTHING, *pieces, strict=True)
        plus, minus = np.concatenate(pluses), np.concatenate(minuses)
        return next(self._posed(plus[None], minus[None], [names]))

    def each(self, inputs: Sequence[int], tokens: Ints) -> Iterator[Constraints]:
        """`constraints` of many selections of the same inputs, made together.

        A line of ``tokens`` is a selection, each token by its place in ``names``.
        """
        pluses, minuses, names = [], [], []
        for i, chosen in zip(inputs, tokens.T, strict=True):
            used = sorted(set(chosen.tolist()))
            at = np.searchsorted(used, chosen)
            plus, minus, labels = zip(*(self._piece(i, int(self.names[i][t])) for t in used), strict=True)
            pluses.append(np.stack(plus)[at])
            minuses.append(np.stack(minus)[at])
            names.append([labels[k] for k in at.tolist()])
        return self._posed(np.hstack(pluses), np.hstack(minuses), zip(*names, strict=True))

    def _posed(
        self, plus: Ints, minus: Ints, names: Iterable[Iterable[tuple[Label, ...]]]
    ) -> Iterator[Constraints]:
        """Constraints with the rows plus - minus of each line; ``names`` are its labels, input by input."""
        h, equal, keys = np.ones(plus.shape), np.zeros(plus.shape, dtype=bool), self.problem.table
        labels = (tuple(itertools.chain.from_iterable(pieces)) for pieces in names)
        if isinstance(keys, Products):  # rows (x_selected - x_t) z', by their factors
            query, plus, minus, right = keys.query[plus], keys.token[plus], keys.token[minus], keys.right
            for b, row in enumerate(labels):
                yield Constraints(keys.left, plus[b], minus[b], h[b], equal[b], right, query[b], labels=row)
            return
        table, origin = keys.dense(), keys.inner
        for b, row in enumerate(labels):
            yield Constraints(table, plus[b], minus[b], h[b], equal[b], labels=row, origin=origin)

    def solve(
        self, chosen: Iterable[tuple[int, int]], exact: bool = False, norm: Norm | str | float = "l2"
    ) -> MaxMargin:
        """Solve for a partial selection, in the coordinates of the keys.

        Keys made from a Gram matrix are rounded, so tokens that cannot be separated may seem to be, by a tiny
        margin: then the Gram matrix decides.
        """
        constraints = self.constraints(chosen)
        answer = norm_of(norm).solve(constraints, exact)
        if constraints.origin is None or answer.is_feasible is False or not constraints.count:
            return answer
        longest = float(np.sqrt((constraints.rows() ** 2).sum(axis=1).max()))
        if answer.margin_interval[0] > RESOLUTION * longest:
            return answer
        try:
            verdict = solve(constraints.by_gram())
        except ValueError:  # by its rounding the matrix has a negative eigenvalue: it proves nothing here
            return answer
        return verdict if verdict.is_feasible is False else answer

    def _piece(self, i: int, token: int) -> tuple[Ints, Ints, tuple[Label, ...]]:
        if (i, token) not in self._pieces:
            slots = self.slots[self.problem.offsets[i] : self.problem.offsets[i + 1]]
            others = self.names[i][self.names[i] != token]
            labels = tuple((i, t) for t in others.tolist())
            self._pieces[i, token] = np.full(len(others), slots[token]), slots[others], labels
        return self._pieces[i, token]


def distinct_tokens(problem: Problem) -> Ints:
    """Table row -> the first row known to be the same token; only a Gram matrix hides such twins."""
    if problem.gram is None:
        return np.arange(problem.table.shape[0])
    squares = np.diag(problem.gram)
    return np.argmax(squares[:, None] + squares[None] - 2 * problem.gram == 0, axis=1)


SAME = 1e-7  # minimizers this near to each other, relatively, are one where only floats know them


@dataclass(frozen=True, eq=False)
class SetMaxMargin:
    """The shortest p that lift one token of each set above all tokens outside the set; there may be several.

    ``solutions`` are those of the optimal choices of tokens, each with its ``selection``; where a set is the
    whole input there is nothing to choose and the set stays. Different choices may share their p:
    ``minimizers`` has each once. Lengths that floats cannot distinguish are compared as rational numbers, up
    to 200 rows. No solutions: the problem is infeasible and ``norm`` infinite; ``refuted`` proves it, parts
    of choices that contradict themselves, one of which is in every choice.

    >>> import hardmax as hm
    >>> problem = hm.Problem([[[1.0], [-1.0], [0.0]]], [[1.0, 1.0, 0.0]])
    >>> sorted(p.tolist() for p in hm.margin.set_max_margin(problem).minimizers)
    [[-1.0], [1.0]]
    """

    solutions: tuple[MaxMargin, ...]
    qps: int
    refuted: tuple[MaxMargin, ...] = ()

    @property
    def p_norm(self) -> float:
        """Length of the minimizers."""
        return min((best.p_norm for best in self.solutions), default=np.inf)

    @property
    def margin(self) -> float:
        """Largest margin of a choice of tokens, 1/`p_norm`."""
        return 1 / self.p_norm if self.p_norm else np.inf

    @property
    def minimizers(self) -> tuple[Floats, ...]:
        """Every distinct p of least length."""
        distinct: list[MaxMargin] = []
        for best in self.solutions:
            if not any(_same(best, other) for other in distinct):
                distinct.append(best)
        return tuple(best.need() for best in distinct)


@check_arguments
def set_max_margin(
    problem: Problem, sets: Selection | Iterable[Iterable[int]] | None = None, *, exact: bool = False
) -> SetMaxMargin:
    """Minimize |p| so that in each input some token of its set beats every token outside the set by 1.

    ``sets`` are the best-scoring tokens, ties included, if absent. Exact: a depth-first search over the
    choices of one token per set, cut where a partial choice is already longer than the best full one.

    >>> import hardmax as hm
    >>> hm.margin.set_max_margin(hm.data.example("B-FIG-1a"), sets=[[0, 1]]).solutions[0].selection.tokens
    (0,)
    """
    if sets is None:
        sets = best_tokens(problem)
    tokens = [[int(t) for t in inside] for inside in (sets.sets if isinstance(sets, Selection) else sets)]
    if len(tokens) != problem.n:
        raise ValueError(f"sets must have one set of tokens per input ({problem.n}), got {len(tokens)}")
    for i, inside in enumerate(tokens):
        if not inside or not all(0 <= t < problem.sizes[i] for t in inside):
            raise ValueError(f"sets[{i}] must be tokens from 0 to {problem.sizes[i] - 1}, got {inside}")
    groups = problem.split(problem.groups - np.repeat(problem.offsets[:-1], problem.sizes))
    distinct = [tuple(dict.fromkeys(group[t].tolist())) for group, t in zip(groups, tokens, strict=True)]
    search = _Search(problem, distinct, exact)
    search.extend([])
    return SetMaxMargin(tuple(search.best), search.qps, () if search.best else tuple(search.refuted))


class _Search:
    def __init__(self, problem: Problem, sets: list[tuple[int, ...]], exact: bool) -> None:
        self.sets, self.exact = sets, exact
        self.rows = AttentionRows(problem)
        self.free = {i for i, inside in enumerate(sets) if len(inside) == len(self.rows.names[i])}
        # Inputs with one choice first: their rows bound every branch.
        self.order = sorted(set(range(problem.n)) - self.free, key=lambda i: (len(sets[i]), i))
        self.best: list[MaxMargin] = []
        self.refuted: list[MaxMargin] = []
        self.qps = 0

    def extend(self, chosen: list[tuple[int, int]]) -> None:
        if len(chosen) == len(self.order):
            return self.close(chosen)
        i = self.order[len(chosen)]
        branches = [(self.solve([*chosen, (i, token)], exact=False), token) for token in self.sets[i]]
        self.refuted += [best for best, _ in branches if best.is_feasible is False]
        bounds = [(_norms(best)[0], token) for best, token in branches if best.is_feasible is not False]
        for norm, token in sorted(bounds):
            if norm <= min((_norms(best)[1] for best in self.best), default=np.inf):
                self.extend([*chosen, (i, token)])

    def close(self, chosen: list[tuple[int, int]]) -> None:
        best = self.solve(chosen, self.exact)
        if best.status == "undecided":
            raise ValueError(f"(input, token) {sorted(chosen)} is undecided in floats; ask for exact=True")
        if not best.is_certified:
            self.refuted.append(best)
            return
        tokens = dict(chosen)
        choice = Selection(tuple(s if i in self.free else (tokens[i],) for i, s in enumerate(self.sets)))
        # All in the list have one length, as far as it can be known: comparing with the first is enough.
        order = _compare(best, self.best[0]) if self.best else 0
        if order < 0:
            self.best = []
        if order <= 0:
            self.best.append(replace(best, selection=choice))

    def solve(self, chosen: list[tuple[int, int]], exact: bool) -> MaxMargin:
        """ATT-SVM of the choice, without the rows against tokens of the same set."""
        self.qps += 1
        constraints = self.rows.constraints(sorted(chosen))
        outside = [t not in self.sets[cast(int, i)] for i, t in constraints.labels or ()]
        return solve(constraints.subset(np.flatnonzero(outside)), exact)


def _norms(best: MaxMargin) -> tuple[float, float]:
    """The least and the largest |p| that the solution allows."""
    lower, upper = best.margin_interval
    return 1 / upper if upper else np.inf, 1 / lower if lower else np.inf


def _compare(a: MaxMargin, b: MaxMargin) -> int:
    """-1, 0 or 1 as a is shorter than b, as long or longer; 0 if too large for an exact comparison."""
    (low_a, high_a), (low_b, high_b) = _norms(a), _norms(b)
    if high_a < low_b or high_b < low_a:
        return -1 if high_a < low_b else 1
    first, second = exactly(a), exactly(b)
    if first is None or second is None:
        return 0
    return (first.norm_squared > second.norm_squared) - (first.norm_squared < second.norm_squared)


def _same(a: MaxMargin, b: MaxMargin) -> bool:
    """Whether two minimizers are one vector."""
    first, second = exactly(a), exactly(b)
    if first is not None and second is not None and first.p is not None:
        return bool(first.p == second.p)
    return bool(np.linalg.norm(a.need() - b.need()) <= SAME * a.p_norm)
