"""Corpora: what goes in comes out as counts, and the bridge to the problems of paper B."""

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

import hardmax as hm

from .conftest import Instance

CORPORA = [f"data.corpora.{name}" for name in ("corpus", "generators", "statistics")]
MODELS = [f"embeddings.{name}" for name in ("first_step", "one_layer", "two_layer")]

corpora = st.lists(
    st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.sampled_from([-1, 1])),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("name", CORPORA + MODELS)
def test_examples_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"hardmax.{name}"))
    assert found.attempted > 3
    assert found.failed == 0


@given(corpora)
def test_sequences_and_counts_say_the_same(rows: list[tuple[list[int], int]]) -> None:
    sequences, labels = [s for s, _ in rows], [y for _, y in rows]
    corpus = hm.Corpus.from_sequences(sequences, labels)
    assert [s.tolist() for s in corpus.sequences()] == [sorted(s) for s in sequences]
    assert corpus.lengths.tolist() == [len(s) for s in sequences]
    dense = np.array([[s.count(x) for x in range(corpus.S)] for s in sequences])
    np.testing.assert_array_equal(corpus.matrix.toarray(), dense)
    for M in (dense, dense.astype(float), csr_array(dense), coo_array(dense)):
        again = hm.Corpus.from_counts(M, labels)
        for name in ("tokens", "counts", "offsets", "labels"):
            np.testing.assert_array_equal(getattr(again, name), getattr(corpus, name))
        assert again.S == corpus.S


def test_dtypes_and_oracle_counts(oracles: dict, d1: Instance) -> None:
    corpus = d1.corpus
    assert corpus.matrix.toarray().tolist() == oracles["a"]["one_layer_D1"]["counts"]
    assert (corpus.n, corpus.S, corpus.T, corpus.nnz) == (4, 4, 3, 9)
    assert corpus.matrix.dtype == np.int64
    assert (corpus.tokens.dtype, corpus.counts.dtype, corpus.labels.dtype) == (np.intp, np.int64, np.int8)
    with pytest.raises(ValueError, match="read-only"):
        corpus.counts[0] = 7


def test_a_sparse_matrix_is_not_changed_and_its_duplicates_are_summed() -> None:
    M = csr_array((np.array([1, 1, 0, 3]), np.array([2, 2, 1, 0]), np.array([0, 3, 4])), shape=(2, 4))
    corpus = hm.Corpus.from_counts(M, [1, -1])
    assert M.nnz == 4
    assert (corpus.tokens.tolist(), corpus.counts.tolist(), corpus.S) == ([2, 0], [2, 3], 4)


