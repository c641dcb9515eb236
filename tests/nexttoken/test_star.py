"""W_kq* and W_ov* as max-margin answers: status, selection, interval and certificate."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.margin.certificates import certify
from hardmax.margin.closed_forms import kq_multipliers, kq_star, ov_star
from hardmax.nexttoken import Samples, generate, named_sentences, star
from hardmax.nexttoken.relations import orders
from hardmax.nexttoken.stages import Pairs
from hardmax.nexttoken.star import KqStar
from hardmax.nexttoken.training import train

EXAMPLE_1 = ["S V O P", "V O P", "O P P", "P S V"]
CHAIN = named_sentences("C-EXT-1")  # r > p > q under q: a confused token, and still feasible
TORN = ["A B B", "C A B C", "B C"]  # A and B beat each other under B


def star_of(sentences) -> KqStar:
    return KqStar.of(Pairs.of(Samples.from_sentences(sentences)))


def test_an_undecided_answer_is_not_w_kq_star(monkeypatch):
    """The fixed fault: p was taken of a solution whatever its status."""

    def undecided(constraints, exact=False):
        found = star_solve(constraints)
        return replace(found, status="undecided", margin_interval=(0.1, 2.0))

    star_solve = star.solve
    monkeypatch.setattr(star, "solve", undecided)
    found = star_of(CHAIN)
    assert (found.values, found.exact, found.status) == (None, None, "undecided")
    assert "query 'q'" in found.reason
    assert "too many to decide" in found.reason
    with pytest.raises(ValueError, match="too many to decide"):
        _ = found.support
    assert found.solution.status == "undecided"
    assert found.solution.margin_interval == (0.0, 2.0)
    with pytest.raises(ValueError, match="undecided: only a margin in"):
        found.solution.need()
    assert np.isnan(found.cosine_distance(np.ones(found.pairs.P)))


def test_an_infeasible_answer_is_none_with_its_proof():
    found = star_of(TORN)
    assert (found.values, found.status) == (None, "infeasible")
    assert "the orders contradict each other" in found.reason
    best = found.solution
    assert certify(best.to_dict())["what"].startswith("infeasible")
    assert {best.constraints.label(j) for j in np.flatnonzero(best.farkas)} == {(1, 0, 1), (1, 1, 0)}
    with pytest.raises(ValueError, match="infeasible: 2 rows contradict each other"):
        best.need()


def test_a_contradiction_counts_though_another_query_is_undecided(monkeypatch):
    found = star_of([*TORN, "P Q Q", "R P Q P", "Q R"])
    assert found.status == "infeasible"
    calls = []

    def first_is_undecided(constraints, exact=False):
        calls.append(constraints.count)
        best = solve(constraints)
        return best if best.status == "infeasible" else replace(best, status="undecided")

    solve = star.solve
    monkeypatch.setattr(star, "solve", first_is_undecided)
    sentences = ["P Q Q", "R P Q P", "Q R", *TORN]  # the query Q, undecided, comes before the query B
    assert star_of(sentences).status == "infeasible"
    assert len(calls) == 2


def certified(best: hm.MaxMargin) -> None:
    assert best.is_certified
    verdict = certify(best.to_dict())
    assert verdict["valid"], verdict["violations"]


@given(st.integers(0, 10**6), st.integers(3, 9))
def test_every_star_is_certified(seed, V):
    found = KqStar.of(Pairs.of(Samples.from_sentences(generate(V, lag0=0.7, rng=seed).sentences)))
    best = found.solution
    assert best.arithmetic == "exact"
    assert tuple(best.fractions) == found.exact
    assert (best.need() == found.values).all()
    assert best.exact.norm_squared == found.norm_squared
    assert np.array_equal(np.flatnonzero(best.tight), found.support)
    certified(best)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 7)), min_size=1, max_size=20, unique=True))
def test_blocks_have_multipliers(edges):
    """Any bipartite graph: the transport inside the blocks proves the column."""
    best = kq_star({0: edges}, V=8)
    certified(best)
    assert best.exact.norm_squared == sum(x for x in kq_multipliers(edges))  # h.lambda = |p|^2
    plain = hm.max_margin(best.constraints, exact=True)
    assert plain.exact.p == best.exact.p


def test_confused_tokens_have_a_float_certificate():
    found = star_of(CHAIN)
    best = found.solution
    assert (found.exact, best.arithmetic, best.fractions) == (None, "float", None)
    lower, upper = best.margin_interval
    assert lower <= 1 / found.norm <= upper
    assert upper - lower < 1e-12
    certified(best)


def test_selection_of_sentences():
    one = star_of(EXAMPLE_1).solution
    words = Samples.from_sentences(EXAMPLE_1).vocabulary
    chosen = {
        "".join(sorted(words[t] for t in np.unique(tokens))): "".join(words[t] for t in tied)
        for tokens, tied in zip(_sentences(star_of(EXAMPLE_1).pairs), one.selection.sets, strict=True)
    }
    assert chosen == {"SV": "V", "OSV": "O", "OV": "O", "OP": "O", "PS": "S"}
    assert one.selection.is_unique
    several = star_of(named_sentences("C-CEX-P2"))
    assert not several.is_star
    two = star_of(named_sentences("C-EXT-2")).solution  # n is not injective: two tokens lead to one
    assert max(len(tied) for tied in two.selection.sets) == 2


def _sentences(pairs):
    return [pairs.token[pairs.pair[a:b]] for a, b in zip(pairs.offsets[:-1], pairs.offsets[1:], strict=True)]


def test_a_run_has_its_certificate(tmp_path):
    run = train(Samples.from_sentences(EXAMPLE_1), steps=5)
    run.star.solution.save(tmp_path / "star.json")
    assert certify(tmp_path / "star.json")["what"] == "p is the minimum-norm solution, |p|^2 = 13/6"
    assert run.star.solution.margin_interval[0] ** 2 <= 6 / 13 <= run.star.solution.margin_interval[1] ** 2


def test_w_ov_star_is_certified():
    best = ov_star([1, 2, 0, 3])
    certified(best)
    assert best.W.shape == (4, 4)
    assert best.exact.norm_squared == 3
    assert len(best.support) == 12
    assert hm.max_margin(best.constraints, exact=True).exact.p == best.exact.p
    assert best.fractions[1, 0] == Fraction(3, 4)


def test_a_large_dataset_builds_no_dense_rows():
    """30,000 pairs: dense rows would take 7 GB, and a certificate as much."""
    sentences = [f"a{i} b{i} b{i}" for i in range(15_000)] + [f"b{i} a{i}" for i in range(15_000)]
    samples = Samples.from_sentences(sentences)
    found = KqStar.of(Pairs.of(samples), orders(samples))
    best = found.solution
    assert (best.constraints.count, best.p.size) == (15_000, 30_000)
    assert best.exact.norm_squared == found.norm_squared == 7_500
    assert best.slack.max() == 0.0
    with pytest.raises(ValueError, match="rows must have at most 1e\\+08 numbers"):
        best.constraints.rows()
    with pytest.raises(ValueError, match="got 15000 rows of 30000; save a smaller part"):
        best.to_dict()
