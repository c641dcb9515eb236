"""Max-margin problems in norms other than l2: the oracles of part D, duality, certificates, bad input."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.margin.norms import norm
from hardmax.margin.norms.polyhedral import Polyhedron
from hardmax.margin.solve import solve

NAMES = ("l1", "l1.5", "l2", "l3", "linf")


def posed(data: dict[str, Any]) -> hm.Problem:
    return hm.Problem([np.array(k, dtype=float) for k in data["keys"]], data["scores"])


@pytest.mark.parametrize("name", ["skew", "flat", "plane", "space-a", "space-b", "triple", "ragged"])
def test_every_selection_in_every_norm(paper_d: dict[str, Any], name: str) -> None:
    """D-DEF-3, 4, 5: margins (fractions for l1 and linf), p or face, tight rows, and the local word."""
    data = paper_d["vector"][name]
    problem = posed(data)
    for known in data["selections"]:
        chosen = known["selection"]
        if not known["feasible"]:
            assert {hm.max_margin(problem, chosen, norm=each).status for each in NAMES} == {"infeasible"}
            continue
        margins = []
        for each in NAMES:
            truth, best = known["norms"][each], hm.max_margin(problem, chosen, norm=each)
            where = (chosen, each)
            assert (best.status, best.norm) == ("certified", each), where
            assert best.unique == truth["unique"], where
            assert best.margin == pytest.approx(truth["margin"], rel=1e-12), where
            assert best.margin_interval[0] <= best.margin * (1 + 1e-15)
            assert hm.attracts(problem, best).value == truth["local"], where
            labels = best.constraints.labels
            if best.face is None:
                assert sorted(map(list, best.support)) == truth["tight"], where
            else:
                assert Fraction(truth["margin_exact"]) ** 2 * best.exact.norm_squared == 1, where
                found = [
                    [list(labels[j]) for j in np.flatnonzero(rows)]
                    for rows in (best.face.essential, best.face.sometimes)
                ]
                assert found == [truth["tight"], truth.get("sometimes_tight", [])], where
                assert best.face.dim == truth.get("face_dim", 0), where
            if truth["unique"]:
                assert best.p * best.margin == pytest.approx(truth["p"], abs=1e-8), where
                assert best.margin_gap(truth["p"]) == pytest.approx(0, abs=1e-10), where
            else:
                corners = np.array(best.face.vertices, dtype=float)
                assert len(corners) == len(truth["face_vertices"]), where
                for corner in truth["face_vertices"]:
                    assert np.abs(corners - corner).max(axis=1).min() < 1e-12, where
                    assert best.face.distance(corner) < 1e-12, where
                assert best.face.box == pytest.approx(np.stack([corners.min(0), corners.max(0)], axis=1))
                unit = best.p * best.margin  # nearest to the origin: no corner lies behind it
                assert np.all((corners - unit) @ unit > -1e-12), where
            margins.append(best.margin)
        assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(margins)), chosen


def test_words_of_theorem_4(paper_d: dict[str, Any]) -> None:
    """D-THM-4: which selections attract depends on the norm, also by enumeration."""
    plane, space = posed(paper_d["vector"]["plane"]), posed(paper_d["vector"]["space-b"])
    words = [hm.attracts(plane, [1, 1], norm=each).value for each in NAMES]
    assert words == ["strong", "strong", "strong", "no", "no"]
    words = [hm.attracts(space, [0, 0], norm=each).value for each in NAMES]
    assert words == ["weak", "no", "no", "no", "strong"]
    assert hm.attracts(space, [0, 0], norm="l1").verdict is None
    for problem, data in ((plane, paper_d["vector"]["plane"]), (space, paper_d["vector"]["space-b"])):
        for each in ("l1", "l3", "linf"):
            found = {f.selection: f.attracts.value for f in hm.attractors(problem, norm=each)}
            assert found == {
                tuple(known["selection"]): known["norms"][each]["local"]
                for known in data["selections"]
                if known["feasible"] and known["norms"][each]["local"] != "no"
            }


def test_enumeration_by_margin_in_the_norm(paper_d: dict[str, Any]) -> None:
    problem = posed(paper_d["vector"]["triple"])
    every = sorted((f.max_margin.margin for f in hm.selections(problem, norm="linf")), reverse=True)
    first = [f.max_margin.margin for f in hm.selections(problem, norm="linf", top=2)]
    assert first == every[:2]
    kept = hm.selections(problem, norm="linf", min_margin=every[1])
    assert len(list(kept)) == sum(margin >= every[1] for margin in every)


def test_l2_is_as_before_to_the_bit() -> None:
    problem = hm.data.sphere(n=3, T=4, d=5, rng=0)
    best = hm.max_margin(problem)
    for name in ("l2", "frobenius", 2, 2.0):
        again = hm.max_margin(problem, norm=name)
        assert again.p.tobytes() == best.p.tobytes()
        assert again.norm == "l2"
        assert again.multipliers.tobytes() == best.multipliers.tobytes()
        assert again.margin_interval == best.margin_interval
    assert best.unique is True
    assert best.face is None


halves = st.integers(-4, 4).map(lambda x: x / 2)
tables = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.lists(halves, min_size=d, max_size=d), min_size=1, max_size=6)
)


@settings(max_examples=25, deadline=None)
@given(tables, st.sampled_from(["l1", "l1.3", "l1.5", "l4", "linf"]))
def test_duality(rows: list[list[float]], name: str) -> None:
    """Both ends of the interval by their definition; infeasible in one norm is infeasible in all."""
    constraints, ball = hm.Constraints.dense(rows), norm(name)
    best = hm.max_margin(constraints, norm=name)
    assert best.is_feasible == solve(constraints).is_feasible
    assert hm.certify(best.to_dict()).valid
    if not best.is_feasible:
        return
    A, y = np.array(rows), best.multipliers / best.multipliers.sum()
    assert best.is_certified
    assert (A @ best.p).min() / ball.value(best.p) == pytest.approx(best.margin, rel=1e-9)
    assert ball.dual.value(A.T @ y) == pytest.approx(best.margin, rel=1e-9)
    assert ball.dual.value(A.T @ best.multipliers) == pytest.approx(best.p_norm, rel=1e-9)
    assert best.margin_gap(best.p) == pytest.approx(0, abs=1e-9)
    scaled = hm.max_margin(hm.Constraints.dense(2.0**40 * A), norm=name)
    assert scaled.margin == pytest.approx(2.0**40 * best.margin, rel=1e-12)


def test_strong_duality_on_random_rows() -> None:
    """500 rows per norm: every problem is certified or refuted, in all norms alike; margins grow with r."""
    rng = np.random.default_rng(0)
    statuses = []
    for _ in range(100):
        A = rng.standard_normal((5, 3))
        A[:, 0] += 0.5
        found = [hm.max_margin(hm.Constraints.dense(A), norm=each) for each in NAMES]
        statuses += [{best.status for best in found}]
        for smaller, larger in itertools.pairwise(found):
            assert smaller.margin_interval[0] <= larger.margin_interval[1]
        for best in found:
            low, high = best.margin_interval
            assert high - low <= 1e-9 * high
    assert {len(each) for each in statuses} == {1}
    assert statuses.count({"infeasible"}) > 20
    assert statuses.count({"certified"}) > 20


@settings(max_examples=15, deadline=None)
@given(tables)
def test_powers_near_two_are_near_l2(rows: list[list[float]]) -> None:
    constraints = hm.Constraints.dense(rows)
    plain, near = solve(constraints), hm.max_margin(constraints, norm=2 + 2.0**-40)
    assert plain.status == near.status
    if plain.is_certified:
        assert near.p == pytest.approx(plain.p, rel=1e-8, abs=1e-8 * plain.p_norm)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), st.sampled_from([*NAMES, 1.2, 7]))
def test_duals_and_steps(g: list[float], name: str | float) -> None:
    ball = norm(name)
    assert ball.dual.dual.power == pytest.approx(ball.power)
    step = ball.step(g)
    assert float(step @ np.array(g)) == pytest.approx(ball.dual.value(g), rel=1e-12)
    assert ball.value(step) == pytest.approx(1.0 if any(g) else 0.0, rel=1e-12)


def test_steps_and_values_of_matrices() -> None:
    M = np.array([[0.0, 2.0], [1.0, 0.0]])
    nuclear, spectral = norm("nuclear"), norm("spectral")
    assert (nuclear.value(M), spectral.value(M), nuclear.dual) == (3.0, 2.0, spectral)
    assert spectral.step(M) == pytest.approx(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert nuclear.step(M) == pytest.approx(np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert not nuclear.is_polyhedral
    assert not nuclear.strictly_convex


def matrix_rows(data: dict[str, Any], selection: list[int]) -> hm.Constraints:
    """Rows (x_selected - x_t) z' of an unknown matrix."""
    sizes = [len(tokens) for tokens in data["tokens"]]
    first = np.cumsum([0, *sizes])
    pairs = [(i, t) for i, size in enumerate(sizes) for t in range(size) if t != selection[i]]
    return hm.Constraints.pairs(
        np.vstack(data["tokens"]),
        [int(first[i]) + selection[i] for i, _ in pairs],
        [int(first[i]) + t for i, t in pairs],
        right=data["queries"],
        right_of=[i for i, _ in pairs],
    )


