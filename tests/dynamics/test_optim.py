"""Optimizers: against the formulas of torch.optim, in the log domain, in units, and written by a user."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numba import njit

import hardmax as hm
from hardmax.dynamics.updates import SIGNATURE

PROBLEM = hm.data.sphere(3, 4, 5, rng=0)
RULES = [
    hm.optim.GD(0.3),
    hm.optim.Normalized(0.3),
    hm.optim.Normalized(0.3, 1e-2),
    hm.optim.SGD(0.3, momentum=0.9),
    hm.optim.SGD(0.3, momentum=0.5, weight_decay=0.02),
    hm.optim.AdamW(0.05, weight_decay=0.1),
    hm.optim.AdamW(0.05, betas=(0.0, 0.9), eps=0.0),
]


def by_torch(problem, rule, steps, p):
    """torch.optim's SGD and AdamW in their own order of operations, with the gradient as a plain vector."""
    p, first, second = np.array(p), np.zeros(problem.d), np.zeros(problem.d)
    for k in range(1, steps + 1):
        g = hm.gradient(problem, p).vector
        if isinstance(rule, hm.optim.SGD):
            first = rule.momentum * first + (g + rule.weight_decay * p)
            p = p - rule.lr * first
            continue
        beta1, beta2 = rule.betas
        p = (1 - rule.lr * rule.weight_decay) * p
        first, second = beta1 * first + (1 - beta1) * g, beta2 * second + (1 - beta2) * g * g
        m, v = first / (1 - beta1**k), second / (1 - beta2**k)
        p = p - rule.lr * m / (np.sqrt(v) + rule.eps)
    return p


