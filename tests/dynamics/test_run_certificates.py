"""What a run proves of its margin by its own steps, on batches too (D-THM-3, D-THM-10)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax import optim
from hardmax.dynamics.optim import as_text, from_text
from hardmax.margin.norms import norm

# Rates above a threshold are of interest too.
pytestmark = pytest.mark.filterwarnings("ignore::hardmax.limits.RateWarning")


@pytest.mark.parametrize("case", range(4))
def test_batches_of_one(part_d, posed, case):
    """D-THM-10: with two tokens per input p is the sum of the inputs' own steps, and no max margin."""
    known = part_d["findings"]["batch_one"][case]
    problem = posed[known["dataset"]]
    rule = optim.Sign(0.1) if known["method"] == "sign" else optim.Normalized(0.1)
    run = hm.train(problem, rule, steps=60, batch=1)
    np.testing.assert_allclose(run.direction, known["predicted"], atol=1e-12)
    best = hm.max_margin(problem, norm=rule.norm)
    assert run.margin_gap(best) == pytest.approx(known["margin_deficit"], abs=1e-3)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_batches(seed):
    """Step k sees inputs k b, ..., k b + b - 1: the same as steps on problems of these inputs alone."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    b = int(rng.integers(1, n + 1))
    keys, scores = rng.normal(size=(n, 3, 2)), rng.normal(size=(n, 3))
    problem, p = hm.Problem(keys, scores), np.zeros(2)
    rule = optim.GD(0.5)
    for k in range(7):
        members = np.arange(k * b, k * b + b) % n
        p = hm.train(hm.Problem(keys[members], scores[members]), rule, steps=1, start=p).p
    run = hm.train(problem, rule, steps=7, batch=b)
    np.testing.assert_allclose(run.p, p, rtol=1e-10, atol=1e-12)
    slow = hm.LossFunction("own", lambda u: np.logaddexp(0, -u), lambda u: -np.log1p(np.exp(u)))
    plain = hm.train(hm.Problem(keys, scores, slow), rule, steps=7, batch=b)
    np.testing.assert_allclose(plain.p, p, rtol=1e-10, atol=1e-12)


def test_batches_without_a_pull():
    """An input of equal scores is passed over; if all are such, the run ends by its event."""
    keys = [[[1.0], [0.0]], [[1.0], [0.0]]]
    run = hm.train(hm.Problem(keys, [[1.0, 0.0], [1.0, 1.0]]), optim.Sign(0.25), steps=6, batch=1)
    assert (run.p.tolist(), run.event) == ([0.75], None)
    none = hm.train(hm.Problem(keys, [[1.0, 1.0], [1.0, 1.0]]), optim.Sign(0.25), steps=6, batch=1)
    assert none.event == "no competing token"
    for wrong, message in ((3, "batch must be at most 2"), (0, "batch must be an integer of at least 1")):
        with pytest.raises(ValueError, match=message):
            hm.train(run.problem, hm.optim.Normalized(0.1), batch=wrong)


@pytest.mark.compiled
@pytest.mark.parametrize("case", range(5))
def test_a_run_certifies_its_margin(part_d, posed, case):
    """D-THM-3: the gap of p and its own multipliers is the mean slack over the norm, at any rate."""
    known = part_d["findings"]["certificate_of_a_run"][case]
    problem, power = posed[known["dataset"]], known["p"]
    rules = [optim.Mirror(known["eta"], power)] + [optim.Normalized(known["eta"])] * (power == 2.0)
    digits = 1e-3 if power == 1.75 else 1e-10  # past its onset of swings rounding decides: 2e-4 of 20 starts
    for rule in rules:
        run = hm.train(problem, rule, steps=known["steps"])
        proof = run.margin_bounds()
        lower, upper = proof.margin_interval
        assert lower == pytest.approx(known["lower"], rel=digits)
        assert upper == pytest.approx(known["upper"], rel=digits)
        assert lower * (1 - 1e-11) <= known["margin"] <= upper * (1 + 1e-11)
        values = proof.constraints.rows() @ run.p
        weights = proof.multipliers / proof.multipliers.sum()
        slack = weights @ (values - values.min()) / norm(rule.norm).value(run.p)
        assert upper - lower == pytest.approx(slack, rel=1e-9, abs=1e-12)


RULES = [
    optim.GD(1.0),
    optim.Sign(0.1),
    optim.Coordinate(0.1),
    optim.Normalized(0.1, norm="l3"),
    optim.Mirror(0.1, 1.5),
    optim.Momentum(0.1),
    optim.Adam(0.1, eps=0.0),
    optim.SGD(0.3, momentum=0.9),
    optim.RMSprop(0.01),
]


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RULES), st.booleans())
def test_the_interval_of_any_run_holds(seed, rule, by_batches):
    rng = np.random.default_rng(seed)
    n, T, d = (int(rng.integers(low, high)) for low, high in ((1, 4), (2, 4), (2, 4)))
    problem = hm.Problem(rng.normal(size=(n, T, d)), rng.normal(size=(n, T)))
    run = hm.train(problem, rule, steps=60, start=rng.normal(size=d), batch=1 if by_batches else None)
    if not run.selection.is_unique:
        return
    proof, best = run.margin_bounds(), hm.max_margin(problem, run.selection, norm=rule.norm)
    assert proof.norm == rule.norm
    assert proof.margin_interval[0] <= best.margin_interval[1]
    assert best.margin_interval[0] <= proof.margin_interval[1]


def test_runs_without_a_certificate():
    problem = hm.data.example("B-FIG-3a")
    with pytest.raises(ValueError, match="run must be a training of p by one step rule, got gradient flow"):
        hm.flow(problem, until_norm=10).margin_bounds()
    with pytest.raises(ValueError, match="run must be a training of p by one step rule, got joint"):
        hm.train(problem.joint(), hm.optim.Normalized(0.1), steps=5).margin_bounds()
    with pytest.raises(ValueError, match="run must have left the origin"):
        hm.train(problem, hm.optim.Normalized(0.1), steps=0).margin_bounds()
    with pytest.raises(ValueError, match="optimizer of the run must be an optimizer"):
        hm.flow(problem, until_norm=10).forecast()


def test_a_run_on_disk_keeps_its_rule(posed, tmp_path):
    """The rule and the batch, so that a run that was read proves what it proved; not a rule of one's own."""
    rules = [
        optim.Mirror([0.1, 0.2, 0.1], 1.5), optim.Adam(0.1, (0.9, 0.99)), optim.GD("1/L_p"), optim.Muon(0.1),
        optim.Normalized(0.1, norm=3, decay=0.5),
    ]  # fmt: skip
    assert [from_text(as_text(rule)) for rule in rules] == rules
    run = hm.train(posed["triple"], optim.Sign(0.1), steps=30, batch=1)
    run.save(tmp_path / "run.npz")
    back = hm.Run.load(tmp_path / "run.npz")
    assert (back.optimizer, back.batch) == (run.optimizer, run.batch)
    assert back.margin_bounds().margin_interval == run.margin_bounds().margin_interval

    class Sign(optim.Optimizer):
        def update(self, direction, exponents, state, rate, step):
            return rate * np.sign(direction)

    assert as_text(Sign(0.1)) == ""
    for bad in (
        "{",
        '{"step": "Sign"}',
        '{"step": "Optimizer", "rate": 1}',
        "[]",
        '{"step": "Sign", "rate": -1}',
    ):
        with pytest.raises(ValueError, match=r"step must be an optimizer of hm.optim with its constants"):
            from_text(bad)


def test_twins_share_their_multiplier():
    """Two tokens with one key and other scores are merged in the loops; each has a row here."""
    keys = [[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0], [0.5, 0.0]]]
    problem = hm.Problem(keys, [[1.0, 0.0, 0.2], [1.0, 0.0, 0.0]])
    run = hm.train(problem, hm.optim.Normalized(0.1), steps=2000)
    proof = run.margin_bounds()
    assert proof.constraints.labels == ((0, 1), (0, 2), (1, 1), (1, 2))
    assert proof.multipliers[0] == proof.multipliers[1] > 0
    assert proof.margin_interval[1] - proof.margin_interval[0] < 0.02
