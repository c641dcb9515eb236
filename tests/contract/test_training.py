"""Training: every optimizer by its formula, every model, events, records, batches and laws of rates."""

import math

import numpy as np
import pytest

from . import formulas as f
from . import names as n

KEYS, SCORES = f.draw(3, 4, 5, seed=1)
START = np.linspace(-0.3, 0.5, 5)
PROBLEM = n.problem(KEYS, SCORES)

OPTIMIZERS = {
    "gd": {},
    "gd in l3": {"norm": "l3"},
    "normalized": {},
    "normalized in l1.5": {"norm": "l1.5"},
    "normalized, decaying": {"decay": 0.5},
    "sign": {},
    "coordinate": {},
    "mirror": {"power": 3.0},
    "momentum": {"beta": 0.8},
    "signum": {},
    "adam": {"eps": 1e-3},
    "adamw": {"betas": (0.5, 0.9), "eps": 0.0, "weight_decay": 0.1},
    "rmsprop": {"beta": 0.9},
    "sgd": {"momentum": 0.9, "weight_decay": 0.02},
}


def follow(rule, gradient, p, steps):
    points = [p]
    for _ in range(steps):
        points.append(p := rule.move(gradient(p), p))
    return np.array(points)


@pytest.mark.parametrize("title", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_optimizers_are_their_formulas(title):
    name, options = title.replace(",", " ").split()[0], OPTIMIZERS[title]
    run = n.train(PROBLEM, n.optimizer(name, 0.05, **options), 40, start=START, record=1)
    by_hand = follow(f.Descent(name, 0.05, **options), lambda p: f.gradient(KEYS, SCORES, p), START, 40)
    assert f.close(run.points, by_hand, rtol=1e-8, atol=1e-10)
    assert f.close(run.losses[-1], f.loss(KEYS, SCORES, by_hand[-1]), rtol=1e-9)
    assert run.times[-1] == 40


def test_an_epsilon_stalls_normalized_descent():
    run = n.train(PROBLEM, n.optimizer("normalized", 0.05, eps=0.1), 20, start=START)
    rule = f.Descent("normalized", 0.05, stalling=0.1)
    assert f.close(run.p, follow(rule, lambda p: f.gradient(KEYS, SCORES, p), START, 20)[-1])


def test_an_optimizer_of_ones_own():
    own = n.own_optimizer("linf", 0.1, lambda direction: 0.5 * np.sign(direction))
    assert n.optimizer_norm(own) == "linf"
    sign = n.optimizer("sign", 0.05)
    assert f.close(n.train(PROBLEM, own, 30, start=START).p, n.train(PROBLEM, sign, 30, start=START).p)


# Points after 40 steps from the origin, by 50-digit arithmetic (part D's oracles).
TRIPLE = {
    ("normalized", 0.1): [-3.747151532939, -1.170184798399, 0.6849223889288],
    ("sign", 0.1): [-4.0, -2.8, 3.0],
    ("coordinate", 0.1): [-3.5, -0.5, 0.0],
    ("signum", 0.01): [-0.4, -0.4, 0.4],
}


@pytest.mark.parametrize("name, lr", TRIPLE)
def test_oracle_points(name, lr):
    run = n.train(n.example("triple"), n.optimizer(name, lr), 40)
    assert f.close(run.p, TRIPLE[name, lr], rtol=1e-11)


def test_adam_at_the_oracle():
    adam = n.optimizer("adam", 0.01, betas=(0.9, 0.99), eps=0.0)
    run = n.train(n.example("triple"), adam, 40)
    assert f.close(run.p, [-0.3858464485888, -0.3565628472683, 0.3877974339026], rtol=1e-11)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
def test_compiled_and_plain_loops_agree(loss):
    value, slope = f.LOSSES[loss]
    own = n.loss_function("own", value, lambda u: math.log(-slope(np.float64(u))))
    for name in ("normalized", "adam"):
        fast, slow = (
            n.train(n.problem(KEYS, SCORES, loss=each), n.optimizer(name, 0.1), 60, start=START)
            for each in (loss, own)
        )
        assert f.close(fast.points, slow.points, rtol=1e-11)


def test_batches_take_inputs_in_turn():
    run = n.train(PROBLEM, n.optimizer("gd", 0.1), 5, start=START, batch=2)
    p = START
    for k in range(5):
        chosen = [(2 * k) % 3, (2 * k + 1) % 3]
        p = p - 0.1 * f.gradient(KEYS[chosen], SCORES[chosen], p)
    assert f.close(run.p, p)


def test_joint_training_moves_the_readout_too():
    labels, v = np.array([1, -1, 1]), np.array([0.3, -0.2, 0.1, 0.0, 0.4])
    model = n.joint(n.problem_from_tokens(KEYS, labels, v))
    run = n.train(model, (n.optimizer("gd", 0.2), n.optimizer("gd", 0.1)), 25, start=START)
    p = START
    for _ in range(25):
        scores = labels[:, None] * (KEYS @ v)
        s = np.array([f.softmax(k @ p) for k in KEYS])
        slope = f.LOSSES["logistic"][1]((s * scores).sum(1))
        by_v = ((slope * labels)[:, None] * np.einsum("it,itd->id", s, KEYS)).mean(0)
        p, v = p - 0.2 * f.gradient(KEYS, scores, p), v - 0.1 * by_v
    assert f.close(run.p, p)
    assert f.close(n.readouts_of(run)[-1], v)


def test_a_matrix_trained_with_a_prompt():
    W, u = np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1.0, 0.0, -1.0, 0.5, 0.2])
    problem = n.problem_from_tokens(KEYS, [1, -1, 1], np.ones(5), W=W)
    scores = np.array([1, -1, 1])[:, None] * KEYS.sum(2)
    run = n.train(n.matrix(problem, prompt=u), n.optimizer("gd", 0.1), 15)
    for _ in range(15):
        W = W - 0.1 * np.outer(u, f.gradient(KEYS, scores, W.T @ u))
    assert f.close(run.W, W)


