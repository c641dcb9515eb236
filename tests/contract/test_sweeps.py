"""Sweeps: grids, seeds, stores, failures, summaries and one trial alone."""

import csv

import numpy as np
import pytest

from . import names as n


def parity(parameters, seed):
    return {"odd": seed % 2 == 1, "product": parameters["a"] * parameters.get("b", 1)}


def test_a_grid_in_memory():
    found = n.sweep(parity, {"a": [1, 3], "b": [1, 2]}, 5, workers=0)
    assert (found.done, found.failed, found.remaining) == (20, 0, 0)
    assert [(cell.parameters, cell.of["product"].mean) for cell in found.summary(by=["a"])] == [
        ({"a": 1}, 1.5),
        ({"a": 3}, 4.5),
    ]
    rows = list(found.rows())
    assert sorted(found.column("product").tolist()) == sorted(row["a"] * row["b"] for row in rows)
    assert all(row["odd"] == (row["seed"] % 2 == 1) for row in rows)
    assert len({row["seed"] for row in rows}) == 20


def test_seeds_do_not_move():
    """A seed is a hash of the cell's parameters, the trial and the sweep's seed, for all versions."""
    found = n.sweep(parity, {"a": [2, 5]}, 3, workers=0)
    assert [row["seed"] for row in n.sweep(parity, {"a": [2]}, 3, workers=0).rows()] == [
        row["seed"] for row in found.rows() if row["a"] == 2
    ]
    first = next(n.sweep(lambda parameters, seed: {"x": 1}, {"d": [2, 5]}, 3, workers=0).rows())
    assert first["seed"] == 8321822199535528429


def test_a_store_goes_on_where_it_ended(tmp_path):
    store = tmp_path / "trials.sqlite"
    assert n.sweep(parity, {"a": [1, 2]}, 4, store=store, workers=0).done == 8
    again = n.sweep(parity, {"a": [1, 2]}, 4, store=store, workers=0)
    assert again.done == 8
    found = n.open_sweep(store)
    assert found.column("product").tolist() == again.column("product").tolist()
    found.to_csv(tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv", newline="") as file:
        assert [int(row["product"]) for row in csv.DictReader(file)] == found.column("product").tolist()


def test_failures_are_recorded_and_repeated():
    def fails(parameters, seed):
        if parameters["a"] == 2:
            raise ArithmeticError("no trial")
        return {"x": seed}

    found = n.sweep(fails, {"a": [1, 2]}, 2, workers=0)
    assert (found.done, found.failed) == (2, 2)
    failure = next(iter(found.failures()))
    assert "no trial" in failure.error
    with pytest.raises(ArithmeticError):
        n.run_one(found, failure.cell, failure.trial)


def test_one_trial_alone():
    found = n.sweep(parity, {"a": [1, 3]}, 3, workers=0)
    row = next(row for row in found.rows() if row["a"] == 3 and row["trial"] == 2)
    assert n.run_one(found, 1, 2)["odd"] == row["odd"]
    told = n.one_trial(found, 1, 2)
    assert (told.seed, told.row["odd"]) == (row["seed"], row["odd"])


def test_built_in_experiments():
    found = n.sweep("sphere", {"d": [2, 50]}, 40, workers=0)
    small, large = (
        np.mean([row["locally_optimal"] for row in found.rows() if row["d"] == d]) for d in (2, 50)
    )
    assert small < 0.7  # paper B's figure 9: in high dimension what descent selects attracts
    assert large == 1.0
    told = n.sweep_answer(found).json()
    assert (told["done"], told["failed"]) == (80, 0)


def test_phases_are_counted():
    def small(at, seed):
        return {"small": seed % 8 < at["a"] * at["b"]}

    found = n.sweep(small, {"a": [1, 2], "b": [1, 4]}, 50, workers=0)
    shares = n.phases(found, ["small"], "a", "b").shares
    by_hand = {}
    for row in found.rows():
        by_hand.setdefault((row["a"], row["b"]), []).append(row["small"])
    assert shares[0, 0, 1, 1] == 1.0
    assert sorted(shares.ravel()) == pytest.approx(sorted(sum(x) / 50 for x in by_hand.values()))
