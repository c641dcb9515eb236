"""Problems side by side in lanes: the exponential, the plain loop, lanes that end, neighbors."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.dynamics.train import train_quietly

pytestmark = pytest.mark.compiled

UPDATED = (
    hm.optim.Adam(0.1),
    hm.optim.Adam(0.1, eps=0.0),
    hm.optim.Sign(0.1),
    hm.optim.Momentum(0.1),
    hm.optim.Normalized(0.1, norm="l3"),
    hm.optim.RMSprop(0.1),
    hm.optim.SGD(0.1, momentum=0.9),
)
UNSCALED = (0, 5, 6)  # with an epsilon, or not normalized
LOSSES = ("logistic", "exponential", "correlation")


def exponentials(x, least):
    from numba import njit

    from hardmax.dynamics.lanes.loops import exp
    from hardmax.dynamics.lanes.vectors import LANES, load, store

    @njit
    def fill(x, least, out):
        for i in range(x.size // LANES):
            store(out, i, exp(load(x, i), least))

    padded = np.concatenate([x, np.zeros(-len(x) % LANES)])
    out = np.empty(len(padded))
    fill(padded, least, out)
    return out[: len(x)]


def test_exponentials_are_right_to_one_ulp():
    """From -700 to 700; the worst of these is 0.87 ulp."""
    rng = np.random.default_rng(0)
    halves = -math.log(2.0) * (np.arange(1, 2001) / 2)  # where k changes: r is largest
    x = np.concatenate([
        -rng.uniform(0, 700, 6000), -rng.uniform(0, 1, 3000), -10.0 ** rng.uniform(-300, 0, 1000),
        halves[halves > -700], np.nextafter(halves[halves > -700], 0),
        [0.0, -0.0, -1.0, -700.0, -699.999],
    ])  # fmt: skip
    x = np.concatenate([x, -x])
    found = exponentials(x, -700.0)
    with mpmath.workdps(40):
        exact = [mpmath.exp(mpmath.mpf(value)) for value in x.tolist()]
        off = [
            abs(mpmath.mpf(a) - b) / math.ulp(float(b)) for a, b in zip(found.tolist(), exact, strict=True)
        ]
    assert max(off) <= 1.0
    assert (found[x == 0.0] == 1.0).all()
    assert (exponentials(np.array([-700.0001, -746.0, -1e300, -np.inf]), -700.0) == 0.0).all()
    assert exponentials(np.array([-44.9, -45.1, -45.0, -np.inf]), -45.0).astype(bool).tolist() == [1, 0, 1, 0]


@st.composite
def batches(draw):
    """Up to nine problems in three layouts at most, with keys of any size."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    loss, size = draw(st.sampled_from(LOSSES)), 10.0 ** draw(st.sampled_from([-160, -3, 0, 2, 160]))
    layouts = [draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)) for _ in range(3)]
    d = draw(st.integers(1, 7))
    problems = []
    for _ in range(draw(st.integers(1, 9))):
        sizes = layouts[rng.integers(3)]
        keys = [size * rng.normal(size=(T, d)) for T in sizes]
        scores = [rng.integers(-2, 3, size=T).astype(float) for T in sizes]  # often tied
        problems.append(hm.Problem(keys, scores, loss))
    return problems, size


def rule_of(name, size):
    return {
        "GD": hm.optim.GD(0.3 / size**2 if 1e-3 <= size <= 100 else 0.3),
        "Normalized": hm.optim.Normalized(0.5 / size),
        "decaying": hm.optim.Normalized(0.5 / size, decay=0.5),
        "damped": hm.optim.Normalized(0.5 / size, eps=1e-3 * size),
    }[name]


