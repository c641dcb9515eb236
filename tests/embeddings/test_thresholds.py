"""Theorem 5's thresholds in integers: the oracle, the table of A-RED-7, and each of the four terms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax.embeddings.theorem5 import least_first_step, loss_width, theorem_5_thresholds


def test_oracle(oracles: dict) -> None:
    rows = oracles["a"]["theorem5_thresholds"]
    assert len(rows) >= 2
    for row in rows:
        found = theorem_5_thresholds(row["n"], row["T"], S=row["n"] + row["T"], delta=0.01)
        assert found.least_eta0 == row["eta0_min"]
        assert found.polynomial == int(row["d_min_poly_term"])
        assert found.width == found.polynomial


@pytest.mark.parametrize(
    "n, T, first_rate, width",
    [
        (2, 2, 64, "3.33e+44"),
        (4, 2, 256, "1.27e+54"),
        (4, 4, 1024, "5.31e+63"),
        (6, 4, 2304, "2.28e+69"),
        (10, 10, 40_000, "1.55e+89"),
        (100, 50, 10**8, "3.60e+143"),
        (1000, 256, 4 * 256_000**2, "1.79e+198"),
    ],
)
def test_table(n: int, T: int, first_rate: int, width: str) -> None:
    assert least_first_step(n, T) == first_rate
    assert f"{float(loss_width(first_rate)):.2e}" == width


def test_every_term_can_be_the_largest() -> None:
    tiny = Fraction(1, 10**6)
    assert theorem_5_thresholds(2, 2, 3, delta=0.5, first_rate=tiny).width == 257  # 2^8 (1 + ...) rounded up
    many = theorem_5_thresholds(2, 2, 10**6, delta=1e-3, first_rate=tiny)
    assert many.width == 10**6 + 3
    rare = theorem_5_thresholds(2, 2, 3, delta=1e-300, first_rate=tiny)
    assert rare.width == rare.logarithmic == math.ceil((2 * math.log(9 / 1e-300)) ** 2)


def test_exact_beyond_floats() -> None:
    found = theorem_5_thresholds(10**10, 10**10, 5, delta=0.1)
    assert found.first_rate == 4 * 10**40
    assert found.polynomial == (88 * 16 * 10**80 + 111 * 4 * 10**40 + 2) ** 8
    assert found.allow(found.width)
    assert not found.allow(found.width - 1)
    smaller = theorem_5_thresholds(2, 2, 3, delta=0.1, first_rate=63.5)
    assert smaller.polynomial == math.ceil((88 * Fraction(127, 2) ** 2 + 111 * Fraction(127, 2) + 2) ** 8)
    assert not smaller.allow(10**100)  # the step is below 4 n^2 T^2


def test_steps_of_any_kind() -> None:
    wanted = theorem_5_thresholds(2, 2, 3, delta=0.1).width
    for first_rate in (64, 64.0, np.int64(64), np.float64(64), Fraction(64)):
        assert theorem_5_thresholds(2, 2, 3, delta=0.1, first_rate=first_rate).width == wanted
    first_rate = 10**400
    assert (
        theorem_5_thresholds(2, 2, 3, delta=0.1, first_rate=first_rate).width
        == (88 * first_rate**2 + 111 * first_rate + 2) ** 8
    )


def test_refusals() -> None:
    for delta in (0.0, 1, "0.1", None, float("nan")):
        with pytest.raises(ValueError, match="delta must be"):
            theorem_5_thresholds(2, 2, 3, delta=delta)
    for first_rate in (0, Fraction(-1, 2), float("inf"), "many"):
        with pytest.raises(ValueError, match="first_rate must be"):
            theorem_5_thresholds(2, 2, 3, delta=0.1, first_rate=first_rate)
    with pytest.raises(ValueError, match="first_rate must be a positive number"):
        theorem_5_thresholds(2, 2, 3, delta=0.1, first_rate=-1.0)
    with pytest.raises(ValueError, match="n must be an integer"):
        least_first_step(0, 2)
