"""W trained by rules of matrices and through its factors K and Q: the oracles of part D, laws, peers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.problem.readouts import NonlinearReadout

ORACLES = json.loads((Path(__file__).parents[1] / "oracles" / "paper-d-oracles.json").read_text())
NAMES = ("w22", "w33", "w44")


def posed(name):
    data = ORACLES["matrix"][name]
    return hm.Problem.from_queries(data["tokens"], data["queries"], data["scores"])


def ruled(method, eta, decay=0.0, b1=0.9):
    """The rule of an oracle run, a pair where each factor has its own."""
    plain, polar = hm.optim.Normalized(eta, decay=decay), hm.optim.Spectral(eta, decay=decay)
    return {
        "ngd": plain,
        "spectral": polar,
        "muon": hm.optim.Muon(eta, b1, decay=decay),
        "factorised-joint": plain,
        "factorised-block": (plain, plain),
        "factorised-muon-block": polar,
    }[method]


def begun(problem, parameters):
    """The model that an oracle run trains, and where it starts."""
    if "rank" not in parameters:
        return problem, {}
    return problem.factors(rank=parameters["rank"]), {"start": (parameters["K0"], parameters["Q0"])}


def oracle_runs(names, methods, last):
    for name in names:
        for known in ORACLES["matrix"][name]["optimisers"]:
            if known["method"] in methods:
                id = f"{name}-{known['method']}-{known['parameters']['eta']}"
                yield pytest.param(name, known, last, id=id)


@pytest.mark.parametrize(
    ("name", "known", "last"),
    [
        *oracle_runs(NAMES, ("ngd", "factorised-joint", "factorised-block"), 10_000),
        *oracle_runs(("w33",), ("spectral", "muon"), 1_000),  # rules of matrices are in plain Python
        *oracle_runs(("w33", "w44"), ("factorised-muon-block",), 1_000),
    ],
)
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::hardmax.limits.RateWarning")
def test_optimisers_of_matrices(name, known, last):
    """D-CONJ-1: the norm each rule makes least, its deficits after 10^3 and 10^4 steps, what it selects."""
    problem, parameters = posed(name), known["parameters"]
    rule = ruled(known["method"], *(parameters[key] for key in ("eta", "decay", "b1") if key in parameters))
    if known["method"] == "muon":
        rule = hm.optim.Muon(parameters["eta"], parameters["b1"])
    records = [each for each in known["records"] if each["step"] <= last]
    model, start = begun(problem, parameters)
    run = hm.train(model, rule, steps=last, record=[each["step"] for each in records], **start)
    best = hm.max_margin(problem, known["selection"], norm=known["norm"])
    ball = hm.margin.norm(known["norm"])
    # Polar steps of a constant rate swing: a start moved by 1e-16 moves this deficit by 3 percent and this
    # norm by 0.4 (20 starts); the other runs move by less than 1e-8, and oracles print four digits.
    swings = known["method"] == "spectral" and parameters["eta"] == 0.1 and not parameters.get("decay")
    for at, truth in enumerate(records, start=1):
        assert run.margin_gap(best, at) == pytest.approx(
            truth["margin_deficit"], rel=0.06 if swings else 1e-3
        )
        assert ball.value(run.W_at(at)) == pytest.approx(truth["norm"], rel=1e-2 if swings else 1e-5)
    if last == 10_000:
        assert run.selection == tuple(known["selection"])
    if "rank" in parameters:
        assert run.norm == known["norm"]


@pytest.mark.compiled
def test_the_parametrization_changes_the_selection():
    """D-ERR-5 on w33: W from zero selects the best tokens, small factors others."""
    problem = posed("w33")
    joint = next(x for x in ORACLES["matrix"]["w33"]["optimisers"] if x["method"] == "factorised-joint")
    model, start = begun(problem, joint["parameters"])
    through = hm.train(model, ruled("ngd", 0.03, 0.5), steps=10_000, record=(), **start)
    assert hm.train(problem, ruled("ngd", 0.1), steps=1000).selection == (2, 0, 2)
    assert through.selection == (2, 2, 2)
    assert hm.best_tokens(problem).tokens == (2, 0, 2)


@pytest.mark.compiled
@pytest.mark.parametrize("known", ORACLES["findings"]["rank_one_factors"], ids=lambda known: known["dataset"])
def test_factors_of_rank_one(known):
    """The margin of the best W of rank one is far from the nuclear one, whose W has rank two (D-THM-2)."""
    problem = posed(known["dataset"])
    run = hm.train(
        problem.factors(rank=1),
        hm.optim.Normalized(0.03, decay=0.5),
        steps=200_000,
        record=[2000, 20_000],
        start=(known["K0"], known["Q0"]),
    )
    best = hm.max_margin(problem, known["selection"], norm="nuclear")
    margins = [best.margin * (1.0 - run.margin_gap(best, at)) for at in (1, 2, 3)]
    assert margins == pytest.approx(known["normalised_margins"], rel=1e-6)
    assert np.linalg.matrix_rank(best.W, tol=1e-4) == known["nuclear_rank"]
    found = hm.margin.factored_point(problem, run.K, run.Q, tolerance=1e-2)
    assert (found.status, found.rank) == ("stationary", 1)
    assert found.interval == pytest.approx(
        (known["normalised_margins"][-1], known["nuclear_margin"]), rel=1e-6
    )
    assert found.operator_norm > 5.0  # far above 1: with a second column the run would leave
    # Minus the gradient of the factored Lagrangian by a new column pair (e u, e v) is (|M| - 1) e: it grows.
    u, v = found.escape
    assert u @ found.M @ v == pytest.approx(found.operator_norm, rel=1e-12)


def test_factored_points():
    """D-THM-2: balanced factors of the nuclear optimum are optimal with |M| = 1; the Frobenius one is not."""
    for name in NAMES:
        problem = posed(name)
        for known in ORACLES["matrix"][name]["selections"]:
            for each, status in (("nuclear", "optimal"), ("l2", "not stationary")):
                U, values, Vt = np.linalg.svd(hm.max_margin(problem, known["selection"], norm=each).W)
                found = hm.margin.factored_point(problem, 3.0 * U * values**0.5, 3.0 * Vt.T * values**0.5)
                assert found.status == status
                assert found.interval[1] == pytest.approx(known["norms"]["nuclear"]["margin"], rel=1e-8)
                if status == "optimal":
                    assert found.operator_norm == pytest.approx(1.0, abs=1e-4)
                    assert found.escape is None


@pytest.mark.compiled
def test_a_run_of_factors_proves_an_interval():
    known = next(x for x in ORACLES["matrix"]["w44"]["optimisers"] if x["method"] == "factorised-block")
    model, start = begun(posed("w44"), known["parameters"])
    run = hm.train(model, ruled("factorised-block", 0.03, 0.5), steps=10_000, record=(), **start)
    proof = run.margin_bounds()
    lower, upper = proof.margin_interval
    assert lower <= 1.60843583619 <= upper <= 1.03 * lower
    assert (proof.norm, proof.selection) == ("nuclear", (1, 0, 1, 0))
    with pytest.raises(ValueError, match="forecast must be of a training of W"):
        run.forecast()


@pytest.mark.compiled
def test_balance():
    """K'K - Q'Q: kept by small plain steps of both together, not by steps of each with its own length."""
    problem, rng = posed("w33"), np.random.default_rng(0)
    start = 0.3 * rng.normal(size=(3, 2)), 0.3 * rng.normal(size=(3, 2))
    drifts = []
    for rate in (0.04, 0.02):  # the drift of a step is of second order: half the rate, half the drift
        run = hm.train(
            problem.factors(rank=2), hm.optim.GD(rate), steps=int(40 / rate), record=(), start=start
        )
        drifts.append(np.abs(run.balance[-1] - run.balance[0]).max())
        assert np.abs(run.W).max() > 1.0
    assert drifts == pytest.approx([7.5e-4, 3.76e-4], rel=0.01)
    np.testing.assert_allclose(run.balance[0], start[0].T @ start[0] - start[1].T @ start[1], atol=1e-15)
    step = hm.optim.Normalized(0.01)
    apart = hm.train(problem.factors(rank=2), (step, step), steps=1000, record=(), start=start)
    assert np.abs(apart.balance[-1] - apart.balance[0]).max() > 1.0


def test_factors_in_plain_python(tmp_path):
    """Rules and heads that only Python can call take the same steps as the compiled loop."""

    class Own(hm.optim.Optimizer):
        def update(self, direction, exponents, state, rate, step):
            return rate * direction / np.linalg.norm(direction)

    problem, rng = posed("w33"), np.random.default_rng(1)
    start = 0.1 * rng.normal(size=(3, 2)), 0.1 * rng.normal(size=(3, 2))
    options = {"steps": 100, "start": start}
    problem = problem.factors(rank=2)
    one = hm.train(problem, hm.optim.Normalized(0.05), **options)
    np.testing.assert_allclose(hm.train(problem, Own(0.05), **options).points, one.points, rtol=1e-10)
    pair = hm.train(problem, (hm.optim.Adam(0.05), hm.optim.Normalized(0.1)), **options)
    by_hand = hm.train(problem, (hm.optim.Adam(0.05), Own(0.1)), **options)
    np.testing.assert_allclose(by_hand.points, pair.points, rtol=1e-9)
    x = np.array(ORACLES["matrix"]["w33"]["tokens"]).reshape(-1, 3)
    v = np.array([1.0, -2.0, 0.5])
    linear = hm.Problem.from_queries(x.reshape(3, 3, 3), "last", labels=[1, -1, 1], readout=v)
    moving = linear._with(
        readout=NonlinearReadout(
            x, linear.readout.labels, lambda z: z @ v, lambda z: np.tile(v, (len(z), 1)), linear.loss
        )
    )
    runs = [hm.train(each.factors(rank=2), hm.optim.Normalized(0.05), **options) for each in (linear, moving)]
    np.testing.assert_allclose(runs[0].points, runs[1].points, rtol=1e-10)
    one.save(tmp_path / "run.npz")
    again = hm.Run.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.observed["K"][-1], one.K)
    np.testing.assert_array_equal(again.W, one.W)


def test_factors_far_beyond_underflow():
    """Steps are exact in the log domain: at gaps of 10^4 they still go where the margin grows."""
    problem = posed("w22")
    U, values, Vt = np.linalg.svd(hm.max_margin(problem, norm="nuclear").W)
    start = 100.0 * U * values**0.5, 100.0 * Vt.T * values**0.5
    run = hm.train(problem.factors(rank=2), hm.optim.Normalized(1e-3), steps=100, start=start)
    assert hm.gradient(problem, run.W).log_norm < -9000.0
    best = hm.max_margin(problem, norm="nuclear")
    assert run.margin_gap(best) < 1e-4
    moved = run.W - run.W_at(0)
    assert np.linalg.norm(moved) > 1.0
    assert best.margin_gap(moved) < 0.02


def test_scales_of_factors():
    """Tokens times 2^a, queries times 2^b, factors over them: the same run."""
    data, rng = ORACLES["matrix"]["w33"], np.random.default_rng(2)
    plain = posed("w33")
    a, b = 2.0**200, 2.0**-350
    scaled = hm.Problem.from_queries(
        a * np.array(data["tokens"]), b * np.array(data["queries"]), data["scores"]
    )
    K, Q = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    step = hm.optim.Normalized(0.1)
    one = hm.train(plain.factors(rank=2), (step, step), steps=50, start=(K, Q))
    other = hm.train(
        scaled.factors(rank=2),
        (replace(step, lr=0.1 / a), replace(step, lr=0.1 / b)),
        steps=50,
        start=(K / a, Q / b),
    )
    np.testing.assert_allclose(other.K * a, one.K, rtol=1e-12)
    np.testing.assert_allclose(other.Q * b, one.Q, rtol=1e-12)


def test_stops_of_factors():
    one = hm.Problem.from_queries([[[1.0, 0.0]]], [[1.0]], [[1.0]])
    start = np.ones((2, 1)), np.ones((1, 1))
    assert (
        hm.train(one.factors(rank=1), hm.optim.Normalized(0.1), start=start, steps=5).event
        == "no competing token"
    )
    problem = hm.Problem.from_queries([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 0.0]], [[1.0, 0.0]])
    unseen = np.zeros((2, 1)), np.array([[0.0], [1.0]])  # Q'z = 0 and K = 0: nothing pulls either
    for step in (hm.optim.GD(0.1), hm.optim.Spectral(0.1)):
        assert hm.train(problem.factors(rank=1), step, start=unseen, steps=5).event == "stationary point"
    half = np.zeros((2, 1)), np.array([[1.0], [1.0]])  # K = 0 alone moves
    assert hm.train(problem.factors(rank=1), hm.optim.Normalized(0.1), start=half, steps=5).event is None
    away = hm.train(problem.factors(rank=1), hm.optim.Normalized(1e119), start=half, steps=50)
    assert away.event == "runaway"
    assert np.isfinite(away.W).all()


def test_bad_factors():
    problem, plain = posed("w22"), hm.data.example("B-FIG-8")
    K, step = np.ones((2, 1)), hm.optim.Normalized(0.1)
    for call, message in (
        (
            lambda: hm.train(plain.factors(rank=1), hm.optim.Normalized(0.1), start=(K, K)),
            "got a problem without queries, whose p is a",
        ),
        (
            lambda: hm.train(problem.factors(rank=0), hm.optim.Normalized(0.1), start=(K, K)),
            "the number of columns .* at least 1, got 0",
        ),
        (
            lambda: hm.train(problem.factors(rank=1.0), hm.optim.Normalized(0.1), start=(K, K)),
            r"rank must be the number of columns of K and Q, at least 1, got 1\.0",
        ),
        (
            lambda: hm.train(problem.factors(rank=1), hm.optim.Normalized(0.1)),
            r"start must be a pair \(K, Q\) of shapes \(2, 1\) and",
        ),
        (
            lambda: hm.train(problem.factors(rank=1), hm.optim.Normalized(0.1), start=np.ones((3, 1))),
            "start must be a pair",
        ),
        (
            lambda: hm.train(problem.factors(rank=2), hm.optim.Normalized(0.1), start=(K, K)),
            r"start\[0\] must have shape \(2, 2\)",
        ),
        (
            lambda: hm.train(problem.factors(rank=1), hm.optim.Normalized(0.1), start=(0 * K, 0 * K)),
            "K = Q = 0 is a stationary point",
        ),
        (
            lambda: hm.train(problem.factors(rank=1), (step,) * 3, start=(K, K)),
            "a tuple of 2 of them or a dict",
        ),
        (lambda: hm.train(problem.factors(rank=1), "sign", start=(K, K)), "optimizer must be an optimizer"),
        (
            lambda: hm.train(problem.factors(rank=1), hm.optim.GD("1/L_p"), start=(K, K)),
            "lr must be a number",
        ),
        (
            lambda: hm.train(
                problem.factors(rank=1), hm.optim.Normalized(0.1), start=(K, K), coordinates="gram"
            ),
            "coordinates must be",
        ),
        (lambda: hm.margin.factored_point(plain, K, K), "problem must be one with queries"),
        (lambda: hm.margin.factored_point(problem, K, np.ones((2, 2))), r"Q must have shape \(2, 1\)"),
        (lambda: hm.margin.factored_point(problem, -K, K, [0, 1]), "K, Q must select the tokens by a margin"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_data_of_a_peer_in_three_norms():
    """TF-as-SVM, visualization1: the margins of its two inputs in Frobenius, nuclear and spectral norm."""
    data = ORACLES["peers"]["tf_as_svm_visualization1"]
    problem = hm.Problem.from_queries(data["tokens"], data["queries"], data["scores"])
    for name, truth in data["margins"].items():
        best = hm.max_margin(problem, data["selection"], norm=name)
        assert best.is_certified
        assert best.margin == pytest.approx(truth["margin"], rel=1e-8)
        np.testing.assert_allclose(best.W * best.margin, truth["W"], atol=1e-5)


@pytest.mark.compiled
@pytest.mark.parametrize("power", [1.75, 2, 3])
def test_a_peer_trains_W_and_v_together(power):
    """AttentionMD's joint run: W and v from zero by mirror steps, each with its own dual norm."""
    data = ORACLES["peers"]["attentionmd_joint"]
    problem = hm.Problem.from_queries(data["tokens"], "first", labels=data["labels"], readout=[0.0, 0.0])
    step = hm.optim.Mirror(data["rate"], power)
    run = hm.train(problem.joint(), (step, step), steps=data["epochs"], record=[100])
    assert list(run.selection) == data["printed"][f"{power:g}"]
    if power == 2:
        assert run.p_norms == pytest.approx([0.0, 9.83, 1999.81], rel=1e-3)
        # D-ERR-9: with the machine epsilon next to the norm of a gradient of 1e-19, W stops forever.
        step = hm.optim.Normalized(data["rate"], eps=np.finfo(float).eps)
        stalled = hm.train(problem.joint(), (step, step), steps=data["epochs"], record=[100])
        assert stalled.p_norms[-1] == pytest.approx(data["frobenius_norm_of_W"]["2"], abs=5e-5)
        assert stalled.p_norms[-1] - stalled.p_norms[1] < 2e-4
        assert stalled.selection == run.selection
    if power == 3:  # as the peer's notebook prints it
        v = run.v_points[-1] / np.linalg.norm(run.v_points[-1])
        np.testing.assert_allclose(
            v, np.array([-0.183151, 0.421245]) / np.hypot(0.183151, 0.421245), atol=0.03
        )


