"""What is made for a block of selections at once is what each of them gets by itself."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.directions.enumerate import selections
from hardmax.directions.neighbors import known_gap, row_gaps
from hardmax.directions.search import contradicts
from hardmax.margin.att_svm import AttentionRows
from hardmax.problem import Problem


def random_problem(kind: str, seed: int) -> Problem:
    """With copies, twins of other scores, ties, and an input without a choice."""
    rng = np.random.default_rng(seed)
    if kind == "queries":
        tokens, queries = rng.normal(size=(3, 3, 2)), rng.normal(size=(3, 2))
        return Problem.from_queries(tokens, queries, rng.normal(size=(3, 3)))
    keys = [rng.integers(-2, 3, size=(T, 3)).astype(float) for T in (4, 1, 3, 4)]
    scores = [rng.integers(0, 3, size=len(each)).astype(float) for each in keys]
    if kind == "dense":
        return Problem(keys, scores)
    table = np.concatenate(keys)
    starts = np.cumsum([0, 4, 1, 3])
    places = [list(range(a, a + len(each))) for a, each in zip(starts.tolist(), keys, strict=True)]
    return Problem.from_gram(table @ table.T, places, scores)


@pytest.mark.parametrize("kind", ["dense", "gram", "queries"])
def test_rows_of_many_selections_are_the_rows_of_each(kind: str) -> None:
    rows = AttentionRows(random_problem(kind, 0))
    inputs = [i for i, names in enumerate(rows.names) if len(names) > 1]
    rng = np.random.default_rng(1)
    tokens = np.column_stack([rng.integers(len(rows.names[i]), size=20) for i in inputs])
    for chosen, found in zip(tokens, rows.each(inputs, tokens), strict=True):
        alone = rows.constraints((i, int(rows.names[i][t])) for i, t in zip(inputs, chosen, strict=True))
        assert found.labels == alone.labels
        for name in ("plus", "minus", "h", "equal", "right_of"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
        for name in ("table", "right", "origin"):
            assert getattr(found, name) is getattr(alone, name)
        np.testing.assert_array_equal(found.rows(), alone.rows())


@pytest.mark.parametrize("kind", ["dense", "gram", "queries"])
@pytest.mark.parametrize("seed", range(5))
def test_the_gap_of_a_block_is_the_gap_of_each(kind: str, seed: int) -> None:
    problem = random_problem(kind, seed)
    found = list(selections(problem))
    assert found
    for each in found:
        alone = hm.max_margin(problem, each.selection)
        assert alone.constraints.labels == each.max_margin.constraints.labels
        gap = known_gap(alone, row_gaps(problem, alone))
        assert each.score_gap == gap or (np.isnan(each.score_gap) and np.isnan(gap))
        assert each.max_margin.support == alone.support
        assert each.max_margin.margin == pytest.approx(alone.margin, rel=1e-9)


def test_contradictions_are_proved_beside_rows_that_have_no_inverse() -> None:
    """One stack: rows that cancel; rows all along one axis, whose A'A is singular; rows that do not cancel;
    rows of very different lengths, whose A'A loses what the pseudo-inverse keeps."""
    third, small = 2 * np.pi / 3, 1e-9
    star = np.array([[np.cos(k * third), np.sin(k * third)] for k in range(3)])
    flat = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    wide = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    thin = np.array([[1.0, small], [-1.0, small], [0.0, -small]])
    y = np.array([[1.0, 1, 1], [1, 2, 1], [1, 1, 1], [1, 1, 2]])
    stack = np.stack([star, flat, wide, thin])
    assert contradicts(stack, y).tolist() == [True, False, False, True]
    assert contradicts(stack[[0, 2, 3]], y[[0, 2, 3]]).tolist() == [True, False, True]
    assert np.linalg.cond(thin.T @ thin) > 1e15
