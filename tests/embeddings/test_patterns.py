"""Selections with ties, max-margin problems of patterns, and which patterns some p realizes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.embeddings import pattern_max_margin, token_selection
from hardmax.embeddings.patterns import (
    affinely_independent,
    distinct_tokens,
    is_consistent,
    local_gap,
    realizable,
    realizable_patterns,
    score_selection,
)

from .conftest import numbers


def corpus_of(case: dict[str, Any]) -> hm.Corpus:
    return hm.Corpus.from_sequences(case["sequences"], case.get("labels", [1, -1] * 2))


@pytest.mark.parametrize("which", range(5), ids="abcde")
def test_max_margin_oracles_exactly(oracles, which):
    case = oracles["a"]["maxmargin"][which]
    corpus = corpus_of(case)
    best = pattern_max_margin(corpus, case["selection"], numbers(case["E"]))
    assert best.status == "certified"
    assert best.p == pytest.approx(numbers(case["phat"]), abs=1e-12)
    assert best.p_norm**2 == pytest.approx(float(Fraction(case["norm_sq"])), rel=1e-12)
    margins = best.constraints.rows()[~best.constraints.equal] @ best.p
    pairs = [
        pair for pair, tie in zip(best.constraints.labels, best.constraints.equal, strict=True) if not tie
    ]
    wanted = dict(zip(map(tuple, case["inequalities"]), numbers(case["margins"]), strict=True))
    assert dict(zip(pairs, margins, strict=True)) == pytest.approx(wanted, abs=1e-12)
    if which != 4:  # the thirds of 5e are no floats
        exact = pattern_max_margin(corpus, case["selection"], numbers(case["E"]), exact=True)
        assert exact.exact.norm_squared == Fraction(case["norm_sq"])
        assert list(exact.exact.p) == [Fraction(x) for x in case["phat"]]


@pytest.mark.parametrize("which", range(5), ids="abcde")
def test_the_solution_selects_its_own_pattern(oracles, which):
    case = oracles["a"]["maxmargin"][which]
    corpus, E = corpus_of(case), numbers(case["E"])
    best = pattern_max_margin(corpus, case["selection"], E)
    found = token_selection(corpus, E, best.p)
    assert found.selected == tuple(tuple(sorted(z)) for z in case["selection"])
    assert found.gap == pytest.approx(1.0, abs=1e-12)
    assert found.doubtful == ()


def test_inner_products_give_the_same_norm(oracles):
    for case in oracles["a"]["maxmargin"]:
        corpus, E = corpus_of(case), numbers(case["E"])
        best = pattern_max_margin(corpus, case["selection"], gram=E @ E.T)
        assert best.p_norm == pytest.approx(float(Fraction(case["norm_sq"])) ** 0.5, rel=1e-9)


def test_dropping_the_tie_selects_the_wrong_token(oracles):
    """A-ERR-8: without its equality, 5b has norm^2 1/66 and breaks the tie by -21/22."""
    case = oracles["a"]["maxmargin"][1]
    corpus, E = corpus_of(case), numbers(case["E"])
    rows = pattern_max_margin(corpus, case["selection"], E).constraints
    untied = hm.max_margin(rows.subset(np.flatnonzero(~rows.equal)))
    assert untied.p_norm**2 == pytest.approx(1 / 66, rel=1e-12)
    assert (E[0] - E[2]) @ untied.p == pytest.approx(-21 / 22, rel=1e-12)
    assert token_selection(corpus, E, untied.p).selected[0] == (2,)


def test_selection_of_the_oracle_instance(d1, oracles):
    wanted = oracles["a"]["one_layer_D1"]["selection_at_p"]
    found = token_selection(d1.corpus, d1.E, d1.p)
    for k, each in enumerate(wanted):
        assert list(found.selected[k]) == each["selected"]
        assert list(found.second[k]) == each["second"]
        assert list(found.rest[k]) == each["rest"]


@given(st.integers(0, 10**6))
def test_levels_are_those_of_the_scores(seed):
    rng = np.random.default_rng(seed)
    corpus = hm.Corpus.from_sequences(rng.integers(6, size=(4, 5)), [1, -1, 1, -1])
    scores = rng.integers(4, size=corpus.S).astype(float)
    E = np.column_stack([scores, rng.normal(size=corpus.S)])
    for found in (score_selection(corpus, scores), token_selection(corpus, 1e-7 * E, [1e3, 0.0])):
        for tokens, *sets in zip(
            distinct_tokens(corpus), found.selected, found.second, found.rest, strict=True
        ):
            values = sorted({scores[s] for s in tokens}, reverse=True)
            levels = [tuple(s for s in tokens if scores[s] == x) for x in values]
            assert sets[0] == levels[0]
            assert sets[1] == (levels[1] if len(levels) > 1 else ())
            assert sets[2] == tuple(sorted(s for level in levels[2:] for s in level))


def test_a_tie_is_relative_to_the_norm_and_doubt_is_reported():
    corpus = hm.Corpus.from_sequences([[0, 1]], [1])
    E = np.eye(2)
    for norm in (1e-8, 1.0, 1e8):
        p = norm * np.array([1.0, 1.0 - 3e-9])
        assert token_selection(corpus, E, p, tolerance=1e-8).selected == ((0, 1),)
        found = token_selection(corpus, E, p)
        assert (found.selected, found.doubtful, found.tolerance) == (((0,),), ((0, 1),), 1e-9)


def test_local_gap_counts_positions():
    corpus = hm.Corpus.from_sequences([[0, 0, 1, 2]], [1])
    tied = score_selection(corpus, [1.0, 1.0, 0.0])
    assert local_gap(corpus, [3.0, 0.0, 1.0], tied) == 2 * (3 - 1) + (0 - 1)
    assert local_gap(corpus, [3.0, 0.0, 1.0], score_selection(corpus, [1.0, 1.0, 1.0])) == np.inf


def everything(corpus: hm.Corpus) -> Any:
    sets = [
        [z for size in range(1, len(tokens) + 1) for z in combinations(tokens, size)]
        for tokens in distinct_tokens(corpus)
    ]
    return product(*sets)


@settings(max_examples=40)
@given(st.integers(0, 10**6))
@pytest.mark.no_cover
def test_enumeration_agrees_with_the_certified_solver(seed):
    rng = np.random.default_rng(seed)
    corpus = hm.Corpus.from_sequences(rng.integers(4, size=(3, 2)), [1, -1, 1])
    for d in (1, 2, 5):
        E = rng.integers(-3, 4, size=(corpus.S, d)).astype(float)
        wanted = {Z for Z in everything(corpus) if pattern_max_margin(corpus, Z, E).is_feasible}
        assert set(realizable_patterns(corpus, E)) == wanted
        assert {Z for Z in everything(corpus) if realizable(corpus, Z, E)} == wanted


@settings(max_examples=40)
@given(st.integers(0, 10**6))
@pytest.mark.no_cover
def test_consistent_patterns_are_those_that_scores_make(seed):
    rng = np.random.default_rng(seed)
    corpus = hm.Corpus.from_sequences(rng.integers(4, size=(3, 3)), [1, -1, 1])
    made = {score_selection(corpus, scores).selected for scores in product(range(4), repeat=corpus.S)}
    assert set(realizable_patterns(corpus)) == made


def test_patterns_that_contain_the_important_tokens(oracles):
    case = oracles["a"]["maxmargin"][2]
    corpus = corpus_of(case)
    stars = [z[0] for z in case["selection"]]
    found = list(realizable_patterns(corpus, containing=stars))
    assert len(found) == len(set(found))
    wanted = {
        Z
        for Z in everything(corpus)
        if all(s in z for s, z in zip(stars, Z, strict=True)) and is_consistent(distinct_tokens(corpus), Z)
    }
    assert set(found) == wanted
    assert found[0] == tuple((s,) for s in stars)


def test_independence_needs_differences_only():
    assert affinely_independent(np.vstack([np.eye(3), np.zeros(3)]))
    assert not affinely_independent(np.vstack([np.eye(3), np.zeros(3), np.ones(3)]))
    assert not affinely_independent([[1.0, 0.0], [1.0, 0.0]])
    limit = hm.embeddings.first_step.infinite_width(hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1]), 1e8)
    assert affinely_independent(limit.E)


def test_refusals_say_what_to_do():
    corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    with pytest.raises(ValueError, match="containing must be 2 tokens, one of each sequence"):
        realizable_patterns(corpus, containing=[2, 1])
    with pytest.raises(ValueError, match="Assumption 4"):
        hm.embeddings.patterns.important_pattern(hm.Corpus.from_sequences([[0, 1], [0, 0]], [1, -1]))
    with pytest.raises(ValueError, match="selection"):
        pattern_max_margin(corpus, [[2], [1]], np.eye(3))
    with pytest.raises(ValueError, match="E must have shape"):
        token_selection(corpus, np.eye(2), [1.0, 0.0])
