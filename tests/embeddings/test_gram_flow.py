"""The joint flow by inner products: what it conserves, and that descent with small steps tends to it."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings import initial_vectors
from hardmax.embeddings.gram import GramState, conserved_spectrum, descend_gram, flow_gram
from hardmax.embeddings.one_layer import descend_embeddings

from .conftest import Instance


@pytest.mark.parametrize("train", ["Ep", "Epv"])
def test_conserves_and_descends(d1: Instance, train: str) -> None:
    """A-RED-5: the spectrum of E'E - pp' - vv' (on v's complement with v fixed) stays, the loss falls."""
    start = GramState.from_vectors(d1.E, d1.p, d1.v)
    run = flow_gram(d1.corpus, start, times=[0.0, 1.0, 10.0, 100.0, 1000.0], train=train)
    assert run.drift < 1e-9 * np.abs(run.spectra[0]).max()
    assert (np.diff(run.losses) < 0).all()
    # the trace alone: |E|^2 - |p|^2 - |v|^2, or the same less what lies along a fixed v
    if train == "Epv":
        traces = [s.K.trace() - s.pi - s.nu for s in run.states]
    else:
        traces = [s.K.trace() - s.c @ s.c / s.nu - s.pi + s.rho**2 / s.nu for s in run.states]
    np.testing.assert_allclose(traces, traces[0], atol=1e-9)
    # and it is the right matrix: what v fixed conserves is not conserved when v is trained
    other = [conserved_spectrum(s, "Ep" if train == "Epv" else "Epv") for s in run.states]
    assert np.abs(other[-1] - other[0]).max() > 0.1


def test_spectrum_is_that_of_the_matrix(d1: Instance) -> None:
    _, E, p, v = d1
    state = GramState.from_vectors(E, p, v)
    found = conserved_spectrum(state, "Epv")
    want = np.linalg.eigvalsh(E.T @ E - np.outer(p, p) - np.outer(v, v))
    np.testing.assert_allclose(sorted(found, key=abs)[-3:], sorted(want, key=abs), atol=1e-12)
    assert np.abs(sorted(found, key=abs)[:-3]).max() < 1e-12
    P = np.eye(3) - np.outer(v, v) / (v @ v)
    want = np.linalg.eigvalsh(P @ (E.T @ E - np.outer(p, p)) @ P)
    found = conserved_spectrum(state, "Ep")
    np.testing.assert_allclose(sorted(found, key=abs)[-2:], sorted(want, key=abs)[-2:], atol=1e-12)


@pytest.mark.parametrize("train", ["Ep", "Epv"])
def test_descent_tends_to_it(d1: Instance, train: str) -> None:
    """The distance of descent from the flow, and the drift of what it conserves, are O(rate)."""
    start = GramState.from_vectors(d1.E, d1.p, d1.v)
    end = flow_gram(d1.corpus, start, times=[0.0, 5.0], train=train).state
    distance, drift = [], []
    for rate in (1e-2, 1e-3):
        run = descend_gram(d1.corpus, start, steps=round(5 / rate), rate=rate, train=train, record=[])
        distance.append(np.abs(run.state.matrix - end.matrix).max())
        before, after = conserved_spectrum(start, train), conserved_spectrum(run.state, train)
        drift.append(np.abs(after - before).max())
    assert 9 < distance[0] / distance[1] < 11
    assert 9 < drift[0] / drift[1] < 11
    assert drift[1] < 1e-3


def test_same_flow_as_vectors_by_richardson() -> None:
    """Extrapolated descent on vectors meets the flow to second order."""
    corpus = hm.embeddings.assumption_4_corpus(4, 3, rng=0)
    E, p, v = initial_vectors(corpus.S, 20, rng=1)
    found = flow_gram(corpus, GramState.from_vectors(E, p, v), times=[0.0, 2.0], train="Epv").state
    coarse, fine = (
        descend_embeddings(corpus, E, p, v, steps=steps, rate=2.0 / steps, train="Epv", record=[])
        for steps in (1000, 2000)
    )
    np.testing.assert_allclose(2 * fine.a[-1] - coarse.a[-1], found.a, atol=1e-6)
    np.testing.assert_allclose(2 * fine.c[-1] - coarse.c[-1], found.c, atol=1e-6)


def test_long_times_are_cheap_and_right() -> None:
    """To t = 1e9 the loss goes on falling like 1/t over a power of log t, and nothing drifts."""
    corpus = hm.embeddings.assumption_4_corpus(4, 2, rng=0)
    times = np.concatenate([[0.0], np.geomspace(1.0, 1e9, 10)])
    run = flow_gram(corpus, GramState.infinite(corpus.S), times=times)
    assert run.drift < 1e-8
    assert 1e-12 < run.losses[-1] < 1e-8
    assert (np.diff(run.losses) < 0).all()


def test_refusals(d1: Instance) -> None:
    start = GramState.from_vectors(d1.E, d1.p, d1.v)
    with pytest.raises(ValueError, match="with E fixed use hardmax"):
        flow_gram(d1.corpus, start, times=[0, 1], train="p")
    with pytest.raises(ValueError, match="ascending"):
        flow_gram(d1.corpus, start, times=[1, 0])
    with pytest.raises(ValueError, match="state must hold the 4 tokens"):
        flow_gram(d1.corpus, GramState.infinite(2), times=[0, 1])
    with pytest.raises(ValueError, match="readout v other than zero"):
        conserved_spectrum(GramState.from_vectors([[1.0]], [1.0], [0.0]))
