"""What a pass does: the gradient it follows, and what a killed training keeps."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.special import log_softmax

from hardmax.text import AttentionClassifier, kernels
from hardmax.text.training import State, TextRows

RNG = np.random.default_rng(0)


def loss_of(a, values, x, label, entropy):
    """The loss of one text by its definition; the last token is the background."""
    amounts = x * np.exp(a)
    share = amounts / amounts.sum()
    scores = share @ values
    if values.shape[1] == 1:
        scores = np.array([0.0, scores[0]])
    return -log_softmax(scores)[label] - entropy * np.sum(share * np.log(share))


@pytest.mark.parametrize("values", [1, 3])
@pytest.mark.parametrize("entropy", [0.0, 0.7])
def test_a_step_follows_the_gradient(values, entropy):
    """A step of SGD moves parameters against differences of the loss."""
    table = np.column_stack([RNG.uniform(0.5, 2.0, size=6), RNG.normal(size=(6, values))])
    table[-1, 0] = 1.0
    data, indices = np.array([1.0, 2.0, 0.5]), np.array([0, 2, 4], np.int32)
    held, x, label, rate = np.array([0, 2, 4, 5]), np.append(data, 1.0), 1, 1e-6
    before, after = table.copy(), table.copy()
    kernels.one_pass(
        (data, indices, np.array([0, 3])),
        np.array([label]),
        np.ones(1),
        np.array([0]),
        after,
        np.ones((0, 0)),
        kernels.SGD,
        (rate, rate, 1.0, 1.0),
        0.0,
        0,
        entropy,
        1,
    )
    a, v = np.log(before[held, 0]), before[held, 1:]
    h = 1e-6

    def by(change_a, change_v):
        up = loss_of(a + change_a, v + change_v, x, label, entropy)
        return (up - loss_of(a - change_a, v - change_v, x, label, entropy)) / (2 * h)

    for q in range(4):
        unit = np.eye(4)[q] * h
        moved = -(np.log(after[held[q], 0]) - a[q]) / rate
        assert moved == pytest.approx(by(unit, 0.0) if q < 3 else 0.0, abs=1e-5)
        for k in range(values):
            change = np.zeros_like(v)
            change[q, k] = h
            slow = kernels.SLOW if q == 3 else 1.0
            # the penalty on entropy is one on logits, values have no part in it
            assert -(after[held[q], k + 1] - v[q, k]) / rate == pytest.approx(
                slow * by(0.0, change), abs=1e-5
            )
    rest = np.setdiff1d(np.arange(6), held)
    assert np.array_equal(after[rest], before[rest])


def test_the_top_is_kept_in_order_with_ties():
    kept = np.empty(6, np.int64)
    found = kernels.keep(np.array([1.0, 3.0, 2.0, 2.0, 2.0, 5.0]), 6, 3, kept)
    assert kept[:found].tolist() == [1, 2, 5]


def test_the_start_is_the_log_count_ratio():
    state = State.begin(kernels.SGD, np.array([[0.0, 6.0], [6.0, 0.0], [3.0, 3.0]]), np.array([1.0, 3.0]))
    pull = state.table[:, 0] * state.table[:, 1]
    assert pull[:3] == pytest.approx([np.log(3), -np.log(3), 0], abs=1e-12)
    assert state.table[-1] == pytest.approx([1.0, np.log(3)], abs=1e-12)


def test_a_checkpoint_goes_on_to_the_same_bits(reviews, tmp_path, monkeypatch):
    (texts, labels), _ = reviews
    whole = AttentionClassifier(epochs=6).fit(texts, labels)
    file = tmp_path / "c.npz"
    passes = kernels.one_pass
    calls = []

    def broken(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return passes(*arguments)

    monkeypatch.setattr(kernels, "one_pass", broken)
    model = AttentionClassifier(epochs=6, checkpoint=file)
    with pytest.raises(KeyboardInterrupt):
        model.fit(texts, labels)
    model.fit(texts, labels)
    assert len(calls) == 4 + 3
    assert np.array_equal(model.values_, whole.values_)
    assert np.array_equal(model.attention_, whole.attention_)
    with pytest.raises(ValueError, match="must be of the same texts and settings, got another training's"):
        AttentionClassifier(epochs=7, checkpoint=file).fit(texts, labels)
    file.write_bytes(b"else")
    with pytest.raises(ValueError, match="must be one of a text training, got another file; delete it"):
        model.fit(texts, labels)


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from conftest import drawn
from hardmax.text import AttentionClassifier
texts, labels = drawn(400, 0)
model = AttentionClassifier(epochs=60, checkpoint=sys.argv[1])
model._fit(texts, labels, None, lambda *told: time.sleep(0.05))
"""


@pytest.mark.compiled
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on this system")
def test_a_killed_training_keeps_a_checkpoint(reviews, tmp_path):
    (texts, labels), _ = reviews
    file = tmp_path / "c.npz"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file), os.path.dirname(__file__)])
    deadline = time.monotonic() + 120
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    told = []
    model = AttentionClassifier(epochs=60, checkpoint=file)
    model._fit(texts, labels, None, lambda done, *rest: told.append(done))
    assert 1 < told[0] <= 60  # the first pass was not gone through again
    assert np.array_equal(model.values_, AttentionClassifier(epochs=60).fit(texts, labels).values_)


def test_rows_of_any_matrix():
    from scipy.sparse import coo_matrix

    rows = TextRows.of(coo_matrix(np.array([[0, 2], [1, 0]])).tocsr())
    assert [each.dtype for each in rows.arrays] == [np.float64, np.int32, np.int64]
    assert rows.take(np.array([1])).indices.tolist() == [0]
