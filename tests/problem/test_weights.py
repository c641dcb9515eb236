"""Multiplicities of tokens stand for copies, weights of inputs for repeated inputs."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hardmax as hm

seeds = st.integers(0, 2**32 - 1)
SIZES = [2, 3, 1]


def drawn(seed):
    rng = np.random.default_rng(seed)
    keys = [rng.normal(size=(T, 3)) for T in SIZES]
    scores = [rng.normal(size=T) for T in SIZES]
    return rng, keys, scores


@given(seed=seeds, size=st.sampled_from([0.0, 1.0, 300.0]))
def test_counts_are_copies(seed, size):
    """To the last bit, for every quantity."""
    rng, keys, scores = drawn(seed)
    counts = [rng.integers(1, 5, T) for T in SIZES]
    once = hm.Problem(keys, scores).weighted(counts=np.concatenate(counts))
    copies = hm.Problem(
        [np.repeat(k, c, axis=0) for k, c in zip(keys, counts, strict=True)],
        [np.repeat(s, c) for s, c in zip(scores, counts, strict=True)],
    )
    p = size * rng.normal(size=3)
    a, b = hm.gradient(once, p), hm.gradient(copies, p)
    assert (a.direction.tolist(), a.log_norm) == (b.direction.tolist(), b.log_norm)
    assert hm.loss(once, p) == hm.loss(copies, p)
    assert (hm.dynamics.hessian(once, p) == hm.dynamics.hessian(copies, p)).all()
    assert (
        hm.train(once, hm.optim.Normalized(0.1), steps=50).p.tolist()
        == hm.train(copies, hm.optim.Normalized(0.1), steps=50).p.tolist()
    )
    assert hm.dynamics.excess_loss(once, p, [0, 0, 0]) == hm.dynamics.excess_loss(copies, p, [0, 0, 0])
    shares = [s.sum() for s in hm.attention(once, p)]
    np.testing.assert_allclose(shares, 1.0, rtol=1e-14)
    found = [hm.max_margin(problem) for problem in (once, copies)]
    if found[0].is_feasible and hm.attracts(once, found[0]).verdict:
        late = [hm.limits.late_residual(*pair) for pair in zip((once, copies), found, strict=True)]
        np.testing.assert_allclose(late[0].residual(), late[1].residual(), atol=1e-9)


@given(seed=seeds, size=st.sampled_from([0.0, 1.0, 300.0]))
@example(seed=85285, size=0.0)  # normalized steps swing about a finite minimum, and double rounding each time
def test_weights_are_repeated_inputs(seed, size):
    rng, keys, scores = drawn(seed)
    times = rng.integers(1, 4, len(SIZES))
    weighted = hm.Problem(keys, scores).weighted(times / times.sum())
    repeated = hm.Problem(
        [k for k, t in zip(keys, times, strict=True) for _ in range(t)],
        [s for s, t in zip(scores, times, strict=True) for _ in range(t)],
    )
    p = size * rng.normal(size=3)
    a, b = hm.gradient(weighted, p), hm.gradient(repeated, p)
    np.testing.assert_allclose(a.direction, b.direction, atol=1e-12)
    assert a.log_norm == pytest.approx(b.log_norm, rel=1e-12)
    assert hm.loss(weighted, p) == pytest.approx(hm.loss(repeated, p), rel=1e-14)
    np.testing.assert_allclose(hm.dynamics.hessian(weighted, p), hm.dynamics.hessian(repeated, p), atol=1e-14)
    for coordinates in ("primal", "gram"):
        for step, steps in ((hm.optim.GD(0.1), 50), (hm.optim.Normalized(0.1), 5)):
            runs = [
                hm.train(each, step, steps=steps, coordinates=coordinates) for each in (weighted, repeated)
            ]
            np.testing.assert_allclose(*(run.p for run in runs), atol=1e-9)
    e, f = (hm.dynamics.excess_loss(each, p, [0] * each.n) for each in (weighted, repeated))
    assert e.sign == f.sign
    assert e.log == pytest.approx(f.log, rel=1e-12)
    smooth = [hm.dynamics.smoothness(each) for each in (weighted, repeated)]
    assert smooth[0].L_p == pytest.approx(smooth[1].L_p, rel=1e-13)
    assert smooth[0].tight == pytest.approx(smooth[1].tight, rel=1e-13)


def test_the_risk_with_weights_is_not_divided_by_n():
    problem = hm.Problem([[[1.0], [0.0]], [[0.0], [1.0]]], [[1.0, 0.0], [3.0, 0.0]])
    ones = problem.weighted([1.0, 1.0])
    assert hm.loss(ones, [0.3]) == pytest.approx(2 * hm.loss(problem, [0.3]), rel=1e-15)
    assert hm.gradient(ones, [0.3]).log_norm == pytest.approx(
        hm.gradient(problem, [0.3]).log_norm + np.log(2)
    )
    slow = hm.flow(problem, until_log_time=3.0)
    fast = hm.flow(ones, until_log_time=3.0 - np.log(2))
    np.testing.assert_allclose(slow.p, fast.p, rtol=1e-8)


def test_flow_and_late_phase_with_weights_and_counts():
    """The residual next to p_mm, its floor and the straight line in log t take both into account."""
    problem = hm.data.example("B-FIG-8").weighted([0.2, 1.7], [3, 1, 1, 5])
    path = hm.flow(problem, until_norm=1e5)
    late = hm.limits.late_residual(problem, hm.max_margin(problem, path.selection))
    np.testing.assert_allclose(path.p, late.flow_point(path.times[-1]), atol=1e-3)
    assert late.compare(path).distances[-1] < 1e-5
    plain = hm.limits.late_residual(hm.data.example("B-FIG-8"), hm.max_margin(problem, path.selection))
    assert np.linalg.norm(plain.w - late.w) > 0.1


def test_weights_and_counts_are_checked_and_kept(tmp_path):
    problem = hm.data.example("B-FIG-8")
    with pytest.raises(ValueError, match="weights must be positive, got 0 at index 1"):
        problem.weighted([1.0, 0.0])
    with pytest.raises(ValueError, match="counts"):
        problem.weighted(counts=[1, 2])
    made = problem.weighted([0.2, 1.7], [3, 1, 1, 5])
    assert "weight" in made._repr_html_()
    for name in ("a.npz", "a.json"):
        made.save(tmp_path / name)
        again = hm.Problem.load(tmp_path / name)
        assert (again.weights.tolist(), again.counts.tolist()) == ([0.2, 1.7], [3, 1, 1, 5])
        assert hm.loss(again, [1.0, 2.0]) == hm.loss(made, [1.0, 2.0])


@given(seed=seeds)
def test_twins_with_counts_have_the_weighted_mean(seed):
    """Two tokens with one key and different scores, of which one stands three times."""
    rng, keys, scores = drawn(seed)
    keys[1][1] = keys[1][0]
    counted = hm.Problem(keys, scores).weighted(counts=[1, 1, 3, 1, 1, 1])
    order = [0, 0, 0, 1, 2]
    copies = hm.Problem([keys[0], keys[1][order], keys[2]], [scores[0], scores[1][order], scores[2]])
    p = rng.normal(size=3)
    np.testing.assert_allclose(hm.gradient(counted, p).vector, hm.gradient(copies, p).vector, atol=1e-15)
    parts = hm.attention(counted, p)[1], hm.attention(copies, p)[1]
    np.testing.assert_allclose(parts[0], np.add.reduceat(parts[1], [0, 3, 4]), rtol=1e-14)


def test_statements_of_paper_b_are_about_means():
    """Their bounds count inputs and tokens, so a problem with weights is outside of them."""
    problem = hm.data.example("B-FIG-8")
    assert hm.check_statement("B-THM-2", problem).verdict != "not applicable"
    for other in (problem.weighted([1.0, 2.0]), problem.weighted(counts=[1, 2, 1, 1])):
        assert hm.check_statement("B-THM-2", other).verdict == "not applicable"
    with pytest.raises(ValueError, match="no weights or counts here"):
        hm.limits.joint_path(hm.data.example("B-FIG-3a").weighted([1.0, 2.0, 1.0]), [3.0], rho=1.0)
