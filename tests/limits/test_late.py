"""The late residual: w, what is frozen, and the step at which descent swings (B-NEW-2, B-NEW-3)."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import hardmax as hm
from hardmax.limits import LateResidual, late_residual
from hardmax.limits.late import path_offset
from hardmax.margin.att_svm import max_margin


def late_of(problem: hm.Problem, selection: object = None) -> LateResidual:
    return late_residual(problem, max_margin(problem, selection))  # type: ignore[arg-type]


INSTANCES = ["B-FIG-8", 0, 1, 2, 3, 4, 5]


@cache
def instance(name: str | int) -> LateResidual:
    if isinstance(name, str):
        return late_of(hm.data.example(name), [0, 0])
    problem = hm.data.sphere(n=4, T=6, d=10, rng=name)
    return late_of(problem, hm.flow(problem, until_norm=1e3).selection)


def test_figure_8() -> None:
    late = late_of(hm.data.example("B-FIG-8"), [0, 0])
    np.testing.assert_allclose(late.w, np.array([-3, 1]) * math.log(7 / 3) / 10, rtol=1e-12)
    # Across p_mm the rows are 0.3 and -0.7 of (3, -1), and their weights are 7/10 and 3/10.
    assert late.curvatures == pytest.approx([2.1])
    assert late.eta_c == pytest.approx(2 / (math.sqrt(10) * 2.1))
    length = math.sqrt(10) * math.log(7 / 3) / 10
    assert late.predicted_misalignment(1e3) == pytest.approx(length**2 / 2e6, rel=1e-6)
    assert math.isnan(late.predicted_misalignment(0.5 * length))


@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_of_F_is_the_offset_of_the_path(seed: int) -> None:
    late = instance(seed)
    assert late.status == "independent"
    np.testing.assert_allclose(late.w, path_offset(late.problem, late.max_margin), atol=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_flow_is_a_straight_line_beside_p_mm(seed: int) -> None:
    problem = hm.data.sphere(n=4, T=6, d=10, rng=seed)
    path = hm.flow(problem, until_norm=1e4)
    late = late_of(problem, path.selection)
    seen = late.compare(path)
    assert seen.distances[-1] < 1e-9
    assert seen.drift < 1e-7
    assert seen.ratio == pytest.approx(1, abs=1e-8)
    middle = int(np.argmax(path.p_norms > 3e3))
    np.testing.assert_allclose(late.flow_point(path.times[-1], path.points[middle]), path.p, atol=2e-5)
    predicted = late.predicted_misalignment(path.p_norm, path.points[middle])
    assert predicted == pytest.approx(seen.measured, rel=1e-5)


def test_the_start_stays_in_what_is_frozen() -> None:
    problem = hm.data.example("B-FIG-1a")  # one support row: everything across it is frozen
    late = late_of(problem)
    start = late.max_margin.p * 2000 + [10.0, 1.0]
    path = hm.flow(problem, start=start, until_norm=1e4)
    assert late.eta_c == math.inf
    np.testing.assert_allclose(late.frozen(path.p), late.frozen(start), atol=1e-8)
    measured = path.cosine_distance(late.max_margin)
    assert late.predicted_misalignment(path.p_norm, start) == pytest.approx(measured, rel=1e-8)


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("factor", [0.5, 0.97, 1.03])
@pytest.mark.no_cover
def test_descent_swings_just_above_the_threshold(name: str | int, factor: float) -> None:
    late = instance(name)
    start = 50 * late.max_margin.p_norm * late.max_margin.direction
    rate = factor * late.eta_c
    path = hm.train(
        late.problem,
        hm.optim.Normalized(rate),
        steps=20000,
        start=start,
        record=[10000, *range(19990, 20001)],
    )
    seen = late.compare(path)
    if factor < 1:
        assert seen.swing == 0
        assert seen.distances[-1] < 1e-8
        # Rows that are nearly tight still move what is to be frozen, a little.
        assert seen.ratio == pytest.approx(1, abs=1e-3)
        assert late.predicted_misalignment(path.p_norm, path.points[1], rate=rate) == pytest.approx(
            seen.measured, rel=1e-3
        )
    else:
        assert seen.swing > 0.05
        assert seen.distances[-1] > 0.02
        beside = path.points - path.points @ late.max_margin.direction[:, None] * late.max_margin.direction
        np.testing.assert_allclose(beside[-1], beside[-3], atol=1e-6)
        assert math.isnan(late.predicted_misalignment(path.p_norm, rate=rate))


def share_above(d: int) -> int:
    problems = list(hm.data.fig9_oracle(d=d, trials=100))
    paths = hm.train(problems, hm.optim.Normalized(1.0), steps=1000)
    pairs = zip(problems, paths, strict=True)
    return sum(late_of(problem, path.selection).eta_c < 1.0 for problem, path in pairs)


@pytest.mark.parametrize("d, least, most", [(10, 72, 76), (100, 0, 0)])
def test_step_one_of_figure_9_is_above_the_threshold_in_ten_dimensions_only(
    d: int, least: int, most: int
) -> None:
    assert least <= share_above(d) <= most


@pytest.mark.slow
def test_and_in_five_hundred_dimensions_it_never_is() -> None:
    assert share_above(500) == 0


def rows_problem(rows: list[list[float]], scores: list[float]) -> hm.Problem:
    """One input whose selected token is the origin, so that the differences are the given rows."""
    return hm.Problem([[[0.0, 0.0], *(-np.array(rows)).tolist()]], [[1.0, *scores]])


def test_dependent_rows_still_have_a_residual() -> None:
    problem = rows_problem([[1, 1], [1, -1], [1, 0.5]], [0.0, 0.3, 0.6])
    late = late_of(problem)
    assert late.status == "dependent"
    with pytest.raises(ValueError, match="dependent"):
        path_offset(problem, late.max_margin)
    seen = late.compare(hm.flow(problem, until_norm=1e3))
    assert seen.distances[-1] < 1e-8
    y = late.w[1]
    c = np.array([1.0, 0.7, 0.4])  # the common factor |l'(1)| does not move the minimum
    assert c[0] * math.exp(-y) + 0.5 * c[2] * math.exp(-y / 2) == pytest.approx(c[1] * math.exp(y))


def test_a_zero_multiplier_is_named_and_the_residual_grows_with_log_log_t() -> None:
    problem = rows_problem([[1, 0], [1, 1]], [0.0, 0.5])
    late = late_of(problem)
    assert late.status == "zero multiplier"
    assert late.w is None
    assert math.isnan(late.eta_c)
    for ask in (late.residual, lambda: late.compare(hm.flow(problem, until_norm=10.0))):
        with pytest.raises(ValueError, match="multiplier zero"):
            ask()
    # dy/dlog t = (c_2/c_1) exp(-y): y = log(log t c_2/c_1), with c_2/c_1 = 1/2.
    ends = [hm.flow(problem, until_log_time=tau).p[1] for tau in (1e3, 1e5)]
    assert ends[1] - ends[0] == pytest.approx(math.log(100), abs=0.02)
    assert ends[1] == pytest.approx(math.log(0.5e5), abs=0.01)


def test_dependent_rows_with_a_zero_multiplier() -> None:
    late = late_of(rows_problem([[1, 0], [1, 1], [1, 2]], [0.0, 0.5, 0.5]))
    assert late.status == "zero multiplier"


def test_a_trajectory_without_consecutive_steps_says_nothing_about_swinging() -> None:
    problem = hm.data.example("B-FIG-8")
    late = late_of(problem, [0, 0])
    assert math.isnan(late.compare(hm.train(problem, hm.optim.Normalized(0.1), steps=1000, record=100)).swing)
    assert math.isnan(late.compare(hm.flow(problem, until_norm=100.0)).swing)


def test_refusals() -> None:
    problem = hm.data.example("B-FIG-1b")
    with pytest.raises(ValueError, match="locally optimal"):
        late_of(problem, [2])
    opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [1, 0]])
    with pytest.raises(ValueError, match="infeasible"):
        late_of(opposed)


def next_token_example_1() -> tuple[hm.Problem, list[int]]:
    """Stage 2 of Example 1 of paper C: keys e_x e_q', the optimal token of each query selected."""
    names, best = "SVOP", {"S": "S", "V": "V", "O": "O", "P": "O"}
    sentences = [sorted(s) for s in ("SV", "SVO", "VO", "OP", "PS")]
    queries = "VOOPS"
    one_hot = dict(zip(names, np.eye(4), strict=True))
    keys = [
        [np.outer(one_hot[x], one_hot[q]).ravel() for x in s] for s, q in zip(sentences, queries, strict=True)
    ]
    scores = [[float(x == best[q]) for x in s] for s, q in zip(sentences, queries, strict=True)]
    return hm.Problem(keys, scores), [s.index(best[q]) for s, q in zip(sentences, queries, strict=True)]


@pytest.mark.parametrize("factor, swings", [(0.97, False), (1.03, True)])
def test_threshold_of_example_1(factor: float, swings: bool) -> None:
    """The addendum's eta_c = 2.944 and |W*|^2 = 13/6: the threshold depends on the geometry alone."""
    problem, selection = next_token_example_1()
    best = max_margin(problem, selection, exact=True)
    assert best.exact is not None
    assert best.exact.norm_squared == Fraction(13, 6)
    late = late_residual(problem, best)
    assert late.eta_c == pytest.approx(2.944, abs=5e-4)
    end = late.compare(
        hm.train(problem, hm.optim.Normalized(factor * late.eta_c), steps=4000, record=[3998, 3999])
    )
    assert (end.swing > 0.1) == swings
    assert (abs(end.measured / end.predicted - 1) < 1e-6) != swings
