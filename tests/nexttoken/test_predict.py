"""Predictions for unseen sentences: C-EX-2 with its tie, the limit, and models in files."""

import numpy as np
import pytest

from hardmax.nexttoken import Predictor, Samples, generate
from hardmax.nexttoken.stages import Pairs
from hardmax.nexttoken.training import train
from hardmax.problem.readouts import OutputValue

EXAMPLE_1 = ["S V O P", "V O P", "O P P", "P S V"]


@pytest.fixture(scope="module")
def samples():
    return Samples.from_sentences(EXAMPLE_1)


@pytest.fixture(scope="module", params=[20, 900])
def run(request, samples):
    return train(samples, stage1=request.param, first_rate=0.1, steps=900, rate=0.025)


TABLE = {"S P": ("V", "S"), "O S P": ("P", "O"), "V P": ("O", "V"), "O P": ("P", "O")}


@pytest.mark.parametrize("sentence", TABLE)
def test_example_2(run, sentence):
    told = run.predict(sentence)
    word, attended = TABLE[sentence]
    assert (told.next(1)[0][0], told.attended[0].word, told.rule) == (word, attended, "unique")
    if sentence != "O P":
        assert told.attended[0].weight == pytest.approx(0.99945, abs=2e-5)
    if run.stage_1_steps == 20 and sentence != "O P":
        assert told.next(1)[0][1] == pytest.approx(0.51381, abs=5e-6)
    if run.stage_1_steps == 900:
        assert 1 - told.next(1)[0][1] < 1e-15
    assert told.probabilities.sum() == pytest.approx(1)


def test_exact_tie(run):
    told = run.predict("S V P")
    (one, p), (other, q) = told.next(2)
    assert (told.rule, {one, other}, p) == ("tie", {"V", "O"}, q)
    assert p == pytest.approx(0.32019 if run.stage_1_steps == 20 else 0.5, abs=5e-6)
    assert [a.weight for a in told.attended[:2]] == [pytest.approx(0.49986, abs=1e-5)] * 2
    assert "V and O are equally probable" in told.reason
    assert run.predict("S S V P").rule == "ambiguous"  # the orders do not decide, the numbers do
    assert run.predict("S S V P").next(1)[0][0] == "V"


def test_small_logits_are_no_tie(samples):
    run = train(samples, stage1=1, first_rate=1e-14, steps=50)
    assert run.predict("S V O").rule == "unique"
    assert run.predict("S V P").rule == "tie"


def test_training_sentences_are_learnt(run, samples):
    for i in range(samples.n):
        told = run.predict(samples.sentence(i))
        assert told.next(1)[0][0] == samples.vocabulary[samples.target[i]]
        assert told.rule == "unique"


def test_limit(run):
    told = run.predict("O S P", limit=True)
    assert [(a.word, a.weight) for a in told.attended] == [("O", 1.0), ("S", 0.0), ("P", 0.0)]
    best = np.exp(run.W_ov.margin) / (np.exp(run.W_ov.margin) + 3)
    assert told.next(1)[0][1] == pytest.approx(best, rel=1e-12)
    # S and V are both non-optimal under O, with the same W_kq*: they share by what is left next to it
    shared = run.predict("S V O O", limit=True)
    assert shared.attended[0].weight == 1.0
    assert run.predict("S V P", limit=True).rule == "tie"


@pytest.mark.slow
def test_limit_is_approached():
    samples = Samples.from_sentences(generate(rng=0).sentences)
    run = train(samples, steps=100_000, rate=0.1)
    pairs = run.pairs
    column = pairs.query == np.bincount(pairs.query).argmax()
    words = [samples.vocabulary[x] for x in pairs.token[column]]
    lows = [w for w, p in zip(words, np.flatnonzero(column), strict=True) if p in run.star.below]
    query = samples.vocabulary[pairs.query[column][0]]
    if query not in lows:
        lows = [w for w in lows if w != query]
    sentence = [*lows, query]
    near, far = run.predict(sentence), run.predict(sentence, limit=True)
    for one in far.attended:
        other = next(a for a in near.attended if a.word == one.word)
        assert other.weight == pytest.approx(one.weight, abs=1e-6)


