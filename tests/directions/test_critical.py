"""Critical directions at infinity: all of them, exactly, and what is degenerate (B-NEW-4)."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm


def by_hand(problem: hm.Problem, angles: int = 720_000) -> list[tuple[float, float]]:
    """Critical angles of a planar problem by scanning: where minus the gradient turns across the radius."""
    angle = 2 * np.pi * np.arange(angles) / angles
    q = np.column_stack([np.cos(angle), np.sin(angle)])
    least = np.full(angles, np.inf)
    force = np.zeros((angles, 2))
    for keys, scores in zip(
        problem.split(problem.keys[problem.tokens]), problem.split(problem.scores), strict=True
    ):
        logits = q @ keys.T
        top = logits.argmax(axis=1)
        for t in range(len(keys)):
            margin = logits[np.arange(angles), top] - logits[:, t]
            better = (t != top) & (margin < least)
            least = np.where(better, margin, least)
            row = (scores[top] - scores[t])[:, None] * (keys[top] - keys[t])
            force = np.where(better[:, None], row, force)
    across = q[:, 0] * force[:, 1] - q[:, 1] * force[:, 0]
    outward = (q * force).sum(axis=1)
    out = []
    for k in np.flatnonzero(np.sign(across) != np.sign(np.roll(across, -1))):
        # of two rows on either side of a corner some positive combination points outwards along q
        a, b = force[k], force[(k + 1) % angles]
        share = -across[(k + 1) % angles] / (across[k] - across[(k + 1) % angles])
        if q[k] @ (share * a + (1 - share) * b) > 0 and outward[k] != 0:
            out.append((float(angle[k]), float(np.sign(across[k]))))
    return out


@pytest.mark.parametrize("seed", range(4))
def test_the_plane_is_scanned_and_nothing_is_missing(seed: int) -> None:
    """A stable angle (the force turns back to it) has index 0, an unstable one index 1."""
    problem = hm.data.gaussian(n=3, T=3, d=2, rng=seed)
    found = hm.critical_directions(problem)
    scanned = by_hand(problem)
    exact = sorted(
        (float(np.arctan2(*each.direction[::-1]) % (2 * np.pi)), 1.0 if each.index == 0 else -1.0)
        for each in found.directions
    )
    assert len(scanned) == len(exact)
    for (angle, turn), (wanted, kind) in zip(scanned, exact, strict=True):
        assert abs(angle - wanted) < 2e-5
        assert turn == kind


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("d", [2, 3])
def test_index_0_are_exactly_the_locally_optimal_directions(seed: int, d: int) -> None:
    problem = hm.data.gaussian(n=2, T=3, d=d, rng=seed)
    attract = {
        each.selection: each.direction
        for each in hm.critical_directions(problem).directions
        if not each.index
    }
    local = {each.selection: each.direction for each in hm.attractors(problem)}
    assert attract.keys() == local.keys()
    for tokens, direction in local.items():
        assert direction is not None
        assert np.abs(direction - attract[tokens]).max() < 1e-12


def test_multipliers_are_fractions_that_give_the_direction_exactly() -> None:
    problem = hm.Problem([[[0, 0], [-1, 0], [0, 2]], [[1, 1], [0, 0], [3, 0]]], [[2, 1, 0], [0, 1, 3]])
    for each in hm.critical_directions(problem).directions:
        keys = problem.keys.astype(int).reshape(2, 3, 2)
        q = [Fraction(0)] * 2
        for (i, t), m in zip(each.rows, each.multipliers, strict=True):
            row = keys[i][each.selection[i]] - keys[i][t]
            q = [a + m * int(b) for a, b in zip(q, row, strict=True)]
        margins = {
            (i, t): sum(a * int(b) for a, b in zip(q, keys[i][each.selection[i]] - keys[i][t], strict=True))
            for i in range(2)
            for t in range(3)
            if t != each.selection[i]
        }
        assert all(margins[row] == 1 for row in each.rows)
        assert all(margin > 1 for row, margin in margins.items() if row not in each.rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([-300, -1, 3, 300]))
def test_invariances(seed: int, power: int) -> None:
    """A shift of one input's keys, a power of two, an order of tokens, a token twice: the same directions."""
    rng = np.random.default_rng(seed)
    keys, scores = rng.integers(-9, 10, size=(2, 3, 2)).astype(float), rng.permutation(6).reshape(2, 3)

    def indices(k: object, s: object) -> list[tuple[int, tuple[float, ...]]]:
        found = hm.critical_directions(hm.Problem(k, s)).directions
        return sorted((each.index, tuple(each.direction.round(9).tolist())) for each in found)

    plain = indices(keys, scores)
    shifted = keys + rng.integers(-5, 6, size=(2, 1, 2))
    assert indices(shifted, scores) == plain
    assert indices(np.ldexp(keys, power), scores) == plain
    order = rng.permutation(3)
    assert indices(keys[:, order], scores[:, order]) == plain
    assert indices(keys[:, [0, 1, 2, 1]], scores[:, [0, 1, 2, 1]]) == plain


@pytest.mark.parametrize(
    "keys, scores, words",
    [
        ([[[0, 0], [-1, 0], [0, -1]]], [[1, 0, 0]], "input 0: tokens 1 and 2 have one score"),
        ([[[0, 0], [-1, 0], [-1, 1], [-1, -1]]], [[3, 2, 1, 0]], "tokens 1, 2, 3 of input 0"),
        ([[[0, 0], [-1, 0], [-1, 1]]], [[3, 1, 0]], "row (0, 2) is as near as (0, 1) along (1, 0)"),
        ([[[0, 0], [1, 0], [1, 0]], [[0, 0], [0, 1], [3, 1]]], [[0, 1, 2]] * 2, "tokens 1, 2 of input 0"),
        ([[[1, 2], [1, 2]]], [[1, 1]], "no key differs from another of its input"),
    ],
)
def test_degenerate_data_name_the_row(keys: object, scores: object, words: str) -> None:
    found = hm.critical_directions(hm.Problem(keys, scores))
    assert any(words in each for each in found.degenerate), found.degenerate


def test_keys_in_a_plane_of_a_larger_space() -> None:
    """The same directions, carried over by the map."""
    flat = hm.data.gaussian(n=2, T=3, d=2, rng=5)
    keys = flat.keys.round(2)
    lift = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, -1.0, 0.0]])
    scores = flat.scores.reshape(2, 3)
    small = hm.critical_directions(hm.Problem(keys.reshape(2, 3, 2), scores))
    large = hm.critical_directions(hm.Problem((keys @ lift).reshape(2, 3, 4), scores))
    assert large.dimension == 2
    assert small.gap == pytest.approx(large.gap, rel=1e-12)
    assert len(small.directions) == len(large.directions) > 0
    for a, b in zip(small.directions, large.directions, strict=True):
        assert np.abs(a.direction @ lift - b.direction).max() < 1e-15


def test_a_budget_truncates() -> None:
    problem = hm.data.gaussian(n=3, T=4, d=3, rng=0)
    assert hm.critical_directions(problem, limit=100).status == "truncated"
    assert hm.critical_directions(problem, seconds=1e-9).status == "truncated"
    with pytest.raises(ValueError, match="limit"):
        hm.critical_directions(problem, limit=0)
