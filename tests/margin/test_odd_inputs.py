"""Numbers at the ends of the floats, and arguments in unusual forms."""

import math

import numpy as np
import pytest

import hardmax as hm

KEYS = np.random.default_rng(0).normal(size=(3, 4, 3))
SCORES = np.random.default_rng(1).normal(size=(3, 4))
TOKENS = (2, 3, 0)
WILD = hm.Constraints.dense([[1.0, 1.0], [1.0, -1.0]], h=[1e-200, 1e200])


def _queries(size: float) -> hm.Problem:
    rng = np.random.default_rng(0)
    tokens, queries = rng.normal(size=(3, 4, 3)) * size, rng.normal(size=(3, 2)) * size
    return hm.Problem.from_queries(tokens, queries, rng.normal(size=(3, 4)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm", ["l1", "l2", "linf", "l1.5", "l3"])
def test_margin_of_p_too_long_for_floats(norm: str) -> None:
    """A certified margin is never 0, which means infeasible, only because |p| is above 1.8e308."""
    best = hm.max_margin(hm.Problem(KEYS * 1e-309, SCORES), TOKENS, norm=norm)
    low, high = best.margin_interval
    assert best.p_norm == math.inf
    assert 0 < low <= best.margin <= high
    assert best.margin == pytest.approx(
        1e-309 * hm.max_margin(hm.Problem(KEYS, SCORES), TOKENS, norm=norm).margin
    )
    assert best.is_feasible


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_direction_outside_of_the_floats(norm: str) -> None:
    plain = hm.max_margin(hm.Problem(KEYS, SCORES), TOKENS, norm=norm)
    best = hm.max_margin(hm.Problem(KEYS * 1e-309, SCORES), TOKENS, norm=norm)
    np.testing.assert_allclose(best.direction, plain.direction, atol=1e-12)
    large, unit = (hm.max_margin(_queries(size), [0, 1, 2], norm=norm) for size in (1e160, 1.0))
    assert large.direction is not None
    np.testing.assert_allclose(large.direction, unit.direction, atol=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf", "l3", "nuclear"])
def test_margin_too_large_for_floats(norm: str) -> None:
    best = hm.max_margin(_queries(1e160), [0, 1, 2], norm=norm)
    assert best.margin_interval == (np.finfo(float).max, math.inf)
    assert hm.certify(best.to_dict()).valid


def test_p_beyond_the_floats_is_not_saved() -> None:
    best = hm.max_margin(_queries(1e-160), [0, 1, 2], norm="l3")
    assert best.status == "undecided"
    with pytest.raises(ValueError, match="max_margin must have a p within the floats"):
        best.to_dict()
    assert hm.certify(hm.max_margin(_queries(1e-160), [0, 1, 2]).to_dict()).valid


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm", ["l1.5", "l3"])
def test_bound_that_underflows_proves_no_lower_end(norm: str) -> None:
    """The scaled problem has lost the bound 1e-200, which p violates: only the upper end is proved."""
    best = hm.max_margin(WILD, norm=norm)
    assert best.status == "undecided"
    assert best.margin_interval[0] == 0
    assert best.is_feasible is None
    assert hm.certify(best.to_dict()).valid


def test_bound_that_underflows_among_many_rows() -> None:
    """Two rows contradict each other by bounds of 1e-200; above 200 rows only floats look at them."""
    rng = np.random.default_rng(0)
    rows = np.vstack([[[1.0, 0.0], [-1.0, 0.0]], np.column_stack([rng.normal(size=300), np.full(300, 9.0)])])
    best = hm.max_margin(hm.Constraints.dense(rows, h=np.repeat([1e-200, 1e200], [2, 300])))
    assert best.is_feasible is not True


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm", ["l1", "l2", "linf", "l1.5", "l3"])
def test_inputs_of_very_different_sizes(norm: str) -> None:
    keys = KEYS * np.array([1e160, 1e-160, 1.0])[:, None, None]
    best = hm.max_margin(hm.Problem(keys, SCORES), TOKENS, norm=norm)
    assert best.is_certified or norm in ("l1.5", "l3")  # fractions settle the others
    assert hm.certify(best.to_dict()).valid


def test_ends_move_outwards() -> None:
    """Where an end of the interval is not a float, it is rounded away from the margin."""
    from fractions import Fraction

    best = hm.max_margin(hm.Problem(KEYS * 1e-309, SCORES), TOKENS, norm="l3")
    unit = hm.max_margin(hm.Problem(np.ldexp(KEYS * 1e-309, 1000), SCORES), TOKENS, norm="l3")
    low, high = (Fraction(x) * 2**1000 for x in best.margin_interval)
    assert low <= Fraction(unit.margin_interval[0])
    assert high >= Fraction(unit.margin_interval[1])


@pytest.mark.parametrize("multiplier", [0.0, 1.0])
def test_nothing_known_has_no_margin(multiplier: float) -> None:
    """An undecided solution without p is not one of a problem in which no row asks for anything."""
    rows = hm.Constraints.dense([[1.0]])
    kind, weights = type(hm.max_margin(rows)), np.full(1, multiplier)
    best = kind(rows, "undecided", "float", np.zeros(1), weights, (0.0, math.inf), math.inf)
    assert math.isnan(best.margin)
    assert math.isnan(best.p_norm)


def test_selections_of_a_list_as_an_array() -> None:
    problem = hm.Problem(KEYS, SCORES)
    as_lists = hm.max_margin([problem, problem], [[2, 3, 0], [0, 0, 0]])
    as_array = hm.max_margin([problem, problem], np.array([[2, 3, 0], [0, 0, 0]]))
    assert [best.selection for best in as_array] == [best.selection for best in as_lists]
    with pytest.raises(ValueError, match="selection must be 2 selections, one per problem, got 3"):
        hm.max_margin([problem, problem], np.zeros((3, 3), int))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("u", [[math.inf, 0.0, 0.0], [math.nan, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0]])
def test_margin_gap_refuses(u: list[float]) -> None:
    best = hm.max_margin(hm.Problem(KEYS, SCORES), TOKENS)
    with pytest.raises(ValueError, match="margin_gap needs a direction u of 3 numbers, finite"):
        best.margin_gap(u)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("size", "length"), [(1e160, 1e160), (1e-160, 1e-200), (1e-160, 1e160)])
def test_directional_margin_at_any_size(size: float, length: float) -> None:
    plain = hm.directions.directional_margin(hm.Problem(KEYS, SCORES), [1.0, 0.0, 0.0])
    sized = hm.directions.directional_margin(hm.Problem(KEYS * size, SCORES), [length, 0.0, 0.0])
    assert (sized.selected, sized.neighbors) == (plain.selected, plain.neighbors)
    assert sized.neighbor_optimal == plain.neighbor_optimal


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("norm", ["l1", "l2", "linf", "l1.5", "l3"])
def test_row_of_zeros_next_to_an_equality(norm: str) -> None:
    table = [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]
    rows = hm.Constraints.pairs(table, [0, 1, 2], [-1] * 3, h=[2.0, 0.0, 0.5], equal=[True, False, False])
    best = hm.max_margin(rows, norm=norm)
    assert best.is_certified
    assert hm.certify(best.to_dict()).valid


def test_a_word_other_than_best_is_not_a_selection() -> None:
    with pytest.raises(ValueError, match=r"selection must be a token number per input.*got 'foo'"):
        hm.max_margin(hm.data.example("three-inputs"), "foo")


class IntegerNorm(hm.margin.Norm):
    """A custom norm whose value of a zero row is an integer."""

    name = "integer"
    dual = "integer"

    def value(self, x):
        return float(np.abs(x).sum()) if np.any(x) else 0

    def step(self, x):
        raise AssertionError

    def solve(self, constraints, exact=False):
        raise AssertionError


def test_norms_of_rows_are_floats_whatever_the_first_one_is() -> None:
    rows = np.array([[0.0, 0.0], [0.5, 0.25]])
    assert IntegerNorm().of_rows(rows).tolist() == [0.0, 0.75]
    assert IntegerNorm().of_rows(rows[None]).tolist() == [[0.0, 0.75]]
    assert hm.margin.norm("nuclear").of_rows(np.zeros((0, 4))).shape == (0,)


def test_a_word_in_a_list_of_selections_is_refused_like_one() -> None:
    with pytest.raises(ValueError, match="got 'bset'"):
        hm.max_margin([hm.data.example("three-inputs")], ["bset"])


@pytest.mark.parametrize("norm", ["l1", "l2", "l3"])
def test_bounds_next_to_which_a_candidate_rounds_to_zero(norm: str) -> None:
    rows = [[1.0, -1.0], [-2.0, 0.0], [1.0, -1.0], [1.0, 0.0], [2.0, -2.0]]
    constraints = hm.Constraints.dense(rows, [1e8, 0.0, 1e8, 1.0, 1.0])
    best = hm.max_margin(constraints, norm=norm)
    assert (best.status, hm.certify(best.to_dict()).valid) == ("infeasible", True)
