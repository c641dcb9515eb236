"""Linear classifiers as attention over classes: cross-entropy, the SVM of Crammer and Singer, bad input."""

import mpmath
import numpy as np
import pytest

import hardmax as hm


def draw(seed, n=12, k=3, d=4, apart=3.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, d)) + apart * np.eye(k, d)[y], y


@pytest.mark.parametrize("seed", range(5))
def test_loss_is_the_cross_entropy_to_fifty_digits(seed):
    X, y = draw(seed, apart=0.5)
    W = np.random.default_rng(seed + 100).normal(size=(3, 4)) * 3
    with mpmath.workdps(50):
        logits = [[mpmath.fdot(map(mpmath.mpf, w), map(mpmath.mpf, x)) for w in W] for x in X]
        each = [mpmath.log(sum(map(mpmath.exp, z))) - z[c] for z, c in zip(logits, y, strict=True)]
        truth = float(sum(each) / len(y))
    assert hm.loss(hm.Problem.from_classes(X, y), W) == pytest.approx(truth, rel=1e-15, abs=1e-15)


def test_labels_are_sorted_and_of_any_kind():
    X, y = draw(0)
    names = np.array(["left", "right", "top"])[y]
    numbers, strings = hm.Problem.from_classes(X, y), hm.Problem.from_classes(X, names)
    assert hm.max_margin(numbers).margin == hm.max_margin(strings).margin
    assert tuple(hm.best_tokens(strings).tokens) == tuple(y)


@pytest.mark.parametrize("seed", range(3))
def test_max_margin_is_the_svm_of_crammer_and_singer(seed):
    svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is not installed")
    X, y = draw(seed)
    best = hm.max_margin(hm.Problem.from_classes(X, y))
    model = svm.LinearSVC(multi_class="crammer_singer", C=1e6, fit_intercept=False, tol=1e-10, max_iter=10**6)
    other = model.fit(X, y).coef_
    other = other - other.mean(axis=0)  # rows may be shifted together without a change of margins
    assert best.is_certified
    assert hm.cosine_distance(best.W.ravel(), other.ravel()) < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_max_margin_equals_a_quadratic_program(seed):
    cvxopt = pytest.importorskip("cvxopt", reason="cvxopt is not installed")
    X, y = draw(seed)
    rows = []
    for x, c in zip(X, y, strict=True):
        for other in {0, 1, 2} - {int(c)}:
            row = np.zeros((3, 4))
            row[c] += x
            row[other] -= x
            rows.append(row.ravel())
    cvxopt.solvers.options.update(show_progress=False, abstol=1e-12, reltol=1e-12, feastol=1e-12)
    found = cvxopt.solvers.qp(
        cvxopt.matrix(np.eye(12)),
        cvxopt.matrix(np.zeros(12)),
        cvxopt.matrix(-np.array(rows)),
        cvxopt.matrix(-np.ones(len(rows))),
    )
    margin = 1 / np.linalg.norm(np.array(found["x"]))
    assert hm.max_margin(hm.Problem.from_classes(X, y)).margin == pytest.approx(margin, rel=1e-9)


@pytest.mark.parametrize(
    ("optimizer", "bound"),
    [(hm.optim.Normalized(0.1), 0.01), (hm.optim.Sign(0.1, decay=0.5), 0.05), (hm.optim.Muon(0.02), 0.05)],
)
def test_each_optimizer_maximizes_the_margin_of_its_norm(optimizer, bound):
    problem = hm.Problem.from_classes(*draw(1))
    run = hm.train(problem, optimizer, steps=5000)
    assert run.margin_gap(hm.max_margin(problem, norm=optimizer.norm)) < bound


def test_classes_that_do_not_separate_have_a_verdict():
    X = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    problem = hm.Problem.from_classes(X, [0, 1, 2])
    assert hm.max_margin(problem).status == "infeasible"
    assert hm.decompose(problem).kind == "mixed"


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[1.0], [2.0]], [1, 1], ["y", "two classes"]),
        ([[1.0], [2.0]], [1], ["y", "2 labels"]),
        ([[1.0], [2.0]], [1, "a"], ["y", "one kind"]),
        ([[1.0], [2.0]], [1, None], ["y", "one kind"]),
        ([[1.0], [2.0]], [1, float("nan")], ["y", "one kind"]),
        ([[1.0], [2.0]], 3, ["y", "labels"]),
        ([[], []], [0, 1], ["X", "features"]),
        ([[1.0], [float("inf")]], [0, 1], ["X", "finite"]),
        ([1.0, 2.0], [0, 1], ["X", "shape"]),
    ],
)
def test_bad_input_is_refused_by_name(X, y, words):
    with pytest.raises(ValueError, match=words[0]) as refusal:
        hm.Problem.from_classes(X, y)
    assert all(word in str(refusal.value) for word in words)
