"""Stage 2 of paper C is a Problem like any other: against the trainer, and against exact numbers."""

import mpmath
import numpy as np
import pytest

import hardmax as hm
from hardmax.dynamics import flow, stepping
from hardmax.dynamics.edges import edges_of
from hardmax.nexttoken import Samples, generate, named_sentences
from hardmax.nexttoken.observables import log_excess_loss
from hardmax.nexttoken.relations import collocation
from hardmax.nexttoken.stages import Pairs, StageTwo, stage_1
from hardmax.nexttoken.star import KqStar, late_of
from hardmax.nexttoken.star import KqStar as Star
from hardmax.nexttoken.training import train, train_by_flow
from hardmax.problem.keys import OneHot
from hardmax.problem.readouts import OutputValue

SVOP = ["S V O P", "V O P", "O P P", "P S V"]


@pytest.fixture(scope="module", params=["svop", 0, 1])
def case(request):
    raw = SVOP if request.param == "svop" else generate(8, rng=request.param).sentences
    samples = Samples.from_sentences(raw)
    W_ov = stage_1(collocation(samples), 40, 0.2)
    return samples, W_ov


def plain(monkeypatch):
    """Take the edge form away."""
    monkeypatch.setattr(stepping, "EdgeSteps", lambda problem: type("None", (), {"edges": None}))
    monkeypatch.setattr(flow, "edges_of", lambda problem: None)


@pytest.mark.parametrize("form", ["edges", "aligned", "table"])
def test_descent_is_the_trainer(case, form, monkeypatch):
    """1,000 normalized steps, along edges, by the head without them, and with W_ov as a plain table."""
    samples, W_ov = case
    if form != "edges":
        plain(monkeypatch)
    problem = samples.problem(W_ov if form != "table" else W_ov.table)
    run = hm.train(problem, hm.optim.Normalized(0.05), steps=1000, record=[1, 10, 100])
    old = train(samples, steps=1000, rate=0.05, W_ov=W_ov, record=[1, 10, 100])
    pairs = old.pairs
    for mine, theirs in zip(run.points[:, : pairs.P], old.points, strict=True):
        assert np.abs(mine - theirs).max() <= 1e-12 * max(np.abs(theirs).max(), 1e-300)
    assert not run.points[:, pairs.P :].any()
    assert hm.loss(problem, run.p) == pytest.approx(old.loss, rel=1e-12)
    if form == "edges":
        assert edges_of(problem) is not None
        assert old.signed_steps == 0
        merged = hm.train(pairs.samples.problem(W_ov), hm.optim.Normalized(0.05), steps=1000, record=())
        assert (merged.p[: pairs.P] == old.a).all()  # the same inputs: the same bits


@pytest.mark.parametrize("form", ["edges", "general"])
def test_flow_along_its_arc_length(case, form, monkeypatch):
    samples, W_ov = case
    problem = samples.problem(W_ov)
    old = train_by_flow(samples, 1e6, rate=0.01, W_ov=W_ov, record=[1e4])
    if form == "general":
        plain(monkeypatch)
    for point in old.points[1:]:
        length = float(np.sqrt(point @ point))
        path = hm.flow(problem, clock="arc length", until_norm=length)
        assert path.clock == "arc length"
        assert path.p_norm == pytest.approx(length, rel=1e-12)
        assert hm.cosine_distance(path.p[: old.pairs.P], point.astype(float)) <= 1e-12
    path = hm.flow(problem, clock="arc length", until_length=100.0, record=[10.0])
    assert path.times.tolist() == [0.0, 10.0, 100.0]
    assert (
        path.cosine_distance(hm.flow(problem, until_norm=path.p_norm)) <= 1e-12
    )  # the clocks share one curve


def test_where_the_edge_form_ends_the_flow_goes_on():
    text = named_sentences("C-EXT-2")
    samples = Samples.from_sentences([text.words(i) for i in range(text.n)])
    problem = samples.problem(stage_1(collocation(samples), 40, 0.2))
    assert edges_of(problem) is None
    path = hm.flow(problem, clock="arc length", until_length=5.0)
    slow = hm.train(problem, hm.optim.Normalized(1e-3), steps=5000, record=())
    np.testing.assert_allclose(path.p, slow.p, atol=1e-3)


