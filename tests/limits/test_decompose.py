"""Data that do not separate: the partition of the rows and its proofs, p_fin, p_mm (D-THM-11)."""

import json
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.limits.partition import ends, partition, strong_components
from hardmax.margin.exact import decide
from hardmax.problem.keys import OneHot

ORACLES = json.loads((Path(__file__).parents[1] / "oracles" / "paper-d-oracles.json").read_text())
DATA = ORACLES["nonseparable"]
names = pytest.mark.parametrize("name", list(DATA))


def posed(name):
    return hm.Problem(DATA[name]["keys"], DATA[name]["scores"], loss="log")


def rows_of(found):
    """The exact rows, by label."""
    problem, rows = found.problem, {}
    for i, t in (*found.bound, *found.separable):
        selected, other = problem.tokens[problem.offsets[i] + np.array([found.selection[i], t])]
        pairs = zip(problem.keys[selected].tolist(), problem.keys[other].tolist(), strict=True)
        rows[i, t] = [Fraction(a) - Fraction(b) for a, b in pairs]
    return rows


def check_proofs(found):
    """Both certificates, in fractions."""
    rows = rows_of(found)
    total = [
        sum(y * x for y, x in zip(found.circulation, column, strict=True))
        for column in zip(*(rows[j] for j in found.bound), strict=True)
    ]
    assert all(y >= 1 for y in found.circulation)
    assert not any(total)
    for j, row in rows.items():
        product = sum(x * p for x, p in zip(row, found.witness, strict=True))
        assert product == 0 if j in found.bound else product >= 1


@names
def test_oracles(name):
    found, expected = hm.decompose(posed(name)), DATA[name]
    assert (found.kind, found.status, found.is_local) == ("mixed", "certified", False)
    assert [list(j) for j in found.bound] == expected["rows_equal"]
    assert [list(j) for j in found.separable] == expected["rows_separable"]
    assert found.S.shape[1] == expected["dim_S"]
    np.testing.assert_allclose(found.p_fin, expected["p_fin"], atol=1e-13)
    np.testing.assert_allclose(found.p_mm, expected["p_mm"], atol=1e-13)
    assert found.inf_risk == pytest.approx(expected["inf_risk"], abs=1e-14)
    assert 0 < found.finite.radius < 1e-13
    check_proofs(found)


def test_in_closed_form():
    found = hm.decompose(posed("cycle"))
    half = 0.5 * np.log(3.0)
    np.testing.assert_allclose(found.p_fin, [half, -half, 0.0], atol=found.finite.radius)
    assert found.witness == (Fraction(1, 3), Fraction(1, 3), Fraction(-2, 3))
    np.testing.assert_allclose(hm.decompose(posed("dependent")).p_fin, [np.log(2.0), 0.0], atol=1e-15)


def test_finite_part_to_many_digits():
    """plane-plus: the minimizer of log(1 + e^-d.p) over the plane, by Newton's method with 40 digits."""
    found = hm.decompose(posed("plane-plus"))
    rows = [[float(x) for x in row[:2]] for j, row in rows_of(found).items() if j in found.bound]
    with mpmath.workdps(40):

        def slope(x, y):
            weights = [1 / (1 + mpmath.exp(a * x + b * y)) for a, b in rows]
            return [sum(w * r[k] for w, r in zip(weights, rows, strict=True)) for k in range(2)]

        exact = mpmath.findroot(slope, (0.1, 0.5))
        off = [abs(mpmath.mpf(float(p)) - q) for p, q in zip(found.p_fin, exact, strict=False)]
    assert max(off) <= found.finite.radius


def test_components_are_not_enough():
    """Keys on a line: the graph has no cycle, yet rows cancel (D-ERR-6)."""
    found = hm.decompose(posed("dependent"))
    above, below, count = ends(found.partition.constraints)
    assert len(set(strong_components(above, below, count).tolist())) == count
    assert len(found.bound) == 3


small = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=1, max_size=8)
)