@pytest.mark.parametrize("name", ["w22", "w33", "w44"])
def test_matrices(paper_d: dict[str, Any], name: str) -> None:
    """Frobenius, nuclear and spectral margins; both ends of the interval by their definition."""
    data = paper_d["matrix"][name]
    for known in data["selections"]:
        rows = matrix_rows(data, known["selection"])
        for each, truth in known["norms"].items():
            best, ball = hm.max_margin(rows, norm=each), norm(each)
            assert best.is_certified
            assert best.margin == pytest.approx(truth["margin"], rel=1e-9)
            lower, upper = best.margin_interval
            assert lower <= truth["margin"] * (1 + 1e-9)
            assert upper >= truth["margin"] * (1 - 1e-9)
            u = np.tensordot(best.multipliers, rows.rows(), 1).reshape(rows.shape)
            assert ball.dual.value(u) / best.multipliers.sum() == pytest.approx(best.margin, rel=1e-8)
            assert best.margin_gap(best.p) == pytest.approx(0, abs=1e-12)
            assert best.margin_gap(truth["W"]) == pytest.approx(0, abs=1e-8)
    nuclear = hm.max_margin(rows, norm="nuclear")
    assert nuclear.unique is None
    assert hm.certify(nuclear.to_dict()).valid
    assert hm.max_margin(rows, norm="l1").is_certified  # of the entries