@pytest.mark.extra
@pytest.mark.parametrize(
    "known", ORACLES["peers"]["attentionmd_single"]["runs"], ids=lambda known: f"{known['seed']}-{known['p']}"
)
def test_a_peer_trains_W_by_mirror_descent(known):
    """AttentionMD's local convergence with exact steps; torch draws v, signs, tokens and queries."""
    torch = pytest.importorskip("torch")
    chance = torch.Generator().manual_seed(known["seed"])
    v, signs, tokens, queries = (
        torch.randn(size, generator=chance) for size in ((10,), (6,), (6, 8, 10), (6, 10))
    )
    v, tokens, queries = ((x / torch.norm(x, dim=-1, keepdim=True)).double() for x in (v, tokens, queries))
    labels = np.where(signs.numpy() > 0, 1.0, -1.0)
    problem = hm.Problem.from_queries(tokens, queries, labels=labels, readout=v)
    run = hm.train(problem, hm.optim.Mirror(known["rate"], known["p"]), steps=known["epochs"], record=())
    assert list(run.selection) == known["selection"]
    assert list(hm.best_tokens(problem).tokens) == known["best"]
    best = hm.max_margin(problem, known["selection"], norm=known["p"])
    assert hm.margin.norm(known["p"]).value(run.W) == pytest.approx(known["norm_p"], rel=3e-6)
    assert best.margin == pytest.approx(known["svm_margin"], rel=1e-7)
    assert run.margin_gap(best) == pytest.approx(known["margin_deficit"], rel=1e-2)
    assert run.cosine_distance(best) == pytest.approx(known["one_minus_cos"], rel=5e-3)
