"""Keys of any size: powers of two change no digit, other factors only rounding, and nothing warns."""

import numpy as np
import pytest

import hardmax as hm

POWERS = (-530, -300, -65, -1, 3, 64, 301, 530)
rng = np.random.default_rng(0)
KEYS, SCORES = rng.normal(size=(3, 4, 3)), rng.normal(size=(3, 4))
VALUES, LABELS, HEAD = rng.normal(size=(3, 4, 2)), [1, -1, 1], rng.normal(size=2)
START = np.array([0.3, -0.2, 0.5])
BASE = hm.Problem(KEYS, SCORES)


def same(path, base, c):
    """Equal to the bit, in units of c."""
    np.testing.assert_array_equal(path.points * c, base.points)
    assert path.event == base.event
    assert path.selection == base.selection
    np.testing.assert_array_equal(path.directions, base.directions)
    np.testing.assert_array_equal(path.p_norms * c, base.p_norms)
    assert path.logit_error == base.logit_error
    assert path.off_top_attention() == base.off_top_attention()


@pytest.mark.parametrize("power", POWERS)
def test_flow(power):
    c = 2.0**power
    base = hm.flow(BASE, start=START, until_norm=1e5)
    path = hm.flow(hm.Problem(KEYS * c, SCORES), start=START / c, until_norm=1e5 / c)
    same(path, base, c)
    np.testing.assert_allclose(path.times + 2 * power * np.log(2), base.times, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("coordinates", ["primal", "gram", "qr"])
def test_descend(power, coordinates):
    c = 2.0**power
    scaled = hm.Problem(KEYS * c, SCORES)
    options = {"coordinates": coordinates}
    same(
        hm.train(scaled, hm.optim.Normalized(0.3 / c), steps=60, start=START / c, **options),
        hm.train(BASE, hm.optim.Normalized(0.3), steps=60, start=START, **options),
        c,
    )
    same(
        hm.train(scaled, hm.optim.Normalized(0.3 / c, 1e-3 * c), steps=60, **options),
        hm.train(BASE, hm.optim.Normalized(0.3, 1e-3), steps=60, **options),
        c,
    )
    if abs(power) < 500:  # else the plain rate itself is no float
        same(
            hm.train(scaled, hm.optim.GD(0.25 / c / c), steps=60, start=START / c, **options),
            hm.train(BASE, hm.optim.GD(0.25), steps=60, start=START, **options),
            c,
        )
    same(
        hm.train(scaled, hm.optim.GD("1/L_p"), steps=60, **options),
        hm.train(BASE, hm.optim.GD("1/L_p"), steps=60, **options),
        c,
    )


@pytest.mark.parametrize("power", POWERS)
def test_own_losses_and_nonlinear_heads(power):
    c = 2.0**power
    own = hm.LossFunction("own", lambda u: -np.arctan(u), lambda u: -float(np.log1p(u * u)))
    for make in (
        lambda keys: hm.Problem(keys, SCORES, loss=own),
        lambda keys: hm.Problem.from_psi(
            keys,
            VALUES,
            LABELS,
            lambda z: z[:, 0] ** 3,
            lambda z: np.column_stack([3 * z[:, 0] ** 2, 0 * z[:, 1]]),
        ),
    ):
        same(
            hm.train(make(KEYS * c), hm.optim.Normalized(0.3 / c), steps=30),
            hm.train(make(KEYS), hm.optim.Normalized(0.3), steps=30),
            c,
        )


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("other", [-530, 0, 530])
@pytest.mark.parametrize(
    "loss", ["logistic", hm.LossFunction("own", np.negative, lambda u: 0.0)], ids=["fast", "plain"]
)
def test_descend_joint(power, other, loss):
    """Keys times a, values times b: p over a, v over b."""
    a, b = 2.0**power, 2.0**other
    base = hm.Problem.from_values(KEYS, VALUES, LABELS, HEAD, loss=loss)
    scaled = hm.Problem.from_values(KEYS * a, VALUES * b, LABELS, HEAD / b, loss=loss)
    for damped in (False, True):
        steps = hm.optim.Normalized(0.1, damped * 1e-3), hm.optim.Normalized(0.2, damped * 1e-2)
        expected = hm.train(base.joint(), steps, steps=40, start=START)
        steps = (
            hm.optim.Normalized(0.1 / a, damped * 1e-3 * a),
            hm.optim.Normalized(0.2 / b, damped * 1e-2 * b),
        )
        path = hm.train(scaled.joint(), steps, steps=40, start=START / a)
        # In Python a damped norm goes through its logarithm, which rounds.
        rounding = 1e-12 if damped and loss != "logistic" else 0.0
        np.testing.assert_allclose(path.points * a, expected.points, rtol=rounding, atol=rounding)
        np.testing.assert_allclose(path.v_points * b, expected.v_points, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("size", [1e-165, 1e160])
def test_descend_joint_on_tokens(size):
    """Tokens are keys and values; at 1e-165 nothing moved."""
    x = rng.normal(size=(3, 4, 2))
    base = hm.train(hm.Problem.from_tokens(x, LABELS, HEAD).joint(), hm.optim.Normalized(0.1), steps=50)
    path = hm.train(
        hm.Problem.from_tokens(x * size, LABELS, HEAD / size).joint(),
        hm.optim.Normalized(0.1 / size),
        steps=50,
    )
    np.testing.assert_allclose(path.points * size, base.points, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(path.v_points * size, base.v_points, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("normalized", [True, False])
def test_descend_weights(power, normalized):
    """A prompt and tokens of any size: only the product W'u, |u| and the rate matter together."""
    c = 2.0**power
    x, u = rng.normal(size=(3, 4, 2)), np.array([0.6, -1.1])
    base = hm.train(
        hm.Problem.from_tokens(x, LABELS, HEAD).matrix(prompt=u),
        (hm.optim.Normalized if normalized else hm.optim.GD)(0.1),
        steps=40,
        start=np.eye(2),
    )
    # Tokens times c, u over c: q = W'u is over c, as it has to be, and W stays.
    scaled = hm.Problem.from_tokens(x * c, LABELS, HEAD / c)
    path = hm.train(
        scaled.matrix(prompt=u / c),
        (hm.optim.Normalized if normalized else hm.optim.GD)(0.1),
        steps=40,
        start=np.eye(2),
    )
    np.testing.assert_array_equal(path.points * c, base.points)
    np.testing.assert_array_equal(path.W, base.W)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_sizes_that_are_no_power_of_two(size):
    """At 1e-160 the flow ended in a wrong direction, and at 1e160 descent in nan."""
    scaled = hm.Problem(KEYS * size, SCORES)
    flow, base = (
        hm.flow(scaled, start=START / size, until_norm=1e5 / size),
        hm.flow(BASE, start=START, until_norm=1e5),
    )
    assert flow.event is None
    assert flow.cosine_distance(base) < 1e-24
    assert flow.p_norm * size == pytest.approx(1e5)
    descended, plain = (
        hm.train(scaled, hm.optim.Normalized(0.3 / size), steps=100),
        hm.train(BASE, hm.optim.Normalized(0.3), steps=100),
    )
    np.testing.assert_allclose(descended.points * size, plain.points, rtol=1e-11, atol=1e-12)
    assert descended.selection == plain.selection
    p = START / size
    ours, expected = hm.gradient(scaled, p), hm.gradient(BASE, START)
    np.testing.assert_allclose(ours.direction, expected.direction, atol=1e-14)
    assert ours.log_norm == pytest.approx(expected.log_norm + np.log(size), rel=1e-14)
    assert hm.loss(scaled, p) == pytest.approx(hm.loss(BASE, START), rel=1e-14)
    for a, b in zip(hm.attention(scaled, p), hm.attention(BASE, START), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_keys_at_the_end_of_the_range():
    """Differences of keys overflow there; half of them do not."""
    keys = np.array([[[1.7e308, 0.0], [-1.7e308, 0.0], [0.0, 1.7e308]]])
    path = hm.flow(hm.Problem(keys, [[1.0, 0.0, 0.5]]), until_norm=1e-305)
    small = hm.flow(hm.Problem(keys / 1.7e308, [[1.0, 0.0, 0.5]]), until_norm=1.7e3)
    assert path.cosine_distance(small) < 1e-24


@pytest.mark.compiled  # interpreted, numpy warns of the overflow before it is refused
def test_what_cannot_be_represented_is_refused():
    huge, tiny = hm.Problem(KEYS * 1e200, SCORES), hm.Problem(KEYS * 1e-200, SCORES)
    with pytest.raises(
        ValueError, match=r"p must be at most 4e\+106 with these keys, got 5e\+149: its logits"
    ):
        hm.gradient(huge, START * 1e150)
    with pytest.raises(ValueError, match="start must be at most"):
        hm.train(huge, hm.optim.Normalized(0.1), start=START * 1e250)
    with pytest.raises(ValueError, match="p after some steps must be at most"):
        hm.train(huge, hm.optim.GD(0.1), steps=10)
    with pytest.raises(ValueError, match="smoothness constants of keys of this size would overflow float64"):
        hm.dynamics.smoothness(huge)
    with pytest.raises(ValueError, match="Hessian that would overflow"):
        hm.dynamics.hessian(huge, START / 1e200)
    with pytest.raises(ValueError, match="until_norm must be at most"):
        hm.flow(huge, until_norm=1e200)
    assert hm.train(tiny, hm.optim.Normalized(0.1), steps=10).p_norm == pytest.approx(1.0)


def test_plain_descent_on_tiny_keys():
    """p moves by 1e-161 a step, which is a float; its logits are zero to the last digit."""
    tiny = hm.Problem(KEYS * 1e-160, SCORES)
    path = hm.train(tiny, hm.optim.GD(0.1), steps=10)
    first = hm.gradient(BASE, None)
    assert path.p_norm == pytest.approx(1e-160 * np.exp(first.log_norm), rel=1e-12)
    assert path.cosine_distance(first.direction) < 1e-24


@pytest.mark.parametrize("bad", [[1e-9], "1e-9", None, -1.0, np.nan, [1.0, 2.0, 3.0]])
def test_epsilon_is_a_number(bad):
    with pytest.raises(ValueError, match="eps must be a number"):
        hm.train(BASE, hm.optim.Normalized(0.1, bad), steps=3)