@settings(max_examples=60, deadline=None)
@given(batches(), st.sampled_from(["GD", "Normalized", "decaying", "damped"]))
def test_lanes_agree_with_the_plain_loop(made, name):
    problems, size = made
    if name == "GD" and not 1e-3 <= size <= 100:
        size = 1.0
        problems = [p for p in problems if abs(p.table.exponent) < 20]
    rule = rule_of(name, size)
    runs = hm.train(problems, rule, steps=12, coordinates="gram", record=[3, 7], workers=1)
    for problem, run in zip(problems, runs, strict=True):
        alone = hm.train(problem, rule, steps=12, coordinates="gram", record=[3, 7])
        assert (run.event, run.method, run.times.tolist()) == (
            alone.event,
            alone.method,
            alone.times.tolist(),
        )
        # Where pulls nearly cancel, both lose digits: as many as tell the plain loop from the primal one.
        primal = hm.train(problem, rule, steps=12, coordinates="primal", record=[3, 7])
        lost = np.abs(primal.points / 2 - alone.points / 2).max()
        error = np.abs(run.points / 2 - alone.points / 2).max()
        assert error <= 1e-12 * np.abs(alone.points / 2).max() + 100 * lost


def test_the_others_in_a_batch_change_no_bit():
    problems = [*hm.data.fig9_oracle(5, 7), *hm.data.fig9_oracle(100, 6), *hm.data.fig9_oracle(2, 9)]
    for rule in (hm.optim.Normalized(1.0), hm.optim.GD(2.0), *UPDATED):
        whole = hm.train(problems, rule, steps=300, workers=1)
        back = hm.train(problems[::-1], rule, steps=300, workers=2)[::-1]
        single = [hm.train([each], rule, steps=300, record=[50])[0] for each in problems]
        for a, b, c in zip(whole, back, single, strict=True):
            assert (a.p == b.p).all()
            assert (a.p == c.p).all()


def test_a_lane_that_ends_leaves_the_others_alone():
    """No competitor, a stationary point, and a problem whose inner products cancel, and two that go on."""
    keys = [[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 2.0], [0.0, -2.0]]]
    line = [[[1.0, 0.0], [-1.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]]]
    going = hm.Problem(keys, [[1.0, 0.0], [0.5, 0.0]])
    nothing = hm.Problem(keys, [[1.0, 1.0], [2.0, 2.0]])
    balanced = hm.Problem(line, [[1.0, 0.0], [1.0, 0.0]])
    near = hm.Problem(line, [[1.0, 0.0], [1.0, 1e-14]])
    problems = [going, nothing, balanced, near, going]
    rule = hm.optim.Normalized(0.5)
    runs = hm.train(problems, rule, steps=40, coordinates="gram", record=[20])
    assert [run.event for run in runs[:3]] == [None, "no competing token", "stationary point"]
    assert (runs[0].points == runs[4].points).all()
    for problem, run in zip(problems, runs, strict=True):
        alone = hm.train(problem, rule, steps=40, coordinates="gram", record=[20])
        assert run.event == alone.event
        assert run.points == pytest.approx(alone.points, rel=1e-12, abs=1e-300)


def test_far_out_where_almost_nothing_weighs_anything():
    """At |p| = 1e6 nearly all tokens weigh less than e^-345: steps are those of the plain loop."""
    rule = hm.optim.Normalized(0.01)
    for problem in hm.data.fig9_oracle(100, 5):
        best = hm.max_margin(problem, hm.train(problem, hm.optim.Normalized(1.0), steps=300).selection)
        start = 1e6 * best.direction + np.random.default_rng(0).normal(size=problem.d)
        (run,) = hm.train([problem], rule, steps=50, start=start)
        alone = hm.train(problem, rule, steps=50, start=start)
        assert np.abs(run.p - alone.p).max() <= 1e-8  # of 0.5 that it moved; logits are known to 1e-10
        assert np.linalg.norm(run.p - start) > 0.3


@settings(max_examples=60, deadline=None)
@given(batches(), st.sampled_from(range(len(UPDATED))))
def test_every_update_agrees_with_the_plain_loop(made, which):
    problems, size = made
    rule = replace(UPDATED[which], lr=0.1 / size if size != 1 else 0.1)
    if which in UNSCALED and not 1e-3 <= size <= 100:
        return  # their rate has no units of p: moves would leave the range
    runs = hm.train(problems, rule, steps=12, record=[3, 7], workers=1)
    for problem, run in zip(problems, runs, strict=True):
        alone = train_quietly(problem, rule, steps=12, record=[3, 7])
        assert (run.event, run.method, run.times.tolist()) == (
            alone.event,
            alone.method,
            alone.times.tolist(),
        )
        assert np.abs(run.points / 2 - alone.points / 2).max() <= 1e-9 * np.abs(alone.points / 2).max()


