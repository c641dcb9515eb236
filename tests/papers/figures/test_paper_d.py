"""The figures of part D: their claims hold and can fail, their numbers are the oracles', they redraw."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.figures.figure import Setting, recipes
from hardmax.papers.figures.tables import part
from hardmax.papers.geometry import adam, norms, split, steps

IDS = tuple(
    f"D-FIG-{name}"
    for name in ["OPTIMISERS", "STEPS", "ADAM", "NORMS", "FACTORS", "CYCLES", "CLASSES", "SOFT"]
)


@pytest.fixture(params=IDS)
def figure(request, computed):
    return computed(request.param)


def test_all_are_in_the_table():
    assert tuple(each.id for each in recipes().values() if each.paper == "D") == IDS


def test_claims_hold(figure):
    assert [(claim.id, claim.measured) for claim in figure.failed] == []
    ids = [claim.id for claim in figure.claims]
    assert len(ids) >= 5
    assert len(set(ids)) == len(ids)
    assert all(each.startswith(figure.id + ".") for each in ids)


def test_draws_the_same_from_saved_tables(figure, check_redrawn):
    check_redrawn(figure)


def test_deficits_are_those_of_the_oracle(oracles, computed):
    """Runs of the spec's own prototype at the same rates, on all three data sets."""
    curves = computed("D-FIG-OPTIMISERS").tables["deficits"]
    named = {
        ("ngd", 0.1, None): "normalised",
        ("coordinate", 0.1, None): "coordinate",
        ("sign", 0.1, None): "sign",
        ("sign", 0.1, 0.5): "sign, falling",
        ("ngd_momentum", 0.01, None): "with momentum",
        ("adam", 0.01, None): "Adam",
        ("rmsprop", 0.001, None): "RMSprop",
        ("signum", 0.01, None): "Signum",
    }
    compared = 0
    for data in ("triple", "skew", "space-a"):
        for run in oracles["d"]["vector"][data]["optimisers"]:
            given = run["parameters"]
            name = named.get((run["method"], given["eta"], given.get("decay")))
            if name is None or given.get("eps"):
                continue
            rows = part(part(curves, "data", data), "method", name)
            for record in run["records"]:
                if record["step"] <= 10_000:
                    found = rows["deficit"][rows["step"] == record["step"]][0]
                    assert found == pytest.approx(record["margin_deficit"], rel=0.02, abs=2e-6)
                    compared += 1
    assert compared == 72


def test_steps_against_the_oracle(oracles, computed):
    found = computed("D-FIG-STEPS").tables
    by_norm = dict(zip(found["critical"]["norm"].tolist(), found["critical"]["rate"].tolist(), strict=True))
    for each in oracles["d"]["findings"]["steepest_threshold"]:
        if each["dataset"] == "triple":
            assert by_norm[f"l{each['p']:g}"] == pytest.approx(each["eta_c"], abs=1e-10)
    sign = part(found["deficits"], "norm", "linf")
    jump = sign["rate"][np.argmax(sign["deficit"] > 0.05)]
    assert 0.055 < jump <= 0.06
    trapped = part(found["deficits"], "norm", "l1")
    assert np.isnan(trapped["deficit"][trapped["rate"] >= 1.0]).all()
    assert not np.isnan(trapped["deficit"][trapped["rate"] < 0.5]).any()


def test_random_words_are_those_of_single_solutions():
    """A problem on which the norms part, told by the words of every selection."""
    drawn = (norms.half_integers(2, 3, 2, seed) for seed in range(20))
    problem = next(each for each in drawn if norms._disagree(each))
    words = [
        [hm.attracts(problem, each.selection, norm=name).value for each in hm.selections(problem)]
        for name in norms.BALLS
    ]
    assert words[0] != words[1] or words[1] != words[2]


def fails(id):
    """The short names of the claims of a figure that fail."""
    found = recipes()[id].compute(Setting())
    return {claim.id.removeprefix(id + ".") for claim in found.claims if not claim.holds}


def test_a_larger_epsilon_of_adam(monkeypatch):
    """With an epsilon Adam neither follows the growth law nor runs away."""
    plain = hm.optim.Adam
    monkeypatch.setattr(adam.hm.optim, "Adam", lambda lr, betas, eps: plain(lr, betas, eps=1e-8))
    assert {"growth", "growth-digits", "runaway", "after"} <= fails("D-FIG-ADAM")


def test_a_larger_step(monkeypatch):
    monkeypatch.setattr(steps, "RATES", {"quick": 3})
    monkeypatch.setattr(steps, "STEPS", {"quick": 1000})
    train = steps.train_quietly
    monkeypatch.setattr(
        steps,
        "train_quietly",
        lambda problem, step, **options: train(
            problem, hm.optim.Normalized(1.1 * step.lr, norm=step.norm), **options
        ),
    )
    found = fails("D-FIG-STEPS")
    assert {"calm", "sign-small"} <= found
    assert "critical" not in found


def test_a_smaller_rate_on_a_cycle(monkeypatch):
    """At a tenth of the rate normalized steps are not late yet, and sign descent has not gone astray."""
    slow = {name: type(rule)(rule.lr / 10) for name, rule in split.CYCLE_RULES.items() if name != "Adam"}
    monkeypatch.setattr(split, "CYCLE_RULES", slow | {"Adam": hm.optim.GD(0.01, norm="linf")})
    assert {"sign", "astray", "order"} <= fails("D-FIG-CYCLES")


def test_no_matrix_rule(monkeypatch):
    """Without Muon the factors keep low rank; a thousand steps are enough to see it."""
    monkeypatch.setattr(norms, "STEPS", {"quick": 1000})
    monkeypatch.setattr(norms, "WAYS", norms.WAYS | {"Muon": ((norms.RULE, norms.RULE), "spectral")})
    assert {"early", "full", "tokens"} <= fails("D-FIG-FACTORS")


def test_another_norm(monkeypatch):
    monkeypatch.setattr(norms, "PROBLEMS", {"quick": 1})
    monkeypatch.setattr(norms, "POWERS", ("l1", "l1.5", "l2", "l2", "linf"))
    assert {"words", "margins"} <= fails("D-FIG-NORMS")
