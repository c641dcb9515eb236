"""Attention with queries: keys outer(x, z) that are never stored, against a table of them; files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.problem import Problem
from hardmax.problem.keys import Dense, Products

seeds = st.integers(0, 2**32 - 1)


def drawn(seed, n=3, T=4, d_x=3, d_z=2, ragged=True):
    """Tokens, queries and scores; inputs of different lengths, some with copies of a token."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, T + 1, size=n) if ragged else np.full(n, T)
    tokens = [rng.normal(size=(size, d_x)) for size in sizes]
    for x in tokens:
        if len(x) > 2 and rng.random() < 0.3:
            x[-1] = x[0]
    return tokens, rng.normal(size=(n, d_z)), [rng.normal(size=size) for size in sizes], rng


def stored(problem):
    """The same problem with its keys as a table."""
    return Problem._flat(Dense(problem.keys), problem.tokens, problem.offsets, problem.readout)


@given(seed=seeds, size=st.sampled_from([0.0, 1.0, 40.0, 3000.0]))
def test_products_are_keys_like_any_other(seed, size):
    tokens, queries, scores, rng = drawn(seed)
    problem = hm.Problem.from_queries(tokens, queries, scores)
    dense = stored(problem)
    for i, z in enumerate(queries):
        for key, x in zip(problem.split(problem.keys)[i], tokens[i], strict=True):
            np.testing.assert_array_equal(key, np.outer(x, z).ravel())
    W = size * rng.normal(size=problem.shape)
    one, two = hm.gradient(problem, W), hm.gradient(dense, W)
    np.testing.assert_allclose(one.direction, two.direction, atol=1e-12 if size > 100 else 1e-13)
    assert one.log_norm == pytest.approx(two.log_norm, rel=1e-13, abs=1e-13)
    if not one.is_stationary:
        np.testing.assert_array_equal(one.matrix.ravel(), one.direction)
    assert hm.loss(problem, W) == pytest.approx(hm.loss(dense, W), rel=1e-13)
    assert problem.groups.tolist() == dense.groups.tolist()
    assert hm.selected_tokens(problem, W).sets == hm.selected_tokens(dense, W).sets
    assert problem.table.exponent == dense.table.exponent
    plus, minus = rng.integers(0, len(problem.tokens), size=(2, 5))  # across inputs, too
    ours, theirs = problem.table, dense.table
    np.testing.assert_allclose(ours.differences(plus, minus), theirs.differences(plus, minus), atol=1e-14)
    np.testing.assert_allclose(ours.gram(plus, minus), theirs.gram(plus, minus), atol=1e-13)
    p, c = rng.normal(size=problem.d), rng.normal(size=(2, 5))
    np.testing.assert_allclose(ours.along(plus, minus, p), theirs.along(plus, minus, p), atol=1e-13)
    np.testing.assert_allclose(ours.combine(plus, minus, c), theirs.combine(plus, minus, c), atol=1e-13)


@pytest.mark.parametrize("coordinates", ["primal", "gram", "qr"])
@pytest.mark.parametrize("step", [hm.optim.Normalized(0.1), hm.optim.GD(0.5)])
def test_the_same_descent(coordinates, step):
    tokens, queries, scores, rng = drawn(7, n=4, T=5)
    problem = hm.Problem.from_queries(tokens, queries, scores)
    start = rng.normal(size=problem.shape)
    here, there = (
        hm.train(each, step, steps=300, start=start, coordinates=coordinates)
        for each in (problem, stored(problem))
    )
    np.testing.assert_allclose(here.points, there.points, atol=1e-11)
    np.testing.assert_array_equal(here.W, here.p.reshape(problem.shape))
    np.testing.assert_array_equal(here.W_at(0), start)


@given(seed=seeds)
def test_the_same_max_margins(seed):
    tokens, queries, scores, _ = drawn(seed, n=2, T=3)
    problem = hm.Problem.from_queries(tokens, queries, scores)
    dense = stored(problem)
    ours, theirs = hm.max_margin(problem), hm.max_margin(dense)
    assert ours.status == theirs.status
    if ours.is_certified:
        np.testing.assert_allclose(ours.p, theirs.p, atol=1e-10 * max(1.0, theirs.p_norm))
        assert ours.W.shape == problem.shape
        assert ours.support == theirs.support
    assert hm.attracts(problem, ours.selection).verdict == hm.attracts(dense, ours.selection).verdict