def test_updates_agree_over_many_steps():
    """A thousand steps on random problems; 1e-14 was measured, for rules that do not amplify rounding."""
    problems = [hm.data.sphere(n=4, T=6, d=10, rng=seed) for seed in range(6)]
    for rule in (*UPDATED[:4], hm.optim.SGD(0.1, momentum=0.9), hm.optim.Mirror(0.1, 3)):
        for problem, run in zip(problems, hm.train(problems, rule, steps=1000), strict=True):
            alone = train_quietly(problem, rule, steps=1000)
            assert np.abs(run.p - alone.p).max() <= 1e-11 * np.abs(alone.p).max()


def test_a_lane_of_a_rule_that_ends_leaves_the_others_alone():
    """No competitor, a stationary point, a cycle, a coordinate that nothing moves, next to two that go on."""
    keys = [[[1.0, 0.1], [-1.0, 0.3]], [[0.2, 2.0], [0.1, -2.0]]]
    line = [[[1.0, 1.0], [-1.0, -1.0]], [[-1.0, -1.0], [1.0, 1.0]]]
    flat = [[[1.0, 0.0], [-1.0, 0.0]], [[2.0, 0.0], [1.0, 0.0]]]
    going = hm.Problem(keys, [[1.0, 0.0], [0.5, 0.0]])
    nothing = hm.Problem(keys, [[1.0, 1.0], [2.0, 2.0]])
    balanced = hm.Problem(line, [[1.0, 0.0], [1.0, 0.0]])
    between = [[[2.0, 1.0], [-1.0, -0.5], [0.0, 0.0]]]  # the last scores best, and wins most at a finite p
    round_and_round = hm.Problem(between, [[0.0, 0.0, 1.0]])
    still = hm.Problem(flat, [[1.0, 0.0], [1.0, 0.0]])
    problems = [going, nothing, balanced, round_and_round, still, going]
    seen = set()
    for rule in (hm.optim.Sign(0.5), hm.optim.Adam(0.5), hm.optim.Momentum(0.5)):
        runs = hm.train(problems, rule, steps=40, record=[20])
        seen |= {run.event for run in runs}
        assert (runs[0].points == runs[5].points).all()
        for problem, run in zip(problems, runs, strict=True):
            alone = train_quietly(problem, rule, steps=40, record=[20])
            assert run.event == alone.event
            assert run.points == pytest.approx(alone.points, rel=1e-12, abs=1e-13)
    assert seen >= {None, "no competing token", "cycle"}


def test_a_runaway_ends_its_lane():
    problem = hm.Problem([[[1.0, 0.5], [0.0, 0.0]]], [[1.0, 0.0]])
    rule = hm.optim.Adam(2.0, betas=(0.99, 0.9), eps=0.0)
    run, _ = hm.train([problem] * 2, rule, steps=20_000)
    alone = train_quietly(problem, rule, steps=20_000)
    assert run.event == alone.event == "runaway"


def test_what_lanes_do_not_take_runs_as_before():
    """A rate of the problem, shared options: equal to `train` to the bit."""
    problems = list(hm.data.fig9_oracle(10, 5))
    for rule in (hm.optim.GD("1/L_p"),):
        for problem, run in zip(problems, hm.train(problems, rule, steps=30), strict=True):
            assert (run.p == hm.train(problem, rule, steps=30).p).all()
    few = hm.train(problems, hm.optim.GD(0.1), steps=30, batch=2)
    assert (few[1].p == hm.train(problems[1], hm.optim.GD(0.1), steps=30, batch=2).p).all()


def together_and_alone(problems, rule, **options):
    """Runs of a batch, which are those of each problem by itself to the bit, and of the plain loop."""
    runs = hm.train(problems, rule, **options)
    for problem, run in zip(problems, runs, strict=True):
        (alone,) = hm.train([problem], rule, **options)
        assert (run.event, run.points.tobytes()) == (alone.event, alone.points.tobytes())
    return runs, [train_quietly(problem, rule, **options) for problem in problems]


