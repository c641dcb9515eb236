"""Small integer problems, with ties, twins and copies, against active sets tried one by one in integers.

The shortest p with M p >= 1 is that of some independent set of tight rows with positive multipliers; trying
all of them in integers (Cramer's rule) shares nothing with the solvers.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hardmax.directions.enumerate import attractors, selections
from hardmax.directions.neighbors import attracts, neighbors
from hardmax.margin.att_svm import max_margin
from hardmax.problem import Problem
from hardmax.problem.selection import is_best

Row = tuple[int, ...]


def dot(a: Any, b: Any) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def determinant(A: list[list[int]]) -> int:
    if not A:
        return 1
    minors = ([row[:j] + row[j + 1 :] for row in A[1:]] for j in range(len(A)))
    return sum((-1) ** j * x * determinant(m) for j, (x, m) in enumerate(zip(A[0], minors, strict=True)) if x)


def shortest(rows: list[Row], d: int) -> tuple[Fraction, list[bool]] | None:
    """|p|^2 of the shortest p with rows >= 1, and which rows are tight; None if there is no p."""
    for size in range(min(d, len(rows)) + 1):
        for W in itertools.combinations(range(len(rows)), size):
            G = [[dot(rows[i], rows[j]) for j in W] for i in W]
            whole = determinant(G)
            if not whole:
                continue
            columns = ([[*row[:k], 1, *row[k + 1 :]] for row in G] for k in range(size))
            weights = [determinant(column) for column in columns]  # times det G > 0
            if min(weights, default=1) < 0:
                continue
            p = [sum(w * rows[j][x] for w, j in zip(weights, W, strict=True)) for x in range(d)]
            slack = [dot(row, p) - whole for row in rows]
            if min(slack, default=0) >= 0:
                return Fraction(sum(weights), whole), [s == 0 for s in slack]
    return None


class Truth:
    """Every selection, by names without copies: |p|^2, neighbors, local and global optimality."""

    def __init__(self, keys: list[list[Row]], scores: list[list[int]]) -> None:
        d = len(keys[0][0])
        tokens = [list(zip(k, g, strict=True)) for k, g in zip(keys, scores, strict=True)]
        self.names = [[t for t, token in enumerate(own) if token not in own[:t]] for own in tokens]
        self.found: dict[tuple[int, ...], tuple[Fraction, tuple[Any, ...], bool, bool]] = {}
        for chosen in itertools.product(*self.names):
            labels = [(i, t) for i, own in enumerate(self.names) for t in own if t != chosen[i]]
            rows = [
                tuple(a - b for a, b in zip(keys[i][chosen[i]], keys[i][t], strict=True)) for i, t in labels
            ]
            answer = shortest(rows, d)
            if answer is not None:
                near = tuple(label for label, tight in zip(labels, answer[1], strict=True) if tight)
                local = all(scores[i][chosen[i]] > scores[i][t] for i, t in near)
                best = all(scores[i][a] == max(scores[i]) for i, a in enumerate(chosen))
                self.found[chosen] = answer[0], near, local, best


def draw(rng: np.random.Generator) -> tuple[list[list[Row]], list[list[int]]]:
    n, d = (int(x) for x in rng.integers(1, 4, size=2))
    keys, scores = [], []
    for _ in range(n):
        T = int(rng.integers(1, 4))
        own = [tuple(int(x) for x in rng.integers(-2, 3, size=d)) for _ in range(T)]
        marks = [int(x) for x in rng.integers(-2, 3, size=T)]
        if T > 1 and rng.random() < 0.4:  # a copy or a twin
            own[-1] = own[0]
            marks[-1] = marks[0] if rng.random() < 0.6 else marks[-1]
        keys.append(own)
        scores.append(marks)
    return keys, scores


def compare(keys: list[list[Row]], scores: list[list[int]], rng: np.random.Generator) -> int:
    truth = Truth(keys, scores)
    floats = [np.array(k, dtype=float) for k in keys]
    problem = Problem(floats, [np.array(g, dtype=float) for g in scores])
    search = selections(problem)
    found = {each.selection: each for each in search}
    assert (search.status, found.keys()) == ("complete", truth.found.keys())
    for tokens, each in found.items():
        square, near, local, best = truth.found[tokens]
        check_margin(each.max_margin, square)
        assert each.max_margin.support == near
        assert (each.attracts.verdict, each.is_best) == (local, best)
    attract = {each.selection for each in attractors(problem)}
    assert attract == {tokens for tokens, (_, _, local, _) in truth.found.items() if local}
    every = list(itertools.product(*truth.names))
    for k in rng.choice(len(every), size=min(3, len(every)), replace=False):
        tokens = every[int(k)]
        solutions = [max_margin(problem, tokens), max_margin(problem, tokens, exact=True)]
        for solution in (*solutions, *max_margin([problem], [tokens])):
            known = truth.found.get(tokens)
            assert solution.is_feasible is (known is not None)
            assert solution.selection == tokens
            assert attracts(problem, solution).verdict is (known is not None and known[2])
            if known is not None:
                check_margin(solution, known[0])
                assert neighbors(problem, solution).pairs == known[1]
                assert is_best(problem, solution) is known[3]
    return len(found)


def check_margin(solution: Any, square: Fraction) -> None:
    if square:
        lower, upper = map(Fraction, solution.margin_interval)
        assert lower**2 * square <= 1 <= upper**2 * square
        assert upper - lower <= Fraction(2, 10**9) * upper
    else:
        assert solution.p_norm == 0
    if solution.exact is not None:
        assert solution.exact.norm_squared == square


@pytest.mark.no_cover
def test_small_integer_problems() -> None:
    rng = np.random.default_rng(15)
    assert sum(compare(*draw(rng), rng) for _ in range(150)) > 300
