"""A step that is under way in other threads, and one that is cut short by an error or an interrupt."""

import threading

import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings.minibatch import train as steps
from hardmax.embeddings.minibatch.kernels import TILE
from hardmax.embeddings.minibatch.train import OneLayerModel

RATE = 0.01
rng = np.random.default_rng(8)
CORPUS = hm.Corpus.from_sequences(rng.integers(0, 6, (20, 3)).tolist(), rng.choice([-1, 1], 20))
START = hm.embeddings.initial_vectors(CORPUS.S, 2 * TILE + 8, rng=1)  # three tiles


def model_of(workers):
    return OneLayerModel(*START, AdamW(RATE), "float32", workers)


def assert_same(found, expected):
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.fixture(scope="module")
def after():
    """The arrays after one step, and after two."""
    found = []
    with model_of(1) as model:
        for _ in range(2):
            model.step(CORPUS, RATE)
            model.observe()
            found.append(model.arrays())
    return found


@pytest.mark.parametrize("calls", [[], ["observe"], ["step"], ["observe", "observe"], ["step", "observe"]])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_an_error_in_a_thread_is_said_once_and_can_be_restored(monkeypatch, after, calls, workers):
    real, main = steps.finish_tile, threading.main_thread()

    def fails_elsewhere(*task):
        if workers == 1 or threading.current_thread() is not main:
            raise MemoryError("no room")
        real(*task)

    with model_of(workers) as model:
        model.restore(after[0])
        with monkeypatch.context() as patched:
            patched.setattr(steps, "finish_tile", fails_elsewhere)
            model.step(CORPUS, RATE)
            model.arrays()  # waits for the threads that fail
            said = [(MemoryError, "no room"), (RuntimeError, "cut short .* `restore` the model first")]
            for call, (kind, words) in zip(calls, said, strict=False):
                with pytest.raises(kind, match=words):
                    model.observe() if call == "observe" else model.step(CORPUS, RATE)
        model.restore(after[0])
        model.step(CORPUS, RATE)
        model.observe()
        assert_same(model.arrays(), after[1])


@pytest.mark.parametrize("stop", [1, 2, 3, 4])  # two threads are given rows, then the end of the step
def test_an_interrupt_between_threads_lets_no_tile_skip_a_step(monkeypatch, after, stop):
    with model_of(3) as model:
        model.step(CORPUS, RATE)
        submit, count = model._pool.submit, iter(range(1, 5))

        def interrupted(*task):
            if next(count) == stop:
                raise KeyboardInterrupt
            return submit(*task)

        with monkeypatch.context() as patched:
            patched.setattr(model._pool, "submit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.step(CORPUS, RATE)
        for call in (model.observe, lambda: model.step(CORPUS, RATE)):
            with pytest.raises(RuntimeError, match="`restore` the model first"):
                call()
        model.restore(after[0])
        assert_same(model.arrays(), after[0])
        model.step(CORPUS, RATE)
        model.observe()
        assert_same(model.arrays(), after[1])


def test_arrays_wait_for_the_other_threads(monkeypatch, after):
    real, begin = steps.finish_tile, threading.Event()

    def late(*task):
        begin.wait()
        real(*task)

    with model_of(3) as model:
        monkeypatch.setattr(steps, "finish_tile", late)
        model.step(CORPUS, RATE)
        timer = threading.Timer(0.05, begin.set)
        timer.start()
        others = slice(TILE, None)  # the first tile is the first thread's
        np.testing.assert_array_equal(model.vectors[:, others], after[0]["vectors"][:, others])
        timer.join()