def test_every_verb_takes_queries():
    tokens, queries, scores, _ = drawn(3, n=3, T=3, ragged=False)
    problem = hm.Problem.from_queries(tokens, queries, scores)
    dense = stored(problem)
    found = [
        [(each.selection, round(each.max_margin.margin, 9)) for each in hm.attractors(every)]
        for every in (problem, dense)
    ]
    assert found[0] == found[1]
    paths = [hm.flow(each, until_norm=200.0) for each in (problem, dense)]
    assert paths[0].cosine_distance(paths[1]) < 1e-20
    best = hm.max_margin(problem, paths[0].selection)
    assert paths[0].cosine_distance(best) < 1e-4
    assert hm.cosine_distance(paths[0].W, best.W) == pytest.approx(paths[0].cosine_distance(best), rel=1e-9)
    paths = [hm.limits.regularization_path(each, [1.0, 50.0], starts=2, rng=0) for each in (problem, dense)]
    np.testing.assert_allclose(paths[0].points, paths[1].points, rtol=1e-6)
    assert "d = 3x2" in str(hm.solve(problem))
    assert [hm.check_statement("B-ASM-D", each).verdict for each in (problem, dense)] == ["holds", "holds"]


@given(seed=seeds)
def test_rotations_of_tokens_and_queries(seed):
    """W -> A W B' for rotations A of the tokens and B of the queries: margins and steps follow."""
    tokens, queries, scores, rng = drawn(seed, n=3, T=3, d_x=3, d_z=3, ragged=False)
    A, B = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    problem = hm.Problem.from_queries(tokens, queries, scores)
    turn = "ta,ba->tb"  # row by row, so that copies of a token stay copies
    turned = hm.Problem.from_queries([np.einsum(turn, x, A) for x in tokens], queries @ B.T, scores)
    here, there = (
        hm.train(each, hm.optim.GD(0.1), steps=50, coordinates="gram") for each in (problem, turned)
    )
    np.testing.assert_allclose(A @ here.W @ B.T, there.W, atol=1e-9)
    ours, theirs = hm.max_margin(problem), hm.max_margin(turned)
    assert ours.status == theirs.status
    if ours.is_certified:
        np.testing.assert_allclose(A @ ours.W @ B.T, theirs.W, atol=1e-7 * max(1.0, ours.p_norm))


def test_one_query_for_all_is_the_problem_of_p():
    """B-THM-L1: W moves along z only, as p = Wz does with the rate times |z|."""
    tokens, _, scores, _ = drawn(5, n=3, T=4)
    z = np.array([3.0, 4.0])
    problem = hm.Problem.from_queries(tokens, np.tile(z, (3, 1)), scores)
    plain = hm.Problem(tokens, scores)
    assert len(problem.table.right) == 1
    run = hm.train(problem, hm.optim.Normalized(0.1), steps=200)
    p = hm.train(plain, hm.optim.Normalized(0.5), steps=200)
    np.testing.assert_allclose(run.W @ z, p.p, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run.W, np.outer(p.p, z) / 25, rtol=1e-12, atol=1e-12)
    best, known = hm.max_margin(problem), hm.max_margin(plain)
    np.testing.assert_allclose(best.W @ z, known.p, rtol=1e-12)
    assert best.margin == pytest.approx(5 * known.margin, rel=1e-12)


