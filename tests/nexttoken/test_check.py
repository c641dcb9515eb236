"""C-ALG-EXTRACT, C-ALG-ORDERS, C-DEF-TYPES: the oracles, and a plain reading of the definitions."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.margin.closed_forms import kq_column, kq_star, ov_star
from hardmax.nexttoken import Samples, Sentences, analyze, named_sentences
from hardmax.nexttoken.analysis import _round_trip
from hardmax.nexttoken.relations import components

WORDS = list("abcde")
corpora = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=14)


def letters(oracle):
    return Sentences.from_lists([list(raw) for raw in oracle["raw_sentences"]], oracle["vocabulary"])


def relations(analysis):
    """The orders in the oracles' writing: query -> ["S>P", ...]."""
    words = analysis.trie.sentences.vocabulary
    found = {word: [] for word in words}
    for q, edges in analysis.orders.edges().items():
        found[words[q]] = [f"{words[o]}>{words[x]}" for o, x in edges]
    return found


def counts(analysis):
    return {each.kind: each.count for each in analysis.violations}


def test_example_1(oracles):
    oracle = oracles["c"]["C-ORC-1_example1"]
    analysis = analyze(letters(oracle))
    words = oracle["vocabulary"]
    assert analysis.realizable
    assert analysis.legal
    assert analysis.assumptions == {"C-ASM-1": True, "C-ASM-1R": True, "C-ASM-3": True}
    assert dict(zip(words, analysis.words(analysis.n), strict=True)) == oracle["collocation"]
    assert relations(analysis) == oracle["orders"]
    types = {
        q: {x: t.replace("_", "-") for x, t in zip(words, analysis.orders.types(i), strict=True)}
        for i, q in enumerate(words)
    }
    assert types == oracle["types"]
    star = kq_star(analysis.orders.edges(), len(words)).fractions
    assert star.tolist() == [
        [Fraction(entry) for entry in row] for row in oracle["W_kq_star_rows_token_cols_query"]
    ]
    assert (star**2).sum() == Fraction(oracle["W_kq_star_norm2"])
    assert (ov_star(analysis.n.tolist()).fractions ** 2).sum() == Fraction(oracle["W_ov_star_norm2"])


def test_figure_2(oracles):
    oracle = oracles["c"]["C-ORC-9_fig2_V20"]
    analysis = analyze(oracle["raw_sentences"])
    star = kq_star(analysis.orders.edges(), oracle["V"]).fractions
    assert analysis.realizable
    assert (star**2).sum() == Fraction(oracle["W_kq_star_norm2"])


def test_slack_edges_need_a_collocation_that_is_not_injective(oracles):
    oracle = oracles["c"]["C-ORC-5_slack_edge_noninjective"]
    analysis = analyze(letters(oracle))
    words = oracle["vocabulary"]
    assert dict(zip(words, analysis.words(analysis.n), strict=True)) == oracle["collocation"]
    assert {q: sorted(found) for q, found in relations(analysis).items()} == oracle["orders"]
    assert counts(analysis) == {"not_injective": 1}
    assert analysis.violations[0].witnesses == (oracle["injectivity_violation"],)
    edges = analysis.orders.edges()
    column = {words[x]: value for x, value in kq_column(edges[words.index("q")]).items()}
    assert column == {x: Fraction(w) for x, w in oracle["true_W_kq_star_column_q"].items()}
    assert (kq_star(edges, len(words)).fractions ** 2).sum() == Fraction(oracle["true_norm2"])


def test_every_query_has_a_connected_graph(oracles):
    """The disconnected graph of C-ORC-6 is no dataset's: its edges never leave out the query itself."""
    for raw in (
        letters(oracles["c"]["C-ORC-5_slack_edge_noninjective"]),
        named_sentences("C-FIG-2"),
        named_sentences("C-EXT-2"),
    ):
        for q, edges in analyze(raw).orders.edges().items():
            assert all(q in (o, x) or (q, x) in edges or (o, q) in edges for o, x in edges)