@given(small)
@settings(max_examples=30)
def test_partition_by_brute_force(rows):
    """Each row alone: can it be won while none is lost? All that can be won can be won together."""
    D = np.array(rows, dtype=float)
    found = partition(hm.Constraints.dense(D))
    can = {j for j in range(len(D)) if decide(hm.Constraints.dense(D, np.eye(len(D))[j])).feasible}
    assert found.certified
    assert set(np.flatnonzero(~found.bound).tolist()) == can
    assert all((y >= 1) == bool(b) for y, b in zip(found.circulation, found.bound, strict=True))
    for column in D.T:
        assert sum(y * Fraction(x) for y, x in zip(found.circulation, column.tolist(), strict=True)) == 0
    for row, bound in zip(D.tolist(), found.bound, strict=True):
        product = sum(Fraction(x) * p for x, p in zip(row, found.witness, strict=True))
        assert product == 0 if bound else product >= 1


def test_contradictions_alone_decide(monkeypatch):
    """Without the linear program, rows are found bound by rational contradictions, one after the other."""
    rng = np.random.default_rng(5)
    for _ in range(25):
        rows = hm.Constraints.dense(rng.integers(-2, 3, size=(int(rng.integers(2, 9)), 3)).astype(float))
        expected = partition(rows)
        with monkeypatch.context() as patched:
            patched.setattr("hardmax.limits.partition._guess", lambda A, known: None)
            found = partition(rows)
        assert found.certified
        assert found.bound.tolist() == expected.bound.tolist()
        assert min((y for y in found.circulation if y), default=1) == 1
        for column in rows.rows().T.tolist():
            assert sum(y * Fraction(x) for y, x in zip(found.circulation, column, strict=True)) == 0


def test_what_floats_cannot_tell_apart():
    """Rows (1, e), (-1, e) with e = 1e-12 are separable, with (0, -e) bound: p_fin = (0, log 2/e)."""
    e = 1e-12
    keys = [[[1.0, e], [0.0, 0.0]], [[-1.0, e], [0.0, 0.0]], [[0.0, -e], [0.0, 0.0]]]
    assert hm.decompose(hm.Problem(keys[:2], [[1, 0]] * 2, loss="log")).kind == "separable"
    found = hm.decompose(hm.Problem(keys, [[1, 0]] * 3, loss="log"))
    assert (found.kind, found.status) == ("bounded", "certified")
    assert abs(found.p_fin[1] - np.log(2.0) / e) < 0.1


