"""Assumption 4: the checker against its definition, and what its witness says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings import assumption_4


def by_definition(corpus: hm.Corpus) -> bool:
    """Every sequence: exactly one occurrence of exactly one completely +- token, the rest irrelevant."""
    sequences, y = [s.tolist() for s in corpus.sequences()], corpus.labels.tolist()
    if len({len(s) for s in sequences}) > 1:
        return False
    labels = {t: {y[k] for k, s in enumerate(sequences) if t in s} for s in sequences for t in s}
    signed = {t: sum(y[k] * s.count(t) for k, s in enumerate(sequences)) for t in labels}
    for s in sequences:
        stars = [t for t in s if len(labels[t]) == 1]
        if len(stars) != 1 or any(signed[t] != 0 for t in s if t not in stars):
            return False
    return True


# Small alphabets, and pairs of sequences with the same companions, so that both answers are frequent.
sequences = st.integers(1, 4).flatmap(
    lambda T: st.lists(
        st.tuples(
            st.lists(st.integers(4, 5), min_size=T - 1, max_size=T - 1),
            st.integers(0, 1),
            st.integers(2, 3),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    )
)


@given(sequences)
def test_against_the_definition(rows: list[tuple[list[int], int, int, bool]]) -> None:
    lists, labels = [], []
    for companions, plus, minus, swapped in rows:
        lists += [[plus, *companions], [minus, *companions]]
        labels += [-1, 1] if swapped else [1, -1]
    corpus = hm.Corpus.from_sequences(lists, labels)
    found = assumption_4(corpus)
    assert found.holds == by_definition(corpus)
    if found.holds:
        assert found.witness is None
        assert found.important.tolist() == [s[0] for s in lists]
        # Consequences (a) and (b) of A-DEF-8.
        if corpus.T >= 2:
            assert int(corpus.labels.sum()) == 0
        share = np.bincount(found.important, minlength=corpus.S) / (corpus.n * corpus.T)
        np.testing.assert_allclose(np.abs(corpus.alpha)[corpus.important], share[corpus.important])
        assert (np.sign(corpus.alpha[found.important]) == corpus.labels).all()
    else:
        assert found.important is None
        with pytest.raises(ValueError, match="Assumption 4, which fails: sequence"):
            _ = corpus.important


def test_oracle(oracles: dict) -> None:
    given = oracles["a"]["statistics_A4"]
    found = assumption_4(hm.Corpus.from_sequences(given["sequences"], given["labels"]))
    assert found.holds is given["assumption4"]
    assert found.important.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "sequences, labels, reason, sequence, tokens, text",
    [
        (["a j", "b j j"], [1, -1], "length", 1, (), "sequence 1 has 3 tokens and sequence 0 has 2"),
        (["a j j", "b j i", "c i i"], [1, -1, 1], "relevant", 0, (1,), "'j' is neither"),
        (["a j", "j j", "b j", "c j"], [1, 1, -1, -1], "relevant", 0, (1,), "signed count 1 of 5"),
        (["a j", "i i", "b i", "j i"], [1, 1, -1, -1], "none", 1, (), "no token occurs"),
        (["a b", "c d"], [1, -1], "several", 0, (0, 1), "'a' and 'b' occur"),
        (["a a j", "b b j"], [1, -1], "repeated", 0, (0,), "'a' occurs 2 times"),
    ],
)
def test_witnesses(
    sequences: list[str], labels: list[int], reason: str, sequence: int, tokens: tuple[int, ...], text: str
) -> None:
    found = assumption_4(hm.Corpus.from_sequences(sequences, labels))
    assert not found.holds
    assert (found.witness.reason, found.witness.sequence, found.witness.tokens) == (reason, sequence, tokens)
    assert text in str(found.witness)