def test_matrices_whose_rows_are_no_outer_products() -> None:
    """Rows that compare entries, and random ones: both ends of the interval by their definition."""
    rng = np.random.default_rng(4)
    some = [hm.Constraints.between_entries((2, 2), [0, 3], [1, 2])]
    for d, e, m in ((2, 3, 4), (5, 4, 9), (9, 7, 20)):
        plus, minus = rng.permutation(d * e)[: 2 * (m // 2)].reshape(2, -1)
        some.append(hm.Constraints.between_entries((d, e), plus, minus))
    for rows in some:
        for name in ("nuclear", "spectral"):
            best, ball = hm.max_margin(rows, norm=name), norm(name)
            assert best.is_certified
            low, high = best.margin_interval
            W, u = best.p.reshape(rows.shape), (best.multipliers @ rows.rows()).reshape(rows.shape)
            assert (rows.rows() @ best.p).min() / ball.value(W) == pytest.approx(low, rel=1e-8)
            assert ball.dual.value(u) / best.multipliers.sum() == pytest.approx(high, rel=1e-8)
            assert hm.certify(best.to_dict()).valid


@pytest.mark.parametrize("name", ["nuclear", "spectral"])
def test_matrices_whose_rows_nearly_cancel(name: str) -> None:
    """Two rows that are opposite up to 1e-4: the margin is as small, and certified all the same."""
    rng = np.random.default_rng(2)
    for _ in range(5):
        a, b, W = rng.normal(size=(8, 3)), rng.normal(size=(8, 3)), rng.normal(size=(3, 3))
        a *= np.sign(np.einsum("ij,jk,ik->i", a, W, b))[:, None]
        a[1], b[1] = -a[0] + 1e-4 * rng.normal(size=3), b[0]
        every = np.arange(8)
        rows = hm.Constraints.pairs(a, every, every * 0 - 1, right=b, right_of=every)
        assert hm.max_margin(rows, norm=name).status == solve(rows).status == "certified"


def test_matrices_with_equalities_and_of_no_solution() -> None:
    rows = hm.Constraints.pairs(
        np.eye(2), [0, 1], [-1, -1], equal=np.array([False, True]), right=[[1.0, 1.0], [1.0, -1.0]],
        right_of=[0, 1],
    )  # fmt: skip
    # W_00 + W_01 >= 1 and W_10 = W_11: the first row of W is all that is asked
    for each, size in (("nuclear", math.sqrt(0.5)), ("spectral", math.sqrt(0.5))):
        best = hm.max_margin(rows, norm=each)
        assert best.is_certified
        assert best.p_norm == pytest.approx(size, rel=1e-8)
    against = hm.Constraints.pairs(np.eye(2), [0, 0], [-1, -1], right=[[1.0], [-1.0]], right_of=[0, 1])
    assert hm.max_margin(against, norm="spectral").status == "infeasible"


def test_equalities() -> None:
    """Rows E p = 0: the upper end uses the equalities' multipliers (correction to D-DEF-3)."""
    rows = hm.Constraints.dense([[1.0, 0.0, 0.0], [1.0, 1.0, 0.5]], E=[[0.0, 1.0, -1.0]])
    # p = (1, s, s): |p|_1 = 1 + 2|s| and |p|_inf = max(1, |s|), with 1 + 1.5 s >= 1
    assert hm.max_margin(rows, norm="l1").fractions.tolist() == [1, 0, 0]
    best = hm.max_margin(rows, norm="linf")
    assert best.margin == 1.0
    assert best.face.dim == 1
    assert best.p.tolist() == [1.0, 0.0, 0.0]
    skewed = hm.Constraints.dense([[1.0, 1.0, 0.0]], E=[[1.0, -2.0, 0.0]])  # p = (2, 1)/3
    for name in ("l1", "l1.5", "l3", "linf"):
        best = hm.max_margin(skewed, norm=name)
        assert best.is_certified
        assert best.p == pytest.approx([2 / 3, 1 / 3, 0])
        assert hm.certify(best.to_dict()).valid


def test_large_problems_are_certified_in_floats() -> None:
    problem = hm.data.sphere(n=4, T=6, d=60, rng=1)
    for name in ("l1", "linf"):
        best = hm.max_margin(problem, norm=name)
        assert best.is_certified
        assert best.arithmetic == "float"
        assert best.face is None
        assert best.unique is True  # proved in floats, by the system of its corner
        assert best.enclosure.certain.sum() == (best.multipliers > 0).sum()
        assert hm.certify(best.to_dict()).valid


SCALES = (1e-160, 1e-100, 1e-20, 1e-8, 1e-6, 1e-5, 1e5, 1e6, 1e20, 1e160)


@pytest.mark.parametrize("name", ["l1", "l2", "linf", "l1.1", "l1.5", "l3", "l20", "nuclear", "spectral"])
def test_margins_do_not_depend_on_the_unit_of_the_keys(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(2):
        keys = np.vstack([np.zeros((1, 3)), rng.normal(size=(4, 3)) + np.array([2.0, 0.0, 0.0])])

        def posed_in(unit: float, keys: Any = keys) -> hm.Constraints:
            queries = {"right": [[1.0, 0.5], [0.3, 1.0]], "right_of": [0, 1, 0, 1]}
            extra: Any = queries if name in ("nuclear", "spectral") else {}
            return hm.Constraints.pairs(unit * keys, [1, 2, 3, 4], [0] * 4, **extra)

        plain = hm.max_margin(posed_in(1.0), norm=name)
        for unit in SCALES:
            best = hm.max_margin(posed_in(unit), norm=name)
            assert best.is_certified, unit
            assert best.margin == pytest.approx(plain.margin * unit, rel=1e-12)
            if name != "spectral":  # of whose several optima the rounding decides
                assert best.p * unit == pytest.approx(plain.p, rel=1e-6, abs=1e-8)
            assert best.support == plain.support
            assert hm.certify(best.to_dict()).valid, unit
        for power in (-300, -20, -3, 19, 300):
            best = hm.max_margin(posed_in(2.0**power), norm=name)
            assert np.ldexp(best.p, power).tolist() == plain.p.tolist()


def test_rows_of_a_millionth_are_certified() -> None:
    """The engines' tolerances are absolute; rows of 1e-6 used to reach them as they are."""
    assert hm.max_margin(
        hm.Constraints.dense(1e-6 * np.array([[-1.0, 1.0], [1.0, -2.0]])), norm="l1.5"
    ).is_certified
    rng = np.random.default_rng(1)
    for _ in range(40):
        rows = rng.normal(size=(4, 3)) + np.array([1.5, 0.0, 0.0])
        small, plain = (hm.max_margin(hm.Constraints.dense(unit * rows), norm="l1.5") for unit in (1e-6, 1.0))
        assert small.status == plain.status != "undecided"
        if plain.is_certified:
            assert small.margin == pytest.approx(1e-6 * plain.margin, rel=1e-12)


@pytest.mark.parametrize("name", ["l1", "linf"])
def test_batches_do_not_depend_on_the_unit_of_the_keys(name: str) -> None:
    rows = np.random.default_rng(3).normal(size=(30, 5, 3)) + np.array([2.0, 0.0, 0.0])
    plain = hm.max_margin([hm.Constraints.dense(each) for each in rows], norm=name)
    for power in (-12, -5, 15):
        small = hm.max_margin([hm.Constraints.dense(np.ldexp(each, power)) for each in rows], norm=name)
        assert [best.arithmetic for best in small] == [best.arithmetic for best in plain]
        for best, same in zip(small, plain, strict=True):
            if best.p is not None:
                assert np.ldexp(best.p, power).tolist() == same.p.tolist()


def forged(proof: dict[str, Any], **changes: Any) -> dict[str, Any]:
    content = {k: v for k, v in {**proof, **changes}.items() if k != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


def test_certificates_carry_their_norm() -> None:
    rows = hm.Constraints.dense([[2.0, 1.0], [0.5, 3.0]])
    others = {"l1": "linf", "l1.5": "l1.4", "l2": "l1.9", "l3": "l3.1", "linf": "l1"}
    for name, other in others.items():
        best = hm.max_margin(rows, norm=name)
        proof = best.to_dict()
        assert proof["norm_name"] == name
        assert hm.certify(proof).valid
        assert not hm.certify(forged(proof, norm_name=other)).valid
        worse = [
            str(Fraction(11, 10) * Fraction(x) if "/" in x or x.isdigit() else (1.1 * float.fromhex(x)).hex())
            for x in proof["p"]
        ]
        if best.arithmetic == "exact":
            assert not hm.certify(forged(proof, p=worse)).valid
            nothing = forged(proof, p=worse, multipliers=["0"] * 2)
            assert "the multipliers do not prove that p is shortest" in hm.certify(nothing).violations
        lower, upper = best.margin_interval
        higher = forged(proof, margin_interval=[(lower * (1 + 1e-6)).hex(), (upper * (1 + 2e-6)).hex()])
        assert not hm.certify(higher).valid
    for bad in ("l0.5", "x", "l1e400", 3, None, "nuclear"):
        assert not hm.certify(forged(proof, norm_name=bad)).valid
    plain = hm.max_margin(rows, norm="l2").to_dict()
    del plain["norm_name"]  # certificates of version 0.1 have none, and mean l2
    assert hm.certify(forged(plain)).valid


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("l7x", "norm must be \"l1\", .* got 'l7x'; choose one of these"),
        ("l0.5", "norm must be a power above 1, got 'l0.5'"),
        (1, 'norm must be a power above 1, got 1; "l1" is'),
        (True, "got True"),
        (math.inf, 'write "linf"'),
        (math.nan, "got nan"),
        ("nuclear", "norm must be one of vectors for a p of shape .2,., got 'nuclear'; choose"),
        ("spectral", "got 'spectral'; choose"),
    ],
)
def test_bad_norms(name: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        hm.max_margin(hm.data.example("B-FIG-8"), norm=name)


def test_norms_that_do_not_fit() -> None:
    gram = hm.Problem.from_gram(np.eye(3), [[0, 1], [0, 2]], [[1, 0], [1, 0]])
    with pytest.raises(ValueError, match='norm must be "l2" for tokens known by a Gram matrix'):
        hm.max_margin(gram, norm="l1")
    with pytest.raises(ValueError, match=r"exact must be False with norm 'l1\.5'"):
        hm.max_margin(hm.data.example("B-FIG-8"), norm="l1.5", exact=True)
    problem = hm.data.example("B-FIG-8")
    with pytest.raises(ValueError, match="norm must be that of the solution, 'l1', got 'l2'"):
        hm.attracts(problem, hm.max_margin(problem, norm="l1"), norm="l2")
    face = hm.max_margin(problem, norm="l1").face
    with pytest.raises(ValueError, match="u must be 2 finite numbers, not all zero"):
        face.distance([0.0, 0.0])
    with pytest.raises(ValueError, match="margin_gap needs a direction u of 2 numbers"):
        hm.max_margin(problem, norm="l1").margin_gap([1.0])


def test_nothing_to_select_and_one_row() -> None:
    for name in ("l1", "l1.5", "linf"):
        empty = hm.max_margin(hm.Problem([[[1.0, 2.0]]], [[1.0]]), norm=name)
        assert empty.p_norm == 0
        assert empty.is_certified
        assert hm.certify(empty.to_dict()).valid
    for name in ("l1", "l1.5", "l3", "linf"):  # one row: the margin is the dual norm, p the steepest step
        best, ball = hm.max_margin(hm.Constraints.dense([[3.0, -4.0]]), norm=name), norm(name)
        assert best.margin == pytest.approx(ball.dual.value([3.0, -4.0]), rel=1e-14)
        assert best.p * best.margin == pytest.approx(ball.step([3.0, -4.0]), abs=1e-12)


def test_polyhedron_leaves_degenerate_vertices() -> None:
    """Many rows through one vertex: the method must not go round in circles."""
    rows = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]]
    cone = [*rows, *[[-x for x in row] for row in np.eye(3, dtype=int).tolist()]]
    body = Polyhedron(cone, [0] * 7 + [1] * 3, [False] * 10)
    assert body.climb([-1, -1, -1], [0, 0, 0]).x == [-1, -1, -1]
    assert body.climb([1, 2, 3], [-1, -1, -1]).x == [0, 0, 0]
    assert norm("l1").dual.name == "linf"


@pytest.mark.parametrize("power", [1 + 1e-9, 1.0001, 300.0, 1e4, 1e9, 1e300])
def test_powers_at_the_ends(power: float) -> None:
    """Far powers are between l1 and linf, certified or with an interval that says how far they are known."""
    rng = np.random.default_rng(5)
    for _ in range(4):
        rows = hm.Constraints.dense(rng.normal(size=(6, 4)) + np.array([2.0, 0.0, 0.0, 0.0]))
        best = hm.max_margin(rows, norm=power)
        low, high = (hm.max_margin(rows, norm=name).margin for name in ("l1", "linf"))
        assert low * (1 - 1e-12) <= best.margin_interval[1]
        assert best.margin_interval[0] <= high * (1 + 1e-12)
        assert 1.0 - best.margin_interval[0] / best.margin_interval[1] < 1e-2
        near = low if power < 2 else high
        assert best.margin == pytest.approx(near, rel=1e-2)
        assert hm.certify(best.to_dict()).valid
