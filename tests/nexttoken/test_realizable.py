"""The realizable part: what is guaranteed, and how much it keeps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.nexttoken import Sentences, analyze, generate, named_sentences, read_sentences
from hardmax.nexttoken.realizable import realizable_part

corpora = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=7), min_size=1, max_size=25)


def kept(part):
    return [] if part.sentences is None else [part.sentences.words(i) for i in range(part.sentences.n)]


@given(corpora, st.booleans())
def test_the_part_is_realizable_and_made_of_beginnings(sentences, repair):
    text = Sentences.from_lists(sentences)
    raw = [text.words(i) for i in range(text.n)]
    part = realizable_part(text, repair=repair)
    beginnings = kept(part)
    left = iter(raw)
    for words in beginnings:  # in the order of the file, each from a sentence of its own
        assert any(sentence[: len(words)] == words for sentence in left)
    assert part.samples == sum(len(words) - 1 for words in beginnings)
    assert part.of_samples == sum(len(words) - 1 for words in raw)
    assert part.whole + part.cut == len(beginnings)
    assert part.whole <= sum(words in raw for words in beginnings)
    if part.sentences is not None:
        analysis = analyze(part.sentences, repair=repair)
        assert analysis.realizable
        assert set(part.sentences.vocabulary) == {word for words in beginnings for word in words}


@given(corpora)
def test_with_a_repair_no_fewer_first_pairs_are_kept(sentences):
    strict, mended = (realizable_part(sentences, repair=repair) for repair in (False, True))
    assert len(kept(mended)) >= len(kept(strict))


@given(st.integers(2, 9), st.integers(0, 2**32))
def test_a_realizable_dataset_is_its_own_part(V, seed):
    made = generate(V, permutation="uniform", rng=seed)
    part = realizable_part(made.text)
    assert (part.whole, part.cut, part.samples) == (len(made.sentences), 0, part.of_samples)


@given(corpora)
def test_the_first_pairs_are_the_best_there_are(sentences):
    """The collocation, by exhaustion over all partial permutations of observed pairs."""
    pairs = {}
    for sentence in sentences:
        if len(sentence) > 1:
            pairs.setdefault(sentence[0], {}).setdefault(sentence[1], 0)
            pairs[sentence[0]][sentence[1]] += 1
    best = 0
    for images in itertools.product(*([None, *options] for options in pairs.values())):
        chosen = {x: y for x, y in zip(pairs, images, strict=True) if y is not None}
        if set(chosen) == set(chosen.values()) and len(set(chosen.values())) == len(chosen):
            best = max(best, sum(pairs[x][y] for x, y in chosen.items()))
    assert len(kept(realizable_part(sentences))) == best


def test_frequent_continuations_go_first():
    part = realizable_part(["a b a", "a b b", "a b b", "b a"])
    assert kept(part) == [["a", "b"], ["a", "b", "b"], ["a", "b", "b"], ["b", "a"]]
    assert (part.whole, part.cut, part.samples, part.of_samples) == (3, 1, 6, 7)


def test_nothing_is_kept_where_no_tokens_form_a_cycle():
    part = realizable_part(["a b c", "b c"])
    assert (part.sentences, part.whole, part.cut, part.samples, part.of_samples) == (None, 0, 0, 0, 3)
    assert kept(realizable_part(["a b c", "b c"], repair=True)) == [["a", "b", "c"], ["b", "c"]]
    assert realizable_part(["a"]).sentences is None
    assert realizable_part(["a"], repair=True).sentences is None


def test_a_token_that_follows_itself_is_a_cycle():
    assert kept(realizable_part(["a a a", "a b"])) == [["a", "a", "a"]]


@pytest.mark.parametrize("name", ["C-CEX-P2", "C-ERR-02", "C-EXT-1", "C-EXT-2", "C-EXT-3"])
def test_parts_of_the_named_datasets(name):
    part = realizable_part(named_sentences(name))
    assert 0 < part.samples < part.of_samples
    assert analyze(part.sentences).realizable


@pytest.mark.slow
def test_real_text(shared_data):
    text = read_sentences(shared_data / "tinyshakespeare.txt.xz")
    analysis = analyze(text)
    assert not analysis.realizable
    assert {"nondeterministic", "missing_collocation", "not_injective"} <= {
        v.kind for v in analysis.violations
    }
    part = realizable_part(analysis.trie)
    assert 0 < part.samples < 0.01 * part.of_samples
    assert analyze(part.sentences).realizable
    mended = realizable_part(analysis.trie, repair=True)
    assert part.samples < mended.samples < 0.1 * mended.of_samples
    assert analyze(mended.sentences, repair=True).realizable


@pytest.mark.parametrize("repair", [False, True])
def test_one_token_sentences_leave_nothing(repair):
    part = realizable_part([["a"], ["b"]], repair=repair)
    assert (part.whole, part.samples, part.sentences) == (0, 0, None)
