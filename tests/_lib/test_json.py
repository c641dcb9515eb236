"""Whatever an answer measures can be printed as JSON."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, fmpq, fmpz

from hardmax._lib.json import plain


@pytest.mark.parametrize(
    "value, wanted",
    [
        (Fraction(1, 4), 0.25),
        (Fraction(10**400), None),  # beyond doubles
        (Fraction(1, 10**400), 0.0),
        (10**5000, None),  # Python does not print it
        (2**70, 2**70),
        (True, True),
        (np.bool_(False), False),
        (np.int8(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (-math.inf, None),
        (np.array([Fraction(1, 2), None], dtype=object), [0.5, None]),
        (fmpq(1, 4), 0.25),
        (fmpz(7), 7),
        (arb(0.5), 0.5),
        (arb("nan"), None),
        (Decimal("0.5"), 0.5),
        (Decimal("sNaN"), None),
        ({10, 9, "a"}, [9, 10, "a"]),
        ({Fraction(1, 2): (arb(2),)}, {"1/2": [2.0]}),
        (1 + 2j, "(1+2j)"),
        (acb(1), "1.00000000000000"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain(value, wanted):
    found = plain(value)
    assert (found, type(found)) == (wanted, type(wanted))
    assert json.loads(json.dumps(found, allow_nan=False)) == wanted
