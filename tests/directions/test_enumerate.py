"""Enumeration equals brute force, with every verdict proved, and keeps its budget."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.data import sphere
from hardmax.directions.enumerate import attractors, selections
from hardmax.directions.neighbors import attracts
from hardmax.margin.att_svm import max_margin
from hardmax.margin.certificates import certify
from hardmax.problem import Problem
from hardmax.problem.selection import is_best


def brute_force(problem: Problem) -> dict[tuple[int, ...], tuple[float, bool, bool]]:
    """Every selection by rational arithmetic: norm, local and global optimality."""
    truth = {}
    tokens = [list(zip(map(tuple, k.tolist()), g.tolist(), strict=True)) for k, g in expect(problem)]
    names = [[t for t, token in enumerate(own) if token not in own[:t]] for own in tokens]  # without copies
    for alpha in itertools.product(*names):
        best = max_margin(problem, alpha, exact=True)
        assert best.arithmetic == "exact"
        if best.is_certified:
            flags = attracts(problem, best).verdict, is_best(problem, alpha)
            truth[alpha] = (best.p_norm, *flags)
    return truth


def expect(problem: Problem) -> Any:
    keys = problem.split(problem.keys[problem.tokens])
    return zip(keys, problem.split(problem.scores), strict=True)


def check(problem: Problem) -> int:
    truth = brute_force(problem)
    search = selections(problem)
    found = list(search)
    assert len(found) == len({f.selection for f in found}) == search.feasible
    assert search.status == "complete"
    assert search.reason is None
    assert {f.selection for f in found} == set(truth)
    for f in found:
        norm, local, best = truth[f.selection]
        assert f.max_margin.is_certified
        assert f.max_margin.p_norm == pytest.approx(norm, rel=1e-9)
        assert (f.attracts.verdict, f.is_best) == (local, best)
    local = {f.selection for f in attractors(problem)}
    assert local == {alpha for alpha, (_, is_local, _) in truth.items() if is_local}
    return len(found)


def random_problem(rng: np.random.Generator, kind: str) -> Problem:
    n, d = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    sizes = rng.integers(1, 5, size=n) if kind == "ragged" else np.full(n, rng.integers(2, 5 if n < 4 else 4))
    if kind == "grid":  # small integers: twins, tied scores, parallel edges, points inside hulls
        keys = [rng.integers(-1, 2, size=(T, d)).astype(float) for T in sizes]
        return Problem(keys, [rng.integers(0, 2, size=T).astype(float) for T in sizes])
    keys = [rng.normal(size=(T, d)) for T in sizes]
    if kind == "twins":
        for k in keys:
            if len(k) > 2:
                k[2] = k[0]
    if kind == "shared":  # inputs share tokens, so that rows of different inputs are opposite
        table = rng.normal(size=(5, d))
        keys = [table[rng.choice(5, size=T, replace=False)] for T in sizes]
    scale = 10.0 ** rng.integers(-8, 9) if kind == "scaled" else 1.0
    return Problem([k * scale for k in keys], [rng.normal(size=T) for T in sizes])


@pytest.mark.parametrize("kind", ["plain", "ragged", "twins", "shared", "grid", "scaled"])
def test_equals_brute_force(kind: str) -> None:
    rng = np.random.default_rng([1, len(kind), ord(kind[0])])
    assert sum(check(random_problem(rng, kind)) for _ in range(12)) > 20


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_equals_brute_force_on_the_largest(d: int) -> None:
    rng = np.random.default_rng([2, d])
    for _ in range(2):
        assert check(Problem(rng.normal(size=(4, 4, d)), rng.normal(size=(4, 4)))) >= 2


def test_nearly_degenerate_keys_are_decided_exactly() -> None:
    """A token within 1e-17 of an edge, on either side: the margin is 1e-17 or there is none."""
    for third, feasible in ((0.0, False), (2.0**-60, True), (-(2.0**-60), False)):
        for pad in ([], [0.0]):
            keys = [[[0.0, 0.0, *pad], [2.0, 0.0, *pad], [1.0, third, *pad]]]
            keys += [[[0.0, 0.0, *pad], [0.0, 1.0, *pad]]]
            problem = Problem(keys, [[1.0, 0.0, 0.0], [1.0, 0.0]])
            found = {f.selection: f.max_margin for f in selections(problem)}
            assert ((2, 1) in found) is feasible
            assert all(best.is_certified for best in found.values())
            check(problem)


def test_extreme_scales_are_left_to_the_solver() -> None:
    keys = np.random.default_rng(3).normal(size=(2, 3, 3))
    keys[0] *= 1e-200
    keys[1] *= 1e150
    check(Problem(keys, [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]]))


@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e160, 1e300])
def test_multipliers_beyond_the_floats_are_left_to_the_solver(scale: float) -> None:
    """Multipliers grow like 1/key^2: at 1e-160 they were infinite, in a solution called certified."""
    keys = scale * np.array([[[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]], [[0.0, 1.0, 1.0], [-1.0, 0.0, 0.0]]])
    found = list(selections(Problem(keys, [[1.0, 0.0], [1.0, 0.0]])))
    assert len(found) == 4
    assert sum(f.attracts.verdict is True for f in found) == 1
    assert all(certify(f.max_margin.to_dict())["valid"] for f in found)


def test_a_gram_matrix_shows_its_twins() -> None:
    X = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 2.0]])
    inputs, scores = [[0, 1, 2], [0, 3, 1], [2, 1]], [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 1.0]]
    known = Problem.from_gram(X @ X.T, inputs, scores)
    dense = Problem([X[tokens] for tokens in inputs], scores)
    found = {f.selection: f.max_margin.p_norm for f in selections(known)}
    assert found == pytest.approx({f.selection: f.max_margin.p_norm for f in selections(dense)}, rel=1e-9)
    assert found
    assert max_margin(known, [0, 0, 0]).farkas.tolist() == max_margin(dense, [0, 0, 0]).farkas.tolist()


def test_a_gram_matrix_shows_a_midpoint() -> None:
    """The third token is the mean of the others: no direction selects it, whatever the rounded keys say."""
    X = np.array([[3.0, 1.0, 5.0], [1.0, 7.0, 1.0], [2.0, 4.0, 3.0]])
    problem = Problem.from_gram(X @ X.T, [[0, 1, 2]], [[0.0, 0.0, 1.0]])
    assert max_margin(problem, [2]).status == "infeasible"
    assert {f.selection for f in selections(problem)} == {(0,), (1,)}


@pytest.mark.parametrize(
    "d, feasible, qps",
    [
        (2, (24, 24), (24, 24)),
        (3, (70, 120), (350, 600)),
        (5, (400, 560), (900, 1300)),
        (10, (1230, 1296), (1450, 1600)),
        (24, (1296, 1296), (1500, 1600)),
    ],
)
@pytest.mark.compiled
def test_counts_of_the_specification(d: int, feasible: Any, qps: Any) -> None:
    """B-DEF-13's counts come without seeds, so they are held to ranges."""
    search = selections(sphere(n=4, T=6, d=d, rng=d))
    assert feasible[0] <= len(list(search)) <= feasible[1]
    assert qps[0] <= search.problems_solved <= qps[1]