@pytest.mark.parametrize("coordinates", ["gram", "primal"])
def test_an_input_may_repeat_tokens_that_its_neighbors_have_once(coordinates):
    a, b = [1.0, 0.5], [-1.0, 0.2]
    problems = [hm.Problem([[a, b]], [[1.0, 0.0]]), hm.Problem([[a, b, a]], [[1.0, 0.0, 1.0]])]
    rule = hm.optim.GD(0.1)
    for run, plain in zip(
        *together_and_alone(problems, rule, steps=10, coordinates=coordinates), strict=True
    ):
        assert run.p == pytest.approx(plain.p, rel=1e-13)


@pytest.mark.parametrize("eps", [0.0, 1e-304, 1e-8])
@pytest.mark.parametrize("kind", [hm.optim.Adam, hm.optim.AdamW, hm.optim.RMSprop])
def test_gradients_below_the_range_of_floats(kind, eps):
    """From e^-695 to e^-701, where `adapt` hands over to the update, next to others far from there."""
    keys = np.array([[[1.0, 0.2], [0.0, 0.0]], [[0.9, -0.3], [0.0, 0.1]]])
    problems = [hm.Problem(keys * size, [[1.0, 0.0]] * 2) for size in (1.0, 0.15, 1.5, 1e-3)]
    options = {"start": [772.0, 0.0], "steps": 100, "record": [10, 50]}
    runs, plain = together_and_alone(problems, kind(1.0, eps=eps), **options)
    for run, expected in zip(runs, plain, strict=True):
        assert run.event == expected.event
        assert run.points == pytest.approx(expected.points, rel=1e-12)
    sizes = [hm.gradient(problems[0], p).log_norm for p in runs[0].points[[0, -1]]]
    assert sizes[0] > -700.0
    assert sizes[1] < -700.0 or eps == 1e-8  # with that it does not move
    assert hm.gradient(problems[2], runs[2].p).log_norm < -1000.0


def test_exact_ties_between_tokens():
    """Logits that are equal at the start, and go on to be for some of them: with every update."""
    rng = np.random.default_rng(0)
    keys = rng.integers(-1, 2, size=(11, 3, 5, 4)).astype(float)
    scores = rng.integers(-1, 2, size=(11, 3, 5)).astype(float)
    keys[3] = keys[3, :1, :1]  # all tokens are equal
    scores[5] = 1.0
    problems = [hm.Problem(*each) for each in zip(keys, scores, strict=True)]
    for rule in (*UPDATED, hm.optim.GD(0.5), hm.optim.Normalized(0.5), hm.optim.Adam(0.5, eps=0.0)):
        for run, plain in zip(*together_and_alone(problems, rule, steps=4, record=1), strict=True):
            assert run.event == plain.event
            assert run.points == pytest.approx(plain.points, rel=1e-11, abs=1e-13)


def test_near_ties_of_huge_logits():
    """Rounding puts a token above the top one by any number, whose exponential is infinite."""
    rng = np.random.default_rng(0)
    keys = rng.integers(-1, 2, size=(100, 2, 5, 16)).astype(float)
    start = 1e60 * np.cumsum([0.1] * 4)[rng.integers(4, size=16)]
    problems = [hm.Problem(each, [[1.0, 0.0, -1.0, 2.0, 1.0]] * 2) for each in keys]
    for rule in (hm.optim.Sign(1e59), hm.optim.Adam(1e59)):
        for runs in together_and_alone(problems, rule, start=start, steps=20):
            assert "runaway" not in {run.event for run in runs}


def test_near_ties_of_huge_logits_in_the_plain_loop():
    rng = np.random.default_rng(0)
    for _ in range(40):
        keys = 1000.0 * rng.normal(size=(2, 1, 5)) + rng.normal(size=(2, 4, 5)) * 1e-12
        problem = hm.Problem(keys, [[1.0, 0.0, -1.0, 2.0]] * 2)
        matrix = hm.Problem.from_queries(keys, np.ones((2, 1)), [[1.0, 0.0, -1.0, 2.0]] * 2)
        p = 1e20 * rng.normal(size=5)
        assert np.isfinite(hm.loss(problem, p))
        assert np.isfinite(hm.loss(matrix, p[:, None]))
