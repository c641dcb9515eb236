"""The numbers behind the verdicts of the trained-embeddings paper: found once, found again."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings import one_layer, pattern_max_margin
from hardmax.embeddings.first_step import draw_initial
from hardmax.embeddings.patterns import distinct_tokens, score_selection
from hardmax.embeddings.theorem5 import strong_conditions, theorem_5_thresholds
from hardmax.papers.checking.check import check_statement, statements
from hardmax.papers.trained_embeddings import instances as examples
from hardmax.papers.trained_embeddings.patterns import (
    component_sizes,
    lone_patterns,
    lone_type_norm,
    pair_ratio,
)

OURS = [id for id in statements() if id.startswith("A-")]


def random_corpus(rng: np.random.Generator, sizes: tuple[int, ...], longest: int) -> hm.Corpus:
    """An Assumption 4 corpus of random size and vocabulary."""
    n, T = int(rng.choice(sizes)), int(rng.integers(2, longest + 1))
    P, N = (int(x) for x in rng.integers(1, n // 2 + 1, size=2))
    R = int(rng.integers(1, n // 2 * (T - 1) + 1))
    return hm.embeddings.assumption_4_corpus(n, T, important=(P, N), irrelevant=R, rng=rng)


# -- the first step ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("S, d, delta", [(20, 256, 0.1), (200, 1024, 0.1), (1000, 4096, 0.05)])
def test_event_14_is_as_frequent_as_measured_before(S, d, delta):
    corpus = hm.Corpus.from_sequences([list(range(S))], [1])
    found = check_statement("A-EVT-14", corpus, d=d, delta=delta, draws=40 if S < 1000 else 4)
    assert found.holds
    assert found.measured["frequency"] >= 0.975


def test_lemma_2_holds_with_the_sharp_constants_and_falls_like_one_over_root_d():
    rng = np.random.default_rng(0)
    widths = [256, 1024, 4096, 16384]
    sizes = np.zeros(len(widths))
    for trial in range(20):
        corpus = hm.Corpus.from_sequences(rng.integers(6, size=(5, 4)), rng.choice([-1, 1], size=5))
        for k, d in enumerate(widths):
            found = check_statement("A-LEM-2", corpus, d=d, first_rate=3.0, delta=0.1, rng=trial)
            if found.verdict != "not applicable":
                assert found.holds
                assert found.measured["over the paper's bound"] < 1 / 50
            sizes[k] += math.log(found.measured["largest |err_s| / eta0"]) / 20
    slope = np.polyfit(np.log(widths), sizes, 1)[0]
    assert -0.65 <= slope <= -0.35


def test_lemma_2_at_theorem_5_sizes():
    for n, T in [(2, 2), (4, 4), (6, 6)]:
        corpus = hm.embeddings.assumption_4_corpus(n, T, rng=0)
        d = theorem_5_thresholds(n, T, corpus.S, delta=0.01).width
        assert check_statement("A-LEM-2", corpus, d=d).measured["over the paper's bound"] <= 1.4e-13


def test_lemma_12_on_the_smallest_corpus():
    found = check_statement("A-LEM-12", examples.two_by_two()).measured
    assert found["loss"] == pytest.approx(0.0181499, abs=5e-8)
    assert found["loss"] == pytest.approx(math.log1p(math.exp(-4)), rel=1e-12)
    assert found["bound"] == pytest.approx(0.0181627, abs=5e-8)


# -- max-margin problems ----------------------------------------------------------------------------------


def test_lemma_3_closed_form_agrees_on_5a_only(oracles):
    verdicts = {}
    for case in oracles["a"]["maxmargin"]:
        corpus = hm.Corpus.from_sequences(case["sequences"], case.get("labels", [1, -1, 1, -1]))
        E = [[float(Fraction(x)) for x in row] for row in case["E"]]
        found = check_statement("A-LEM-3", corpus, selection=case["selection"], E=E)
        assert found.holds
        assert found.measured["|p_hat|^2"] == pytest.approx(float(Fraction(case["norm_sq"])), rel=1e-12)
        assert found.measured["|M^+ 1|^2"] == pytest.approx(case["pinv_norm_sq"], rel=1e-12)
        verdicts[case["id"][-1]] = found.paper_verdict
    assert verdicts == {"a": "holds", "b": "fails", "c": "fails", "d": "fails", "e": "fails"}


def test_lemma_3_counterexample_is_slack_by_a_sixth():
    found = check_statement("A-LEM-3", examples.slack_corpus()).measured
    assert found["|p_hat|^2"] == pytest.approx(5 / 3, rel=1e-12)
    assert found["|M^+ 1|^2"] == pytest.approx(12 / 7, rel=1e-12)
    assert found["largest margin"] == pytest.approx(7 / 6, rel=1e-12)


@pytest.mark.no_cover
def test_lemma_3_mended_on_random_corpora():
    rng = np.random.default_rng(1)
    gale = Counter()
    for _ in range(150):
        corpus = random_corpus(rng, (2, 4, 6, 8), 5)
        found = check_statement("A-LEM-3P", corpus, first_rate=10 ** rng.uniform(-1, 3))
        assert found.holds
        gale[found.measured["Gale's condition"]] += 1
        assert abs(found.measured["v.M^+ 1"]) < 1e-9
    assert min(gale[True], gale[False]) >= 1


def test_lemma_21_norms_seen_before():
    assert check_statement("A-LEM-21", examples.two_by_two()).measured["|p_hat|"] == pytest.approx(
        0.8165, abs=5e-5
    )
    assert check_statement("A-LEM-21", examples.slack_corpus()).measured["|p_hat|"] == pytest.approx(
        1.291, abs=5e-4
    )
    for seed in range(5):
        found = check_statement("A-LEM-21", hm.embeddings.assumption_4_corpus(6, 4, rng=seed)).measured
        assert found["|p_hat|"] <= found["sqrt |S_c|"]


# -- patterns with ties -----------------------------------------------------------------------------------


def test_one_tie_halves_the_norm_of_the_smallest_corpus():
    found = check_statement("A-LEM-19", examples.two_by_two())
    assert found.verdict == "not applicable"
    assert found.measured["least |p_hat'| / |p_hat|"] == pytest.approx(math.sqrt(22 / 129 * 3 / 2), rel=1e-12)
    assert found.measured["1 - cos of the flow"] < 1e-12  # the conclusion is true all the same


def test_the_lone_type_pattern_in_closed_form():
    rng = np.random.default_rng(2)
    for _ in range(30):
        corpus = random_corpus(rng, (2, 4, 6), 4)
        important = tuple(hm.embeddings.assumption_4(corpus).important.tolist())
        limit = hm.embeddings.first_step.infinite_width(corpus, 10 ** rng.uniform(-1, 2))
        sizes = component_sizes(corpus)
        for s, chosen in zip(sorted(set(important)), lone_patterns(corpus, important), strict=True):
            solved = pattern_max_margin(corpus, chosen, limit.E).p_norm ** 2
            assert lone_type_norm(sizes[s], limit.c[s], limit.c) == pytest.approx(solved, rel=1e-9)


@pytest.mark.slow
@pytest.mark.no_cover
def test_ties_are_cheaper_on_a_thousand_random_corpora():
    """The strengthened A-ERR-5: exact where p_hat.v = 0, and by a solved problem in the other cases."""
    rng = np.random.default_rng(0)
    verdicts, ratios = Counter(), []
    for _ in range(1000):
        corpus = random_corpus(rng, (2, 4, 6, 8, 10, 12), 6)
        found = check_statement("A-ERR-5", corpus, first_rate=10 ** rng.uniform(-3, 4))
        verdicts[found.verdict] += 1
        ratios.append(found.measured["ratio of norms"])
        if found.verdict == "holds":
            assert found.measured["(N - 1)/N"] <= found.measured["|p_hat|^2"]
    assert verdicts.keys() == {"holds", "not applicable"}
    assert verdicts["holds"] >= 900
    assert max(ratios) <= 1
    assert sum(ratio > 0.506 for ratio in ratios) > 100
    assert max(ratios) > 0.99


# -- directions -------------------------------------------------------------------------------------------


def test_lemma_9_ratios_seen_before(oracles):
    found = check_statement("A-LEM-9", examples.slack_corpus()).measured
    assert found["ratio"][:3] == pytest.approx([0.9908, 1.0017, 1.00006], abs=5e-5)
    assert found["ratio"][-1] == pytest.approx(1.0, abs=1e-11)
    wrong = check_statement("A-LEM-9", examples.slack_corpus(), p_hat=[3 / 7] * 4 + [-4 / 7] * 3 + [0.0])
    expected = float(oracles["a"]["gradient_flow_limits"]["cosine_of_pinv_direction_with_limit_5c"])
    assert wrong.measured["ratio"][-1] == pytest.approx(expected, abs=1e-9)
    assert wrong.measured["1 - cos"] == pytest.approx(1 - expected, abs=1e-6)


def test_the_counterexample_to_lemma_13_is_stationary():
    corpus, (E, v) = examples.three_tokens(), examples.identity_embeddings([0.0, 0.0, 1.0, -1.0])
    for t in (0.0, 1.0, 5.0):
        assert not one_layer.evaluate(corpus, [t, t, 0.0, 0.0], E @ v).A.any()
    found = check_statement("A-LEM-13", corpus, E=E, v=v)
    assert (found.verdict, found.paper_verdict) == ("not applicable", "fails")


def test_bad_basin_of_the_oracle(oracles):
    case = oracles["a"]["bad_basin"]
    good, bad = ([float(Fraction(x)) for x in case[name]] for name in ("phat_good", "phat_bad"))
    assert pytest.approx(bad, abs=1e-15) == examples.BAD
    problem = examples.bad_basin()
    corpus, (E, v) = examples.three_tokens(), examples.identity_embeddings([8.0, -8.0, 0.5, -0.5])
    for chosen, p in (([[0], [1]], good), ([[2], [1]], bad)):
        assert pattern_max_margin(corpus, chosen, E).p == pytest.approx(p, abs=1e-12)
    assert float(Fraction(case["norm_sq_bad"])) == pytest.approx(np.dot(bad, bad), rel=1e-12)
    assert hm.flow(problem, until_norm=1e6).cosine_distance(good) < 1e-11
    inside = check_statement("A-THM-5S", problem, start=examples.bad_start(), rival=bad)
    assert inside.measured["1 - cos to the rival"] < 1e-15
    assert inside.measured["1 - cos"] > 0.5
    assert [h.id for h in inside.hypotheses if not h.holds] == ["(H3) a good start"]
    # The wrong direction is locally optimal in both papers' sense.
    selected = hm.embeddings.token_selection(corpus, E, bad)
    assert (selected.selected, selected.gap) == (((2,), (1,)), pytest.approx(1.0))
    assert hm.embeddings.patterns.local_gap(corpus, E @ v, selected) == 1.0
    assert hm.attracts(problem, hm.max_margin(problem, [1, 0])).verdict


def test_definition_16_asks_more_than_the_neighbours_do():
    found = check_statement("A-DEF-16", hm.data.example("B-FIG-8"), selection=(0, 1)).measured
    assert found["locally optimal by Definition 16"] == 0
    assert found["by the max-margin paper"] == 1
    for seed in range(10):
        assert check_statement("A-DEF-16", hm.data.gaussian(n=2, T=3, d=4, rng=seed)).verdict != "fails"


def test_lemma_17_terms_add_up_to_the_gradient():
    corpus = examples.slack_corpus()
    limit = hm.embeddings.first_step.infinite_width(corpus, 64.0)
    scores = np.array([3.0, 4.0, 4.0, 4.0, 3.0, 1.0, 0.0])
    chosen = score_selection(corpus, scores)
    rise = np.array([2.0, 5.0, 3.0, 4.0, 2.0, 0.5, -1.0])
    leading = scores_of_pairs(corpus, scores, limit.c, rise, chosen)
    whole = one_layer.pairwise_pull(corpus, scores, limit.c, rise)
    assert leading * (1 + pair_ratio(corpus, scores, limit.c, rise, chosen)) == pytest.approx(
        whole, rel=1e-12
    )


def scores_of_pairs(corpus: hm.Corpus, a: Any, c: Any, rise: Any, chosen: Any) -> float:
    """B0 of Lemma 17, position by position."""
    total = 0.0
    for k, X in enumerate(corpus.sequences()):
        q = np.exp(a[X]) / np.exp(a[X]).sum()
        y = float(corpus.signs[k])
        g = 1 / (1 + math.exp(y * float(q @ c[X])))
        for i, s in enumerate(X):
            for j, r in enumerate(X):
                if s in chosen.selected[k] and r in chosen.second[k]:
                    total += (rise[s] - rise[r]) * g * q[i] * q[j] * y * (c[s] - c[r]) / corpus.n
    return total


# -- Theorem 5 and its strengthening ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.no_cover
def test_strong_theorem_at_the_threshold_width_on_random_corpora():
    """On 25 more in tests/embeddings/test_theorem5.py."""
    rng = np.random.default_rng(3)
    for trial in range(5):
        n, T = int(rng.choice([2, 4, 6, 8])), int(rng.integers(2, 6))
        corpus = hm.embeddings.assumption_4_corpus(n, T, rng=rng)
        asked = theorem_5_thresholds(corpus.n, corpus.T, corpus.S, delta=0.01)
        state, _ = draw_initial(corpus.S, asked.width, rng=trial).first_step(corpus, float(asked.first_rate))
        found = check_statement("A-THM-5S", state.problem(corpus), start=state.p)
        assert found.holds, (trial, found.hypotheses, found.measured)
        assert found.measured["1 - cos"] < 1e-9


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.no_cover
def test_strong_theorem_on_problems_of_the_max_margin_paper(loss, seed):
    rng = np.random.default_rng(seed)
    sizes = [2, 4, 3]
    keys = [rng.normal(size=(T, 9)) for T in sizes]
    scores = [np.append(-rng.exponential(size=T - 1), 6 + rng.exponential()) for T in sizes]
    problem = hm.Problem(keys, scores, loss)
    start = 0.1 * rng.normal(size=9)
    assert strong_conditions(problem, [T - 1 for T in sizes], start).holds
    assert check_statement("A-THM-5S", problem, start=start).holds


def test_strong_theorem_needs_a_loss_that_is_never_negative():
    keys = np.random.default_rng(0).normal(size=(2, 2, 4))
    found = check_statement("A-THM-5S", hm.Problem(keys, [[8.0, 0.0]] * 2, "correlation"))
    assert "the loss is never negative" in [h.id for h in found.hypotheses if not h.holds]


def test_theorem_5_measures_what_it_found():
    found = check_statement("A-THM-5", hm.embeddings.assumption_4_corpus(4, 3, rng=0))
    assert found.holds
    assert found.measured["only important tokens"]
    assert found.measured["(H1)-(H3)"]
    assert found.measured["d"] > 1e59


def test_descent_with_small_steps_is_a_first_order_method():
    found = check_statement("A-SEC-3", examples.slack_corpus()).measured
    assert found["ratios"] == pytest.approx([2.0, 2.0], rel=0.01)
    assert found["distances"][0] < 1e-3 * found["path"]


# -- any corpus -------------------------------------------------------------------------------------------

CORPORA = {
    "one sequence": hm.Corpus.from_sequences([[0, 1, 2]], [1]),
    "one token": hm.Corpus.from_sequences([[0]], [1]),
    "ragged": hm.Corpus.from_sequences([[0, 1], [1, 2, 3], [4]], [1, -1, 1]),
    "unused": hm.Corpus.from_counts([[1, 0, 1, 0], [0, 1, 1, 0]], [1, -1]),
    "alike": hm.Corpus.from_sequences([[0, 1], [0, 1]], [1, -1]),
    "repeated": hm.Corpus.from_sequences([[0, 0, 0], [1, 1, 1]], [1, -1]),
}


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("id", OURS)
def test_any_corpus_gets_a_verdict(id: str, name: str) -> None:
    corpus: Any = CORPORA[name]
    options = {"scores": np.arange(corpus.S) % 3} if id == "A-LEM-17" else {}
    subject = examples.trained_problem(corpus, 20.0) if id in ("A-DEF-16", "A-THM-5S") else corpus
    found = check_statement(id, subject, **options)
    assert found.verdict != "fails" or found.label == "measured"


@pytest.mark.parametrize("id", OURS)
def test_the_wrong_subject_is_refused(id: str) -> None:
    options = {"scores": [0.0]} if id == "A-LEM-17" else {}
    with pytest.raises(ValueError, match=r"is about a (Corpus|Problem), got list"):
        check_statement(id, [[0, 1], [1, 2]], **options)


def test_distinct_tokens_are_those_of_the_sequences():
    assert distinct_tokens(examples.slack_corpus()) == [[0, 4, 5, 6], [1, 4, 5, 6], [2, 6], [3, 6]]
