"""AttentionClassifier as scikit-learn's checks and its users meet it."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS

from hardmax.text import AttentionClassifier, NgramVectorizer


@pytest.mark.compiled
@pytest.mark.slow
def test_all_checks_of_scikit_learn(monkeypatch):
    """Two checks hand negative numbers to every class, whatever its tags say; they get theirs moved up."""
    from sklearn.linear_model import SGDClassifier

    blobs = estimator_checks.make_blobs

    def moved_up(*args, **options):
        X, y = blobs(*args, **options)
        return X - X.min(), y

    monkeypatch.setattr(estimator_checks, "make_blobs", moved_up)
    expected = PER_ESTIMATOR_XFAIL_CHECKS[SGDClassifier]
    found = estimator_checks.check_estimator(
        AttentionClassifier(n_jobs=1), expected_failed_checks=expected, on_fail=None, on_skip=None
    )
    other = {each["check_name"]: each for each in found if each["status"] not in ("passed", "xfail")}
    assert set(other) <= {"check_array_api_input"}  # which asks for an environment variable
    assert all(each["status"] == "skipped" for each in other.values())
    assert {each["check_name"] for each in found if each["status"] == "xfail"} <= set(expected)
    assert len(found) > 55


@pytest.mark.parametrize("solver", ["auto", "sgd", "adagrad"])
def test_texts_lists_and_counts(reviews, solver):
    (texts, labels), (more, truth) = reviews
    vectorizer = NgramVectorizer(binary=True)
    kinds = [
        (texts, more),
        (np.array(texts, dtype=object), np.array(more)),
        ([text[:-1].lower().split() for text in texts], [text[:-1].lower().split() for text in more]),
        (vectorizer.fit_transform(texts), vectorizer.transform(more)),
    ]
    models = [AttentionClassifier(ngram_range=(1, 1), solver=solver).fit(X, labels) for X, _ in kinds]
    assert all(model.score(X, truth) > 0.9 for model, (_, X) in zip(models, kinds, strict=True))
    assert np.array_equal(models[0].decision_function(more), models[1].decision_function(more))
    assert np.array_equal(models[0].decision_function(more), models[3].decision_function(kinds[3][1]))
    dense = AttentionClassifier(solver=solver).fit(kinds[3][0].toarray(), labels)
    assert dense.decision_function(kinds[3][1].toarray()) == pytest.approx(
        dense.decision_function(kinds[3][1]), abs=1e-12
    )


def test_columns_of_tables(reviews):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    (texts, labels), (more, _) = reviews
    frame = pandas.DataFrame({"text": texts, "label": np.where(labels == 1, "good", "bad")})
    model = AttentionClassifier().fit(frame["text"], frame["label"])
    assert set(model.predict(pandas.Series(more))) == {"good", "bad"}


def test_several_classes(draw):
    texts, labels = draw(600, 0, classes=3)
    more, truth = draw(200, 1, classes=3)
    model = AttentionClassifier(solver="adagrad", ngram_range=(1, 1)).fit(texts, labels)
    assert model.values_.shape == (len(model.attention_), 3)
    assert model.score(more, truth) > 0.85
    found = model.predict_proba(more)
    assert found.sum(axis=1) == pytest.approx(np.ones(200), abs=1e-12)
    assert (found.argmax(axis=1) == model.predict(more)).all()
    assert np.exp(model.predict_log_proba(more)) == pytest.approx(found, abs=1e-12)


@pytest.mark.compiled
def test_threads_do_not_change_a_bit(reviews, monkeypatch):
    (texts, labels), (more, _) = reviews
    monkeypatch.setattr("hardmax.text.counting.vectorizer.workers", lambda n_jobs: n_jobs)
    monkeypatch.setattr("hardmax.text.classifier.workers", lambda n_jobs: n_jobs)
    monkeypatch.setattr("hardmax.text.counting.vectorizer.DOCUMENTS", 37)
    monkeypatch.setattr("hardmax.text.classifier.TEXTS", 41)
    one, four = (AttentionClassifier(n_jobs=n).fit(texts, labels) for n in (1, 4))
    assert np.array_equal(one.attention_, four.attention_)
    assert np.array_equal(one.values_, four.values_)
    assert np.array_equal(one.decision_function(more), four.decision_function(more))


@pytest.mark.compiled
def test_works_with_the_tools_of_scikit_learn(reviews):
    (texts, labels), (more, truth) = reviews
    model = AttentionClassifier(epochs=5, n_jobs=1)
    assert cross_val_score(model, texts, labels, cv=3).mean() > 0.85
    search = GridSearchCV(model, {"solver": ["sgd", "adagrad"], "dropout": [0.0, 0.3]}, cv=2).fit(
        texts, labels
    )
    assert search.score(more, truth) > 0.9
    calibrated = CalibratedClassifierCV(model, cv=2).fit(texts, labels)
    assert np.mean(calibrated.predict_proba(more).argmax(axis=1) == truth) > 0.9
    pipe = make_pipeline(CountVectorizer(), clone(model)).fit(texts, labels)
    assert pipe.score(more, truth) > 0.9
    own = AttentionClassifier(vectorizer=CountVectorizer(), epochs=5).fit(texts, labels)
    assert own.score(more, truth) > 0.9


def test_weights_turn_predictions(reviews):
    (texts, labels), (more, _) = reviews
    share = [
        AttentionClassifier(class_weight={0: 1, 1: weight}, dropout=0.9)
        .fit(texts, labels)
        .predict(more)
        .mean()
        for weight in (0.01, 1, 100)
    ]
    assert share[0] < share[1] < share[2]
    one = AttentionClassifier(class_weight={0: 1, 1: 3}).fit(texts, labels)
    other = AttentionClassifier().fit(texts, labels, sample_weight=np.where(labels == 1, 3.0, 1.0))
    assert np.array_equal(one.values_, other.values_)


def test_class_weights_survive_training(draw):
    """Passes beyond separation undo weights: the default takes fewer where a class has few texts."""
    more, truth = draw(600, 99)
    scores = {"attention": [], "long": [], "logistic": []}
    for seed in range(3):
        texts, labels = draw(2200, seed)
        chosen = np.sort(np.append(np.flatnonzero(labels == 0)[:1000], np.flatnonzero(labels == 1)[:30]))
        texts, labels = [texts[k] for k in chosen], labels[chosen]
        model = AttentionClassifier(class_weight="balanced").fit(texts, labels)
        longer = AttentionClassifier(class_weight="balanced", epochs=60).fit(texts, labels)
        logistic = LogisticRegression(class_weight="balanced")
        usual = make_pipeline(TfidfVectorizer(), logistic).fit(texts, labels)
        assert (model.n_iter_, AttentionClassifier().fit(texts, labels).n_iter_) == (2, 20)
        for name, each in (("attention", model), ("long", longer), ("logistic", usual)):
            scores[name].append(f1_score(truth, each.predict(more), average="macro"))
    assert np.mean(scores["attention"]) > np.mean(scores["long"])
    assert min(scores["attention"]) > max(scores["logistic"])


def test_partial_fit(reviews):
    (texts, labels), (more, truth) = reviews
    vectorizer = HashingVectorizer(n_features=2**12, norm=None, alternate_sign=False)
    model = AttentionClassifier(vectorizer=vectorizer)
    for _ in range(5):
        for at in range(0, 400, 100):
            model.partial_fit(texts[at : at + 100], labels[at : at + 100], classes=[0, 1])
    assert model.score(more, truth) > 0.9
    with pytest.raises(ValueError, match=r"y must hold labels of classes, \[0, 1\], got 2"):
        model.partial_fit(texts[:1], [2])
    with pytest.raises(ValueError, match="classes must be all labels that will come, got None"):
        clone(model).partial_fit(texts, labels)


def test_early_stopping_keeps_the_best(reviews):
    (texts, labels), _ = reviews
    model = AttentionClassifier(early_stopping=True, patience=3, validation_fraction=0.25).fit(texts, labels)
    scores = model.validation_scores_
    assert model.n_iter_ == len(scores) < 50
    assert len(scores) - 1 - int(np.argmax(scores)) == 3


def test_warm_start_goes_on(reviews):
    (texts, labels), _ = reviews
    model = AttentionClassifier(warm_start=True, epochs=2).fit(texts, labels)
    first = model.loss_curve_[0]
    model.fit(texts, labels)
    assert model.loss_curve_[0] < 0.7 * first
    with pytest.raises(ValueError, match=r"y must hold the classes of the first fit, \[0, 1\]"):
        model.fit(texts, labels + 1)


def test_sparse_reads_few_tokens(reviews):
    (texts, labels), (more, truth) = reviews
    full = AttentionClassifier(ngram_range=(1, 1)).fit(texts, labels)
    few = AttentionClassifier(ngram_range=(1, 1), top_k=3).fit(texts, labels)
    assert few.score(more, truth) > 0.9
    assert np.array_equal(few.predict(more), few.evaluate_top_k(more, k=3).predictions)
    sharp = AttentionClassifier(ngram_range=(1, 1), entropy_penalty=0.5).fit(texts, labels)
    assert sharp.evaluate_top_k(more, k=3).needed < 0.8 * full.evaluate_top_k(more, k=3).needed


def test_the_full_model(reviews):
    (texts, labels), (more, truth) = reviews
    model = AttentionClassifier(solver="embeddings", ngram_range=(1, 1), dimension=32, lr=0.01).fit(
        texts, labels
    )
    assert model.score(more, truth) > 0.9
    assert model.embeddings_.E.shape == (len(model.attention_), 32)
    with pytest.raises(ValueError, match='solver="embeddings" must have labels of two classes, got 3'):
        AttentionClassifier(solver="embeddings").fit(texts[:6], [0, 1, 2] * 2)


def test_a_text_that_says_nothing_has_the_score_of_the_background(reviews):
    (texts, labels), _ = reviews
    model = AttentionClassifier().fit(texts, labels)
    with pytest.warns(UserWarning, match="2 of 3 texts hold no token that the model knows"):
        scores = model.decision_function(["", "never seen", texts[0]])
    assert scores[:2].tolist() == [model.background_[0]] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(texts)


@pytest.mark.parametrize(
    "X, y, said",
    [
        (["a b", "b a"], [1, 1], "y must hold at least two classes, got one class, .*1"),
        (["a b", "b a"], [1, "x"], "y must hold labels of one type, got int and str"),
        (["a b", "b a"], ["x", None], "y must have a label for each text, got None at 1"),
        (["a b a b", "a b", "b"], [0, 1], "y must have 3 labels, one per text, got 2"),
        (["a b", None], [0, 1], r"X\[1\] must be a string, got None; use ''"),
        (["", ""], [0, 1], "X must hold words, got none in 2 texts"),
        ("a b", [0], "X must be a list of texts or a matrix of counts, got one text"),
        ([[1.0, -1.0], [0.0, 1.0]], [0, 1], "Negative values in data passed to AttentionClassifier"),
        ([[1.0, np.nan], [0.0, 1.0]], [0, 1], "Input X contains NaN"),
    ],
)
def test_bad_input_is_told_in_a_sentence(X, y, said):
    labels = np.array(y, dtype=object) if any(isinstance(each, str | None) for each in y) else y
    with pytest.raises(ValueError, match=said):
        AttentionClassifier().fit(X, labels)


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"solver": "lbfgs"}, "solver must be one of auto, sgd, adagrad, embeddings, got 'lbfgs'"),
        ({"epochs": 0}, "epochs must be an integer of at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be a share below 1, got 1.0"),
        ({"top_k": 0}, "top_k must be an integer of at least 1, got 0"),
        ({"top_k": 10, "entropy_penalty": 0.1}, "top_k and entropy_penalty must not be given together"),
        ({"top_k": 1.5}, "top_k must be an integer of at least 1, got 1.5"),
        ({"entropy_penalty": -0.1}, "entropy_penalty must be a number of at least 0, got -0.1"),
        ({"lr": "fast"}, "lr must be a number of at least 0, got 'fast'"),
        (
            {"early_stopping": True, "validation_fraction": 0.999},
            "validation_fraction must leave texts of each",
        ),
    ],
)
def test_bad_settings_are_told_in_a_sentence(settings, said):
    with pytest.raises(ValueError, match=said):
        AttentionClassifier(**settings).fit(["a b", "b a"] * 4, [0, 1] * 4)


def test_weights_must_make_sense(reviews):
    (texts, labels), _ = reviews
    with pytest.raises(ValueError, match="sample_weight must be at least 0, got -1 at 0"):
        AttentionClassifier().fit(texts, labels, sample_weight=[-1.0] + [1.0] * 399)
    with pytest.raises(ValueError, match="sample_weight must leave at least two classes"):
        AttentionClassifier().fit(texts, labels, sample_weight=(labels == 1).astype(float))


def test_texts_and_counts_are_not_mixed(reviews):
    (texts, labels), _ = reviews
    model = AttentionClassifier().fit(texts, labels)
    with pytest.raises(ValueError, match="X must be texts or lists of words as in fit, got csr_matrix"):
        model.predict(csr_matrix(np.eye(3)))
    counts = AttentionClassifier().fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="X must be a matrix of counts as in fit, got texts"):
        counts.predict(["a"])
    hashed = AttentionClassifier(vectorizer=HashingVectorizer())
    with pytest.raises(ValueError, match=r"Negative values in data passed to .* see alternate_sign"):
        hashed.fit(texts, labels)


def test_no_texts_are_refused_by_that_name():
    for empty in ([], ()):
        with pytest.raises(ValueError, match="X must hold at least two texts, got none"):
            AttentionClassifier().fit(empty, [])


def test_explain_as_a_step_of_a_pipeline():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    texts, labels = ["good film", "bad film", "good plot", "bad plot"] * 5, ["+", "-", "+", "-"] * 5
    pipeline = make_pipeline(CountVectorizer(), AttentionClassifier()).fit(texts, labels)
    model, counts = pipeline[-1], pipeline[:-1].transform(["good film"])
    for text in ("good film", ["good film"], np.ones((2, 4)), [1.0]):
        with pytest.raises(
            ValueError, match=r"text must be one row of 4 counts, .* pipeline\[:-1\]\.transform"
        ):
            model.explain(text)
    explained = [model.explain(row) for row in (counts, counts.toarray(), counts.toarray()[0].tolist())]
    assert {each.label for each in explained} == {"+"}
    assert len({each.score for each in explained}) == 1


def test_weights_whose_scores_are_not_floats_are_refused():
    with pytest.raises(ValueError, match="the model has larger weights; train it with smaller rates"):
        AttentionClassifier(lr=1e300, epochs=2).fit(["good", "bad"] * 9, ["+", "-"] * 9)