@pytest.mark.parametrize(
    "case",
    [
        "fig1a",
        "fig1b",
        "fig8",
        "infeasible_opposed",
        "infeasible_duplicate_key",
        "fig1c",
        "random_n3T3d2",
        "random_n3T3d3",
    ],
)
def test_att_svm_oracles(oracles: dict[str, Any], case: str) -> None:
    data = oracles["b"]["att_svm"][case]
    search = selections(Problem(data["K"], data["gamma"]))
    found = {f.selection: f for f in search}
    assert search.feasible == data["n_feasible"]
    for known in data["feasible_selections"]:
        f = found[tuple(known["alpha"])]
        assert f.max_margin.p == pytest.approx(known["p"], abs=1e-8)
        assert [list(pair) for pair in f.max_margin.support] == known["neighbours"]
        assert (f.attracts.verdict, f.is_best) == (known["is_lmm"], known["is_gmm"])
    assert sorted(list(s) for s, f in found.items() if f.attracts.verdict) == data["lmm"]
    if case == "fig1c":
        assert (search.feasible, search.problems_solved) == (11, 11)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_top_and_least_margin(d: int) -> None:
    problem = sphere(n=3, T=5, d=d, rng=d)
    every = sorted((f.max_margin.margin for f in selections(problem)), reverse=True)
    search = selections(problem, top=7)
    assert [f.max_margin.margin for f in search] == pytest.approx(every[:7], rel=1e-12)
    assert search.status == "complete"
    bound = every[len(every) // 3]
    search = selections(problem, min_margin=bound)
    assert sorted((f.max_margin.margin for f in search), reverse=True) == pytest.approx(
        every[: len(every) // 3 + 1], rel=1e-12
    )
    local = sorted((f.max_margin.margin for f in attractors(problem)), reverse=True)
    assert [f.max_margin.margin for f in attractors(problem, top=2)] == pytest.approx(local[:2], rel=1e-12)
    if d == 7:
        assert search.problems_solved < feasible_count(problem)


def feasible_count(problem: Problem) -> int:
    search = selections(problem)
    list(search)
    return search.problems_solved


@pytest.mark.parametrize("d", [2, 3])
def test_limit_is_exact(d: int) -> None:
    problem = sphere(n=3, T=4, d=d, rng=0)
    total = len(list(selections(problem)))
    for limit, status, reason in ((total, "complete", None), (total - 1, "truncated", "limit")):
        search = selections(problem, limit=limit)
        assert len(list(search)) == limit == search.feasible
        assert (search.status, search.reason) == (status, reason)


@pytest.mark.parametrize("d", [2, 3, 30])
@pytest.mark.parametrize("top", [None, 3])
def test_time_is_kept(d: int, top: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr("hardmax.directions.enumerate.time.monotonic", lambda: float(next(ticks)))
    search = selections(sphere(n=12, T=6, d=d, rng=0), seconds=0.5, top=top)
    assert list(search) == []
    assert (search.status, search.reason) == ("truncated", "seconds")


def test_progress_rises_to_one() -> None:
    for d, top in ((2, None), (3, None), (3, 4)):
        seen: list[tuple[int, int]] = []
        list(selections(sphere(n=4, T=4, d=d, rng=0), progress=lambda *x, seen=seen: seen.append(x), top=top))
        assert seen == sorted(seen)
        assert seen[0] == (0, 1000)
        assert all(0 <= done <= total == 1000 for done, total in seen)


def test_a_failing_callback_is_not_swallowed() -> None:
    """list() ignores a TypeError of len(), which searches: the error comes back on the next access."""
    found = selections(sphere(n=4, T=4, d=3, rng=0), progress=lambda share: None)  # takes one argument
    with pytest.raises(TypeError, match="positional"):
        list(found)


def test_a_list_that_fills_as_it_is_iterated() -> None:
    problem = sphere(n=4, T=4, d=3, rng=0)
    found = selections(problem)
    first = next(iter(found))
    assert found[0] is first
    assert (found.status, bool(found)) == ("running", True)
    assert [each.selection for each in found[:3]] == [
        each.selection for each in list(selections(problem))[:3]
    ]
    assert found.status == "complete"
    assert len(found) == found.feasible == 53
    assert found[-1] is list(found)[-1]
    with pytest.raises(IndexError):
        found[len(found)]
    assert repr(found) == f"SelectionList({len(found)} selections, complete)"
    assert "\n" not in repr(found)
    assert str(found).count("\n") == min(len(found), 50) + 1
    assert not attractors(Problem([[[0.0], [0.0]]], [[1.0, 0.0]]))


def test_showing_a_list_searches_two_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list without a limit of time shows what two seconds find and stays as it is; a limit is kept."""
    clock = itertools.count(0.0, 0.75)
    monkeypatch.setattr("hardmax.directions.enumerate.time.monotonic", lambda: next(clock))
    problem = sphere(n=4, T=4, d=3, rng=0)
    found = selections(problem)
    shown = repr(found)
    assert 2.0 <= next(clock) < 5.0
    assert "truncated: len() completes the search" in shown
    assert "truncated: len() completes the search" in str(found).splitlines()[-1]
    assert "len() completes the search" in found._repr_html_()
    assert found.status == "running"
    assert len(found) == 53
    assert repr(found) == "SelectionList(53 selections, complete)"
    assert repr(selections(problem, seconds=1e6)) == "SelectionList(53 selections, complete)"
    monkeypatch.undo()
    small = selections(problem)
    assert (repr(small), small.status) == ("SelectionList(53 selections, complete)", "complete")


def test_selections_among_the_best() -> None:
    tied = Problem([[[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]], [[1.0, 1.0, 1.0]])
    found = selections(tied, among="best")
    assert [each.selection for each in found] == [(0,), (1,), (2,)]
    assert [each.max_margin.status for each in found] == ["certified", "certified", "infeasible"]
    assert found[2].max_margin.farkas is not None
    assert [each.attracts.value for each in found] == ["no", "no", "no"]  # equal scores attract nothing
    assert (found.status, found.feasible, [each.is_best for each in found]) == ("complete", 2, [True] * 3)
    assert max_margin(tied, "best").margin == 1.0


def test_nothing_to_select() -> None:
    problem = Problem([[[1.0, 2.0, 0.0]], [[0.0, 1.0, 1.0]]], [[1.0], [0.0]])
    (found,) = attractors(problem)
    assert found.selection == (0, 0)
    assert found.direction is None
    assert found.max_margin.p_norm == 0
    assert found.is_best


def test_no_feasible_token_at_all() -> None:
    twins = [[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]
    for keys in (twins, [[row[:2] for row in k] for k in twins]):
        search = selections(Problem(keys, [[1.0, 0.0], [1.0, 0.0]]))
        assert list(search) == []
        assert search.status == "complete"


def test_undecided_selections_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the size of exact arithmetic a leaf may stay open; then the search is not complete."""
    monkeypatch.setattr("hardmax.margin.solve.EXACT_ROWS", 0)
    keys = [[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 2.0**-60, 0.0]]]
    search = selections(Problem(keys, [[1.0, 0.0, 0.0]]))
    found = {f.selection for f in search}
    assert search.undecided == ((2,),)
    assert (2,) not in found
    assert (search.status, search.reason) == ("truncated", "undecided")


def test_certificates_of_leaves_survive_the_checker(tmp_path: Any) -> None:
    for f in itertools.islice(selections(sphere(n=3, T=3, d=4, rng=0)), 10):
        f.max_margin.save(tmp_path / "leaf.json")
        assert certify(tmp_path / "leaf.json")["valid"]


@pytest.mark.parametrize(
    "bad", [{"limit": 0}, {"seconds": -1.0}, {"top": 0}, {"min_margin": -1.0}, {"min_margin": float("nan")}]
)
def test_bad_budgets_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        selections(sphere(n=2, T=2, d=2, rng=0), **bad)


def test_a_rounded_gram_matrix_agrees_with_its_tokens() -> None:
    rng = np.random.default_rng(7)
    for d in (2, 3):
        X = rng.normal(size=(6, d))
        inputs = [[0, 1, 2], [3, 4], [5, 0, 4]]
        scores = [rng.normal(size=len(tokens)) for tokens in inputs]
        known, dense = (
            Problem.from_gram(X @ X.T, inputs, scores),
            Problem([X[tokens] for tokens in inputs], scores),
        )
        for alpha in itertools.product(*(range(len(tokens)) for tokens in inputs)):
            here, there = max_margin(known, alpha), max_margin(dense, alpha)
            assert here.status == there.status
            assert here.p_norm == pytest.approx(there.p_norm, rel=1e-6)
            assert here.p is None or here.p.shape == (known.d,)
        assert {f.selection for f in selections(known)} == {f.selection for f in selections(dense)}


def test_rows_become_a_frame_and_a_latex_table() -> None:
    pandas = pytest.importorskip("pandas")
    attracting = hm.attractors(hm.data.example("three-inputs"))
    frame = attracting.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["selection"].tolist() == [row.selection for row in attracting]
    assert frame["margin"].max() == attracting[-1].margin
    assert r"2 2 3 & 0.717805 & yes & True & -0.110432 -0.993884 \\" in attracting.to_latex()


def test_limits_hold_for_combinations_of_best_tokens():
    """Ties make 8 of them, each feasible; a list that ends early says why, and can be cut like a list."""
    tied = hm.Problem(hm.data.sphere(n=3, T=3, d=3, rng=0).keys.reshape(3, 3, 3), [[1.0, 1.0, 0.0]] * 3)
    for options, count, reason in (({"limit": 2}, 2, "limit"), ({"seconds": 1e-9}, 0, "seconds")):
        found = hm.selections(tied, among="best", **options)
        assert (len(found), found.status, found.reason) == (count, "truncated", reason)
    whole = hm.selections(tied, among="best")
    assert [each.selection for each in whole[6:]] == [whole[6].selection, whole[-1].selection]
    late = hm.selections(tied, norm="l1", seconds=1e-9)
    assert (len(late), late.status) == (0, "truncated")


def test_basins_of_other_dimensions_are_refused():
    with pytest.raises(ValueError, match="problem must have keys in 2 dimensions, got \\(3,\\)"):
        hm.plot_basins(hm.data.sphere(n=3, T=3, d=3, rng=0))