@pytest.mark.parametrize("rule", RULES[3:], ids=str)
def test_momentum_and_adam_are_those_of_torch(rule):
    start = np.linspace(-1, 1, 5)
    steps = 30 if rule.constants[0] == 0.0 else 200  # without a first moment rounding grows from step to step
    run = hm.train(PROBLEM, rule, steps=steps, start=start)
    np.testing.assert_allclose(run.p, by_torch(PROBLEM, rule, steps, start), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_compiled_loop_and_the_plain_one_agree(rule):
    plain = hm.LossFunction("own", lambda u: np.logaddexp(0, -u), lambda u: -math.log1p(math.exp(u)))
    slow = hm.Problem.from_tokens(
        PROBLEM.keys.reshape(3, 4, 5), PROBLEM.readout.labels, PROBLEM.readout.v, loss=plain
    )
    fast, start = (
        hm.Problem.from_tokens(slow.keys.reshape(3, 4, 5), slow.readout.labels, slow.readout.v),
        [0.1] * 5,
    )
    a, b = (hm.train(each, rule, steps=60, start=start) for each in (fast, slow))
    np.testing.assert_allclose(a.points, b.points, rtol=1e-12, atol=1e-13)
    a, b = (hm.train(each.joint(), rule, steps=60, start=start) for each in (fast, slow))
    np.testing.assert_allclose(a.points, b.points, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(a.v_points, b.v_points, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_an_update_is_the_move_of_the_loop(rule):
    """One step by `update` itself, from the gradient as `hm.gradient` gives it."""
    start = np.linspace(0.5, -1, 5)
    pull = hm.gradient(PROBLEM, start)
    move = rule.update(pull.direction, np.full(5, pull.log_norm), rule.begin(start), rule.lr, 0)
    np.testing.assert_allclose(hm.train(PROBLEM, rule, steps=1, start=start).p, start + move, rtol=1e-13)


def test_momentum_keeps_to_the_span():
    rule, start = hm.optim.SGD(0.3, momentum=0.9), np.linspace(-1, 1, 40)
    problem = hm.data.sphere(2, 3, 40, rng=1)
    primal, qr = (hm.train(problem, rule, steps=300, start=start, coordinates=c) for c in ("primal", "qr"))
    np.testing.assert_allclose(primal.points, qr.points, rtol=0, atol=1e-12)
    beside = np.linalg.svd(problem.keys - problem.keys[0])[2][6:]  # five differences span the moves
    assert np.abs(beside @ (primal.p - start)).max() < 1e-13
    for bad in (hm.optim.AdamW(0.1), hm.optim.SGD(0.1, weight_decay=0.1)):
        with pytest.raises(ValueError, match='coordinates must be "auto" or "primal"'):
            hm.train(problem, bad, coordinates="gram")


def test_adam_does_not_see_the_size_of_the_gradient():
    """Scores that shift by a constant scale an exponential loss by e^-800: without epsilon, in vain."""
    keys, scores = (
        np.random.default_rng(3).normal(size=(3, 4, 2)),
        np.random.default_rng(4).normal(size=(3, 4)),
    )
    rule = hm.optim.AdamW(0.1, eps=0.0)
    ends = [
        hm.train(hm.Problem(keys, scores + shift, loss="exponential"), rule, steps=300).p
        for shift in (0.0, 800.0)
    ]
    assert np.abs(ends[0]).max() > 5
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-9)


@pytest.mark.parametrize("power", [-300, 300])
@pytest.mark.parametrize("rule", [hm.optim.SGD, hm.optim.AdamW])
def test_units(power, rule):
    """A rule sees the user's units: p over c where keys are times c, with rates to match."""
    c = 2.0**power
    base = hm.train(PROBLEM, rule(0.1), steps=50)
    big = hm.Problem(PROBLEM.keys.reshape(3, 4, 5) * c, PROBLEM.scores.reshape(3, 4))
    same = rule(0.1 / c**2) if rule is hm.optim.SGD else rule(0.1 / c, eps=1e-8 * c)
    run = hm.train(big, same, steps=50)
    np.testing.assert_allclose(run.points * c, base.points, rtol=1e-12, atol=1e-13)


def test_a_rule_for_each_of_p_and_v():
    problem = hm.data.example("B-FIG-3a")
    pair = hm.optim.Normalized(0.1), hm.optim.GD(0.01)
    run = hm.train(problem.joint(), pair, steps=20)
    turned = hm.train(problem.joint(), {"v": pair[1], "p": pair[0]}, steps=20)
    assert (run.points == turned.points).all()
    assert (run.v_points == turned.v_points).all()
    assert run.method == "joint normalized gradient descent of p, gradient descent of v"
    first = hm.gradient(problem, None, wrt="v").vector
    one = hm.train(problem.joint(), pair, steps=1)
    np.testing.assert_allclose(one.v_points[-1], problem.readout.v - 0.01 * first, rtol=1e-14)


def test_rates_by_step_and_one_over_L():
    rates = np.linspace(0.1, 0.4, 4)
    run = hm.train(PROBLEM, hm.optim.SGD(rates), steps=4)
    plain = hm.train(PROBLEM, hm.optim.GD(rates), steps=4)
    np.testing.assert_allclose(run.points, plain.points, rtol=1e-14)
    at_L = hm.train(PROBLEM, hm.optim.SGD("1/L_p"), steps=9)
    np.testing.assert_allclose(at_L.p, hm.train(PROBLEM, hm.optim.GD("1/L_p"), steps=9).p, rtol=1e-13)


@dataclass(frozen=True)
class Compiled(hm.optim.Optimizer):
    """Sign descent in compiled code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "made", njit(SIGNATURE)(_sign))

    @property
    def kernel(self):
        return self.made


class Named(Compiled):
    """The same in a norm that nobody else knows."""

    norm = "mine"


def _sign(direction, exponents, constants, state, rate, step, move):
    move[:] = rate * np.sign(direction)


@pytest.mark.compiled
def test_a_users_compiled_rule():
    problem = hm.data.example("B-FIG-8")
    run = hm.train(problem, Compiled(0.5), steps=4)
    assert run.p.tolist() == [0.0, 2.0]
    assert run.method == "Compiled"
    assert hm.train(problem, Named(0.5), steps=4).p.tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: hm.optim.GD(0.0), "lr must be a positive number, got 0"),
        (lambda: hm.optim.GD("fast"), 'lr must be a positive number, a list of them or "1/L_p"'),
        (lambda: hm.optim.SGD(0.1, momentum=1.0), "momentum must be from 0 to below 1, got 1"),
        (lambda: hm.optim.AdamW(0.1, betas=0.9), "betas must be two numbers"),
        (lambda: hm.optim.AdamW(0.1, eps=-1.0), "eps must be a number of at least 0"),
        (lambda: hm.train(PROBLEM, 0.1), r"optimizer must be an optimizer such as hm.optim.GD\(lr=0.1\)"),
        (
            lambda: hm.train(PROBLEM.joint(), {"p": hm.optim.GD(0.1)}),
            r"optimizer must have the blocks \('p', 'v'\), got \('p',\)",
        ),
        (lambda: hm.train(PROBLEM.joint(), (hm.optim.GD(0.1),) * 3), "optimizer must be"),
        (lambda: hm.train(PROBLEM.matrix(), hm.optim.GD(0.1)), "prompt must be the vector u"),
        (lambda: hm.train(PROBLEM.joint(), (hm.optim.GD(0.1), 3)), "optimizer"),
        (lambda: hm.train(PROBLEM, hm.optim.Optimizer(0.1)), "Optimizer has no update"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
