"""The rational instance D1 of the oracles, as numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import hardmax as hm


class Instance(NamedTuple):
    corpus: hm.Corpus
    E: np.ndarray
    p: np.ndarray
    v: np.ndarray


def numbers(nested: Any) -> np.ndarray:
    """Decimals or fractions in strings, rounded once."""
    if isinstance(nested, list):
        return np.array([numbers(each) for each in nested])
    return np.float64(float(Fraction(nested)))


@pytest.fixture(scope="session")
def d1(oracles: dict[str, Any]) -> Instance:
    given = oracles["a"]["one_layer_D1"]
    corpus = hm.Corpus.from_sequences(given["sequences"], given["labels"])
    return Instance(corpus, *(numbers(given[name]) for name in "Epv"))


class Exact(NamedTuple):
    """The one-layer model by definition, position by position, in mpmath numbers."""

    f: list[Any]
    g: list[Any]
    loss: Any
    A: list[Any]
    C: list[Any]


def exact_model(corpus: hm.Corpus, a: Any, c: Any) -> Exact:
    """f, g, the loss and its derivatives by a and c, by sums over pairs of positions (A-LEM-7)."""
    from mpmath import mp, mpf

    a, c = [mpf(float(x)) for x in a], [mpf(float(x)) for x in c]
    f, g = [], []
    A, C = [mpf(0)] * corpus.S, [mpf(0)] * corpus.S
    loss = mpf(0)
    for X, y in zip(corpus.sequences(), corpus.labels.tolist(), strict=True):
        top = max(a[x] for x in X)
        e = [mp.exp(a[x] - top) for x in X]
        q = [x / sum(e) for x in e]
        f.append(sum(qi * c[x] for qi, x in zip(q, X, strict=True)))
        g.append(1 / (1 + mp.exp(y * f[-1])))
        loss += mp.log(1 + mp.exp(-y * f[-1])) / corpus.n
        rate = -y * g[-1] / corpus.n
        for i, x in enumerate(X):
            C[x] += rate * q[i]
            for j, z in enumerate(X):
                if j != i:
                    A[x] += rate * q[i] * q[j] * c[x]
                    A[z] -= rate * q[i] * q[j] * c[x]
    return Exact(f, g, loss, A, C)