def test_gradient_at_a_large_norm_to_sixty_digits():
    """pi sigma(-u) m (h - sum m h) at |A| = 1,500: in plain floats it is zero."""
    samples = Samples.from_sentences(SVOP)
    pairs, draw = Pairs.of(samples), np.random.default_rng(1)
    table = draw.normal(size=(4, 4))
    problem = samples.problem(table)
    star = KqStar.of(pairs).values
    p = np.zeros(problem.d)
    p[: pairs.P] = 1500.0 * star + draw.normal(size=pairs.P)
    with mpmath.workdps(2000):
        B, G = mpmath.matrix(table.tolist()), [mpmath.mpf(0)] * problem.d
        for i in range(samples.n):
            inside = slice(samples.offsets[i], samples.offsets[i + 1])
            words, rows, y = samples.tokens[inside], problem.tokens[inside], int(samples.target[i])
            e = [
                int(c) * mpmath.exp(mpmath.mpf(p[r]))
                for c, r in zip(samples.counts[inside], rows, strict=True)
            ]
            m = [x / mpmath.fsum(e) for x in e]
            z = [mpmath.fsum(a * B[v, int(w)] for a, w in zip(m, words, strict=True)) for v in range(4)]
            others = [v for v in range(4) if v != y]
            total = mpmath.fsum(mpmath.exp(z[v]) for v in others)
            u = z[y] - mpmath.log(total)
            h = [
                B[y, int(w)] - mpmath.fsum(mpmath.exp(z[v]) * B[v, int(w)] for v in others) / total
                for w in words
            ]
            mean = mpmath.fsum(a * b for a, b in zip(m, h, strict=True))
            for row, a, b in zip(rows, m, h, strict=True):
                G[row] += mpmath.mpf(float(samples.weight[i])) * a * (b - mean) / (1 + mpmath.exp(u))
        norm = mpmath.sqrt(mpmath.fsum(g * g for g in G))
        direction, log_norm = [float(g / norm) for g in G], float(mpmath.log(norm))
    found = hm.gradient(problem, p)
    np.testing.assert_allclose(found.direction, direction, atol=2e-14)
    assert found.log_norm == pytest.approx(log_norm, abs=1e-10)
    assert log_norm < -1000


def test_sentences_of_one_token_keep_their_loss_and_have_no_rows():
    """a a -> b teaches attention nothing: no row, no pull, but its loss counts, with its weight."""
    samples = Samples.from_sentences(["a a b", "b c a", "c a"])
    table = np.random.default_rng(0).normal(size=(3, 3))
    problem = samples.problem(table)
    lone = np.flatnonzero(problem.sizes == 1)
    assert len(lone) == 4
    best = hm.max_margin(problem)
    assert {i for i, _ in best.constraints.labels} == set(np.flatnonzero(problem.sizes > 1).tolist())
    expected = 0.0
    for i in range(samples.n):
        c = samples.counts[samples.offsets[i] : samples.offsets[i + 1]]
        z = table[:, samples.tokens[samples.offsets[i] : samples.offsets[i + 1]]] @ (c / c.sum())
        expected += samples.weight[i] * (np.log(np.exp(z).sum()) - z[samples.target[i]])
    assert hm.loss(problem, None) == pytest.approx(expected, rel=1e-14)
    run = hm.train(problem, hm.optim.Normalized(0.5), steps=20)
    pairs = Pairs.of(samples)
    assert problem.d > pairs.P
    assert not run.points[:, pairs.P :].any()
    assert isinstance(problem.table, OneHot)


