"""Parts of one's own, written outside the package: every verb takes them (docs/how-to/add-your-own.md)."""

import inspect

import mpmath
import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.checking.check import Hypothesis, Outcome, statement


def test_a_head():
    """Attention whose attended value is squashed, u = y tanh(a.z): one method, and every verb works."""

    class Squashed(hm.readouts.Readout):
        def __init__(self, values, labels, a):
            self.values, self.labels, self.a = values, labels, a
            self.loss = hm.data.example("B-FIG-8").loss

        def attend(self, at):
            x = at.rows(self.values) @ self.a
            u = np.tanh(at.mean(x[:, None])[:, 0])
            return at.per_slot(self.labels * (1.0 - u**2)) * x, self.labels * u

    rng = np.random.default_rng(0)
    keys, labels = rng.normal(size=(3, 4, 6)), np.array([1.0, -1.0, 1.0])
    problem = hm.Problem.from_readout(keys, Squashed(rng.normal(size=(12, 2)), labels, np.array([1.0, -0.5])))
    same = hm.Problem.from_psi(
        keys,
        problem.readout.values.reshape(3, 4, 2),
        labels,
        lambda z: np.tanh(z @ problem.readout.a),
        lambda z: (1 - np.tanh(z @ problem.readout.a) ** 2)[:, None] * problem.readout.a,
    )
    p = rng.normal(size=6)
    assert hm.cosine_distance(hm.gradient(problem, p).direction, hm.gradient(same, p).direction) < 1e-28
    assert abs(hm.loss(problem, p) - hm.loss(same, p)) < 1e-15
    run = hm.train(problem, hm.optim.Normalized(0.1), steps=300)
    far = hm.flow(problem, until_norm=1e3)
    along = hm.flow(problem, clock="arc length", until_norm=1e3)
    assert far.cosine_distance(along) < 1e-18
    best = hm.max_margin(problem, far.selection)
    assert far.cosine_distance(best) < 1e-4
    assert hm.attracts(problem, best).verdict
    assert far.selection in [found.selection for found in hm.attractors(problem)]
    assert hm.best_tokens(problem).sets == hm.best_tokens(same).sets
    assert hm.dynamics.excess_loss(problem, run.p, run.selection).log < 0
    assert {row.selection for row in hm.solve(problem).selections} >= {far.selection}
    assert hm.check_statement("B-THM-3", problem).verdict == "not applicable"  # it is about fixed scores


def test_a_step_rule():
    """Sign descent with momentum (Signum), in plain Python."""

    class Signum(hm.optim.Optimizer):
        norm, memory = "linf", 1

        def update(self, direction, exponents, state, rate, step):
            scale = np.exp(exponents - exponents.max())  # only the sign of the mean counts, not its size
            state[0] = 0.9 * state[0] + 0.1 * scale * direction
            return rate * np.sign(state[0])

    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    run = hm.train(problem, Signum(0.1), steps=300, record=1)
    assert run.method == "Signum"
    np.testing.assert_allclose(np.abs(np.diff(run.points, axis=0)).max(axis=1), 0.1)
    assert run.losses[-1] < 1e-3 * run.losses[0] or run.accuracy() == 1.0
    best = hm.max_margin(problem, run.selection)
    assert best.is_certified
    batch = hm.train([problem] * 3, Signum(0.1), steps=300)
    assert all((each.p == run.p).all() for each in batch)
    both = hm.train(hm.data.example("B-FIG-3a").joint(), (Signum(0.1), hm.optim.GD(0.1)), steps=5)
    assert np.abs(both.p).max() <= 0.5 + 1e-12


class Sigmoid(hm.dynamics.Link):
    """Attention that lets every token decide by itself."""

    def attend(self, at):
        z, scores = at.logits, at.counts * at.scores
        share = np.exp(-np.logaddexp(0.0, -z))
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(scores)) - np.logaddexp(0.0, z) - np.logaddexp(0.0, -z)
        return hm.dynamics.Attended(at.sum(share * scores), logs, np.sign(scores))


def _sigmoid_gradient(keys, scores, p):
    """Return minus the gradient of the logistic risk of sigmoid attention: unit vector, log norm."""
    with mpmath.workdps(60):
        total = [mpmath.mpf(0)] * len(p)
        for tokens, worth in zip(keys, scores, strict=True):
            z = [mpmath.fdot(zip(map(float, k), map(float, p), strict=True)) for k in tokens]
            share = [1 / (1 + mpmath.exp(-x)) for x in z]
            u = mpmath.fsum(s * float(w) for s, w in zip(share, worth, strict=True))
            for k, s, x, w in zip(tokens, share, z, worth, strict=True):
                slope = s / (1 + mpmath.exp(x)) * float(w) / (1 + mpmath.exp(u)) / len(keys)
                total = [a + slope * float(b) for a, b in zip(total, k, strict=True)]
        size = mpmath.sqrt(mpmath.fsum(x * x for x in total))
        return np.array([float(x / size) for x in total]), float(mpmath.log(size))


@pytest.mark.parametrize("size", [0.3, 30.0, 1e4])
def test_an_attention(size):
    """Sigmoid attention from one class: its gradient to 60 digits, also where it is no float."""
    rng = np.random.default_rng(0)
    keys, scores = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4))
    model, p = hm.Problem(keys, scores).with_attention(Sigmoid()), size * rng.normal(size=5)
    direction, log_norm = _sigmoid_gradient(keys, scores, p)
    found = model.gradient(p)
    np.testing.assert_allclose(found.direction, direction, atol=1e-13)
    assert abs(found.log_norm - log_norm) < 1e-13 * max(1.0, abs(log_norm))


