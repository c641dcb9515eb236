"""The core of the probe, without PyTorch: Gram products against dense matrices, chance, names, proofs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.margin.constraints import Constraints
from hardmax.margin.engines import span_of
from hardmax.torch.probing import heads as names
from hardmax.torch.probing.heads import (
    STATISTICS,
    Heads,
    ProbeSettings,
    benjamini_hochberg,
    by_gram,
    closeness,
    corrected,
    margin_of,
    nuclear,
    picks,
    probe_head,
    random_tokens,
    rank_p,
    rotated,
)
from hardmax.torch.probing.inputs import (
    HeadWeights,
    Inputs,
    choices,
    hard_queries,
    rows_of,
    singular_values,
    turned,
)


def small(S=6, T=5, d=4, e=3, h=2, seed=0, causal=False, scale=3.0, angles=None) -> HeadWeights:
    """A head on random texts, its queries with a constant at the end as a bias makes it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((S, T, d)) + 2.0
    z = np.concatenate([rng.standard_normal((S, T, e - 1)), np.ones((S, T, 1))], axis=2)
    visible = np.broadcast_to(np.tri(T, dtype=bool) if causal else np.ones((T, T), bool), (S, T, T))
    return HeadWeights(
        Inputs(x, z, visible, angles), rng.standard_normal((h, d)), scale * rng.standard_normal((h, e))
    )


def dense_rows(rows) -> np.ndarray:
    """Every row written out, the matrix read row by row; of the lift with its cosines and sines."""
    i, per = rows.inputs, rows.inputs.length
    x, z = i.x.reshape(-1, i.x.shape[2]), i.z.reshape(-1, i.z.shape[2])

    def lifted(query, token):
        if i.angles is None:
            return x[token]
        turn = (query % per - token % per) * i.angles
        return np.outer(np.concatenate([np.cos(turn), np.sin(turn)]), x[token]).ravel()

    parts = zip(rows.query, rows.plus, rows.minus, strict=True)
    return np.array([np.outer(lifted(q, p) - lifted(q, m), z[q]).ravel() for q, p, m in parts])


@pytest.mark.parametrize(
    "options",
    [
        {"S": 4, "T": 4, "d": 12, "e": 9, "h": 3},  # independent rows
        {"S": 8, "T": 6},  # more rows than dimensions
        {"S": 6, "T": 6, "d": 5, "e": 4, "causal": True},
        {"S": 4, "T": 5, "d": 4, "e": 3, "h": 4, "angles": np.array([1.0, 0.1])},  # the lift
    ],
)
def test_margin_and_cosine_are_those_of_the_dense_computation(options):
    head = small(**options)
    found = choices(head.inputs, head.logits)
    queries = hard_queries(found, 64)
    rows = rows_of(head.inputs, queries, found.top.ravel()[queries])
    own = head.bilinear(head.inputs.z @ head.query_factor.T)
    told = closeness(head.inputs, found, own, queries)
    A, along = dense_rows(rows), rows.gaps(own)
    assert np.allclose(rows.gram(), A @ A.T, rtol=1e-11, atol=1e-11 * np.abs(A @ A.T).max())
    best = hm.max_margin(Constraints.dense(A))
    assert best.is_certified
    assert told.margin.status == "certified"
    assert told.margin.margin == pytest.approx(best.margin, rel=1e-9)
    inside, _, rank, _ = np.linalg.lstsq(A, along, rcond=1e-9)  # Pi W: the shortest with these margins
    assert told.rank == rank
    cosine = inside @ best.p / (np.linalg.norm(inside) * np.linalg.norm(best.p))
    assert told.cosine == pytest.approx(cosine, rel=1e-9)
    efficiency = np.quantile(along, 0.1) / np.linalg.norm(inside) / best.margin
    assert told.efficiency == pytest.approx(efficiency, rel=1e-9)
    if head.inputs.angles is None:
        W = head.key_factor.T @ head.query_factor
        assert np.allclose(A @ W.ravel(), along)
        assert np.allclose(np.linalg.svd(W)[1][:2], singular_values(head.key_factor, head.query_factor)[:2])
        bound = nuclear(told.margin, rows)
        size = np.linalg.svd(best.p.reshape(W.shape), compute_uv=False).sum()
        assert bound["nuclear"] == pytest.approx(size, rel=1e-7)
        nuclear_best = hm.max_margin(rows.constraints(), norm="nuclear")
        assert bound["low"] <= nuclear_best.margin * (1 + 1e-6)
        assert nuclear_best.margin <= bound["high"] * (1 + 1e-6)


