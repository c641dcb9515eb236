"""The figures of paper B in the plane: their claims hold, their numbers are the oracles', they redraw."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.papers.figures.tables import part
from hardmax.papers.max_margin.plane import vector_of

IDS = (
    "B-FIG-1a",
    "B-FIG-1b",
    "B-FIG-1c",
    "B-FIG-2",
    "B-FIG-3a",
    "B-FIG-3b",
    "B-FIG-3c",
    "B-FIG-RHO",
    "B-FIG-4",
    "B-FIG-5",
    "B-FIG-8",
    "B-FIG-INDEX",
    "B-FIG-CHAOS",
)


@pytest.fixture(params=IDS)
def figure(request, computed):
    return computed(request.param)


def test_claims_hold(figure):
    assert [(claim.id, claim.measured) for claim in figure.failed] == []
    ids = [claim.id for claim in figure.claims]
    assert len(ids) >= 4
    assert len(set(ids)) == len(ids)
    assert all(each.startswith(figure.id + ".") for each in ids)


def test_draws_the_same_from_saved_tables(figure, check_redrawn):
    check_redrawn(figure)


def test_named_data_of_fig_1c(oracles):
    expected = oracles["b"]["att_svm"]["fig1c"]
    problem = hm.data.example("B-FIG-1c")
    assert np.array_equal(problem.split(problem.keys[problem.tokens]), expected["K"])
    assert np.array_equal(problem.split(problem.scores), expected["gamma"])
    found = {each.selection: each.max_margin.p for each in hm.selections(problem)}
    wanted = {tuple(each["alpha"]): each["p"] for each in expected["feasible_selections"]}
    assert found.keys() == wanted.keys()
    assert all(np.allclose(found[tokens], p, rtol=1e-9) for tokens, p in wanted.items())


def test_paths_are_those_of_the_oracles(oracles, computed):
    cases = {
        (each["data"], *each["p0"], each["iterations"]): each["p"]
        for each in oracles["b"]["ngd_trajectories"]["cases"]
    }
    for id, run, case in (
        ("B-FIG-1a", "(0, 0)", ("fig1a", 0, 0, 10)),
        ("B-FIG-1a", "(0, -1.5)", ("fig1a", 0, -1.5, 100)),
        ("B-FIG-1b", "(0, -1)", ("fig1b", 0, -1, 100)),
        ("B-FIG-8", "(2, 0)", ("fig8", 2, 0, 100)),
    ):
        rows = part(computed(id).tables["paths"], "run", run)
        at = case[-1]
        assert [rows["p1"][at], rows["p2"][at]] == pytest.approx([float(x) for x in cases[case]], abs=1e-10)


def test_joint_paths_are_those_of_the_oracles(oracles, computed):
    for case in oracles["b"]["joint_ngd_fig3"]["cases"]:
        rows = computed(f"B-FIG-{case['figure']}").tables["paths"]
        t = case["iterations"]
        found = [rows[name][t] for name in ("p1", "p2", "v1", "v2")]
        assert found == pytest.approx([float(x) for x in (*case["p"], *case["v"])], abs=1e-10)


def test_limit_angles_are_those_of_the_oracle(oracles, computed):
    rows = part(computed("B-FIG-RHO").tables["limits"], "data", "fig3b")
    table = oracles["b"]["fig3_svms"]["b"]["rho_interpolated_limit_angle_deg"]
    for each in table:
        at = np.flatnonzero(np.isclose(rows["rho"], each["rho"]))
        if each["rho"] in (0, 0.25, 0.5, 0.75, 1, 2):  # on the grid of the curve
            assert rows["degrees"][at] == pytest.approx([each["angle_deg"]], abs=1e-9)


def test_a_few_numbers(computed):
    curves = computed("B-FIG-3c").tables["curves"]
    assert [curves["optimal"][0], curves["top"][0]] == pytest.approx([0.4230, 0.7311], abs=5e-5)
    angles = computed("B-FIG-5").tables["angles"]
    row = (angles["loss"] == "exponential") & (angles["C"] == 10)
    assert angles["degrees_20"][row] == pytest.approx([-35.94], abs=5e-3)
    four = computed("B-FIG-4").tables["curves"]
    plain = part(four, "run", "plain")
    assert plain["norm"][100] == pytest.approx(3.156, abs=5e-4)
    cones = computed("B-FIG-2").tables["cones"]
    assert cones["R_bar"][0] == pytest.approx(2 * np.log(64 * 2 * np.sqrt(2)), rel=1e-12)
    assert vector_of(computed("B-FIG-8").tables["directions"], "global") == pytest.approx(
        [0.1**0.5, 0.9**0.5]
    )


def test_the_boundary_of_fig_1b_parts_the_starts(computed):
    edge = computed("B-FIG-1b").tables["boundary"]
    problem = hm.data.example("B-FIG-1b")
    for x, y in zip(edge["x"][::9], edge["y"][::9], strict=True):
        tokens = [
            hm.train(problem, hm.optim.Normalized(0.1), steps=5000, start=[x, y + side]).selection
            for side in (-0.01, 0.01)
        ]
        assert tokens == [(1,), (0,)]


@pytest.mark.no_cover
def test_the_ramp_of_rho_is_where_the_least_risk_goes(computed):
    """B-NEW-1b between the two selections: at 90 digits, the best direction of p for v = rho R (0, 1)."""
    mp = pytest.importorskip("mpmath")
    tokens = [[(0, 0), (1, 1)], [(0, 0), (2, -1)], [("1.6", "1.2"), ("0.6", "2.4")]]
    ramp = computed("B-FIG-RHO").tables["balance"]
    expected = float(np.interp(4.6, ramp["rho"][::-1], ramp["degrees"][::-1]))
    R, rho = 30, mp.mpf("4.6")

    def risk(turn):
        q = (mp.cos(turn), mp.sin(turn))
        total = mp.mpf(0)
        for label, each in zip((1, -1, 1), tokens, strict=True):
            keys = [tuple(map(mp.mpf, key)) for key in each]
            weights = [mp.exp(R * (key[0] * q[0] + key[1] * q[1])) for key in keys]
            u = label * rho * R * sum(w * key[1] for w, key in zip(weights, keys, strict=True)) / sum(weights)
            total += mp.log1p(mp.exp(-u))
        return total

    with mp.workdps(400):
        found = {}
        for R in (30, 120):
            grid = [mp.radians(mp.mpf(k) / 20) for k in range(20 * 22, 20 * 42)]
            found[R] = float(mp.degrees(min(grid, key=risk)))
    assert found[120] == pytest.approx(expected, abs=0.25)
    assert abs(found[120] - expected) < abs(found[30] - expected)
