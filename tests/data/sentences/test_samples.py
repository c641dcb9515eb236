"""C-DEF-DATA: prefixes, frequencies, and samples in token-index space."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.nexttoken import Samples, Sentences, analyze
from hardmax.nexttoken.relations import collocation, complete

corpora = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=7), min_size=1, max_size=12).filter(
    lambda sentences: max(map(len, sentences)) > 1
)


def multiplicities(sentences):
    """D_0 by the definition: how often each (X, y) occurs."""
    return Counter((tuple(r[:k]), r[k]) for r in sentences for k in range(1, len(r)))


def test_example_1(oracles):
    oracle = oracles["c"]["C-ORC-1_example1"]
    samples = Samples.from_sentences([list(raw) for raw in oracle["raw_sentences"]])
    assert samples.vocabulary == tuple(oracle["vocabulary"])
    assert (samples.n, samples.raw_length, samples.length.max()) == (9, 4, 3)
    found = [
        {"X": samples.sentence(i).replace(" ", ""), "next": samples.vocabulary[samples.target[i]]}
        for i in range(samples.n)
    ]
    assert found == [{key: each[key] for key in ("X", "next")} for each in oracle["samples"]]
    np.testing.assert_allclose(samples.weight, [float(Fraction(each["pi"])) for each in oracle["samples"]])


def test_figure_2_counts(oracles):
    oracle = oracles["c"]["C-ORC-9_fig2_V20"]
    samples = Samples.from_sentences(oracle["raw_sentences"])
    assert (samples.n, samples.V, samples.raw_length) == (oracle["N"], oracle["V"], oracle["L_max"])


@given(corpora)
def test_samples_are_those_of_the_definition(sentences):
    samples = Samples.from_sentences(sentences, vocabulary=list("abcde"))
    counted = multiplicities(sentences)
    total = sum(counted.values())
    found = {}
    for i in range(samples.n):
        X = tuple("abcde".index(word) for word in samples.sentence(i).split())
        found[X, int(samples.target[i])] = samples.weight[i]
        part = slice(samples.offsets[i], samples.offsets[i + 1])
        assert dict(zip(samples.tokens[part], samples.counts[part], strict=True)) == Counter(X)
        assert samples.tokens[part].tolist() == list(dict.fromkeys(X))
        assert (samples.query[i], samples.length[i]) == (X[-1], len(X))
    assert found == pytest.approx({key: times / total for key, times in counted.items()})
    assert samples.weight.sum() == pytest.approx(1)


@given(corpora)
def test_uniform_weights_belong_to_sentences(sentences):
    samples = Samples.from_sentences(sentences, uniform=True)
    by_sentence = Counter()
    for i in range(samples.n):
        by_sentence[samples.sentence(i)] += samples.weight[i]
    assert list(by_sentence.values()) == pytest.approx([1 / len(by_sentence)] * len(by_sentence))


@given(corpora)
def test_merging_keeps_the_weight_of_every_multiset(sentences):
    samples = Samples.from_sentences(sentences)

    def by_content(some):
        found = Counter()
        for i in range(some.n):
            part = slice(some.offsets[i], some.offsets[i + 1])
            content = frozenset(zip(some.tokens[part].tolist(), some.counts[part].tolist(), strict=True))
            found[content, int(some.query[i]), int(some.target[i])] += some.weight[i]
        return found

    merged = samples.merged()
    assert by_content(merged) == pytest.approx(by_content(samples))
    assert merged.n == len(by_content(samples))
    assert merged.sentence(0) == samples.sentence(0)
    assert merged.offsets[-1] == len(merged.tokens) == len(merged.counts)


def test_two_next_tokens_are_two_samples():
    samples = Samples.from_sentences(["a b", "a c", "a c"])
    assert samples.target.tolist() == [1, 2]
    np.testing.assert_allclose(samples.weight, [1 / 3, 2 / 3])


def test_a_long_sentence_is_cut_and_its_lost_words_are_no_tokens():
    text = Sentences.from_lists(["a b " * 3 + "c", "b a"], max_length=4)
    assert (text.cut, text.cut_tokens, text.vocabulary) == (1, 3, ("a", "b"))
    assert Samples.from_sentences(text).raw_length == 4


def test_ids_are_tokens_in_increasing_order_or_positions_in_the_vocabulary():
    assert Sentences.from_lists([[900, 5]]).tokens.tolist() == [1, 0]
    assert Sentences.from_lists([np.array([2, 0])], list("abc")).words(0) == ["c", "a"]


@pytest.mark.parametrize(
    "sentences, vocabulary, words",
    [
        ([], None, "at least one sentence"),
        ([[], "  "], None, "at least one sentence"),
        ([[1, "a"]], None, "all words or all integer ids, got int, str"),
        ([[True, False]], None, "got bool"),
        ([[0.5]], None, "got float"),
        ([[-1, 2]], None, "ids from 0 to 9223372036854775807"),
        ([[1, 2**70]], None, "ids from 0 to 9223372036854775807"),
        ([[1, 3]], ["a", "b"], "ids from 0 to 1"),
        (["a c"], ["a", "b"], "lacks 'c'"),
        (["a b"], ["a", "a", "b"], "'a' twice"),
        ([3], None, r"sentences\[0\]"),
        ([b"a b"], None, r"sentences\[0\]"),
    ],
)
def test_bad_sentences_are_refused_in_words(sentences, vocabulary, words):
    with pytest.raises(ValueError, match=words):
        Sentences.from_lists(sentences, vocabulary)


def test_limits_are_refused_in_words(monkeypatch):
    with pytest.raises(ValueError, match="max_length"):
        Samples.from_sentences(["a b"], max_length=1)
    with pytest.raises(ValueError, match="no next token to learn"):
        Samples.from_sentences(["a", "b"])
    monkeypatch.setattr("hardmax.data.sentences.samples.LARGEST", 4)
    with pytest.raises(ValueError, match="max_length below 3"):
        Samples.from_sentences(["a b c"])
    monkeypatch.setattr("hardmax.data.sentences.samples.LARGEST_PASS", 4)
    with pytest.raises(ValueError, match="below 3"):
        Samples.from_sentences(["a b c"])
    monkeypatch.setattr("hardmax.nexttoken.walking.LARGEST_WALK", 4)
    with pytest.raises(ValueError, match="below 3"):
        analyze(["a b c"])
    monkeypatch.setattr("hardmax.data.sentences.sentences.LARGEST_VOCABULARY", 2)
    with pytest.raises(ValueError, match="at most 2 distinct tokens, got 3"):
        Samples.from_sentences(["a b c"])


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_a_completed_collocation_is_a_permutation_that_keeps_what_was_there(n, missing):
    partial = np.array([-1 if x in missing else y for x, y in enumerate(n)])
    full = complete(partial)
    assert sorted(full.tolist()) == list(range(6))
    assert (full[partial >= 0] == partial[partial >= 0]).all()


def test_collocation_is_missing_where_it_is_not_a_function():
    samples = Samples.from_sentences(["A B C", "A C", "B C", "C A"])
    assert collocation(samples).tolist() == [-1, 2, 0]


class Tensor:
    """As torch's: iterates over tensors, and knows `tolist`."""

    def __init__(self, values):
        self.array = np.array(values)
        self.shape = self.array.shape

    def __iter__(self):
        return (Tensor(row) for row in self.array)

    def __len__(self):
        return len(self.array)

    def tolist(self):
        return self.array.tolist()