def test_training_of_an_attention():
    """Every optimizer trains it; one step is that of the gradient, and the loss falls."""
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    model, start = problem.with_attention(Sigmoid()), np.linspace(-1.0, 1.0, 10)
    one = hm.train(model, hm.optim.GD(0.5), steps=1, start=start)
    np.testing.assert_allclose(one.p, start - 0.5 * model.gradient(start).vector, atol=1e-15)
    for optimizer in (hm.optim.Normalized(0.1), hm.optim.Adam(0.1), hm.optim.Sign(0.05), hm.optim.GD(1.0)):
        run = hm.train(model, optimizer, steps=200)
        assert run.losses[-1] < 0.8 * run.losses[0], optimizer
        assert abs(run.losses[-1] - model.loss(run.p)) < 1e-15
    few = hm.train(model, hm.optim.GD(1.0), steps=200, batch=2)
    assert few.losses[-1] < 0.8 * few.losses[0]


def test_softmax_is_one_of_the_links():
    """Softmax as a link gives the points of the compiled force; two heads have a block each."""
    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    model = problem.with_attention(hm.dynamics.Softmax())
    for optimizer in (hm.optim.Normalized(0.1), hm.optim.Adam(0.1), hm.optim.Sign(0.05)):
        path, same = (hm.train(each, optimizer, steps=100) for each in (model, problem))
        np.testing.assert_allclose(path.p, same.p, rtol=0, atol=1e-11 * same.p_norm)
        np.testing.assert_allclose(path.losses, same.losses, rtol=1e-10)
    pair = problem.with_attention([hm.dynamics.Softmax(), Sigmoid()])
    run = hm.train(pair, {"p0": hm.optim.Normalized(0.1), "p1": hm.optim.Adam(0.1)}, steps=50)
    assert run.heads.shape == (51, 2, 10)
    np.testing.assert_allclose(np.linalg.norm(np.diff(run.heads[:, 0], axis=0), axis=1), 0.1, rtol=1e-12)
    x, h = run.heads[-1].ravel(), 1e-6
    slopes = [(pair.loss(x + h * e) - pair.loss(x - h * e)) / (2 * h) for e in np.eye(20)]
    np.testing.assert_allclose(pair.gradient(x).vector, slopes, atol=1e-8)


def test_an_attention_is_refused():
    problem = hm.data.example("B-FIG-8")
    with pytest.raises(TypeError, match="Link"):
        problem.with_attention("sigmoid")
    with pytest.raises(TypeError, match="batches"):
        hm.train(problem.with_attention(Sigmoid()), hm.optim.GD(0.1), batches=2)
    with pytest.raises(ValueError, match="blocks"):
        hm.train(problem.with_attention(Sigmoid()), {"q": hm.optim.GD(0.1)})


def test_a_statement(tmp_path):
    """A conjecture of one's own: 2,000 steps of descent from zero select the best token of every input."""

    @statement("MINE-1", "Best tokens win", "descent selects argmax score", kind="finite", label="conjecture")
    def best_tokens_win(problem: hm.Problem, steps: int = 2000) -> Outcome:
        best = [tokens[0] for tokens in hm.best_tokens(problem).sets]
        target = hm.max_margin(problem, best)
        met = Hypothesis("the best tokens are separable", target.is_certified, target.status)
        if not met.holds:
            return Outcome((met,))
        found = hm.train(problem, hm.optim.Normalized(0.1), steps=steps).selection
        wrong = sum(a != b for a, b in zip(found, best, strict=True))
        return Outcome((met,), 0.5 - wrong, {"selected": found}, witness=found, proof="the run itself")

    problem = hm.data.example("B-FIG-8")
    assert hm.check_statement("MINE-1", problem).verdict == "consistent"
    drawn = (hm.data.sphere(n=3, T=4, d=3, rng=seed) for seed in range(40))
    assert {hm.check_statement("MINE-1", each).verdict for each in drawn} == {
        "consistent",
        "refuted",
        "not applicable",
    }
    problem.save(tmp_path / "mine.json")
    answer = hm.verify(["MINE-1"], on=tmp_path / "mine.json")
    assert [each.check.verdict for each in answer.checks] == ["consistent"]
    assert answer.exit_code == 0
    assert "MINE-1" in str(hm.check_statement("MINE-1", problem))
    assert hm.statements()[-1].id == "MINE-1"


@pytest.mark.parametrize("test", [test_a_head, test_a_step_rule, test_a_statement])
def test_each_takes_at_most_40_lines(test):
    assert len(inspect.getsource(test).splitlines()) <= 40


@pytest.mark.parametrize(
    "verb", [hm.limits.regularization_path, hm.critical_directions, hm.dynamics.hessian, hm.Problem.save]
)
def test_what_needs_fixed_scores_or_data_says_so(verb, tmp_path):
    keys, values = [[[1.0], [0.0]]], [[[1.0], [2.0]]]
    problem = hm.Problem.from_psi(
        keys, values, [1.0], lambda z: np.tanh(z[:, 0]), lambda z: 1 - np.tanh(z) ** 2
    )
    rest = {"regularization_path": ([1.0],), "hessian": ([1.0],), "save": (tmp_path / "own.npz",)}
    with pytest.raises(ValueError, match=r"fixed scores|linear readouts|cannot be saved"):
        verb(problem, *rest.get(verb.__name__, ()))
