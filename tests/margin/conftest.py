"""Problems with known truth, built in exact arithmetic, and the oracles of the three papers."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ORACLES = Path(__file__).parent.parent / "oracles"


def load(paper: str) -> dict[str, Any]:
    return json.loads((ORACLES / f"paper-{paper}-oracles.json").read_text())


@pytest.fixture(scope="session")
def paper_a() -> dict[str, Any]:
    return load("a")


@pytest.fixture(scope="session")
def paper_b() -> dict[str, Any]:
    return load("b")


@pytest.fixture(scope="session")
def paper_c() -> dict[str, Any]:
    return load("c")


@pytest.fixture(scope="session")
def paper_d() -> dict[str, Any]:
    return load("d")


def fractions(rows: Any) -> list[list[Fraction]]:
    return [[Fraction(x) for x in row] for row in rows]


def dot(x: Any, y: Any) -> Fraction:
    return sum((Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)), Fraction(0))


def planted(
    rng: np.random.Generator, m: int, d: int, k: int, tilt: float
) -> tuple[np.ndarray, list[Fraction]]:
    """Rows whose minimum-norm solution is known exactly, and that solution.

    Support rows come in pairs (c + z, c - z) with c parallel to an integer direction u and z orthogonal to
    it, |z| about 1/tilt times |c|: then p = u/(c.u) is a positive combination of them (KKT with equal
    weights) and meets both with equality. All other rows are drawn until they satisfy p strictly.
    Everything is dyadic.
    """
    u = np.zeros(d)
    u[: min(d, 3)] = rng.integers(1, 5, size=min(d, 3)) * rng.choice([-1, 1], size=min(d, 3))
    c = u * tilt
    height = dot(c, u)
    rows = []
    for _ in range(k):
        z = np.zeros(d)
        if d > 1:
            i, j = rng.choice(d, size=2, replace=False)
            z[i], z[j] = u[j] or (0.0 if u[i] else 1.0), -u[i]  # orthogonal to u, small integers
            z *= float(rng.integers(1, 4))
            assert dot(z, u) == 0
        rows += [c + z, c - z]
    while len(rows) < m:
        row = rng.integers(-64, 65, size=d) / 16.0
        reach = dot(row, u)
        if reach < 0:
            row, reach = -row, -reach
        if reach > height:
            rows.append(row)
    p = [Fraction(x) / height for x in u.tolist()]
    support = [sum(Fraction(row[x]) for row in rows[: 2 * k]) for x in range(d)]
    assert [x * dot(p, p) for x in support] == [
        x * 2 * k for x in p
    ]  # equal weights |p|^2/2k combine the pairs to p
    assert min(dot(row, p) for row in rows) == 1
    return np.array(rows)[rng.permutation(len(rows))], p


def contradictory(rng: np.random.Generator, m: int, d: int, k: int) -> np.ndarray:
    """Rows with a positive combination that vanishes exactly, hidden among others."""
    core = rng.integers(-32, 33, size=(k, d)) / 8.0
    weights = rng.integers(1, 8, size=k).astype(float)
    rows = [*core, -(weights @ core)]
    rows += list(rng.normal(size=(max(0, m - len(rows)), d)))
    return np.array(rows)[rng.permutation(len(rows))]
