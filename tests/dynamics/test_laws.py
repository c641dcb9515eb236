"""Events of a run, and the laws that predict them (D-THM-5 to 9b)."""

import math
import warnings

import numpy as np
import pytest

import hardmax as hm
from hardmax import optim
from hardmax.limits import RateWarning, late_residual

# The events are there to be seen, at rates that descend warns of.
pytestmark = pytest.mark.filterwarnings("ignore::hardmax.limits.RateWarning")


@pytest.mark.compiled
@pytest.mark.parametrize("rate, deficit", [(0.055, 1e-4), (0.06, 0.0625), (0.1, 0.0625), (0.3, 0.15625)])
def test_sign_descent_above_its_threshold(part_d, posed, rate, deficit):
    """D-THM-6 on triple: below 0.06 the deficit falls like 1/t, above it stays at 1/16 and more."""
    best = hm.max_margin(posed["triple"], [1, 0, 0], norm="linf")
    assert best.margin == pytest.approx(16 / 9, rel=1e-15)
    run = hm.train(posed["triple"], optim.Sign(rate), steps=10_000, record=[360])
    assert run.margin_gap(best) == pytest.approx(deficit, rel=5e-3)
    if rate == 0.1:
        known = part_d["findings"]["sign_threshold"]["point_at_step_360_eta_0_1"]
        np.testing.assert_allclose(run.points[1], known, rtol=1e-13)


def test_a_forecast_without_a_law_says_why():
    problem = hm.data.example("B-FIG-8")
    said = {
        name: hm.limits.forecast(problem, rule).why_none
        for name, rule in {
            "adam": optim.Adam(lr=0.1),
            "pure": optim.Adam(lr=0.1, eps=0.0),
            "gd": optim.GD(lr=0.1),
        }.items()
    }
    assert said["adam"].startswith("with eps = 1e-08 the steps shrink")
    assert (said["pure"], said["gd"][:16]) == ("", "its steps shrink")
    run = hm.train(problem, optim.Adam(lr=0.1), steps=100)
    assert "no law is known here: with eps" in str(run.forecast())


def test_the_trap_of_coordinate_descent(part_d, posed):
    """From step 4 on an exact cycle: the norm does not even diverge."""
    known = part_d["findings"]["coordinate_trap"]
    run = hm.train(posed["triple"], optim.Coordinate(known["eta"]), steps=50, record=1)
    assert run.event == "cycle"
    assert run.points[known["from_step"] :: 2].tolist() == [known["cycle"][0]] * 24
    assert run.points[known["from_step"] + 1 :: 2].tolist() == [known["cycle"][1]] * 23
    assert hm.train(posed["triple"], optim.Coordinate(1.0, decay=0.5), steps=50).event is None
    assert hm.train(posed["triple"], optim.Coordinate(0.1), steps=200).event is None


def test_a_point_at_rest_is_no_cycle():
    """Weight decay holds p at 1/decay forever: the same state again, and nothing goes round."""
    problem = hm.Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
    run = hm.train(problem, optim.AdamW(0.5, (0.0, 0.0), 0.0, weight_decay=1.0), steps=300)
    assert run.p.tolist() == [1.0]
    assert run.event is None


@pytest.mark.compiled
@pytest.mark.parametrize("known", range(8))
def test_momentum_freezes_above_its_threshold(part_d, posed, known):
    """D-THM-7: deficits of skew and space-b on both sides of -log(beta)/margin, and the event."""
    known = part_d["findings"]["momentum_freeze"]["runs"][known]
    problem, (eta, decay) = (
        posed[known["dataset"]],
        (known["parameters"].get(key, 0.0) for key in ("eta", "decay")),
    )
    rule = optim.Signum(eta, decay=decay) if known["method"] == "signum" else optim.Momentum(eta, decay=decay)
    best = hm.max_margin(problem, known["selection"], norm=rule.norm)
    run = hm.train(problem, rule, steps=10_000, record=[1000])
    for at, record in enumerate(known["records"][:2], start=1):
        assert run.margin_gap(best, at) == pytest.approx(record["margin_deficit"], rel=1e-3)
    beyond = not decay and eta > hm.limits.freezing_rate(best, 0.9)
    assert run.event == ("frozen momentum" if beyond else None)
    assert run.forecast().is_beyond == beyond


