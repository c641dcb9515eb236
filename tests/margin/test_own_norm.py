"""A norm from one file outside the package works wherever a norm is asked for, with certificates."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.app import cli

from .weighted_l2 import SKEWED, WeightedL2

FILE = Path(__file__).with_name("weighted_l2.py")
ROOTS = np.sqrt(SKEWED)


def signed(content: dict) -> dict:
    """With the digest of what it says."""
    content = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


def problem_of(seed: int) -> hm.Problem:
    """Three entries of p, so that the weights matter."""
    rng = np.random.default_rng(seed)
    return hm.Problem(rng.normal(size=(3, 3, 3)), rng.normal(size=(3, 3)))


def stretched(problem: hm.Problem) -> hm.Problem:
    """The same in coordinates in which the norm is l2."""
    return hm.Problem(problem.keys.reshape(3, 3, 3) / ROOTS, problem.scores.reshape(3, 3))


@pytest.mark.parametrize("seed", range(12))
def test_max_margin_is_that_of_stretched_axes(seed):
    problem = problem_of(seed)
    best, plain = hm.max_margin(problem, norm="skewed"), hm.max_margin(stretched(problem))
    assert best.status == plain.status
    assert best.norm == "skewed"
    if plain.is_certified:
        assert best.margin == pytest.approx(plain.margin, rel=1e-12)
        low, high = best.margin_interval
        assert low <= best.margin <= high <= low * (1 + 1e-9)
        assert best.p == pytest.approx(plain.p / ROOTS, rel=1e-9)
        assert best.tight.tolist() == plain.tight.tolist()
        assert best.unique
    batch = hm.max_margin([problem] * 2, [best.selection] * 2, norm="skewed")
    assert [each.margin for each in batch] == [best.margin] * 2


def test_duality_of_the_object():
    norm = hm.margin.norm("skewed")
    rng = np.random.default_rng(0)
    for g in rng.normal(size=(20, 3)):
        step = norm.step(g)
        assert norm.value(step) == pytest.approx(1.0)
        assert step @ g == pytest.approx(norm.dual.value(g))
        speed, bend = norm.speed(g)
        assert speed == pytest.approx(norm.dual.value(g) * step)
        assert bend @ g == pytest.approx(speed)
    assert norm.over_l2((3,)) >= 2.0


@pytest.mark.parametrize("seed", range(12))
def test_certificates(seed):
    problem = problem_of(seed)
    best = hm.max_margin(problem, norm="skewed")
    content = best.to_dict()
    said = hm.certify(content)
    assert said.valid, said.violations
    if not best.is_certified:
        return
    assert "skewed margin" in said.what
    # what holds in this norm does not hold in another, nor for a narrower interval
    assert not hm.certify(signed({**content, "norm_name": "l1"})).valid
    low, high = (float.fromhex(x) for x in content["margin_interval"])
    for ends in ((low * 1.01, high * 1.02), (low * 0.98, high * 0.99)):
        assert not hm.certify(signed({**content, "margin_interval": [x.hex() for x in ends]})).valid


def test_certificates_with_equalities():
    rows = hm.Constraints.dense([[1.0, 2.0, -1.0], [0.5, 1.0, 1.0]], E=[[1.0, -1.0, 0.5]])
    best = hm.max_margin(rows, norm="skewed")
    assert best.is_certified
    assert abs(rows.rows()[2] @ best.p) < 1e-12
    assert hm.certify(best.to_dict()).valid


def test_infeasible():
    best = hm.max_margin(hm.Constraints.dense([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), norm="skewed")
    assert best.status == "infeasible"
    assert hm.certify(best.to_dict()).valid


@pytest.mark.parametrize(
    "rule", [hm.optim.Normalized(0.1, norm="skewed"), hm.optim.Momentum(0.1, norm="skewed")]
)
def test_descent(rule):
    runs = [hm.train(problem_of(seed), rule, steps=5000) for seed in range(4)]
    best = [hm.max_margin(run.problem, run.selection, norm=run.norm) for run in runs]
    assert sum(each.is_certified for each in best) >= 3
    others = []
    for run, each in zip(runs, best, strict=True):
        if each.is_certified and hm.attracts(run.problem, each):
            assert run.margin_gap(each) < 0.06
            others.append(hm.max_margin(run.problem, run.selection).margin_gap(each.p))
    assert max(others) > 0.06  # the max margin in l2 is another direction
    problem = runs[0].problem
    moved = hm.train(problem, rule, steps=1).p
    assert hm.margin.norm("skewed").value(moved) == pytest.approx(0.1)


def test_plain_descent_is_that_of_stretched_axes():
    problem = problem_of(3)
    run = hm.train(problem, hm.optim.GD(0.5, norm="skewed"), steps=200)
    same = hm.train(stretched(problem), hm.optim.GD(0.5), steps=200)
    assert run.p == pytest.approx(same.p / ROOTS, rel=1e-9)


def test_a_run_proves_its_margin():
    problem = next(problem for problem in map(problem_of, range(50)) if hm.max_margin(problem).is_certified)
    run = hm.train(problem, hm.optim.Normalized(0.1, norm="skewed"), steps=3000)
    proof, best = run.margin_bounds(), hm.max_margin(problem, run.selection, norm="skewed")
    low, high = proof.margin_interval
    assert low <= best.margin <= high
    assert hm.certify(proof.to_dict()).valid


@pytest.mark.parametrize("seed", range(4))
def test_flow_is_that_of_stretched_axes(seed):
    problem = problem_of(seed)
    far, same = (
        hm.flow(problem, norm="skewed", until_log_time=8.0),
        hm.flow(stretched(problem), until_log_time=8.0),
    )
    assert far.norm == "skewed"
    assert far.p == pytest.approx(same.p / ROOTS, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_mirror_flow_of_half_the_square_is_the_flow(seed):
    problem, start = problem_of(seed), [0.3, -0.2, 0.1]
    options = {"norm": "skewed", "until_log_time": 8.0, "start": start}
    far, same = hm.flow(problem, mirror=True, **options), hm.flow(problem, **options)
    assert far.method == "mirror flow in skewed"
    assert far.p == pytest.approx(same.p, rel=1e-7, abs=1e-9)
    with pytest.raises(ValueError, match=r"which is that of l2; leave it out$"):  # Mirror is for powers
        hm.flow(problem, norm="skewed", mirror=True, clock="arc length")


def test_mirror_descent_swings_as_the_degree_of_its_map_says():
    best = next(best for seed in range(50) if (best := hm.max_margin(problem_of(seed), norm="skewed")).unique)
    rate = hm.limits.critical_rate(best)
    assert hm.limits.mirror_onset(best, 0.5 * rate) == np.inf
    assert hm.limits.mirror_onset(best, 2.0 * rate) == 0.0


class Unmirrored(WeightedL2):
    mirror = None


def test_what_needs_a_mirror_map_refuses_a_norm_without_one():
    norm, problem = hm.margin.register(Unmirrored("unmirrored", SKEWED)), problem_of(0)
    with pytest.raises(ValueError, match="mirror map with mirror, got unmirrored, which has none"):
        hm.flow(problem, norm=norm, mirror=True)
    best = next(best for seed in range(50) if (best := hm.max_margin(problem_of(seed), norm=norm)).unique)
    with pytest.raises(ValueError, match="mirror map, got one in unmirrored, which has none"):
        hm.limits.mirror_onset(best, 0.1)


def test_enumeration():
    problem = problem_of(1)
    found = {row.selection: row for row in hm.attractors(problem, norm="skewed")}
    same = {row.selection: row for row in hm.attractors(stretched(problem))}
    assert found.keys() == same.keys()
    assert all(each.attracts == same[chosen].attracts for chosen, each in found.items())
    assert {each.attracts.value for each in found.values()} == {"strong"}


def test_command_line(tmp_path, capsys):
    problem = problem_of(1)
    file, proofs = tmp_path / "problem.json", tmp_path / "proofs"
    content = {
        "keys": problem.keys.reshape(3, 3, 3).tolist(),
        "scores": problem.scores.reshape(3, 3).tolist(),
    }
    file.write_text(json.dumps(content))
    wanted = ["--norm", f"{FILE}:skewed", "--flow", "--certificates", str(proofs)]
    assert cli.run(["solve", str(file), "--json", *wanted]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["norm_name"] == "skewed"
    for row in answer["selections"]:
        best = hm.max_margin(problem, row["selection"], norm="skewed")
        assert row["norm"] == pytest.approx(best.p_norm, rel=1e-12)
    for proof in sorted(proofs.iterdir()):
        assert cli.run(["certify", str(proof), "--norm", str(FILE)]) == 0
    assert len([*proofs.iterdir()]) >= len(answer["selections"])
    assert cli.run(["solve", str(file), "--norm", f"{tmp_path}/none.py:skewed"]) == 2


class Cornered(WeightedL2):
    is_polyhedral = True


def test_a_flow_refuses_corners_with_a_remedy():
    hm.margin.register(Cornered("cornered", SKEWED))
    with pytest.raises(ValueError, match=r'cornered, whose .* hm.optim.Normalized\(rate, norm="cornered"\)'):
        hm.flow(problem_of(0), norm="cornered")


def test_an_unknown_norm_names_the_registered_ones():
    with pytest.raises(ValueError, match=r'norm must be "l1", .* "skewed", .* got .round.'):
        hm.margin.norm("round")


def test_refusals():
    with pytest.raises(ValueError, match="register"):
        hm.margin.norm(WeightedL2("unknown", SKEWED))
    with pytest.raises(ValueError, match="taken"):
        hm.margin.register(WeightedL2("l1.50", (1.0, 1.0, 1.0)))
    with pytest.raises(ValueError, match="exact"):
        hm.max_margin(problem_of(0), norm="skewed", exact=True)
    for name in ("", None):
        with pytest.raises(ValueError, match="name of a norm must be a text"):
            hm.margin.register(WeightedL2(name, SKEWED))


class Shapeless(WeightedL2):
    def _stretched(self, problem, start):
        return np.zeros(5), np.zeros(1)


class Mirrorless(WeightedL2):
    mirror = 3


def test_parts_of_wrong_types_are_named():
    hm.margin.register(Shapeless("shapeless", SKEWED))
    with pytest.raises(TypeError, match=r"optimum must return p .* of shapes \(3,\) and \(6,\), or None"):
        hm.max_margin(problem_of(0), norm="shapeless")
    with pytest.raises(ValueError, match="mirror of mirrorless must be a MirrorMap or None, got 3"):
        hm.margin.register(Mirrorless("mirrorless", SKEWED))
