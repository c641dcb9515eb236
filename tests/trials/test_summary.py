"""Summaries against scipy's and numpy's own numbers."""

import json
import math
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import hardmax as hm
from hardmax.app.results.sweep import SweepResult
from hardmax.trials.summary import Proportion, spread

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "schemas" / "sweep.schema.json"


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_is_clopper_pearson(kn):
    k, n = kn
    low, high = Proportion(k, n).interval
    expected = stats.binomtest(k, n).proportion_ci(0.95, "exact")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert low <= k / n <= high


def test_interval_covers():
    n, p = 30, 0.2
    covered = sum(
        stats.binom.pmf(k, n, p)
        for k in range(n + 1)
        if Proportion(k, n).interval[0] <= p <= Proportion(k, n).interval[1]
    )
    assert covered >= 0.95


@given(st.lists(st.floats(-1e100, 1e100), min_size=2, max_size=50), st.integers(0, 3))
def test_spread_of_numbers(values, nans):
    found = spread([*values, *[math.nan] * nans])
    assert (found.n, found.nans) == (len(values), nans)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-12 * max(map(abs, values)))
    assert found.standard_error == pytest.approx(
        stats.sem(values), rel=1e-6, abs=1e-10 * max(map(abs, values))
    )
    assert found.median == pytest.approx(np.median(values))
    assert found.quantiles[0.0] == min(values)
    assert found.quantiles[1.0] == max(values)


def test_infinite_numbers_do_not_hide():
    found = spread([1.0, math.inf, math.inf, math.inf])
    assert found.mean == math.inf
    assert math.isnan(found.standard_error)
    assert found.median == math.inf
    assert found.quantiles[0.0] == 1.0
    assert math.isnan(spread([math.inf, -math.inf]).mean)
    nothing = spread([math.nan])
    assert (nothing.n, nothing.nans) == (0, 1)
    assert math.isnan(nothing.median)
    assert math.isnan(spread([2.0]).standard_error)


def outcome(parameters, seed):
    if parameters["a"] == 3:
        raise ValueError("no")
    event = ("left", "right")[parameters["b"]]
    late = {"late": parameters["a"] / 2} if parameters["a"] > 1 else {}
    return {
        "flag": parameters["a"] > parameters["b"],
        "x": parameters["a"] + parameters["b"],
        "event": event,
    } | late


def test_a_result_that_is_sometimes_true_and_sometimes_a_number_shows_both():
    values = [True, 1, 2.5, "a", None]

    def mixed(parameters, seed):
        return {"x": values[parameters["k"]], "flag": True}

    result = hm.sweep(mixed, {"k": list(range(5))}, 1, workers=0)
    (whole,) = result.summary(by=[])
    assert list(whole.of) == ["x is true", "x", "x = a", "flag"]
    assert (whole.of["x is true"], whole.of["x = a"]) == (Proportion(1, 1), Proportion(1, 1))
    assert (whole.of["x"].n, whole.of["x"].mean) == (2, 1.75)
    assert result.summary()[0].of["x"] == Proportion(1, 1)
    with pytest.raises(ValueError, match="results must be true or false in every trial, 'x' is not"):
        hm.trials.PhaseDisplay.of(result, ["x"], x="k", y="k")


def test_the_command_shows_both():
    def mixed(parameters, seed):
        return {"x": (True, False, 1, 2.5, "a", None)[seed % 6]}

    found = hm.sweep(mixed, {}, 40, workers=0)
    answer = SweepResult.of_sweep(found, of=["x"])
    told = json.loads(json.dumps(answer.json()))
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    shown = told["summary"][0]["results"]
    values = [row["x"] for row in found.rows()]
    flags = [x for x in values if isinstance(x, bool)]
    assert (shown["x is true"]["k"], shown["x is true"]["n"]) == (sum(flags), len(flags))
    assert shown["x"]["n"] == sum(type(x) in (int, float) for x in values) > 0
    assert all(shown[name]["text"] in str(answer) for name in ("x is true", "x", "x = a"))


def test_summary_by_some_parameters():
    result = hm.sweep(outcome, {"a": [1, 2, 3], "b": [0, 1]}, 4, workers=0)
    cells = result.summary()
    assert [cell.parameters for cell in cells] == result.cells()
    assert [(cell.done, cell.failed) for cell in cells] == [(4, 0)] * 4 + [(0, 4)] * 2
    assert cells[1].of["flag"] == Proportion(0, 4)
    assert cells[1].of["event = right"] == Proportion(4, 4)
    assert "late" not in cells[1].of
    by_b = result.summary(by="b", of=["flag", "late", "event"])
    assert [cell.parameters for cell in by_b] == [{"b": 0}, {"b": 1}]
    assert [(cell.done, cell.failed) for cell in by_b] == [(8, 4)] * 2
    assert by_b[1].of["flag"] == Proportion(4, 8)
    assert by_b[1].of["late"].n == 4
    assert by_b[1].of["event = right"] == Proportion(8, 8)
    assert "x" not in by_b[1].of
    (whole,) = result.summary(by=[])
    assert (whole.parameters, whole.done, whole.failed) == ({}, 16, 8)
    assert whole.of["event = left"] == Proportion(8, 16)
    with pytest.raises(ValueError, match=r"by must name parameters \(a, b\), got 'c'"):
        result.summary(by=["c"])
    with pytest.raises(ValueError, match="of must name results"):
        result.summary(of=["y"])