def query_gradient(tokens, queries, scores, W):
    total = np.zeros_like(W)
    for x, q, g in zip(tokens, queries, scores, strict=True):
        s = f.softmax(x @ W @ q)
        total += f.LOSSES["logistic"][1](s @ g) * np.outer((s * (g - s @ g)) @ x, q)
    return total / len(tokens)


TOKENS, VALUES = f.draw(3, 3, 3, seed=4)
QUERIES = np.random.default_rng(5).normal(size=(3, 3))


@pytest.mark.parametrize("name", ["gd", "normalized", "spectral", "muon"])
def test_optimizers_of_matrices(name):
    W = np.linspace(-0.2, 0.3, 9).reshape(3, 3)
    run = n.train(n.problem_from_queries(TOKENS, QUERIES, VALUES), n.optimizer(name, 0.05), 10, start=W)
    rule = f.Descent(name, 0.05)
    for _ in range(10):
        g = query_gradient(TOKENS, QUERIES, VALUES, W)
        if name == "normalized":
            W = W - 0.05 * g / np.linalg.norm(g)
        else:
            W = rule.move(g, W) if name in ("spectral", "muon") else W - 0.05 * g
    assert f.close(run.W, W, rtol=1e-8)


def test_factors_of_a_matrix():
    rng = np.random.default_rng(6)
    K, Q = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    model = n.factors(n.problem_from_queries(TOKENS, QUERIES, VALUES), rank=2)
    run = n.train(model, n.optimizer("gd", 0.1), 20, start=(K, Q))
    for _ in range(20):
        g = query_gradient(TOKENS, QUERIES, VALUES, K @ Q.T)
        K, Q = K - 0.1 * g @ Q, Q - 0.1 * g.T @ K
    assert f.close(run.K, K)
    assert f.close(run.Q, Q)
    assert f.close(run.W, K @ Q.T)
    assert n.run_norm(run) == "nuclear"


def test_what_diverges_beside_a_finite_part():
    cycle = n.example("cycle")  # part D's oracle: p_fin = log(3)/2 (1, -1, 0), p_mm = (1, 1, -2)/3
    run = n.train(n.remainder(cycle), n.optimizer("normalized", 0.1), 2000)
    finite, diverging = np.array([1.0, -1.0, 0.0]) * math.log(3.0) / 2, np.array([1.0, 1.0, -2.0])
    assert f.cosine_distance(run.p - finite, diverging) < 1e-20


def test_lists_of_problems():
    problems = n.random_trials(10, 9)
    for name in ("normalized", "adam"):
        runs = n.train_list(problems, n.optimizer(name, 0.5), steps=100)
        alone = [n.train(each, n.optimizer(name, 0.5), 100) for each in problems]
        assert all(f.close(a.p, b.p, rtol=1e-9) for a, b in zip(runs, alone, strict=True))


