"""NgramVectorizer counts as CountVectorizer does, whatever the number of threads."""

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from hardmax.text import NgramVectorizer
from hardmax.text.counting import vectorizer

TOKEN = r"\w+(?:'+\w+)*|[!?]"


def plain_words(text: str) -> list[str]:
    """The tokens as the page describes them, by a regular expression."""
    return re.findall(TOKEN, text.lower())


def as_dictionaries(made, names):
    return [
        {names[j]: int(n) for j, n in zip(row.indices, row.data, strict=True)}
        for row in (made[[i]] for i in range(made.shape[0]))
    ]


def peer(texts, most, least):
    """CountVectorizer with the same tokens, and the rule that both parts of an n-gram are kept."""
    kept: set[str] = set()
    for n in range(1, most + 1):
        counts = CountVectorizer(tokenizer=plain_words, token_pattern=None, ngram_range=(n, n), min_df=least)
        try:
            counts.fit(texts)
        except ValueError:
            break
        names = counts.get_feature_names_out()
        words = [name.split() for name in names]
        kept |= {
            name
            for name, parts in zip(names, words, strict=True)
            if n == 1 or {" ".join(parts[:-1]), " ".join(parts[1:])} <= kept
        }
    full = CountVectorizer(
        tokenizer=plain_words, token_pattern=None, vocabulary=sorted(kept), ngram_range=(1, most)
    )
    return as_dictionaries(full.transform(texts), full.get_feature_names_out())


WORDS = st.lists(st.sampled_from(["a", "b'c", "B", "é", "D7", "!", "?", ", ", "..."]), max_size=12)


@given(st.lists(WORDS.map(" ".join), min_size=2, max_size=8), st.integers(1, 3), st.integers(1, 2))
def test_counts_are_those_of_scikit_learn(texts, most, least):
    made = NgramVectorizer(ngram_range=(1, most), min_df=least, n_jobs=1)
    try:
        found = made.fit_transform(texts)
    except ValueError:
        expected = [plain_words(text) for text in texts]
        held = [word for words in expected for word in set(words)]
        assert all(held.count(word) < least for word in held)
        return
    told = as_dictionaries(found, made.get_feature_names_out())
    assert told == peer(texts, most, least)
    assert as_dictionaries(made.transform(texts), made.get_feature_names_out()) == told


def test_words_as_the_docstring_says():
    made = NgramVectorizer(min_df=1).fit(["<br />Isn't 'this' GREAT?! a<b & 3.5 Ünïcödé—so’s “x”"])
    names = ["isn't", "this", "great", "?", "!", "a", "b", "3", "5", "ünïcödé", "so's", "x"]
    assert made.get_feature_names_out().tolist() == names
    assert made.vocabulary_ == {name: k for k, name in enumerate(names)}


def test_columns_go_by_falling_number_of_texts(reviews):
    (texts, _), _ = reviews
    made = NgramVectorizer(ngram_range=(1, 2))
    held = np.asarray((made.fit_transform(texts) > 0).sum(axis=0)).ravel()
    words = len(made.words_)
    assert (np.diff(held[:words]) <= 0).all()
    assert (np.diff(held[words:]) <= 0).all()
    assert held.min() == 2


@pytest.mark.compiled
def test_threads_do_not_change_a_bit(reviews, monkeypatch):
    (texts, _), _ = reviews
    monkeypatch.setattr(vectorizer, "workers", lambda n_jobs: n_jobs)
    monkeypatch.setattr(vectorizer, "DOCUMENTS", 37)
    monkeypatch.setattr("hardmax.text.counting.vectorizer.PIECE", 1000)
    made = [NgramVectorizer(ngram_range=(1, 3), n_jobs=n) for n in (1, 4)]
    one, four = (each.fit_transform(texts) for each in made)
    again = made[1].transform(texts)
    for other in (four, again):
        assert np.array_equal(one.indices, other.indices)
        assert np.array_equal(one.data, other.data)
        assert np.array_equal(one.indptr, other.indptr)
    assert made[0].get_feature_names_out().tolist() == made[1].get_feature_names_out().tolist()


def test_lists_are_taken_as_they_are():
    made = NgramVectorizer(min_df=1, ngram_range=(1, 2)).fit([["New York", "Big"], ["big"]])
    assert made.get_feature_names_out().tolist() == ["New York", "Big", "big", "New York Big"]
    assert made.transform([["Big", "New York"], []]).toarray().tolist() == [[1, 1, 0, 0], [0, 0, 0, 0]]


def test_only_longer_ones(reviews):
    (texts, _), _ = reviews
    both, longer = (NgramVectorizer(ngram_range=(n, 2)).fit(texts) for n in (1, 2))
    assert (
        longer.get_feature_names_out().tolist() == both.get_feature_names_out().tolist()[len(both.words_) :]
    )
    assert (longer.transform(texts) != both.transform(texts)[:, len(both.words_) :]).nnz == 0


def test_it_is_a_transformer(reviews):
    from sklearn.linear_model import LogisticRegression

    (texts, labels), (more, truth) = reviews
    made = clone(NgramVectorizer(binary=True, max_df=0.9))
    pipe = make_pipeline(made, LogisticRegression()).fit(texts, labels)
    assert pipe.score(more, truth) > 0.9
    again = pickle.loads(pickle.dumps(pipe))
    assert (again.predict(more) == pipe.predict(more)).all()
    assert pipe[0].transform(more).max() == 1


@pytest.mark.parametrize(
    "given, said",
    [
        ("one text", "X must be a list of texts, got one text; put it into a list"),
        ([""], "X must hold words, got none in 1 texts"),
        (["a b", "c"], "min_df must leave some words, got 2"),
        (["a", float("nan")], r"X\[1\] must be a string, got nan; use ''"),
        ([["a", 3]], r"X\[0\] must be a list of words, got 3 in it"),
        (7, "X must be a list of texts, got int"),
    ],
)
def test_bad_texts(given, said):
    with pytest.raises(ValueError, match=said):
        NgramVectorizer().fit(given)


@pytest.mark.parametrize(
    "settings, said",
    [
        (
            {"ngram_range": (2, 1)},
            r"ngram_range must be two whole numbers from 1 to 8, least first, got \(2, 1\)",
        ),
        ({"min_df": 0}, "min_df must be a whole number of texts from 1 on or a share"),
        ({"max_df": 1.5}, "max_df must be a whole number of texts"),
        ({"n_jobs": 0}, "n_jobs must be an integer of at least 1, got 0"),
    ],
)
def test_bad_settings(settings, said):
    with pytest.raises(ValueError, match=said):
        NgramVectorizer(**settings).fit(["a b", "a b"])