def test_a_query_of_zero_sees_nothing():
    """All keys of the input coincide: its tokens tie forever, and no selection of it is feasible."""
    tokens = [[[1.0, 2.0], [0.0, 1.0], [2.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]
    scores = [[0.0, 1.0, 1.0], [1.0, 0.0]]
    problem = hm.Problem.from_queries(tokens, [[0.0, 0.0], [1.0, 1.0]], scores)
    assert problem.groups.tolist() == [0, 1, 1, 3, 4]  # equal scores: one token
    assert hm.max_margin(problem, [1, 0]).status == "infeasible"
    assert list(hm.selections(problem)) == []
    run = hm.train(problem, hm.optim.Normalized(0.1), steps=20)
    np.testing.assert_allclose(run.attention()[0], 1 / 3)
    assert run.selection.sets == ((0, 1), (0,))
    blind = hm.Problem.from_queries(tokens[:1], [[0.0, 0.0]], scores[:1])
    assert hm.train(blind, hm.optim.Normalized(0.1), steps=20).event == "no competing token"
    assert hm.gradient(blind, None).is_stationary


@pytest.mark.parametrize(("a", "b"), [(1e160, 1.0), (1e-160, 1.0), (1e200, 1e-200), (1e-100, 1e-100)])
def test_tokens_and_queries_of_any_size(a, b):
    """Powers of two change no digit: the same direction, in units of the keys."""
    tokens, queries, scores, _ = drawn(11, n=3, T=3)
    a, b = 2.0 ** np.round(np.log2([a, b]))
    plain = hm.Problem.from_queries(tokens, queries, scores)
    scaled = hm.Problem.from_queries([a * x for x in tokens], b * queries, scores)
    one, two = hm.gradient(plain, None), hm.gradient(scaled, None)
    np.testing.assert_array_equal(one.direction, two.direction)
    assert two.log_norm - one.log_norm == pytest.approx(np.log(a) + np.log(b), rel=1e-12)
    for coordinates in ("gram", "primal"):
        here = hm.train(plain, hm.optim.Normalized(0.1), steps=100, coordinates=coordinates)
        there = hm.train(scaled, hm.optim.Normalized(0.1 / a / b), steps=100, coordinates=coordinates)
        assert here.cosine_distance(there) < 1e-25
    assert hm.max_margin(scaled).margin == pytest.approx(a * (b * hm.max_margin(plain).margin), rel=1e-12)


@pytest.mark.compiled
def test_products_are_never_stored():
    """d_x d_z is a million, for 120 slots: gradient and descent need no table of keys."""
    rng = np.random.default_rng(2)
    tokens, queries = rng.normal(size=(3, 4, 1000)), rng.normal(size=(3, 1000))
    problem = hm.Problem.from_queries(
        np.tile(tokens, (10, 1, 1)),
        np.tile(queries, (10, 1)),
        np.eye(4)[rng.integers(0, 4, 3)][np.tile(range(3), 10)],
    )
    assert problem.table.left.shape == (12, 1000)
    assert problem.table.right.shape == (3, 1000)
    run = hm.train(problem, hm.optim.Normalized(1e-3), steps=20, record=())
    assert run.cosine_distance(hm.gradient(problem, run.W / 2).direction) < 1e-3
    with pytest.raises(
        ValueError, match=r"120 products of 1000 by 1000 numbers as a table would have 1.2e\+08"
    ):
        _ = problem.keys


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_files(tmp_path, ending):
    tokens, queries, scores, rng = drawn(9)
    labels, v, W = [1, -1, 1], rng.normal(size=3), rng.normal(size=(3, 2))
    for problem in (
        hm.Problem.from_queries(tokens, queries, scores, loss="exponential"),
        hm.Problem.from_queries(tokens, queries, labels=labels, readout=v).weighted([1.0, 2.0, 0.5]),
        hm.Problem.from_queries(tokens, "last", labels=labels, readout=v),
    ):
        problem.save(tmp_path / f"queries.{ending}")
        again = hm.Problem.load(tmp_path / f"queries.{ending}")
        assert isinstance(again.table, Products)
        assert (again.shape, again.loss.name) == (problem.shape, problem.loss.name)
        start = W if problem.shape == (3, 2) else np.eye(3)
        assert hm.loss(again, start) == hm.loss(problem, start)
        np.testing.assert_array_equal(again.keys, problem.keys)
        run = hm.train(problem, hm.optim.Normalized(0.1), steps=5)
        run.save(tmp_path / "run.npz")
        np.testing.assert_array_equal(hm.Run.load(tmp_path / "run.npz").W, run.W)


def test_files_of_queries_that_are_wrong(tmp_path):
    file = tmp_path / "mine.json"
    content = {"tokens": [[[1, 0], [0, 1]]], "queries": "first", "scores": [[1, 0]]}
    file.write_text(json.dumps(content))
    assert hm.Problem.load(file).shape == (2, 2)
    file.write_text(json.dumps(content | {"keys": [[[1], [0]]]}))
    with pytest.raises(
        ValueError, match="tokens, queries and either scores or labels and head; it holds keys"
    ):
        hm.Problem.load(file)
    problem = hm.Problem.from_queries([[[1.0], [0.0]]] * 2, [[1.0], [2.0]], [[1.0, 0.0]] * 2)
    from hardmax.problem.files import problem_arrays

    for change, message in (
        ({"token_of": np.array([0, 1, 0, 2])}, "token_of must be row numbers of its table, from 0 to 1"),
        ({"query_of": np.array([0, 1, 1, 1])}, "query_of must be one query in each input"),
        ({"query_of": None}, "must hold all of token_table, query_table, token_of, query_of"),
    ):
        arrays = {name: x for name, x in (problem_arrays(problem) | change).items() if x is not None}
        np.savez(tmp_path / "bad.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            hm.Problem.load(tmp_path / "bad.npz")


def test_bad_input():
    tokens, scores = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]], [[1.0, 0.0], [1.0]]
    made, plain = hm.Problem.from_queries, hm.data.example("B-FIG-8")
    for call, message in (
        (lambda: made(tokens, "middle", scores), 'queries must be "first", "last" or 2 vectors'),
        (lambda: made(tokens, [[1.0]], scores), "queries must be 2 vectors, one for each input, got 1 of 1"),
        (lambda: made(tokens, [[], []], scores), "queries must be 2 vectors, one for each input, got 2 of 0"),
        (lambda: made(tokens, [1.0, 2.0], scores), r"queries must have shape \(a, b\), got \(2,\)"),
        (lambda: made(tokens, [[np.nan], [1.0]], scores), "queries must be finite, got nan at"),
        (lambda: made(tokens, "first"), "scores, or labels and readout, must be given, got none"),
        (lambda: made(tokens, "first", scores, labels=[1, 1]), "labels and readout, must be given, got both"),
        (lambda: made(tokens, "first", labels=[1, 1]), r"readout must be numbers of shape \(2,\), got None"),
        (lambda: made(tokens, "first", readout=[1, 1]), r"labels must be numbers of shape \(2,\), got None"),
        (lambda: made(tokens, "first", scores[:1]), "scores must have 2 inputs as tokens, got 1"),
        (lambda: hm.max_margin(plain).W, "W must be that of a problem with queries"),
        (
            lambda: hm.train(plain, hm.optim.Normalized(0.1), steps=2).W,
            "W must be that of a problem with queries",
        ),
        (lambda: hm.gradient(plain, None).matrix, "W must be that of a problem with queries"),
        (
            lambda: hm.train(made(tokens, "first", scores).matrix(prompt=[1]), hm.optim.Normalized(0.1)),
            "p is W already",
        ),
        (
            lambda: hm.train(made(tokens, "first", scores), hm.optim.Normalized(0.1), start=np.eye(3)),
            r"start must have shape \(4,\)",
        ),
        (lambda: hm.max_margin(plain, norm="nuclear"), "norm must be one of vectors"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_large_margins_are_solved_in_few_coordinates(monkeypatch):
    """Rows of 1000 x 1000 numbers are never written out; the same answers as where they are."""
    rng = np.random.default_rng(4)
    tokens, scores = rng.normal(size=(4, 4, 1000)), rng.normal(size=(4, 4))
    problem = hm.Problem.from_queries(tokens, "last", scores)
    best = hm.max_margin(problem)
    assert best.is_certified
    assert best.margin_interval[1] / best.margin_interval[0] - 1 < 1e-10
    assert best.constraints.along(best.p).min() == pytest.approx(1.0, abs=1e-13)
    gram = best.constraints.gram()
    assert best.p_norm**2 == pytest.approx(best.multipliers @ gram @ best.multipliers, rel=1e-13)
    assert len(best.support) == 12
    with pytest.raises(ValueError, match=r"rows must have at most 1e\+08 numbers together to be written out"):
        hm.Constraints.pairs(
            np.ones((1, 1000)), [0] * 101, [-1] * 101, right=np.ones((1, 1000)), right_of=[0] * 101
        ).rows()
    for seed in range(4):
        tokens, queries, scores, _ = drawn(seed, n=2, T=3)
        problem = hm.Problem.from_queries(tokens, queries, scores)
        for chosen in ([0, 0], [len(x) - 1 for x in tokens]):
            plain = hm.max_margin(problem, chosen)
            with monkeypatch.context() as folding:
                folding.setattr("hardmax.margin.constraints.WRITTEN", 0)
                few = hm.max_margin(problem, chosen)
                assert (few.status, few.support) == (plain.status, plain.support)
            if plain.is_certified:
                np.testing.assert_allclose(few.p, plain.p, atol=1e-13)
            exact = hm.max_margin(problem, chosen, exact=True)
            assert exact.status == plain.status
            if exact.is_feasible and exact.fractions is not None:
                np.testing.assert_allclose(exact.fractions.astype(float), plain.W, atol=1e-12)
