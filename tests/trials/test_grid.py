"""Cells and seeds: what a trial is called, and that nothing else decides its seed."""

import doctest
import enum
import http
import json
import math
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.trials import grid as grid_module
from hardmax.trials import summary
from hardmax.trials.grid import Grid, cell_key, scalar, seeds

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
NAMES = st.text(min_size=1, max_size=5).filter(
    lambda name: name not in ("cell", "trial", "seed", "status", "error")
)


def test_seeds_are_the_documented_hash():
    text = '[7,{"d":5,"eta":0.1,"head":"linear"},3]'
    expected = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
    key = cell_key({"head": "linear", "eta": 0.1, "d": 5})
    assert seeds(7, key, 3, 4) == [expected]
    assert seeds(7, key, 0, 10)[3] == expected
    assert 0 <= expected < 2**63


@given(st.dictionaries(NAMES, SCALARS, max_size=4), st.randoms())
@pytest.mark.no_cover
def test_key_depends_on_values_alone(parameters, random):
    shuffled = list(parameters.items())
    random.shuffle(shuffled)
    assert cell_key(dict(shuffled)) == cell_key(parameters)
    back = json.loads(cell_key(parameters))
    assert back == parameters
    assert cell_key(back) == cell_key(parameters)


@pytest.mark.parametrize(
    "same", [(2, 2.0, np.int64(2), np.float32(2), np.array(2)), (0, -0.0), (0.1, np.float64(0.1))]
)
def test_equal_numbers_are_one_parameter(same):
    assert len({cell_key({"a": scalar("a", value)}) for value in same}) == 1


@pytest.mark.parametrize(
    "one, other", [(1, True), (1, "1"), (None, "null"), (0.1, np.float32(0.1)), (2**53, 2**53 + 1)]
)
def test_different_values_are_different_parameters(one, other):
    assert cell_key({"a": scalar("a", one)}) != cell_key({"a": scalar("a", other)})


class Head(enum.StrEnum):
    LINEAR = "linear"


class LossFunction(str, enum.Enum):  # noqa: UP042
    LOGISTIC = "logistic"


def test_members_of_enumerations_are_what_they_hold():
    for value, held in (
        (Head.LINEAR, "linear"),
        (LossFunction.LOGISTIC, "logistic"),
        (http.HTTPStatus.OK, 200),
    ):
        found = scalar("a", value)
        assert found == held
        assert type(found) is type(held)


def test_examples_run():
    for module in (grid_module, summary):
        ran = doctest.testmod(module)
        assert ran.attempted > ran.failed == 0


@pytest.mark.no_cover
def test_seeds_do_not_collide():
    found = [s for a in range(20) for s in seeds(0, cell_key({"a": a}), 0, 5000)]
    assert len(set(found)) == len(found)
    # bits are fair: 100,000 of each, with a standard deviation of 158
    ones = [sum(s >> bit & 1 for s in found) for bit in range(63)]
    assert max(abs(count - 50_000) for count in ones) < 5 * 158


def test_neighbours_draw_independently():
    """Trials next to each other, cells next to each other, roots next to each other: no correlation."""
    table = np.array(
        [
            [np.random.default_rng(s).random() for s in seeds(root, cell_key({"d": d}), 0, 500)]
            for root, d in ((0, 2), (0, 3), (0, 4), (1, 2))
        ]
    )
    pairs = [np.corrcoef(row[:-1], row[1:])[0, 1] for row in table]
    pairs += [np.corrcoef(table[0], other)[0, 1] for other in table[1:]]
    assert np.abs(pairs).max() < 4.5 / math.sqrt(500)
    assert abs(table.mean() - 0.5) < 4.5 / math.sqrt(12 * table.size)


def test_product_in_order_and_explicit_cells():
    grid = Grid({"a": [1, 2], "b": ("x", None), "c": np.linspace(0, 1, 2), "d": "one", "e": np.float64(3)})
    assert len(grid) == 8
    assert list(grid)[:3] == [
        {"a": 1, "b": "x", "c": 0.0, "d": "one", "e": 3.0},
        {"a": 1, "b": "x", "c": 1.0, "d": "one", "e": 3.0},
        {"a": 1, "b": None, "c": 0.0, "d": "one", "e": 3.0},
    ]
    assert all(type(cell["c"]) is float for cell in grid)
    cells = [{"a": 1}, {"b": True}]
    assert list(Grid(cells)) == cells
    assert list(Grid({})) == [{}]
    assert list(Grid({"a": [math.inf]})) == [{"a": math.inf}]


@pytest.mark.parametrize(
    "grid, message",
    [
        ({"a": []}, "at least one cell"),
        ([], "at least one cell"),
        ("abc", "grid must be a mapping"),
        ([1, 2], "grid must be a mapping"),
        ({"a": [math.nan]}, r"grid\['a'\] must not be nan"),
        ({"a": [[1, 2]]}, r"grid\['a'\] must be a bool, a number, a text or None"),
        ({"seed": [1]}, "'seed' is a column of every sweep"),
        ({3: [1]}, "name of a parameter must be a text"),
        ({"a": ["\udce9"]}, r"grid\['a'\] must be a text that UTF-8 can hold"),
        ({"\udce9": [1]}, "name of a parameter must be a text that UTF-8 can hold"),
        ({"a": [10**309]}, r"grid\['a'\] must be a number that a float can hold"),
        ({"a": range(4000), "b": range(4000)}, "at most 10,000,000 cells"),
        ({"a": [1, True, 1.0]}, r"grid\['a'\] holds a value twice"),
        ([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], "grid holds a cell twice"),
    ],
)
def test_refusals(grid, message):
    with pytest.raises(ValueError, match=message):
        Grid(grid)
