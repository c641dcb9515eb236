"""The check at the entry of public functions."""

import inspect
import pickle
from decimal import Decimal

import pytest

import hardmax as hm


def test_the_check_keeps_what_a_function_is():
    assert [*inspect.signature(hm.loss).parameters] == ["problem", "p"]
    assert pickle.loads(pickle.dumps(hm.loss)) is hm.loss
    assert ">>>" in (hm.loss.__doc__ or "")


def test_a_wrong_type_is_a_type_error_and_a_value_error():
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match=r"problem must be a hardmax\.Problem, got int; make one with"):
            hm.loss(3, [0.0])


def test_other_numbers_are_floats():
    best = hm.max_margin(hm.data.example("B-FIG-8"))
    assert hm.limits.freezing_rate(best, Decimal("0.5")) == hm.limits.freezing_rate(best, 0.5)


def test_soft_sparsity_of_huge_weights_is_a_number():
    assert hm.dynamics.soft_sparsity([1e308, 1e308]) == 1e-308


def test_a_basin_is_not_sought_below_the_spacing_of_floats():
    with pytest.raises(ValueError, match=r"tolerance must be at least .*, got 0\.1"):
        hm.limits.basin_boundary(hm.data.example("B-FIG-8"), [2**62, 2**62], [0.0, 1.0], tolerance=0.1)
