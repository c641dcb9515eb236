"""Attention that has to find the next token in the sentence: components, and what stays finite."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.nexttoken import Samples
from hardmax.nexttoken.relations import collocation, components


def test_the_peers_notebook(oracles):
    """One component, {0, 5} under query 2; its numbers are those of two logits that meet twice."""
    peer = oracles["d"]["peers"]["next_token_scc"]
    raw = [[*sentence, label] for sentence, label in zip(peer["sentences"], peer["labels"], strict=True)]
    samples = Samples.from_sentences(raw)
    expected = peer["components_larger_than_one_by_query"]
    assert components(samples, np.arange(6)) == {
        int(q): [tuple(each) for each in found] for q, found in expected.items() if found
    }
    found = hm.decompose(samples.label_problem())
    assert (found.kind, found.status, len(found.bound)) == ("mixed", "certified", 2)
    # 5 is above 0 in one sample and below in another of the same weight: they stay level
    np.testing.assert_allclose(found.p_fin, 0.0, atol=1e-15)


sentences = st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=6), min_size=2, max_size=6)


@given(sentences)
@settings(max_examples=25)
def test_bound_rows_are_inside_components(raw):
    samples = Samples.from_sentences([[str(x) for x in each] for each in raw])
    n = np.arange(samples.V)
    try:
        problem = samples.label_problem()
    except ValueError:
        assert not components(samples, n)
        return
    found, inside = hm.decompose(problem), components(samples, n)
    pairs = np.unique(
        [
            q * samples.V + x
            for i in range(samples.n)
            if samples.target[i] in samples.tokens[samples.offsets[i] : samples.offsets[i + 1]]
            for q in [samples.query[i]]
            for x in samples.tokens[samples.offsets[i] : samples.offsets[i + 1]]
        ]
    )
    bound = set()
    for i, t in found.bound:
        first = problem.offsets[i]
        both = pairs[problem.tokens[[first + found.selection[i], first + t]]]
        bound |= {(int(x) // samples.V, int(x) % samples.V) for x in both}
    assert bound == {(q, x) for q, each in inside.items() for members in each for x in members}


def test_by_collocation():
    """Tokens that lead to the next one are the label; under B, A and B decide against each other."""
    samples = Samples.from_sentences(["A B B", "C A B C", "B C"])
    found = hm.decompose(samples.label_problem(collocation(samples)))
    assert components(samples) == {1: [(0, 1)]}
    assert found.kind == "mixed"
    with pytest.raises(ValueError, match="n must lead from some token"):
        Samples.from_sentences(["a b c"]).label_problem()
