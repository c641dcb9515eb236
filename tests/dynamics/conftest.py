"""Oracles of part D, and its problems of vectors by name."""

import pytest

import hardmax as hm


@pytest.fixture(scope="module")
def part_d(oracles):
    return oracles["d"]


@pytest.fixture(scope="module")
def posed(part_d):
    data = part_d["vector"]
    return {name: hm.Problem(data[name]["keys"], data[name]["scores"]) for name in data}