@pytest.mark.compiled
def test_muon_on_a_matrix_freezes(part_d):
    """On w44 at rate 0.1, with the deficit of the oracle in the spectral norm."""
    data = part_d["matrix"]["w44"]
    known = next(
        run for run in data["optimisers"] if run["method"] == "muon" and run["parameters"]["eta"] == 0.1
    )
    margin = next(each for each in data["selections"] if each["selection"] == known["selection"])["norms"]
    problem = hm.Problem.from_queries(data["tokens"], data["queries"], data["scores"])
    run = hm.train(problem, optim.Muon(0.1, 0.9), steps=1000, record=())
    assert (run.event, run.selection) == ("frozen momentum", tuple(known["selection"]))
    reach = (hm.max_margin(problem, run.selection).constraints.rows() @ run.p).min()
    deficit = 1 - reach / (np.linalg.norm(run.W, 2) * margin["spectral"]["margin"])
    assert deficit == pytest.approx(known["records"][0]["margin_deficit"], rel=1e-3)


@pytest.mark.compiled
def test_scales_of_their_own(posed):
    """With one scale for the mean and the gradient these went wrong after some thousand steps."""
    run = hm.train(posed["space-b"], optim.Signum(0.1), steps=100_000, record=())
    np.testing.assert_allclose(run.p, [1e4, 1e4, 1e4], rtol=1e-11)
    run = hm.train(posed["skew"], optim.Momentum(0.1), steps=300_000, record=())
    assert run.p_norm == pytest.approx(29_999.9913, abs=1e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("row", [0, 1])
def test_growth_of_adam(part_d, posed, row):
    """D-THM-9: the margins of late steps grow by the root of one equation, and as slowly as beta2 allows."""
    known = part_d["findings"]["adam_growth"]["rows"][row]
    betas, problem = (0.9, 0.99), posed["skew"]
    growth = hm.limits.adam_growth(known["eta"], 3.0, betas)
    assert growth == pytest.approx(known["predicted"], rel=1e-10)
    assert growth < hm.limits.adam_limit(betas)
    run = hm.train(problem, optim.Adam(known["eta"], betas, 0.0), steps=200_000, record=[100_000])
    margins = (hm.max_margin(problem).constraints.rows() @ run.points.T).min(axis=0)
    assert (margins[2] - margins[1]) / 100_000 == pytest.approx(growth, rel=1e-9)
    assert run.forecast().growth == pytest.approx(growth, rel=1e-12)


def test_waiting_time_of_adam(part_d):
    known = part_d["findings"]["adam_waiting"]
    assert hm.limits.adam_waiting(known["eta"], 3.0, (0.9, 0.99)) == pytest.approx(known["tau"], rel=1e-4)


@pytest.mark.compiled
@pytest.mark.parametrize("case", range(4))
def test_adam_runs_away_above_its_threshold_only(part_d, posed, case):
    """D-THM-9b: regular at 0.98 of it, gone at 1.02."""
    known = part_d["findings"]["adam_runaway_threshold"][case]
    problem, betas = posed[known["dataset"]], (known["beta1"], known["beta2"])
    margin = hm.max_margin(problem, norm="linf").margin
    limit = hm.limits.runaway_rate(margin, betas)
    assert limit == pytest.approx(known["eta_c"], rel=1e-8)
    assert hm.limits.adam_growth(0.98 * limit, margin, betas) < -math.log(betas[0])
    assert hm.limits.adam_growth(1.02 * limit, margin, betas) == math.inf
    below, above = (
        hm.train(problem, optim.Adam(factor * limit, betas, 0.0), steps=20_000, record=())
        for factor in (0.98, 1.02)
    )
    assert below.event is None
    assert np.abs(below.p).max() == pytest.approx(known["linf_norm_after_20000"]["0.98"], rel=1e-3)
    assert above.event == "runaway"
    assert 1e249 < np.abs(above.p).max() < 1e250


@pytest.mark.compiled
def test_a_runaway(part_d, posed):
    known = part_d["findings"]["adam_runaway"]
    run = hm.train(posed["skew"], optim.Adam(0.01, (0.9, 0.5), 0.0), steps=500, record=[200, 250])
    sizes = np.abs(run.points[1:]).max(axis=1)
    np.testing.assert_allclose(sizes, [known["norms"]["200"], 1362.0, known["norms"]["500"]], rtol=5e-4)
    assert hm.limits.runaway_rate(3.0, (0.9, 0.81)) == pytest.approx(0.0135233, rel=1e-5)  # beta1^2 = beta2
    assert hm.limits.runaway_rate(3.0, (0.9, 0.811)) == math.inf
    # With an epsilon it is over where the gradient is below that, some 40 steps later.
    damped = hm.train(posed["skew"], optim.Adam(0.01, (0.9, 0.5)), steps=3000, record=())
    assert damped.event is None
    assert np.abs(damped.p).max() < 100
    # Keys of 1e200: p is over 1e200, and its logits still fit.
    far = hm.Problem(posed["skew"].keys.reshape(2, 2, 2) * 1e200, posed["skew"].scores.reshape(2, 2))
    run = hm.train(far, optim.Adam(0.03 / 1e200, (0.9, 0.5), 0.0), steps=5000, record=())
    assert run.event == "runaway"
    assert np.isfinite(far.keys @ run.p).all()


@pytest.mark.compiled
@pytest.mark.parametrize("case", range(4))
def test_swings_above_the_critical_rate(part_d, posed, case):
    """D-THM-5: the step itself alternates above it and settles below, in l1.5, l2 and l3."""
    known = part_d["findings"]["steepest_threshold"][case]
    problem = posed[known["dataset"]]
    best = hm.max_margin(problem, known["selection"], norm=known["p"])
    limit = hm.limits.critical_rate(best)
    assert limit == pytest.approx(known["eta_c"], rel=2e-10)
    for factor in (0.98, 1.02):
        rule = optim.Normalized(factor * limit, norm=known["p"])
        run = hm.train(problem, rule, steps=3000, record=range(2997, 3001))
        alternation = np.abs(np.diff(run.points, n=2, axis=0)[-1]).max()
        expected = known["alternation_of_steps"][str(factor)]
        assert alternation < 1e-9 if factor < 1 else alternation == pytest.approx(expected, rel=1e-2)
    if known["p"] == 2.0:
        assert limit == pytest.approx(late_residual(problem, best).eta_c, rel=1e-14)


def test_the_critical_rate_where_it_says_nothing(posed):
    assert math.isnan(hm.limits.critical_rate(hm.max_margin(posed["skew"])))  # a tight row without multiplier
    assert hm.limits.critical_rate(hm.max_margin(posed["flat"], [0], norm="l1.5")) == math.inf  # one row
    with pytest.raises(ValueError, match="best must be a max margin in l2 or another power, got one in linf"):
        hm.limits.critical_rate(hm.max_margin(posed["skew"], norm="linf"))


@pytest.mark.parametrize("case", range(4))
def test_onset_of_swings_of_mirror_descent(part_d, posed, case):
    known = part_d["findings"]["mirror_threshold"][case]
    best = hm.max_margin(posed[known["dataset"]], known["selection"], norm=known["p"])
    assert hm.limits.mirror_onset(best, known["eta"]) == pytest.approx(known["step_c"], rel=1e-6)
    above = hm.max_margin(posed[known["dataset"]], known["selection"], norm="l3")
    assert hm.limits.mirror_onset(above, known["eta"]) == math.inf


@pytest.mark.compiled
def test_mirror_descent_swings_from_its_onset_on(posed):
    """On triple at 0.1 predicted at step 1,447, seen at about 1,770: growth begins with rounding."""
    run = hm.train(posed["triple"], optim.Mirror(0.1, 1.75), steps=2500, record=1)
    changes = np.abs(np.diff(run.points, n=2, axis=0)).max(axis=1)
    assert changes[1000:1400].max() < 1e-2
    assert changes[2400:].min() > 0.3


@pytest.mark.compiled
@pytest.mark.parametrize("case", [0, 2])
def test_weight_decay_bounds_adamw(part_d, posed, case):
    known = part_d["findings"]["adamw"][case]
    problem, decay = posed[known["dataset"]], known["weight_decay"]
    rule = optim.AdamW(1.0, (0.9, 0.99), 0.0, decay, decay=0.5)
    run = hm.train(problem, rule, steps=100_000, record=())
    assert decay * np.abs(run.p).max() == pytest.approx(1.0, abs=1e-4)
    best = hm.max_margin(problem, run.selection, norm="linf")
    assert run.margin_gap(best) == pytest.approx(known["margin_deficit"], rel=1e-2, abs=1e-9)


def test_warnings(posed):
    """Only beyond a threshold, only where the best selection has a margin, and never from a batch."""
    told = {
        optim.Momentum(
            0.05
        ): r"rate 0.05 of momentum in l2 .* above a rate of 0.0471\d+ .*freezes \(D-THM-7\)",
        optim.Signum(0.04): "D-THM-7",
        optim.Adam(0.01, (0.9, 0.5), 0.0): r"above a rate of 0.00957825 .* runs away \(D-THM-9b\)",
    }
    for rule, message in told.items():
        with pytest.warns(RateWarning, match=message) as caught:
            hm.train(posed["skew"], rule, steps=3)
        assert caught[0].filename == __file__  # the caller of train, not a file of hardmax
    with pytest.warns(RateWarning, match="above a rate of 0.329496 p swings and its direction is not"):
        hm.train(posed["triple"], optim.Normalized(0.34, norm="l3"), steps=3)
    quiet = [
        optim.Momentum(0.047), optim.Momentum(1.0, decay=0.5), optim.Momentum([1.0] * 3),
        optim.Momentum(1.0, normalized=False), optim.Adam(0.01, (0.9, 0.5)), optim.Adam(9.0, eps=0.0),
        optim.Adam(0.0095, (0.9, 0.5), 0.0), optim.Sign(9.0), optim.Mirror(9.0, 1.5), optim.RMSprop(9.0),
        optim.Normalized(100.0),
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rule in quiet:
            hm.train(posed["skew"], rule, steps=3)
        hm.train([posed["skew"]] * 2, optim.Momentum(1.0), steps=3)
        both = [[[1.0], [-1.0]], [[-1.0], [1.0]]]  # nothing separates the best tokens
        hm.train(hm.Problem(both, [[1.0, 0.0], [1.0, 0.0]]), optim.Momentum(1.0), steps=3)


def test_forecasts(posed):
    """Of what is selected, not only of the best; and in words."""
    best, other = (
        hm.limits.forecast(posed["plane"], optim.Momentum(0.1), chosen) for chosen in (None, [1, 1])
    )
    assert best.best.selection == (1, 2)
    assert best.threshold == pytest.approx(-2 * math.log(0.9), rel=1e-12)
    assert other.threshold == pytest.approx(-math.log(0.9) * other.best.p_norm, rel=1e-12)
    assert "the mean outlives the gradient" in str(best)
    swings = hm.limits.forecast(posed["triple"], optim.Normalized(0.5))
    assert (swings.is_beyond, swings.threshold) == (False, math.inf)
    assert "above a rate of 0.404061 p swings about the max margin; its direction is right" in str(swings)
    assert "from some 1.4e+03 steps on p swings" in str(
        hm.limits.forecast(posed["triple"], optim.Mirror(0.1, 1.75))
    )
    assert math.isnan(hm.limits.forecast(posed["triple"], optim.Sign(0.1)).threshold)
    assert str(hm.limits.forecast(posed["triple"], optim.GD(0.1, decay=0.5))).startswith(
        "gradient descent at a rate that"
    )
    assert math.isnan(hm.limits.forecast(posed["triple"], optim.Adam(0.1, decay=0.5, eps=0.0)).growth)


def test_the_least_of_three_growth_rates():
    """With beta2 a little above beta1^2 the law has three roots; runs from the origin take the least."""
    betas = (0.9, 0.811)

    def asked(x):
        return x * (1 - 0.9 * np.exp(x)) / 0.1 / np.sqrt((1 - 0.811 * np.exp(2 * x)) / 0.189)

    inside = np.sign([asked(x) - 0.03 for x in (0.0, 0.06, 0.1, 0.10473)])
    assert inside.tolist() == [-1, 1, -1, 1]  # so that there are three
    found = hm.limits.adam_growth(0.01, 3.0, betas)
    assert asked(found) == pytest.approx(0.03)
    assert found < 0.06
    run = hm.train(hm.data.example("skew"), hm.optim.Adam(0.01, betas, eps=0.0), steps=3000, record=[2000])
    grown = np.abs(run.points[-1] - run.points[-2]).max() / 1000 * 3.0
    assert grown == pytest.approx(found, rel=1e-3)
