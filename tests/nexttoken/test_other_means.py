"""The same answers by other means: QP solvers, many digits, plain definitions, long runs, runs in pieces."""

import clarabel
import mpmath
import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hardmax.nexttoken import Samples, generate, named_sentences
from hardmax.nexttoken.generators import generate_by_rejection
from hardmax.nexttoken.observables import log_excess_loss, loss
from hardmax.nexttoken.predict import regenerate
from hardmax.nexttoken.relations import collocation, orders
from hardmax.nexttoken.stages import Pairs
from hardmax.nexttoken.star import KqStar, late_of
from hardmax.nexttoken.training import train, train_by_flow
from hardmax.problem.readouts import OutputValue

seeds = st.integers(0, 10**6)


def sentences_of_a_function(V, seed):
    """Every next token is n of a token of the sentence, n any function: orders with several tokens on top."""
    draw = np.random.default_rng(seed)
    n = draw.integers(V, size=V)
    raw = []
    for start in range(V):
        sentence = [start, int(n[start])]
        for _ in range(draw.integers(4)):
            sentence.append(int(n[draw.choice(sentence)]))
        raw.append(sentence)
    return Samples.from_sentences(raw, vocabulary=[str(x) for x in range(V)])


def by_quadratic_program(edges):
    """The shortest w with w_o - w_x >= 1 on all edges (o, x), by token; None if there is none."""
    tokens = sorted({x for edge in edges for x in edge})
    rows = np.zeros((len(edges), len(tokens)))
    for row, (o, x) in zip(rows, edges, strict=True):
        row[tokens.index(o)] -= 1
        row[tokens.index(x)] += 1
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-13
    solver = clarabel.DefaultSolver(
        scipy.sparse.eye(len(tokens)).tocsc(),
        np.zeros(len(tokens)),
        scipy.sparse.csc_matrix(rows),
        -np.ones(len(rows)),
        [clarabel.NonnegativeConeT(len(rows))],
        options,
    )
    found = solver.solve()
    return dict(zip(tokens, found.x, strict=True)) if "Solved" in str(found.status) else None


@given(st.integers(2, 6), seeds)
def test_W_kq_star_is_that_of_a_qp_solver(V, seed):
    """C-DEF-KQSTAR for injective and other n, confused tokens included."""
    samples = sentences_of_a_function(V, seed)
    pairs = Pairs.of(samples)
    star = KqStar.of(pairs)
    columns = {q: by_quadratic_program(edges) for q, edges in orders(samples).edges().items()}
    assert (star.values is None) == (None in columns.values())
    if star.values is not None:
        for q, column in columns.items():
            for x, value in column.items():
                # a dual that is not unique costs the interior point half its digits
                assert star.values[pairs.position[x, q]] == pytest.approx(value, abs=2e-6)


@given(st.integers(2, 6), seeds, st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_regeneration_is_the_rule_of_the_specification(V, seed, sentence):
    """C-ALG-REGEN, read aloud."""
    samples = Samples.from_sentences(generate_by_rejection(V, rng=seed))
    sentence = [x % V for x in sentence]
    n, found = collocation(samples), orders(samples)
    told = regenerate(n, found, sentence)
    relations, types = found.edges().get(sentence[-1], []), found.types(sentence[-1])
    tokens = set(sentence)
    maximal = {x for x in tokens if not any(below == x and above in tokens for above, below in relations)}
    best = {x for x in maximal if types[x] == "optimal"} or {
        x for x in maximal if types[x] == "non_comparable"
    }
    if len(tokens) == 1:
        best = tokens
    if len(best) == 1:
        assert (told.rule, told.next) == ("unique", n[best.pop()])
    elif best:
        assert (told.rule, told.next, set(told.candidates)) == ("ambiguous", None, best)
    else:  # only tokens that lost elsewhere, and the winner is not here
        assert {types[x] for x in tokens} == {"non_optimal"}
        assert (told.rule, told.next) == ("ambiguous", None)


def many_digits(pairs, margin, a):
    """L and log(L - L*) in 2,000 digits from the definitions, with W_ov = margin W_ov*."""
    samples, A = pairs.samples, pairs.table(a)
    with mpmath.workdps(2000):
        total = weight = mpmath.mpf(0)
        for i in range(samples.n):
            inside = slice(samples.offsets[i], samples.offsets[i + 1])
            pulls = [
                int(count) * mpmath.exp(mpmath.mpf(float(A[x, samples.query[i]])))
                for x, count in zip(samples.tokens[inside], samples.counts[inside], strict=True)
            ]
            logits = [mpmath.mpf(0)] * samples.V
            for x, pull in zip(samples.tokens[inside], pulls, strict=True):
                logits[pairs.collocation[x]] += mpmath.mpf(margin) * pull / mpmath.fsum(pulls)
            pi = mpmath.mpf(float(samples.weight[i]))
            weight += pi
            total += pi * (mpmath.log(mpmath.fsum(map(mpmath.exp, logits))) - logits[samples.target[i]])
        least = weight * mpmath.log1p((samples.V - 1) * mpmath.exp(-mpmath.mpf(margin)))
        return float(total), float(mpmath.log(total - least))


@pytest.mark.parametrize("margin", [1e-9, 0.3, 36.9, 301.0, 700.0])
@pytest.mark.parametrize("scale", [-3.0, 0.0, 30.0, 2000.0])
@pytest.mark.no_cover
def test_loss_and_excess_at_extreme_values(margin, scale):
    pairs = Pairs.of(Samples.from_sentences(named_sentences("C-EX-1")))
    a = scale * KqStar.of(pairs).values + 0.3 * np.random.default_rng(0).standard_normal(pairs.P)
    W_ov = OutputValue.aligned(pairs.collocation, margin)
    due, excess = many_digits(pairs, margin, a)
    assert loss(pairs, W_ov, a) == pytest.approx(due, rel=1e-12)
    assert log_excess_loss(pairs, W_ov, a) == pytest.approx(excess, rel=1e-12, abs=1e-12)


@settings(max_examples=5)
@given(st.integers(3, 7), seeds, st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), max_size=8))
@pytest.mark.slow
@pytest.mark.no_cover
def test_the_limit_of_predictions_is_where_the_flow_goes(V, seed, unseen):
    samples = Samples.from_sentences(generate(V, permutation="uniform", lag0=0.4, rng=seed).sentences)
    assume(Pairs.of(samples).n)
    run = train_by_flow(samples, 1e9, rate=0.05)
    for sentence in unseen:
        sentence = [x % V for x in sentence]
        near, far = run.predict(sentence), run.predict(sentence, limit=True)
        assert {a.word: a.weight for a in near.attended} == pytest.approx(
            {a.word: a.weight for a in far.attended}, abs=1e-6
        )