def test_rows_of_very_different_sizes():
    """log(1 + e^(-1e8 p)) + log(1 + e^(1e-8 p)): nothing of the slope is to be seen in the risk."""
    keys = [[[1e8, 0.0], [0.0, 0.0]], [[-1e-8, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
    found = hm.decompose(hm.Problem(keys, [[1, 0]] * 3, loss="log"))
    assert found.p_fin[0] == pytest.approx(1e-8 * np.log(2e16 - 1.0), rel=1e-13)
    assert found.status == "certified"


def test_no_rows_at_all():
    found = hm.decompose(hm.Problem([[[1.0]], [[2.0], [2.0]]], [[1], [1, 1]], loss="log"))
    assert (found.kind, found.bound, found.separable, found.p_fin.tolist()) == ("separable", (), (), [0.0])


def test_regularization_path_of_the_log_loss():
    """The point of least risk in a ball: p_fin on S, the rest along p_mm, on the way out."""
    found = hm.decompose(posed("cycle"))
    path = hm.limits.regularization_path(found.problem, [3.0, 12.0])
    off = [np.linalg.norm(found.parts(p)[0] - found.p_fin) for p in path.points]
    assert off[0] > 100 * off[1]
    assert off[1] < 1e-4
    assert hm.cosine_distance(found.parts(path.points[1])[1], found) < 1e-12


def one_hot(inputs, V):
    tokens = np.concatenate([np.array(each) for each in inputs])
    sizes = [len(each) for each in inputs]
    labels = [[1.0] + [0.0] * (size - 1) for size in sizes]
    stored = hm.Problem([np.eye(V)[list(each)] for each in inputs], labels, loss="log")
    return stored, hm.Problem._flat(
        OneHot(V), tokens, np.concatenate([[0], np.cumsum(sizes)]), stored.readout
    )


graphs = st.lists(
    st.permutations(range(5)).flatmap(lambda p: st.integers(2, 4).map(lambda k: p[:k])),
    min_size=1,
    max_size=8,
)


@given(graphs)
@settings(max_examples=20)
def test_one_hot_keys_are_a_graph(inputs):
    """Components decide there, and what the linear program finds on the same keys, stored, is the same."""
    stored, hot = one_hot(inputs, 5)
    a, b = hm.decompose(stored), hm.decompose(hot)
    component = strong_components(
        *(np.array(side) for side in zip(*((each[0], t) for each in inputs for t in each[1:]), strict=True)),
        5,
    )
    bound = tuple(
        (i, t)
        for i, each in enumerate(inputs)
        for t in range(1, len(each))
        if component[each[0]] == component[each[t]]
    )
    assert a.bound == b.bound == bound
    assert a.status == b.status == "certified"
    check_proofs(a)
    check_proofs(b)
    np.testing.assert_allclose(a.p_fin, b.p_fin, atol=1e-12)


def test_a_large_graph():
    """More rows than are solved in fractions; a graph needs none of them."""
    V, rng = 80, np.random.default_rng(0)
    inputs = [rng.choice(V, size=5, replace=False) for _ in range(60)]
    found = hm.decompose(one_hot(inputs, V)[1])
    assert found.kind == "mixed"
    assert found.partition.certified
    check_proofs(found)


keys_of_an_input = st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=2, max_size=3)
integers = st.lists(keys_of_an_input, min_size=2, max_size=4)


@given(integers, st.randoms(), st.integers(-30, 30))
@settings(max_examples=12)
def test_invariances(keys, chance, power):
    """Inputs in another order, keys in other units, an input twice or with twice the weight."""
    scores = [[1] + [0] * (len(k) - 1) for k in keys]
    plain = hm.decompose(hm.Problem(keys, scores, loss="log"))
    order = list(range(len(keys)))
    chance.shuffle(order)
    moved = hm.decompose(hm.Problem([keys[i] for i in order], [scores[i] for i in order], loss="log"))
    assert {(order[i], t) for i, t in moved.bound} == set(plain.bound)
    np.testing.assert_allclose(moved.p_fin, plain.p_fin, atol=1e-9)
    scale = 2.0**power
    larger = hm.decompose(hm.Problem([np.array(k) * scale for k in keys], scores, loss="log"))
    assert larger.bound == plain.bound
    np.testing.assert_allclose(larger.p_fin * scale, plain.p_fin, atol=1e-9)
    twice = hm.decompose(hm.Problem([*keys, keys[0]], [*scores, scores[0]], loss="log"))
    weights = np.ones(len(keys)) / (len(keys) + 1)
    weights[0] *= 2
    heavy = hm.decompose(hm.Problem(keys, scores, loss="log").weighted(weights))
    assert {(i, t) for i, t in twice.bound if i < len(keys)} == set(heavy.bound) == set(plain.bound)
    np.testing.assert_allclose(twice.p_fin, heavy.p_fin, atol=1e-9)
    assert twice.inf_risk == pytest.approx(heavy.inf_risk, abs=1e-12)


def test_copies_counts_and_twins():
    """Three copies of a token are one with a count; a token with the label's key is bound, and a constant."""
    one, other = [[1.0], [0.0], [0.0], [0.0]], [[0.0], [1.0]]
    copied = hm.Problem([one, other], [[1, 0, 0, 0], [1, 0]], loss="log")
    counted = hm.Problem([[[1.0], [0.0]], [[0.0], [1.0]]], [[1, 0], [1, 0]], loss="log")
    a, b = hm.decompose(copied), hm.decompose(counted.weighted(counts=[1, 3, 1, 1]))
    assert a.bound == b.bound == ((0, 1), (1, 1))
    np.testing.assert_allclose([a.p_fin, b.p_fin], np.log(3.0) / 2, atol=1e-14)
    twin = hm.decompose(hm.Problem([[[1.0], [1.0], [0.0]]], [[1, 0, 0]], loss="log"))
    assert (twin.bound, twin.separable, twin.inf_risk) == (((0, 1),), ((0, 2),), pytest.approx(np.log(2.0)))


def test_separable_and_bounded():
    apart = hm.decompose(hm.Problem([[[1.0], [0.0]]], [[1, 0]], loss="log"))
    assert (apart.kind, apart.circulation) == ("separable", ())
    assert (apart.inf_risk, apart.p_mm.tolist()) == (0.0, [1.0])
    tied = hm.decompose(hm.Problem([[[1.0], [0.0]]] * 2, [[1, 0], [0, 1]], loss="log"))
    assert (tied.kind, tied.status, tied.p_mm, tied.direction) == ("bounded", "certified", None, None)
    with pytest.raises(ValueError, match="must have a separable row"):
        _ = tied.late
    assert "bounded" in tied._repr_html_()


def test_inner_products_are_enough():
    keys = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    inputs, scores = [[0, 1], [0, 1], [0, 2], [3, 1]], [[1, 0]] * 4
    found = hm.decompose(hm.Problem.from_gram(keys @ keys.T, inputs, scores, loss="log"))
    assert found.bound == ((0, 1), (1, 1), (2, 1))
    assert found.status == "certified"
    assert float(np.linalg.norm(found.p_fin)) == pytest.approx(np.log(2.0))
    assert float(np.linalg.norm(found.p_mm)) == pytest.approx(1.0)


def test_queries():
    """Keys that are outer products are never stored: the answer is that of the stored ones."""
    rng = np.random.default_rng(1)
    tokens, queries, scores = rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 2)), [[1, 0, 0]] * 4
    tokens[1], queries[1] = tokens[0][::-1], queries[0]
    made = hm.decompose(hm.Problem.from_queries(tokens, queries, scores, loss="log"))
    keys = [[np.outer(x, z).ravel() for x in own] for own, z in zip(tokens, queries, strict=True)]
    stored = hm.decompose(hm.Problem(keys, scores, loss="log"))
    assert made.bound == stored.bound == ((0, 2), (1, 2))
    assert (made.kind, made.status) == ("mixed", "certified")
    np.testing.assert_allclose(made.p_mm, stored.p_mm, atol=1e-12)
    assert hm.flow(made.remainder, until_norm=1e4).cosine_distance(made) < 1e-6
    assert made.max_margin("nuclear").is_certified


