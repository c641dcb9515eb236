"""A batch is the same to the bit as its parts, and as good as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from hardmax.margin.batch import solve_batch
from hardmax.margin.constraints import Constraints
from hardmax.margin.solve import solve


def stack(B: int, m: int, d: int, separable: bool, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(B, m, d))
    if separable:
        rows *= np.sign(np.einsum("bmd,bd->bm", rows, rng.normal(size=(B, d))))[..., None]
    return rows


@pytest.mark.parametrize(("m", "d"), [(20, 2), (20, 10), (20, 100), (5, 3), (150, 4)])
@pytest.mark.parametrize("separable", [True, False])
@pytest.mark.compiled
def test_bits_do_not_depend_on_batch_or_workers(m: int, d: int, separable: bool) -> None:
    B = 40 if d == 100 else 150
    rows = stack(B, m, d, separable, seed=m + d)
    whole = solve_batch(rows)
    parts = [*solve_batch(rows[:1]), *solve_batch(rows[1:15], workers=1), *solve_batch(rows[15:], workers=3)]
    for a, b in zip(whole, parts, strict=True):
        assert a.status == b.status
        assert a.margin_interval == b.margin_interval
        assert a.kkt == b.kkt
        assert a.p is b.p is None or np.array_equal(a.p, b.p)
        assert a.multipliers is b.multipliers is None or np.array_equal(a.multipliers, b.multipliers)
    assert all(a.status != "undecided" and a.kkt <= 1e-9 for a in whole)


def test_agrees_with_solve() -> None:
    rows = stack(60, 20, 5, True, seed=1)
    for b, best in enumerate(solve_batch(rows)):
        alone = solve(Constraints.dense(rows[b]))
        assert best.is_certified
        assert alone.is_certified
        assert best.p_norm == pytest.approx(alone.p_norm, rel=1e-12)
        assert best.support == alone.support


def test_mixed_list() -> None:
    rng = np.random.default_rng(2)
    many = [
        Constraints.dense(np.eye(3), labels=[("a",), ("b",), ("c",)]),
        Constraints.dense(np.zeros((0, 2))),
        Constraints.from_gram(np.eye(2), [0], [1]),
        Constraints.dense([[1.0], [-1.0]]),
        Constraints.dense([[1.0, 2.0]], E=[[1.0, 0.0]]),
        Constraints.pairs(np.eye(2), [0], [1], right=np.eye(2), right_of=[1]),
        Constraints.dense(1e200 * np.eye(3)),
        Constraints.dense(rng.normal(loc=(9.0, 0.0), size=(400, 2))),
    ]
    for c, best in zip(many, solve_batch(many), strict=True):
        alone = solve(c)
        assert best.status == alone.status
        assert best.p_norm == pytest.approx(alone.p_norm, rel=1e-12)
    assert solve_batch([]) == []
    assert solve_batch(many[:1])[0].support == (("a",), ("b",), ("c",))


def test_messages() -> None:
    with pytest.raises(ValueError, match=r"problems must be finite rows of shape \(B, m, d\)"):
        solve_batch(np.eye(2))
    with pytest.raises(ValueError, match="h must be bounds that broadcast"):
        solve_batch(np.ones((2, 3, 2)), h=np.ones(2))
    with pytest.raises(ValueError, match="h must be finite bounds >= 0"):
        solve_batch(np.ones((2, 3, 2)), h=-1.0)