@pytest.mark.parametrize("number", range(7))
def test_violations(oracles, number):
    oracle = oracles["c"]["C-ORC-7_violations"][number]
    analysis = analyze(letters(oracle))
    expected = set(oracle["all_violation_kinds"])
    if oracle["name"] == "confused_cyclic":
        expected.add("cycle")  # the addendum: a checker that names it too is right
    assert set(counts(analysis)) == expected
    assert not analysis.realizable
    found = [
        {"kind": each.kind, **squeezed(witness)} for each in analysis.violations for witness in each.witnesses
    ]
    assert any(each.items() >= oracle["witness"].items() for each in found)
    assert analysis.legal == (oracle["name"] == "assumption3")


def squeezed(witness):
    """The oracles write sentences without spaces, and few words for each witness."""
    if not isinstance(witness, dict):
        return witness
    tight = {key: value.replace(" ", "") for key, value in witness.items() if key == "sentence"}
    return {key: squeezed(value) for key, value in witness.items()} | tight


def test_a_cycle_is_told_edge_by_edge(oracles):
    oracle = oracles["c"]["C-ORC-7_violations"][1]
    (cycle,) = next(each.witnesses for each in analyze(letters(oracle)).violations if each.kind == "cycle")
    assert cycle == {
        "query": "B",
        "cycle": oracle["cycle"],
        "samples": [{"sentence": "A B", "next": "B"}, {"sentence": "C A B", "next": "C"}],
    }


def test_confusion_without_a_cycle_is_acyclic():
    assert set(counts(analyze(named_sentences("C-EXT-1")))) == {"confused"}


@pytest.mark.parametrize(
    "name, kinds",
    [
        ("C-EX-1", {}),
        ("C-FIG-2", {}),
        ("C-ERR-06", {}),
        ("C-CEX-P2", {"not_injective": 1}),
        ("C-ERR-02", {"unreachable": 1}),
        ("C-EXT-1", {"confused": 1}),
    ],
)
def test_named_datasets_break_what_they_are_for(name, kinds):
    assert counts(analyze(named_sentences(name))) == kinds


def test_extensions_break_what_they_are_for():
    assert set(counts(analyze(named_sentences("C-EXT-2")))) == {"not_injective"}
    long = analyze(named_sentences("C-EXT-3"))
    assert set(counts(long)) == {"assumption3"}
    assert long.words(long.n) == ["o", "s", "h"]


def plain(sentences, V):
    """All violations by the definitions, with sets and loops; what each kind counts."""
    samples = {(tuple(r[:k]), r[k]) for r in sentences for k in range(1, len(r))}
    following = defaultdict(set)
    for X, y in samples:
        following[X].add(y)
    n = {X[0]: min(ys) for X, ys in following.items() if len(X) == 1 and len(ys) == 1}
    above, below = defaultdict(set), defaultdict(set)
    heavier = unreachable = 0
    for X, y in samples:
        deciding = {x for x in X if n.get(x) == y}
        others = set(X) - deciding
        unreachable += not deciding and len(X) > 1
        if deciding:
            most = sum(X.count(x) for x in deciding)
            heavier += sum(X.count(x) > most for x in others)
            for x in others:
                below[X[-1], x] |= deciding
            if others:
                for x in deciding:
                    above[X[-1], x] |= others
    return {
        "nondeterministic": sum(len(ys) > 1 for ys in following.values()),
        "missing_collocation": V - len(n),
        "not_injective": sum(list(n.values()).count(y) > 1 for y in set(n.values())),
        "unreachable": unreachable,
        "confused": len(above.keys() & below.keys()),
        "cycle": len({q for q, x in above if returns(above, q, x)}),
        "assumption3": heavier,
    }


def returns(above, q, start):
    reached, queue = set(), [start]
    while queue:
        fresh = above.get((q, queue.pop()), set()) - reached
        reached |= fresh
        queue += fresh
    return start in reached