def test_words() -> None:
    corpus = hm.Corpus.from_sequences([["b", "a", "b"], ["c"]], [1, -1])
    assert (corpus.vocabulary, corpus.word(2)) == (("b", "a", "c"), "c")
    ordered = hm.Corpus.from_sequences(["b a b", "c"], [1, -1], vocabulary=["a", "b", "c", "d"])
    assert ordered.matrix.toarray().tolist() == [[1, 2, 0, 0], [0, 0, 1, 0]]
    numbered = hm.Corpus.from_sequences(np.array([[0, 3], [1, 1]]), [1, -1], vocabulary=["a", "b", "c", "d"])
    assert numbered.sequences()[1].tolist() == [1, 1]
    assert hm.Corpus.from_sequences([[0, 1]], [1]).word(1) == "1"
    with pytest.raises(ValueError, match="lengths from 1 to 3"):
        _ = ordered.T


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: hm.Corpus.from_sequences([], []), "at least one sequence"),
        (lambda: hm.Corpus.from_sequences([[0], []], [1, 1]), r"sequences\[1\] is empty"),
        (lambda: hm.Corpus.from_sequences([[0], 3], [1, 1]), r"sequences\[1\] must be a string or a list"),
        (lambda: hm.Corpus.from_sequences([[0, "a"]], [1]), "all words or all integer ids, got int, str"),
        (lambda: hm.Corpus.from_sequences([[0, True]], [1]), "got bool, int"),
        (lambda: hm.Corpus.from_sequences([[0, -1]], [1]), "from 0 to 2147483647, got -1 to 0"),
        (lambda: hm.Corpus.from_sequences([[0, 2]], [1], ["a", "b"]), "from 0 to 1, got 0 to 2"),
        (lambda: hm.Corpus.from_sequences(["a b"], [1], ["a"]), "it lacks 'b'"),
        (lambda: hm.Corpus.from_sequences(["a"], [1], ["a", "a"]), "'a' twice"),
        (lambda: hm.Corpus.from_sequences([[0]], [2]), "labels must be"),
        (lambda: hm.Corpus.from_sequences([[0]], [1, 1]), "labels must have shape"),
        (lambda: hm.Corpus.from_sequences(5, [1]), "list of sequences, got 5"),
        (lambda: hm.Corpus.from_sequences("ab", [1, 1]), "list of sequences, got 'ab'"),
        (lambda: hm.Corpus.from_sequences(["a b"], [1], []), "vocabulary must be a list of words"),
        (lambda: hm.Corpus.from_sequences([[0]], [1], [7]), "vocabulary must be a list of words"),
        (lambda: hm.Corpus.from_counts([[1 + 1j]], [1]), "matrix of counts"),
        (lambda: hm.Corpus.from_counts([[2**62, 2**62], [1, 1]], [1, -1]), "at most 2\\^53 tokens"),
        (lambda: hm.Corpus.from_counts([[0.5]], [1]), "whole numbers"),
        (lambda: hm.Corpus.from_sequences([[10**20]], [1]), "from 0 to 2147483647"),
        (lambda: hm.Corpus.from_counts([[-1]], [1]), "whole numbers"),
        (lambda: hm.Corpus.from_counts([[np.nan]], [1]), "whole numbers"),
        (lambda: hm.Corpus.from_counts([[1, 0], [0, 0]], [1, 1]), "sequence 1 is empty"),
        (lambda: hm.Corpus.from_counts(np.zeros((0, 3)), []), "at least one row"),
        (lambda: hm.Corpus.from_counts("no", []), "matrix of counts"),
        (lambda: hm.Corpus.from_counts([[1, 1]], [1], ["a"]), "2 words"),
        (lambda: hm.Corpus.from_sequences([[0, 1]], [1]).problem([[1.0]], [1.0]), "E must have shape"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


@given(corpora, st.integers(0, 2**32 - 1))
def test_the_problem_of_paper_b_has_the_same_risk_and_gradient(
    rows: list[tuple[list[int], int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    corpus = hm.Corpus.from_sequences([s for s, _ in rows], [y for _, y in rows])
    E, p, v = rng.normal(size=(corpus.S, 3)), rng.normal(size=3), rng.normal(size=3)
    problem = corpus.problem(E, v)
    assert problem.sizes.tolist() == corpus.lengths.tolist()
    point = hm.embeddings.one_layer.evaluate(corpus, E @ p, E @ v)
    assert point.loss == pytest.approx(hm.loss(problem, p), rel=1e-13)
    found = hm.embeddings.one_layer.gradients(corpus, E, p, v)
    np.testing.assert_allclose(found.p, hm.gradient(problem, p).vector, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(found.v, hm.gradient(problem, p, wrt="v").vector, rtol=1e-10, atol=1e-15)


def test_the_problem_takes_any_loss_and_repeats_positions() -> None:
    corpus = hm.Corpus.from_sequences([[0, 1, 1], [1, 2]], [1, -1])
    problem = corpus.problem(np.eye(3), [1.0, 2.0, 3.0], loss="exponential")
    assert problem.tokens.tolist() == [0, 1, 1, 1, 2]
    assert problem.scores.tolist() == [1.0, 2.0, 2.0, -2.0, -3.0]
    assert problem.loss.name == "exponential"
    assert problem.key_map is not None  # keys are values: W may be trained too


def test_flow_on_the_infinite_width_limit_ends_at_the_max_margin_direction(oracles: dict) -> None:
    """A-ORC-8, the counter-example to Lemma 3, through the machinery of paper B."""
    given = oracles["a"]["statistics_A4"]
    corpus = hm.Corpus.from_sequences(given["sequences"], given["labels"])
    limit = hm.embeddings.first_step.infinite_width(corpus, 1024)
    best = oracles["a"]["maxmargin"][2]
    np.testing.assert_array_equal(limit.E, np.array(best["E"], dtype=float))
    problem = corpus.problem(limit.E, limit.v)
    path = hm.flow(problem, until_norm=1e6)
    phat = np.array([1 / 2, 1 / 2, 1 / 3, 1 / 3, -1 / 2, -1 / 2, -2 / 3, 0])
    assert hm.cosine_distance(path.p, phat) < 1e-10
    solved = hm.max_margin(problem, path.selection, exact=True)
    assert str(solved.exact.norm_squared) == best["norm_sq"]


def test_shapes_that_people_have():
    columns = np.array([[[0], [1], [1]], [[2], [0], [3]]])
    corpus = hm.Corpus.from_sequences(columns, np.array([[1], [-1]]))
    assert corpus.counts.tolist() == [1, 2, 1, 1, 1]
    assert corpus.labels.tolist() == [1, -1]
    with pytest.raises(ValueError, match=r"labels must have shape \(2,\)"):
        hm.Corpus.from_sequences(columns, np.array([[1, -1]]))
