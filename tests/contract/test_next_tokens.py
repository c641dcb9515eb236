"""Next tokens: sentences, what makes them realizable, both stages of training, the limit, and prediction."""

import math
from fractions import Fraction

import numpy as np
import pytest

from . import formulas as f
from . import names as n

SVOP = ["S V O P", "V O P", "O P P", "P S V"]
SAMPLES = n.samples(SVOP)


def model_loss(samples, W_kq, W_ov):
    """Cross-entropy of softmax(W_ov x), x the attended one-hot token, attention softmax(W_kq[:, query])."""
    total = 0.0
    for i in range(samples.n):
        words = [samples.vocabulary.index(word) for word in samples.sentence(i).split()]
        s = f.softmax(W_kq[words, words[-1]])
        logits = W_ov[:, words] @ s
        total -= samples.weight[i] * np.log(f.softmax(logits)[samples.target[i]])
    return total


def by_differences(function, x):
    g = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[k] = 1e-5
        g[k] = (function(x + step) - function(x - step)) / 2e-5
    return g


def test_sentences_and_samples(tmp_path):
    text = n.sentences(["the cat sat", ["the", "dog"]])
    assert text.vocabulary == ("the", "cat", "sat", "dog")
    n.write_sentences(tmp_path / "two.txt", text)
    assert n.read_sentences(tmp_path / "two.txt").words(1) == ["the", "dog"]
    assert n.sentence_example("C-EX-1").words(0) == [*"SVOP"]
    assert (SAMPLES.n, SAMPLES.V) == (9, 4)  # every prefix with its next token
    assert SAMPLES.weight.sum() == pytest.approx(1.0)
    assert n.samples([[0, 1], [0, 1], [1, 0]]).weight.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert n.samples_from_trie(SVOP).query.tolist() == SAMPLES.query.tolist()


def test_what_is_realizable():
    assert n.next_tokens(SAMPLES).tolist() == [1, 2, 3, 0]
    assert n.orders(SAMPLES).edges() == {0: [(0, 3)], 1: [(1, 0)], 2: [(2, 0), (2, 1)], 3: [(2, 3)]}
    assert n.components(SAMPLES) == {}
    assert n.components(n.samples(["A B B", "C A B C", "B C"])) == {1: [(0, 1)]}
    found = n.analyze(SVOP)
    assert found.realizable
    assert n.structure(found).sentences() == [[0, 1, 2, 3], [1, 2, 3], [2, 3, 3], [3, 0, 1]]
    assert [(v.kind, v.count) for v in n.analyze(["A B", "B C"]).violations] == [("missing_collocation", 1)]
    assert [v.kind for v in n.analyze(["A B A", "B C", "C A"]).violations] == ["unreachable"]
    repaired = n.analyze(["A B", "B C"], repair=True)
    assert repaired.realizable
    part = n.realizable_part(["a b b", "a b c", "b a", "c c"])
    assert (part.samples, part.of_samples) == (5, 6)
    assert n.regenerate(found.n, found.orders, [2, 0, 3]).next == 3
    assert n.regenerate(found.n, found.orders, [0, 1, 3]).candidates == (0, 1)


def test_the_check_as_an_answer():
    found = n.check_sentences(["A B A", "B C", "C A"])
    assert (found.exit_code, found.realizable) == (1, False)
    assert n.check_sentences(SVOP).json()["collocation"] == {"S": "V", "V": "O", "O": "P", "P": "S"}


def test_drawn_sentences_are_realizable():
    made, told = n.generate_sentences(8, rng=3)
    assert n.analyze(made.text).realizable
    assert told.exit_code == 0
    assert n.analyze(n.generate_by_rejection(5, rng=0)).legal


def test_the_output_stage():
    """C-THM-S1: k normalized steps give W_ov = k lr times the unit of (1[n(s)] - 1/V)."""
    unit = np.array([[float(r == c) - 0.25 for c in [1, 2, 3, 0]] for r in range(4)])
    found = n.output_stage([1, 2, 3, 0], 20, 0.1)
    assert f.close(found.table, 2.0 * unit / np.linalg.norm(unit))
    assert f.close(n.descend_output_stage([1, 2, 3, 0], 20, 0.1).table, found.table)
    assert f.close(n.aligned_output([1, 2, 3, 0], 3.0).table, 3.0 * unit)
    assert f.close(n.output_of_table([1, 2, 3, 0], found.table).norm, 2.0)


def test_loss_and_gradients_of_the_model():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    model = n.next_token_model(SAMPLES, A, B)
    assert model.loss == pytest.approx(model_loss(SAMPLES, A, B), rel=1e-12)
    assert f.close(model.gradient_kq, by_differences(lambda x: model_loss(SAMPLES, x, B), A), atol=1e-8)
    assert f.close(model.gradient_ov, by_differences(lambda x: model_loss(SAMPLES, A, x), B), atol=1e-8)
    E = n.orthonormal_embedding(4, 6, rng=0)
    assert f.close(E.T @ E, np.eye(4))
    inside = n.embedded_model(SAMPLES, E, E @ A @ E.T, B @ E.T)
    assert inside.model.loss == pytest.approx(model.loss, rel=1e-10)
    assert f.close(inside.gradient_ov, model.gradient_ov @ E.T, atol=1e-10)


