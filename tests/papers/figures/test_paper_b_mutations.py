"""Claims can fail: a wrong start, rate, loss, selection or radius makes a named claim of each figure fail."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.figures.figure import Setting, recipes
from hardmax.papers.max_margin import convergence, joint_training, local, plane

pytestmark = pytest.mark.no_cover


def fails(id):
    """The short names of the claims of a figure that fail."""
    found = recipes()[id].compute(Setting())
    return {claim.id.removeprefix(id + ".") for claim in found.claims if not claim.holds}


def test_a_larger_step(monkeypatch):
    monkeypatch.setattr(plane, "RATE", 0.3)
    assert {"first-coordinate", "norm", "dip-step"} <= fails("B-FIG-1a")
    assert "cosine-200" not in fails("B-FIG-1c")


def test_a_damped_normalisation(monkeypatch):
    """The paper's additive epsilon stalls p and with it every claim about the end of a run."""
    damped = hm.train

    def train(problem, step, **options):
        return damped(problem, hm.optim.Normalized(lr=step.lr, eps=1e-6), **options)

    monkeypatch.setattr(plane.hm, "train", train, raising=False)
    assert {"norm", "cosine-1000"} <= fails("B-FIG-1a")


def test_other_starts(monkeypatch):
    monkeypatch.setattr(convergence, "HEIGHTS", (1.0, 0.5, 0.0, -0.5, -0.8, -1.5))
    assert "tokens" in fails("B-FIG-1b")


def test_other_data(monkeypatch):
    named = hm.data.example
    monkeypatch.setattr(hm.data, "example", lambda name: named("B-FIG-1b" if name == "B-FIG-1a" else name))
    assert {"only-local", "p-mm", "dip-cosine"} & fails("B-FIG-1a")


def test_a_radius_that_is_too_small(monkeypatch):
    inside = local._in_cone
    monkeypatch.setattr(local, "_in_cone", lambda found, radii, angles: 0.02 * inside(found, radii, angles))
    assert {"stays", "rises"} <= fails("B-FIG-2")


def test_equal_rivals_leave_no_offset(monkeypatch):
    keys = [[[2.5, 0.0], [1.5, 0.5], [1.5, -0.5]]]
    monkeypatch.setattr(local, "two_rivals", lambda: hm.Problem(keys, [[1.0, 0.0, 0.0]]))
    assert fails("B-FIG-2") == {"left-at-first"}


def test_another_start_of_joint_training(monkeypatch):
    monkeypatch.setattr(joint_training, "START", (1.0, 1.0))
    assert {"p-end", "v-end"} <= fails("B-FIG-3a")
    assert {"optimal", "top", "label"} <= fails("B-FIG-3c")


def test_the_limits_of_the_two_joint_figures_differ(monkeypatch):
    monkeypatch.setattr(hm.directions, "relaxed_max_margin", hm.max_margin, raising=False)
    assert {"p-relax", "p-200", "p-1000"} <= fails("B-FIG-3b")


def test_the_ratio_the_other_way_round(monkeypatch):
    train = joint_training._train
    monkeypatch.setattr(
        joint_training, "_train", lambda problem, ratio, record: train(problem, 1 / ratio, record)
    )
    assert {"trained", "agreement", "restarted", "switch-trained", "ramp-trained"} <= fails("B-FIG-RHO")


def test_no_damping(monkeypatch):
    monkeypatch.setattr(convergence, "DAMPING", 0.0)
    assert fails("B-FIG-4") == {"damped-stalls"}


@pytest.mark.parametrize(
    ("instead", "wanted"),
    [
        ("exponential", {"logistic-2", "logistic-10", "first-logistic", "first-peak"}),
        ("correlation", {"logistic-negative", "logistic-falls"}),
    ],
)
def test_another_loss(monkeypatch, instead, wanted):
    made = convergence.two_inputs
    monkeypatch.setattr(
        convergence, "two_inputs", lambda C, loss: made(C, instead if loss == "logistic" else loss)
    )
    assert wanted <= fails("B-FIG-5")


def test_the_basins_exchanged(monkeypatch):
    exchanged = convergence.TO_LOCAL, convergence.TO_GLOBAL
    for name, starts in zip(("TO_GLOBAL", "TO_LOCAL"), exchanged, strict=True):
        monkeypatch.setattr(convergence, name, starts)
    assert {"tokens", "cosine-global", "plain-global"} <= fails("B-FIG-8")


def test_a_late_map_without_its_normaliser_has_other_periods(monkeypatch):
    """Plain gradient descent on F agrees with descent only where it settles."""
    from hardmax.limits.late import LateMap

    def plain(self, z, rate):
        return z + np.asarray(rate * self.length)[..., None] * (self._shares(z) @ self.rows)

    monkeypatch.setattr(LateMap, "step", plain)
    assert {"periods", "agreement"} <= fails("B-FIG-CHAOS")
