"""The shape of the source: no class name twice, no cycle of modules, imports where they can be seen."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def house():
    from house import House

    return House(ROOT / "src" / "hardmax")


# `TwoLayer` is public in embeddings and in torch; `_Block` goes with the old core of training.
REPEATED = {"TwoLayer", "_Block"}


def test_no_class_name_is_defined_twice(house):
    assert {*house.repeated_classes()} <= REPEATED


def test_no_cycle_of_modules(house):
    assert house.cycles() == []