def test_held_out_tokens_are_those_of_the_dense_matrix():
    head = small(S=8, T=5, d=7, e=6, h=3)
    found = choices(head.inputs, head.logits)
    queries = hard_queries(found, 64)
    rows = rows_of(head.inputs, queries, found.top.ravel()[queries])
    odd = np.arange(8) % 2 == 1
    train, test = rows.of_texts(odd), queries[~odd[queries // 5]]
    best = margin_of(train, train.gram())
    W = (best.weights @ dense_rows(train)).reshape(7, 6)
    dense = np.einsum("std,de,sqe->sqt", head.inputs.x, W, head.inputs.z).reshape(-1, 5)[test]
    picked, options = picks(train, best.weights, test)
    assert picked.tolist() == dense.argmax(axis=1).tolist()
    assert set(options) == {5}


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 12))
def test_pivoting_finds_the_margin_of_the_solver(seed, m, d):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    A = rng.standard_normal((m, d))
    A *= np.sign(A @ w)[:, None]  # separable
    if seed % 3 == 0:
        A[m // 2] = A[0]  # with a copy
    best, found = hm.max_margin(Constraints.dense(A)), by_gram(A @ A.T)
    low, high = found.interval
    assert low <= best.margin * (1 + 1e-9)
    assert best.margin <= high * (1 + 1e-9)
    if found.status == "certified":
        assert found.margin == pytest.approx(best.margin, rel=2e-9)
    else:  # a margin that is tiny next to the rows is left to the exact solver
        assert best.margin < 1e-2 * np.linalg.norm(A, axis=1).max()


def test_no_matrix_of_any_rank_selects_a_token_between_two_others():
    """Position terms select the middle of three tokens on a line; W cannot, as rows that cancel say."""
    x = np.tile(np.array([[-1.0], [0.0], [1.0]]), (4, 1, 1))
    z = np.ones((4, 3, 1)) + 0.1 * np.arange(12).reshape(4, 3, 1)
    offsets = np.tile(np.array([0.0, 9.0, 0.0]), (4, 3, 1))
    head = HeadWeights(Inputs(x, z, np.ones((4, 3, 3), bool)), np.ones((1, 1)), np.ones((1, 1)), offsets)
    found = probe_head(head, ProbeSettings(null=9), (0, 0))
    assert found.all.feasible is False
    assert found.all.margin_interval == (0.0, 0.0)
    total = sum(weight * (0.0 - x[s, t, 0]) * z[s, i, 0] for s, i, t, weight in found.all.farkas)
    assert total == pytest.approx(0.0, abs=1e-12)
    assert sum(weight for *_, weight in found.all.farkas) > 0


def test_twins_are_one_token():
    head = small(S=4, T=4, d=6, e=5)
    twice = np.concatenate([head.inputs.x, head.inputs.x[:, 1:2]], axis=1)
    z = np.concatenate([head.inputs.z, head.inputs.z[:, :1]], axis=1)
    both = Inputs(twice, z, np.ones((4, 5, 5), bool))
    assert both.representative.sum(axis=1).tolist() == [4] * 4
    logits = HeadWeights(both, head.key_factor, head.query_factor).logits
    one, two = choices(head.inputs, head.logits), choices(both, logits)
    assert np.array_equal(one.top, two.top[:, :4])
    assert np.allclose(one.gap, two.gap[:, :4])
    shared = two.weights[:, :4, 1] + two.weights[:, :4, 4]
    chosen = one.top == 1
    assert np.allclose(two.mass[:, :4][chosen], shared[chosen])
    queries = hard_queries(one, 8)
    places = queries // 4 * 5 + queries % 4
    rows = rows_of(both, places, two.top.ravel()[places])
    assert rows.count == 3 * len(queries)


def test_rotated_heads_keep_mean_and_covariance_of_the_queries():
    head = small(S=30, T=4, d=6, e=5, h=3)
    own = (head.inputs.z @ head.query_factor.T).reshape(-1, 3)
    for queries in rotated(head, np.random.default_rng(0), 3):
        flat = queries.reshape(-1, 3)
        assert np.allclose(flat.mean(axis=0), own.mean(axis=0), atol=1e-12)
        assert np.allclose(np.cov(flat.T), np.cov(own.T), atol=1e-12)
        assert not np.allclose(flat, own)


@pytest.mark.slow
def test_a_head_that_is_one_of_the_random_heads_ranks_anywhere():
    """Drawn from its own null, a head has evenly spread p-values: the mean of 30 is 0.55 up to 4 errors."""
    head, ranks = small(S=24, T=5, d=9, e=8, h=3, scale=4.0), {name: [] for name in STATISTICS[:2]}
    mean, U, B, _ = head.inputs.whitened
    rng = np.random.default_rng(1)
    for k in range(30):
        R = np.linalg.qr(rng.standard_normal((len(B), len(B))))[0]
        # W O as a matrix: the constant takes the mean along
        O = np.linalg.pinv(B) @ R @ B
        turned_factor = head.query_factor @ O.T
        turned_factor[:, -1] += head.query_factor @ mean - turned_factor @ mean
        made = HeadWeights(head.inputs, head.key_factor, turned_factor)
        found = probe_head(made, ProbeSettings(queries=8, null=9), (k, 0))
        for name, values in ranks.items():
            values.append(found.all.null[name].p)
    for name, values in ranks.items():
        assert abs(np.mean(values) - 0.55) < 4 * np.sqrt(1 / 12 / 30), name
    assert U.shape[0] == 120


def test_ranks_and_false_discoveries():
    assert rank_p(0.5, np.arange(99) / 99) == pytest.approx((1 + 49) / 100)
    assert np.isnan(rank_p(np.nan, np.ones(3)))
    p = np.random.default_rng(0).random(50) ** 2
    q = benjamini_hochberg(p)
    for level in (0.01, 0.05, 0.2, 0.5):  # the step-up rule itself
        order = np.sort(p)
        passed = np.flatnonzero(order <= level * np.arange(1, 51) / 50)
        count = 0 if not len(passed) else passed[-1] + 1
        assert (q <= level).sum() == count


def test_names_of_what_is_known():
    T, S = 8, 3
    causal = np.broadcast_to(np.tri(T, dtype=bool), (S, T, T))
    sink = np.zeros((S, T, T))
    sink[:, :, 0] = 1.0
    assert names.main_kinds(names.scores(sink, causal)) == ("first",)
    even = causal / causal.sum(axis=2, keepdims=True)
    told = names.scores(even, causal)
    assert "next" not in told
    assert names.main_kinds(told) == ()
    ids = np.tile(np.array([1, 2, 3, 1, 2, 3, 1, 2]), (S, 1))
    same = (ids[:, :, None] == ids[:, None, :]) & causal
    assert names.scores(same / same.sum(axis=2, keepdims=True), causal, ids)["same"] == 1.0
    period = np.full(S, 4)
    looks = np.zeros((S, T, T))
    for i in range(T):
        looks[:, i, i - 3 if i >= 4 else 0] = 1.0
    assert names.induction(looks, causal, period) == 1.0
    assert names.induction(sink, causal, period) == 0.0


def test_rotation_turns_logits_by_distances_alone():
    angles = np.array([1.0, 0.3])
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 6, 4)), rng.standard_normal((1, 6, 4))
    at = turned(q, np.arange(6)[:, None] * angles) @ turned(k, np.arange(6)[:, None] * angles).transpose(
        0, 2, 1
    )
    later = np.arange(3, 9)[:, None] * angles
    assert np.allclose(at, turned(q, later) @ turned(k, later).transpose(0, 2, 1))