def test_the_attention_stage():
    """Stage 2 takes normalized steps of W_kq on the loss with W_ov held."""
    run = n.train_next_tokens(SAMPLES, 12, lr=0.1, output_steps=20, output_lr=0.1)
    W_ov, W_kq = n.output_stage([1, 2, 3, 0], 20, 0.1).table, np.zeros((4, 4))
    for _ in range(12):
        g = n.next_token_model(SAMPLES, W_kq, W_ov).gradient_kq
        W_kq = W_kq - 0.1 * g / np.linalg.norm(g)
    assert f.close(run.W_kq.toarray(), W_kq, rtol=1e-9, atol=1e-10)
    assert run.loss == pytest.approx(model_loss(SAMPLES, W_kq, W_ov), rel=1e-9)
    pairs = n.pairs_of(SAMPLES)
    a = np.zeros(pairs.P)
    n.attention_stage(pairs, n.output_stage([1, 2, 3, 0], 20, 0.1)).descend(a, rate=0.1, steps=12)
    assert f.close(pairs.table(a), W_kq, rtol=1e-9, atol=1e-10)


def test_the_limit_of_attention():
    star = n.star(SAMPLES)
    assert star.norm_squared == Fraction(13, 6)
    run = n.train_next_tokens(SAMPLES, 900, lr=0.025)
    assert n.train_next_tokens(SAMPLES, 9000, lr=0.025).misalignment_kq < run.misalignment_kq < 1e-3
    late = n.late_phase(star)
    far = n.train_next_tokens(SAMPLES, 10_000, lr=0.1)
    assert late.predicted_misalignment(1000.0) == pytest.approx(far.misalignment_kq, rel=2e-3)
    flow = n.flow_next_tokens(SAMPLES, 1e12, lr=0.025)
    assert flow.norm_kq == pytest.approx(0.025e12, rel=1e-4)
    assert flow.misalignment_kq == pytest.approx(late.predicted_misalignment(0.025e12), rel=1e-4)


def test_joint_training_of_both_matrices():
    """Each step is divided by the norm of the whole gradient."""
    run = n.train_next_tokens_jointly(SAMPLES, 30, 0.1)
    A, B, losses = np.zeros((4, 4)), np.zeros((4, 4)), []
    for _ in range(30):
        model = n.next_token_model(SAMPLES, A, B)
        losses.append(model.loss)
        step = 0.1 / np.hypot(np.linalg.norm(model.gradient_kq), np.linalg.norm(model.gradient_ov))
        A, B = A - step * model.gradient_kq, B - step * model.gradient_ov
    assert f.close(run.losses[:30], losses, rtol=1e-9)


def test_unmerged_matrices():
    start = n.unmerged_model(SAMPLES, np.eye(4), 4, 4, scale=0.1, rng=0)
    assert f.close(start.merged.W_kq, start.W_k @ start.W_q) or f.close(
        start.merged.W_kq, start.W_q @ start.W_k
    )
    run = n.train_unmerged(start, 300, 0.1)
    assert run.losses[-1] < 0.1 * run.losses[0]
    assert run.losses[0] == pytest.approx(start.merged.model.loss)


def test_prediction(tmp_path):
    """C-EX-2 of the paper: four inputs that were never seen, the last an exact tie."""
    predictor = n.train_next_tokens(SAMPLES, 900).predictor
    assert [predictor.predict(each).next(1)[0][0] for each in ("S P", "O S P", "V P")] == [*"VPO"]
    told = predictor.predict("S V P")
    assert told.rule == "tie"
    assert told.next(2)[0][1] == pytest.approx(told.next(2)[1][1])
    assert [each.weight for each in predictor.predict("S P", limit=True).attended] == [1.0, 0.0]
    n.save_predictor(tmp_path / "model.npz", predictor)
    again = n.load_predictor(tmp_path / "model.npz")
    assert again.predict("O S P").next() == predictor.predict("O S P").next()


def test_training_to_a_file(tmp_path):
    done = n.train_to_file(SVOP, tmp_path / "model.npz", steps=300)
    assert (done.json()["steps"], done.exit_code) == (300, 0)
    assert n.predict_from_file(tmp_path / "model.npz", "O S P").json()["next"][0]["token"] == "P"
    assert n.train_to_file(SVOP, tmp_path / "model.npz", steps=900, resume=True).json()["steps"] == 900
    whole = n.train_next_tokens(SAMPLES, 900).predictor.predict("O S P").next()
    told = n.predict_from_file(tmp_path / "model.npz", "O S P").json()["next"]
    assert [each["probability"] for each in told] == pytest.approx([chance for _, chance in whole])
    assert math.fsum(each["probability"] for each in told) == pytest.approx(1.0)