def test_a_collocation_that_is_not_injective_selects_sets():
    """C-EXT-2: two tokens of a sentence have the right next token, and the flow attends to both."""
    text = named_sentences("C-EXT-2")
    samples = Samples.from_sentences([text.words(i) for i in range(text.n)])
    n = collocation(samples)
    problem = samples.problem(OutputValue.aligned(n, 3.0))
    sets = hm.best_tokens(problem).sets
    inside = [samples.tokens[a:b] for a, b in zip(samples.offsets[:-1], samples.offsets[1:], strict=True)]
    right = tuple(
        tuple(np.flatnonzero(n[tokens] == y).tolist())
        for tokens, y in zip(inside, samples.target, strict=True)
    )
    assert any(len(tokens) > 1 for tokens in right)
    for found, expected in zip(sets, right, strict=True):
        assert found == expected


def test_limits_of_the_problem_are_those_of_the_data(case):
    """W_kq*, the excess loss, R_perp and eta_c come out of the general verbs."""
    samples, W_ov = case
    pairs = Pairs.of(samples)
    problem, star = pairs.samples.problem(W_ov), Star.of(pairs)
    best = hm.max_margin(problem)
    np.testing.assert_allclose(best.p[: pairs.P], star.values, atol=1e-12)
    run = train(samples, steps=1000, rate=0.05, W_ov=W_ov)
    chosen = hm.best_tokens(problem).tokens
    for scale in (0.01, 1.0, 30.0):
        p = np.zeros(problem.d)
        p[: pairs.P] = scale * run.a
        found = hm.dynamics.excess_loss(problem, p, chosen)
        assert found.sign == 1
        assert found.log == pytest.approx(log_excess_loss(pairs, W_ov, scale * run.a), rel=1e-11)
    late, ours = late_of(star), hm.limits.late_residual(problem, best)
    np.testing.assert_allclose(ours.residual()[: pairs.P], late.R, atol=1e-7)
    assert ours.eta_c == pytest.approx(late.eta_c, rel=1e-6)


def test_a_next_token_problem_in_a_file(case, tmp_path):
    samples, W_ov = case
    for given in (W_ov, W_ov.table):
        problem = samples.problem(given)
        problem.save(tmp_path / "c.npz")
        again = hm.Problem.load(tmp_path / "c.npz")
        p = np.random.default_rng(0).normal(size=problem.d)
        assert hm.loss(again, p) == hm.loss(problem, p)
        assert hm.gradient(again, p).direction.tolist() == hm.gradient(problem, p).direction.tolist()
    with pytest.raises(ValueError, match="npz"):
        problem.save(tmp_path / "c.json")


def test_refusals():
    samples = Samples.from_sentences(SVOP)
    with pytest.raises(ValueError, match="W_ov must have 4 tokens as the samples, got 2"):
        samples.problem(OutputValue.aligned([1, 0], 1.0))
    with pytest.raises(ValueError, match="W_ov"):
        samples.problem(np.eye(3))
    problem = samples.problem(np.eye(4))
    with pytest.raises(ValueError, match='clock must be "log t" or "arc length"'):
        hm.flow(problem, clock="steps")
    with pytest.raises(ValueError, match="until_length and record are arc lengths"):
        hm.flow(problem, until_length=3.0)
    with pytest.raises(ValueError, match="until_log_time is a log t"):
        hm.flow(problem, clock="arc length", until_log_time=3.0)
    with pytest.raises(ValueError, match="record must be arc lengths"):
        hm.flow(problem, clock="arc length", until_length=1.0, record=[2.0])


def test_the_problem_of_a_vocabulary_of_a_million():
    """Nothing grows with V^2: the edge form and the general one."""
    words = [str(x) for x in range(1_000_000)]
    samples = Samples.from_sentences([["0", "1", "2"], ["1", "2"], ["2", "0"]], vocabulary=words)
    problem = samples.problem(OutputValue.aligned(collocation(samples), 5.0))
    assert hm.gradient(problem, None).direction.size == problem.d < 10
    run = hm.train(problem, hm.optim.Normalized(0.1), steps=10)
    stage = StageTwo(Pairs.of(samples), problem.readout.W_ov)
    assert np.allclose(
        stage.direction(run.p[: stage.pairs.P], method="signed").unit,
        stage.direction(run.p[: stage.pairs.P]).unit,
        atol=1e-13,
    )
