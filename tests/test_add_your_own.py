"""Parts of one's own, written outside the package: every verb takes them (docs/dynamics.md)."""

import numpy as np

import hardmax as hm


def test_a_step_rule():
    """Sign descent with momentum (Signum), in plain Python."""

    class Signum(hm.steps.Step):
        norm, memory = "linf", 1

        def update(self, direction, exponents, state, rate, step):
            scale = np.exp(exponents - exponents.max())  # only the sign of the mean counts, not its size
            state[0] = 0.9 * state[0] + 0.1 * scale * direction
            return rate * np.sign(state[0])

    problem = hm.data.sphere(n=4, T=6, d=10, rng=0)
    run = hm.descend(problem, Signum(0.1), steps=300, record=1)
    assert run.method == "Signum"
    np.testing.assert_allclose(np.abs(np.diff(run.points, axis=0)).max(axis=1), 0.1)
    assert run.losses[-1] < 1e-3 * run.losses[0] or run.accuracy() == 1.0
    best = hm.max_margin(problem, run.selection())
    assert best.is_certified
    batch = hm.descend_batch([problem] * 3, Signum(0.1), steps=300)
    assert all((each.p == run.p).all() for each in batch)
    both = hm.descend(hm.data.named("B-FIG-3a"), (Signum(0.1), hm.steps.GD(0.1)), steps=5, wrt=("p", "v"))
    assert np.abs(both.p).max() <= 0.5 + 1e-12
