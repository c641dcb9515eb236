"""The named data of part D are those of its oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hardmax as hm

SCORED = ("skew", "flat", "plane", "space-a", "space-b", "triple", "ragged")
LABELED = ("cycle", "dependent", "plane-plus", "two-scc")


@pytest.mark.parametrize("name", SCORED + LABELED)
def test_named_data_are_those_of_the_oracles(oracles: dict[str, Any], name: str) -> None:
    given = oracles["d"]["vector" if name in SCORED else "nonseparable"][name]
    problem = hm.data.example(name)
    np.testing.assert_array_equal(problem.keys, [token for each in given["keys"] for token in each])
    np.testing.assert_array_equal(problem.scores, [score for each in given["scores"] for score in each])
    assert problem.sizes.tolist() == [len(each) for each in given["keys"]]
    assert problem.loss.name == given.get("loss", "logistic")


@pytest.mark.parametrize("name", ["w22", "w33", "w44"])
def test_named_queries_are_those_of_the_oracles(oracles: dict[str, Any], name: str) -> None:
    given = oracles["d"]["matrix"][name]
    keys = [
        np.outer(x, z).ravel()
        for each, z in zip(given["tokens"], given["queries"], strict=True)
        for x in each
    ]
    problem = hm.data.example(name)
    np.testing.assert_array_equal(problem.keys, keys)
    np.testing.assert_array_equal(problem.scores, np.ravel(given["scores"]))
    assert problem.shape == (int(name[1]), int(name[2]))