@pytest.mark.slow
def test_theorem_3(samples):
    """One non-comparable type among non-optimal tokens is attended to in the end (C-THM-3)."""
    data = Samples.from_sentences(generate(rng=0).sentences)
    run = train(data, steps=20_000)
    pairs = run.pairs
    for q in np.unique(pairs.query):
        kinds = run.orders.types(int(q))
        if kinds[q] != "non_optimal":
            continue
        for x, kind in enumerate(kinds):
            if kind == "non_comparable":
                told = run.predict([x, int(q)])
                assert told.next(1)[0][0] == data.vocabulary[pairs.collocation[x]]
                assert told.rule == "unique"


def test_too_little_training_is_said(samples):
    a = np.zeros(9)
    run = train(samples, steps=0)
    told = run.predict("O O P P P")
    assert run.a.tolist() == a.tolist()
    assert told.next(1)[0][0] == "S"
    assert told.reason.endswith("which leads to P; so far the weights prefer S")


def test_one_token_and_ids(run):
    assert run.predict([0]).next(1)[0][0] == "V"
    assert run.predict(["S", "S"]).attended[0].weight == 1.0
    with pytest.raises(ValueError, match="does not know 'X'; it knows 'S', 'V', 'O', 'P'"):
        run.predict("S X")
    with pytest.raises(ValueError, match="at least one token"):
        run.predict("")


def test_a_model_in_a_file_is_the_same_model(tmp_path, run):
    run.predictor.save(tmp_path / "model")
    again = Predictor.load(tmp_path / "model")
    for sentence in ("S V P", "O S P", "P"):
        one, other = run.predict(sentence), again.predict(sentence)
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
        assert (one.attended, one.rule, one.reason) == (other.attended, other.rule, other.reason)
        limits = run.predict(sentence, limit=True), again.predict(sentence, limit=True)
        np.testing.assert_array_equal(limits[0].probabilities, limits[1].probabilities)


def test_a_table_in_a_file(tmp_path, samples):
    n = Pairs.of(samples).collocation
    table = OutputValue.of_table(n, np.random.default_rng(0).standard_normal((4, 4)))
    run = train(samples, W_ov=table, steps=50)
    run.predictor.save(tmp_path / "model.npz")
    told = Predictor.load(tmp_path / "model.npz").predict("S V O")
    np.testing.assert_array_equal(told.probabilities, run.predict("S V O").probabilities)


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    np.save(tmp_path / "other.npy", np.zeros(3))
    (tmp_path / "empty").write_bytes(b"")
    for name in ("other.npz", "other.npy", "empty"):
        with pytest.raises(ValueError, match="must be a model written by hardmax ntp train"):
            Predictor.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        Predictor.load(tmp_path / "missing")


def test_damage_anywhere_in_a_file_is_said_or_harmless(tmp_path, samples):
    path = tmp_path / "model.npz"
    train(samples, steps=3).predictor.save(path)
    whole, draw = path.read_bytes(), np.random.default_rng(0)
    said = 0
    for _ in range(300):
        broken = bytearray(whole[: draw.integers(len(whole)) if draw.random() < 0.2 else None])
        for at in draw.integers(max(len(broken), 1), size=5 if broken else 0):
            broken[at] = draw.integers(256)
        path.write_bytes(broken)
        try:
            Predictor.load(path)
        except ValueError as error:
            said += str(error) == f"{path} must be a model written by hardmax ntp train, got another file"
    assert said > 250


def test_tokens_are_words_or_numbers(run):
    for strange in (1.5, None, False, 4, -1, b"S"):
        with pytest.raises(ValueError, match="does not know"):
            run.predict(["S", strange])
    assert run.predict([np.int64(0), "P"]).next(1) == run.predict("S P").next(1)