@pytest.mark.parametrize(
    "data",
    [
        np.array([[5, 7, 5], [7, 5, 7]]),
        Tensor([[5, 7, 5], [7, 5, 7]]),
        [Tensor([5, 7, 5]), Tensor([7, 5, 7])],
        [np.array([[5], [7], [5]]), np.array([[7], [5], [7]])],
        np.array([[[5], [7], [5]], [[7], [5], [7]]]),
        [[Tensor(5), Tensor(7), 5], (7, 5, 7)],
    ],
)
def test_shapes_that_people_have(data):
    text = Sentences.from_lists(data)
    assert [text.words(i) for i in range(2)] == [["5", "7", "5"], ["7", "5", "7"]]


class Frame:
    """As pandas': iterating gives the names of the columns, ``iloc`` a column."""

    def __init__(self, **columns):
        self.columns, self._values = list(columns), list(columns.values())
        self.iloc = self

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, place):
        return np.array(self._values[place[1]], dtype=object)


def test_columns_of_a_table():
    assert Sentences.from_lists(Frame(text=["a b", "b a"])).words(1) == ["b", "a"]
    with pytest.raises(ValueError, match="one column of a table, got all of 'text', 'label'"):
        Sentences.from_lists(Frame(text=["a b", "b a"], label=[1, -1]))
    with pytest.raises(ValueError, match=r"sentences\[1\].*got nan"):
        Sentences.from_lists(Frame(text=["a b", float("nan")]))