def test_random_tokens_are_visible_ones():
    head = small(S=5, T=6, causal=True)
    queries = np.arange(30)[np.arange(30) % 6 > 0]
    drawn = random_tokens(head.inputs, queries, np.random.default_rng(0))
    assert (drawn <= queries % 6).all()


def test_without_first_token_and_self():
    head = small(S=6, T=6, d=8, e=7)
    inner = head.inner
    assert not inner.inputs.visible[:, :, 0].any()
    assert not inner.inputs.visible[:, np.arange(6), np.arange(6)].any()
    seen = inner.inputs.visible
    assert np.array_equal(inner.logits[seen], head.logits[seen])
    assert inner.inputs.token_gram is head.inputs.token_gram


def test_a_soft_head_has_no_problem_and_a_zero_head_no_direction():
    soft = probe_head(small(scale=1e-3), ProbeSettings(null=3), (0, 0))
    assert (soft.hard, soft.all, soft.inner) == (0, None, None)
    assert soft.mass == pytest.approx(0.2, abs=0.01)
    assert np.isnan(span_of(np.eye(2)).length(np.array([np.nan, 0.0])))


def test_tables_and_summary():
    made = [
        probe_head(small(seed=k, S=10, d=8, e=7, h=3), ProbeSettings(queries=8, null=9), (0, k))
        for k in range(5)
    ]
    heads = Heads(corrected(made), [["a"] * 5] * 10, 8, 9, 0, "rotated")
    gaps = [row["gap"] for row in heads.table()]
    assert gaps == sorted(gaps, reverse=True)
    q = np.array([head.all.null["cosine"].q for head in heads.heads])
    p = np.array([head.all.null["cosine"].p for head in heads.heads])
    assert np.array_equal(q, benjamini_hochberg(p))
    told = heads.summary()["cosine"]
    low = np.array([head.all.null["cosine"].p_low for head in heads.heads])
    assert np.allclose(p + low, 1.1)  # of ten, itself counted on both sides
    assert (told["heads"], told["p_above"], told["p_below"]) == (5, 0, 0)
    assert told["below"] == (benjamini_hochberg(low) <= 0.05).sum()
    assert "5 heads on 10 texts" in heads._repr_html_()
    again = probe_head(small(seed=2, S=10, d=8, e=7, h=3), ProbeSettings(queries=8, null=9), (0, 2))
    assert again.all.null["cosine"].p == made[2].all.null["cosine"].p  # the seed and the place decide