def test_scores_are_local():
    opposed = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
    problem = hm.Problem(opposed, [[1, 0], [2, 0], [1, 0]])
    found = hm.decompose(problem)
    assert (found.kind, found.is_local, found.status) == ("mixed", True, "certified")
    run = hm.flow(problem)
    assert run.event == "precision exhausted"
    np.testing.assert_allclose(run.p[0], found.p_fin[0], atol=1e-7)
    assert hm.decompose(problem, [0, 1, 0]).kind == "separable"


def test_refusals():
    several = hm.Problem([[[1.0], [0.0], [2.0]]], [[1, 1, 0]], loss="log")
    with pytest.raises(ValueError, match="one token per input where the best-scoring ones tie"):
        hm.decompose(several)
    assert hm.decompose(several, [0]).is_local
    with pytest.raises(ValueError, match="got list"):
        hm.decompose([[1.0]])
    keys = np.random.default_rng(0).normal(size=(1, 2100, 2))
    wide = hm.Problem(keys, [[1] + [0] * 2099], loss="log")
    with pytest.raises(ValueError, match="at most 2000 tokens besides"):
        hm.decompose(wide)


def test_margins_in_other_norms():
    """D-CONJ-4's directions: cycle has (1, 1, -1) and margin 2 in linf."""
    best = hm.decompose(posed("cycle")).max_margin("linf")
    assert (best.p * best.margin).tolist() == [1.0, 1.0, -1.0]
    assert hm.decompose(posed("two-scc")).max_margin("linf").margin == 1.0
