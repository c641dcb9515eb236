"""Run: what every training returns, with and without points, and its file."""

import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings.gram import GramState, descend_gram, flow_gram
from hardmax.embeddings.two_layer import TwoLayerGram, descend_two_layer

CORPUS = hm.Corpus.from_sequences([[0, 2, 2], [1, 2], [0, 1, 0]], [1, -1, 1])
VECTORS = hm.embeddings.initial_vectors(3, 6, rng=0)
PROBLEM = hm.data.sphere(3, 4, 5, rng=0)
SENTENCES = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])

RUNS = {
    "descend": lambda: hm.train(PROBLEM, hm.optim.Normalized(0.1), steps=20),
    "flow": lambda: hm.flow(PROBLEM, until_norm=100.0),
    "p and v": lambda: hm.train(PROBLEM.joint(), hm.optim.Normalized(0.1), steps=20),
    "W": lambda: hm.train(
        PROBLEM.matrix(prompt=[1.0, 0.0, 2.0, 0.0, 0.0]), hm.optim.Normalized(0.1), steps=20
    ),
    "embeddings": lambda: hm.embeddings.one_layer.descend_embeddings(
        CORPUS, *VECTORS, steps=20, rate=0.5, train="Epv"
    ),
    "inner products": lambda: descend_gram(CORPUS, GramState.from_vectors(*VECTORS), steps=20, rate=0.5),
    "flow of inner products": lambda: flow_gram(CORPUS, GramState.from_vectors(*VECTORS), times=[0, 1, 5]),
    "two layers": lambda: descend_two_layer(CORPUS, TwoLayerGram.from_vectors(*VECTORS), steps=9, rate=0.5),
    "sentences": lambda: hm.nexttoken.training.train(SENTENCES, steps=40, rate=0.05),
    "flow of sentences": lambda: hm.nexttoken.training.train_by_flow(SENTENCES, 1000.0, rate=0.05),
    "W_kq and W_ov": lambda: hm.nexttoken.unmerged.train_jointly(SENTENCES, 40, 0.1),
    "mini-batches": lambda: hm.embeddings.minibatch.train_embeddings(
        CORPUS, 6, hm.optim.AdamW(0.05), epochs=9, batch=2, rng=0, start=VECTORS
    ),
}


@pytest.fixture(params=RUNS, scope="module")
def name_and_run(request):
    return request.param, RUNS[request.param]()


def test_every_training_has_what_a_run_has(name_and_run):
    name, run = name_and_run
    assert isinstance(run, hm.Run)
    assert run.clock == {"flow": "log t", "flow of inner products": "t", "flow of sentences": "flow"}.get(
        name, "step"
    )
    assert run.event is None
    assert len(run.times) == len(run.losses) == len(run.p_norms)
    assert np.isfinite(run.losses).all()
    assert run.p_norm == pytest.approx(np.linalg.norm(run.final), rel=1e-12)
    assert run.p_norms[-1] == pytest.approx(run.p_norm, rel=1e-12)
    assert run.cosine_distance(run.final) < 1e-30
    assert run.cosine_distance(-run.final) == pytest.approx(2.0)
    assert type(run).__name__ in repr(run)
    assert "stopped by" in run._repr_html_()
    assert len(run.plot().lines) > 0
    if name == "two layers":
        with pytest.raises(ValueError, match="a two-layer model cannot be converted"):
            _ = run.selection
    else:
        top = [weights.max() for weights in run.attention()]
        assert len(run.selection.sets) == len(top) == run.problem.n


def test_points_or_none(name_and_run):
    name, run = name_and_run
    if name in ("descend", "flow", "p and v", "W", "sentences", "flow of sentences"):
        np.testing.assert_array_equal(run.final, run.points[-1])
        np.testing.assert_allclose(run.losses[0], np.log(2.0), atol=2.0)
        return
    assert run.points is None
    assert run.cosine_distance(run) < 1e-30  # the direction of the end is known without the points
    for ask in (lambda: run.cosine_distance(run.final, at=0), lambda: run.directions):
        with pytest.raises(ValueError, match=r"points were|at must be -1, got 0: this run kept observables"):
            ask()


def test_one_reader_for_all_files(name_and_run, tmp_path):
    name, run = name_and_run
    if name == "two layers":
        with pytest.raises(ValueError, match="a two-layer model cannot be converted"):
            run.save(tmp_path / "run.npz")
        return
    run.save(tmp_path / "run.npz")
    back = hm.Run.load(tmp_path / "run.npz")
    assert (back.clock, back.event, back.method) == (run.clock, run.event, run.method)
    np.testing.assert_array_equal(back.times, run.times)
    np.testing.assert_array_equal(back.final[: len(run.final)], run.final.astype(float))
    assert not back.final[len(run.final) :].any()  # pairs of sentences that nothing moves
    np.testing.assert_array_equal(back.losses, run.losses)
    assert back.selection.sets == run.selection.sets
    assert (back.points is None) == (run.points is None)


def test_embeddings_end_where_their_problem_is_measured():
    """The risk of the last problem at the last p is the one that training saw."""
    run = RUNS["embeddings"]()
    assert hm.loss(run.problem, run.p) == pytest.approx(run.losses[-1], rel=1e-13)
    gram = descend_gram(CORPUS, GramState.from_vectors(*VECTORS), steps=20, rate=0.5, train="Epv")
    np.testing.assert_allclose(gram.losses, run.losses, rtol=1e-12)
    np.testing.assert_allclose(gram.p_norms, run.p_norms, rtol=1e-12)
    assert gram.selection.sets == run.selection.sets
    assert gram.attention()[0] == pytest.approx(run.attention()[0], rel=1e-10)


def test_a_training_by_batches_knows_only_its_last_norm():
    run = RUNS["mini-batches"]()
    assert np.isnan(run.p_norms[:-1]).all()
    assert not math.isnan(run.p_norms[-1])
    early = hm.embeddings.minibatch.train_embeddings(
        CORPUS, 6, hm.optim.AdamW(0.05), epochs=500, batch=2, rng=0, start=VECTORS, until_loss=0.2
    )
    assert early.event == "loss reached"
    none = hm.embeddings.minibatch.train_embeddings(CORPUS, 6, hm.optim.GD(0.1), epochs=0, rng=0)
    assert "to step = 0" in repr(none)
    assert none.p_norms.size == none.losses.size == 0


def test_the_run_of_W_is_that_of_q():
    run = RUNS["W"]()
    assert isinstance(run, hm.dynamics.WeightRun)
    np.testing.assert_allclose(run.W.T @ run.prompt, run.final, atol=1e-12)
    seen = hm.Problem.from_tokens(
        PROBLEM.readout.values.reshape(3, 4, 5), PROBLEM.readout.labels, PROBLEM.readout.v
    )
    assert hm.loss(seen, run.W.T @ run.prompt) == pytest.approx(run.losses[-1], rel=1e-12)


def test_sentences_say_what_their_problem_says():
    run = RUNS["sentences"]()
    assert run.losses[-1] == pytest.approx(run.loss, rel=1e-13)
    assert run.p_norm == pytest.approx(run.norm_kq, rel=1e-15)
    assert run.cosine_distance(run.star.values) == pytest.approx(run.misalignment_kq, rel=1e-9)