@given(corpora)
def test_counts_are_those_of_the_definitions(sentences):
    analysis = analyze(Sentences.from_lists(sentences, WORDS))
    expected = {kind: count for kind, count in plain(sentences, len(WORDS)).items() if count}
    assert counts(analysis) == expected
    assert all(len(each.witnesses) == min(each.count, 3) for each in analysis.violations)


@given(corpora)
def test_small_parts_change_nothing(sentences):
    text = Sentences.from_lists(sentences, WORDS)
    whole = analyze(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardmax.nexttoken.walking.SHARE", 2)
        pieces = analyze(text)
    assert pieces.violations == whole.violations
    for name in ("query", "above", "below", "witness"):
        np.testing.assert_array_equal(getattr(pieces.orders, name), getattr(whole.orders, name))


@given(corpora)
def test_types_are_disjoint_and_cover_the_vocabulary(sentences):
    found = analyze(Sentences.from_lists(sentences, WORDS)).orders
    typed = {
        name: set(zip(*found.of_type(name), strict=True)) for name in ("optimal", "non_optimal", "confused")
    }
    for q in range(len(WORDS)):
        for x, name in enumerate(found.types(q)):
            assert [each for each, pairs in typed.items() if (q, x) in pairs] == [name] * (name in typed)


def test_a_repair_is_flagged_and_changes_no_order():
    found, mended = analyze(["a b c b", "b c"]), analyze(["a b c b", "b c"], repair=True)
    assert counts(found) == {"missing_collocation": 1}
    assert mended.realizable
    assert mended.words(mended.repaired) == ["c"]
    assert mended.words(mended.n) == ["b", "c", "a"]
    assert mended.orders.edges() == found.orders.edges()


def test_a_repair_does_not_choose_between_next_tokens():
    mended = analyze(["a b", "a c", "b a", "d a"], repair=True)
    assert set(counts(mended)) == {"nondeterministic", "missing_collocation", "not_injective"}
    assert mended.words(mended.repaired) == ["c"]
    assert mended.n[0] == -1


def test_witnesses_are_in_the_users_words():
    analysis = analyze(["the cat sat", "the dog ran", "cat the", "dog cat"])
    assert analysis.violations[0].witnesses == (
        {"sentence": "the", "next": ["cat", "dog"], "choices": 2, "raw": ["the cat sat", "the dog ran"]},
    )


def test_only_one_token_sentences():
    analysis = analyze(["a", "b"])
    assert counts(analysis) == {"missing_collocation": 2}
    assert not analysis.orders.edges()


def test_one_string_is_not_a_dataset():
    with pytest.raises(ValueError, match="read_sentences"):
        analyze("a b c")


def test_samples_and_sentences_are_datasets_alike():
    raw = named_sentences("C-EX-1")
    assert analyze(Samples.from_sentences(raw)).orders.edges() == analyze(raw).orders.edges()


def test_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match="optimal, non_optimal, confused"):
        analyze(named_sentences("C-EX-1")).orders.of_type("best")


def test_a_cycle_need_not_hold_the_first_token():
    assert _round_trip([(0, 1), (1, 2), (2, 1)]) == [1, 2, 1]
    with pytest.raises(ValueError, match="must have a cycle"):
        _round_trip([(0, 1), (1, 2)])


def test_the_library_reads_sentences_to_their_end():
    """Issue: cut at 64 tokens without a word, confused data was called realizable."""
    chain = [f"w{i}" for i in range(70)]
    data = [[*chain, "w0"], ["w68", "w69", "w69"], *([f"w{i}", f"w{(i + 1) % 70}"] for i in range(1, 70))]
    assert {each.kind for each in analyze(data).violations} == {"confused", "cycle"}
    assert analyze(data).realizable is False
    assert analyze(Sentences.from_lists(data, max_length=64)).realizable is None


def test_components_of_a_longer_cycle():
    samples = Samples.from_sentences(["A B B", "C A B C", "B C"])
    assert components(samples) == components(analyze(["A B B", "C A B C", "B C"]).orders) == {1: [(0, 1)]}