def test_records_and_starts(tmp_path):
    run = n.train(PROBLEM, n.optimizer("normalized", 0.1), 20, start=START, record=[0, 5, 20])
    assert run.times.tolist() == [0, 5, 20]
    assert f.close(run.points[0], START)
    assert f.close(run.direction, run.p / np.linalg.norm(run.p))
    assert n.p_norm(run) == pytest.approx(np.linalg.norm(run.p))
    assert n.selection(run) == tuple(int(np.argmax(k @ run.p)) for k in KEYS)
    assert f.close(run.predictions(), [f.softmax(k @ run.p) @ g for k, g in zip(KEYS, SCORES, strict=True)])
    run.save(tmp_path / "run.npz")
    again = n.load_run(tmp_path / "run.npz")
    assert (again.points == run.points).all()
    assert n.loss(again.problem, again.p) == n.loss(PROBLEM, run.p)


@pytest.mark.parametrize("coordinates", ["primal", "gram", "qr"])
def test_coordinates_change_nothing(coordinates):
    run = n.train(PROBLEM, n.optimizer("normalized", 0.1), 100, coordinates=coordinates)
    assert f.close(run.p, n.train(PROBLEM, n.optimizer("normalized", 0.1), 100).p, rtol=1e-9)


@pytest.mark.parametrize("power", [-300, 4, 300])
def test_units_change_nothing(power):
    c = 2.0**power
    run = n.train(n.problem(c * KEYS, SCORES), n.optimizer("normalized", 0.1 / c), 50)
    assert (c * run.p == n.train(PROBLEM, n.optimizer("normalized", 0.1), 50).p).all()


def test_events():
    opposed = n.problem([[[1.0], [0.0]], [[1.0], [0.0]]], [[1.0, 0.0], [0.0, 1.0]])
    assert n.train(opposed, n.optimizer("normalized", 0.1), 10).event == "stationary point"
    same = n.problem([[[1.0], [0.0]]], [[1.0, 1.0]])
    assert n.train(same, n.optimizer("gd", 0.1), 10).event == "no competing token"
    assert n.train(n.example("B-FIG-8"), n.optimizer("coordinate", 0.5), 100).event == "cycle"
    with pytest.warns(n.rate_warning):
        assert n.train(n.example("B-FIG-8"), n.optimizer("momentum", 1.0), 1000).event == "frozen momentum"


def test_a_run_bounds_the_margin():
    problem = n.example("triple")
    lower, upper = n.margin_bounds(n.train(problem, n.optimizer("normalized", 0.1), 3000))
    assert lower == pytest.approx(1.41353326131, abs=1e-9)  # part D's oracle
    assert lower < math.sqrt(2.0) < upper < 1.4154


def test_an_optimizer_tends_to_the_margin_of_its_norm():
    problem = n.example("B-FIG-8")
    for name, norm in (("sign", "linf"), ("coordinate", "l1"), ("normalized", "l2")):
        run = n.train(problem, n.optimizer(name, 0.1, decay=0.5), 20_000)
        assert n.run_norm(run) == norm
        assert abs(n.margin_gap(run, n.max_margin(problem, n.selection(run), norm=norm))) < 0.05


def test_laws_of_constant_rates():
    skew = n.example("skew")  # part D's oracles
    margin = n.max_margin(skew, norm="l2")
    assert n.freezing_rate(margin, beta=0.9) == pytest.approx(-math.log(0.9) / math.sqrt(5.0))
    assert n.adam_limit((0.9, 0.99)) == pytest.approx(-math.log(0.99) / 2)
    assert n.adam_growth(0.001, 3.0, (0.9, 0.99)) == pytest.approx(0.00227023031136, rel=1e-9)
    assert n.adam_waiting(0.1, 3.0, (0.9, 0.99)) == pytest.approx(356400, rel=1e-4)
    assert n.runaway_rate(3.0, (0.9, 0.5)) == pytest.approx(0.0095782498, rel=1e-8)
    assert n.critical_rate(n.max_margin(n.example("triple"), [1, 0, 0], norm="l3")) == pytest.approx(
        0.3294955545
    )
    assert n.mirror_onset(n.max_margin(n.example("triple"), [1, 0, 0], norm="l1.75"), 0.1) == pytest.approx(
        1446.9995, rel=1e-4
    )
    told = n.forecast(n.example("B-FIG-8"), n.optimizer("momentum", 1.0))
    assert told.is_beyond
    assert told.threshold == pytest.approx(-math.log(0.9) * math.sqrt(10.0))  # the margin is 1/sqrt(10)


def test_a_run_is_drawn():
    run = n.train(n.example("B-FIG-1a"), n.optimizer("normalized", 0.1), 100)
    assert len(n.run_plot(run, [-0.1, 1.0]).axes) == 3
