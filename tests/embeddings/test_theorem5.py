"""Theorem 5 at the width it asks for: A-ORC-8, random corpora, and where its hypotheses fail."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings import assumption_4_corpus
from hardmax.embeddings.first_step import infinite_width
from hardmax.embeddings.theorem5 import run_theorem_5, strong_conditions
from hardmax.margin.closed_forms import important_only

from .conftest import numbers


def random_corpus(seed: int) -> hm.Corpus:
    """n in {2, 4, 6, 8} and T in 2..5, with as many important and irrelevant tokens as chance has it."""
    rng = np.random.default_rng([5, seed])
    n, T = int(rng.choice([2, 4, 6, 8])), int(rng.integers(2, 6))
    stars = tuple(int(x) for x in rng.integers(1, n // 2 + 1, size=2))
    others = int(rng.integers(1, min(6, n // 2 * (T - 1)) + 1))
    return assumption_4_corpus(n, T, important=stars, irrelevant=others, rng=rng)


@pytest.mark.parametrize("key", ["2x2", "lemma3_counterexample"])
def test_oracle_limits(oracles: dict, key: str) -> None:
    """A-ORC-8: the limit directions, which are the exact solutions 5a and 5c."""
    number = 0 if key == "2x2" else 2
    given = oracles["a"]["maxmargin"][number]
    corpus = hm.Corpus.from_sequences(given["sequences"], given["labels"])
    run = run_theorem_5(corpus, rng=0)
    assert run.hypotheses_hold
    assert [list(chosen) for chosen in run.pattern] == given["selection"]
    assert run.best.p_norm**2 == pytest.approx(float(Fraction(given["norm_sq"])), rel=1e-12)
    exact = numbers(given["phat"])
    limit = np.concatenate([exact[:-1], [0.0], exact[-1:]])  # a coordinate of p's own before that of v
    assert run.path.cosine_distance(limit) < 1e-9
    if key != "2x2":
        wrong = np.array(given["pinv_solution_Mdagger1"])
        cosine = oracles["a"]["gradient_flow_limits"]["cosine_of_pinv_direction_with_limit_5c"]
        wrong = np.concatenate([wrong[:-1], [0.0], wrong[-1:]])
        assert 1 - run.path.cosine_distance(wrong) == pytest.approx(float(cosine), abs=1e-4)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.no_cover
def test_at_the_threshold(seed: int) -> None:
    """The hypotheses hold, and p tends to the max margin of the important tokens alone."""
    corpus = random_corpus(seed)
    run = run_theorem_5(corpus, rng=seed)
    assert run.d == run.thresholds.width > 10**44
    assert run.hypotheses_hold
    assert run.conditions.holds
    assert run.loss <= run.loss_bound
    assert run.loss < 1 / (2 * corpus.n)
    assert run.path.event is None
    assert run.selects_important
    assert run.selects_only_important
    assert run.misalignment_p <= 1e-8
    assert run.best.p_norm <= 4 * corpus.n
    sequences = [tokens.tolist() for tokens in corpus.sequences()]
    form = important_only(sequences, run.important)
    if form.is_max_margin:
        assert run.best.p_norm**2 == pytest.approx(float(form.norm_squared), rel=1e-9)
    # the errors of Lemma 2 are there, and far below the bound
    assert 0.0 < run.errors.largest < 1e-6 * run.errors.bound(run.d)


def test_loss_after_the_first_step() -> None:
    """The values the specification measured for the 2 x 2 data."""
    corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    run = run_theorem_5(corpus, rng=0, until_norm=10.0)
    assert run.loss == pytest.approx(math.log1p(math.exp(-4)), rel=1e-12)
    assert run.loss_bound == pytest.approx(0.0181627, abs=5e-8)
    assert run.path.p_norm == pytest.approx(10.0, rel=1e-9)


def test_small_width_and_step_are_said_to_be_small() -> None:
    corpus = assumption_4_corpus(4, 2, rng=0)
    narrow = run_theorem_5(corpus, d=1000, rng=0, until_norm=100.0)
    assert not narrow.hypotheses_hold
    gentle = run_theorem_5(corpus, first_rate=1.0, d=10**60, rng=0, until_norm=100.0)
    assert not gentle.hypotheses_hold
    assert gentle.thresholds.width < 10**60


def test_bad_basin(oracles: dict) -> None:
    """A-ORC-6: (H1) and (H2) hold, (H3) decides between the two starts."""
    given = oracles["a"]["bad_basin"]
    corpus = hm.Corpus.from_sequences(given["sequences"], given["labels"])
    problem = corpus.problem(numbers(given["E"]), numbers(given["v"]))
    bad = numbers(given["phat_bad"])
    start = 20 * bad / np.linalg.norm(bad)
    wrong, right = strong_conditions(problem, [0, 0], start), strong_conditions(problem, [0, 0])
    assert right.lead == wrong.lead == 7.5
    assert right.rank == right.tokens == 4
    assert wrong.loss > wrong.loss_bound
    assert not wrong.holds
    assert hm.flow(problem, until_norm=1e5, start=start).cosine_distance(bad) < 1e-7
    assert hm.flow(problem, until_norm=1e5).cosine_distance(numbers(given["phat_good"])) < 1e-7


def test_each_condition_can_fail() -> None:
    corpus = hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1])
    limit = infinite_width(corpus, 64.0)
    fine = strong_conditions(corpus.problem(limit.E, limit.v), [0, 0])
    assert fine.holds
    assert (fine.lead, fine.rank, fine.tokens) == (8.0, 3, 3)
    assert fine.loss == pytest.approx(math.log1p(math.exp(-4)))
    assert fine.loss_bound == pytest.approx(math.log(2) / 2)
    behind = strong_conditions(corpus.problem(limit.E, -limit.v), [0, 0])
    assert behind.lead == -8.0
    assert not behind.holds
    shared = strong_conditions(corpus.problem(limit.E, limit.v), [1, 0])
    assert not shared.apart
    flat = strong_conditions(corpus.problem(limit.E[:, -1:], [1.0]), [0, 0])
    assert (flat.rank, flat.holds) == (1, False)


def test_refusals() -> None:
    corpus = hm.Corpus.from_sequences([[0, 0], [1, 2]], [1, -1])
    with pytest.raises(ValueError, match="corpus must satisfy Assumption 4, and does not: sequence 0"):
        run_theorem_5(corpus, rng=0)
    with pytest.raises(ValueError, match="d must be an integer"):
        run_theorem_5(assumption_4_corpus(2, 2, rng=0), d=0, rng=0)
    problem = assumption_4_corpus(2, 2, rng=0).problem(np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match="designated must hold 2 positions"):
        strong_conditions(problem, [0])
    with pytest.raises(ValueError, match="must be a position below 2, got 2"):
        strong_conditions(problem, [0, 2])


def test_sequences_of_one_token_leave_nothing_to_learn() -> None:
    run = run_theorem_5(assumption_4_corpus(2, 1, rng=0), rng=0)
    assert run.path.event == "no competing token"
    assert run.selects_only_important
    assert math.isnan(run.misalignment_p)