@pytest.mark.slow
def test_a_tie_at_zero_with_a_token_in_between():
    """C-EXT-1 next to a cycle of its own: p has W_kq* = 0 under q, as c has, which was never compared."""
    samples = Samples.from_sentences(["p q q", "r p q p", "q r", "c d", "d c", "r p q p"])
    run = train(samples, steps=40_000, rate=0.05)
    near, far = run.predict("c p q"), run.predict("c p q", limit=True)
    assert {a.word: a.weight for a in near.attended} == pytest.approx(
        {a.word: a.weight for a in far.attended}, abs=1e-3
    )


@given(seeds, st.lists(st.integers(1, 60), max_size=4))
def test_a_run_in_pieces_gives_the_same_bits(seed, cuts):
    """Also where Assumption 3 fails and structured and signed steps take turns."""
    samples = Samples.from_sentences(
        generate(6, lag0=0.3, max_length=12, assumption3=False, rng=seed).sentences
    )
    assume(Pairs.of(samples).n)
    options = {"rate": 0.3, "W_ov": OutputValue.aligned(collocation(samples), 30.0)}
    whole = train(samples, steps=60, **options)
    a, done, signed = None, 0, 0
    for cut in sorted({*cuts, 60}):
        piece = train(samples, steps=cut, start=a, after=done, record=7, **options)
        assert (piece.steps, piece.times[0]) == (cut, done)
        a, done, signed = piece.a, cut, signed + piece.signed_steps
    np.testing.assert_array_equal(a, whole.a)
    assert signed == whole.signed_steps


@pytest.mark.slow
def test_structured_and_signed_steps_in_pieces():
    """C-EXT-3, where both forms are needed on the way."""
    samples = Samples.from_sentences(named_sentences("C-EXT-3"))
    options = {"rate": 0.02, "W_ov": OutputValue.aligned(collocation(samples), 300.0)}
    runs = [train(samples, steps=300, record=record, **options) for record in (1, 7, 300)]
    assert 0 < runs[0].signed_steps < 300
    for run in runs[1:]:
        np.testing.assert_array_equal(run.a, runs[0].a)
        assert run.signed_steps == runs[0].signed_steps


@pytest.mark.slow
def test_a_run_can_be_stopped():
    samples = Samples.from_sentences(named_sentences("C-FIG-2"))
    calls = []
    stop, progress = lambda: len(calls) == 2, lambda *call: calls.append(call)
    run = train(samples, steps=10**9, progress=progress, stop=stop)
    assert calls[-1] == (run.steps, 10**9)
    assert run.steps == run.times[-1]
    assert 0 < run.steps < 10**9
    np.testing.assert_array_equal(train(samples, steps=run.steps).a, run.a)
    assert train(samples, steps=50, stop=lambda: True).times.tolist() == [0]
    with pytest.raises(ValueError, match="steps must be an integer of at least 100"):
        train(samples, steps=50, after=100)


@pytest.mark.parametrize("window", [1, 7, 25, 100])
def test_windows_of_steps_give_the_same_bits(window, monkeypatch):
    """However many rates are held at a time: points, progress, and an end where one window ends."""
    samples = Samples.from_sentences(named_sentences("C-FIG-2"))
    whole, calls = train(samples, steps=100, record=[3, 7, 8, 50]), []
    monkeypatch.setattr("hardmax.dynamics.edges.WINDOW", window)
    parts = train(samples, steps=100, record=[3, 7, 8, 50], progress=lambda *call: calls.append(call))
    np.testing.assert_array_equal(parts.points, whole.points)
    assert parts.times.tolist() == whole.times.tolist() == [0, 3, 7, 8, 50, 100]
    assert calls[-1] == (100, 100)
    calls.clear()
    stopped = train(
        samples, steps=100, progress=lambda *call: calls.append(call), stop=lambda: len(calls) == 1
    )
    assert stopped.times[-1] == stopped.steps == calls[-1][0] == window


def test_late_residual_of_orders_that_are_no_stars():
    """The minimum of F over the span of tight relations, against plain gradient descent on F."""
    star = KqStar.of(Pairs.of(Samples.from_sentences(named_sentences("C-CEX-P2"))))
    late = late_of(star)
    tight = star.support
    D = np.zeros((len(tight), star.pairs.P))
    D[np.arange(len(tight)), star.above[tight]] = 1
    D[np.arange(len(tight)), star.below[tight]] = -1
    unit = star.values / np.linalg.norm(star.values)
    across = D - np.outer(D @ unit, unit)
    R = np.zeros(star.pairs.P)
    for _ in range(20_000):
        share = late.omega[tight] * np.exp(-across @ R)
        R += 0.5 * (share / share.sum()) @ across
    np.testing.assert_allclose(R, late.R, atol=1e-9)
