"""B-FIG-9a, 9b, 10: the control stream against the oracle, the sweep, claims, and drawings."""

from functools import cache

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

import hardmax as hm
from hardmax._lib.style import style
from hardmax.papers.figures.figure import Setting, recipes
from hardmax.papers.max_margin import random_data
from hardmax.papers.max_margin.random_data import (
    DAMPED,
    DIMENSIONS,
    EXACT,
    SINGLE,
    STRONGLY_DAMPED,
    UNDAMPED,
    TrialTally,
)
from hardmax.trials.experiments import outcomes
from hardmax.trials.grid import cell_key, seeds

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def expected(oracles):
    return oracles["b"]["fig9_expected"]


@pytest.fixture(scope="module")
def control():
    return random_data.control_table(200)


@cache
def whole_control():
    return random_data.control_table(1000)


def made_up(kind, correlations, gap=0.1):
    """A table of one kind of arithmetic with given mean correlations and no negative gap."""
    return [
        {"arithmetic": kind, "d": d, "saturated": True, "score_gap": gap, "misalignment": 1 - c, "norm": 1.0}
        for d, c in zip(DIMENSIONS, correlations, strict=True)
        for _ in range(2)
    ]


@pytest.fixture
def tables(control):
    rows = [
        *made_up(EXACT, [0.99999] * 6),
        *made_up(DAMPED, [0.9968] * 6),
        *made_up(STRONGLY_DAMPED, [0.9959] * 6),
        *made_up(SINGLE, [0.8] * 6),
        *made_up(UNDAMPED, [0.99, 0.97, 0.78, 0.44, 0.46, 0.46]),
    ]
    trials = {name: column.copy() for name, column in control.items()}
    return {
        "trials": trials,
        "control": control,
        "arithmetic": random_data.table_of(rows, *random_data.PLAIN),
    }


# -- the control stream -----------------------------------------------------------------------------------


def test_first_trials_of_the_control(control, expected):
    for d in DIMENSIONS:
        found, wanted = TrialTally.of(control, d=d), expected["first_200_trials"][str(d)]
        counts = [found.nonsaturated, found.lmm, found.gmm, found.negative]
        assert [count / 200 for count in counts] == pytest.approx(
            [wanted[name] for name in ("nonsat", "lmm", "gmm", "neg")], abs=1e-12
        )
    assert control["certified"].all()
    assert {c.id for c in random_data.control_claims({"trials": control, "control": control})} >= {
        "B-FIG-10.control-gmm",
        "B-FIG-10.control-correlation-bound",
    }


def test_expected_numbers_are_the_oracles(expected):
    known = random_data.KNOWN[1000]
    for at, d in enumerate(DIMENSIONS):
        wanted = expected["per_d"][str(d)]
        for ours, theirs in {"nonsaturated": "nonsat", "lmm": "lmm", "gmm": "gmm", "negative": "neg"}.items():
            assert getattr(known, ours)[at] == pytest.approx(1000 * wanted[theirs], abs=1e-9)
        assert known.correlation[at] == pytest.approx(wanted["corr"], abs=6e-8)
        assert known.least[at] == pytest.approx(wanted["corr_min"], abs=6e-8)
        first = expected["first_200_trials"][str(d)]
        assert random_data.KNOWN[200].gmm[at] == pytest.approx(200 * first["gmm"], abs=1e-9)
        accepted = expected["acceptance_N200"][str(d)]
        assert random_data.BANDS[d] == tuple(tuple(accepted[kind]) for kind in ("nonsat", "lmm", "gmm"))
    cdf = {float(gap): share for gap, share in expected["pooled"]["gap_cdf"].items()}
    assert pytest.approx(cdf, abs=5.1e-6) == random_data.CDF


@pytest.mark.slow
@pytest.mark.no_cover
def test_the_whole_control(expected):
    """6,000 trials, 6,000 certified directions: every count, correlation and quantile of the oracle."""
    control = whole_control()
    assert control["certified"].all()
    for d in DIMENSIONS:
        found, wanted = TrialTally.of(control, d=d), expected["per_d"][str(d)]
        rates = [found.nonsaturated / 1000, found.lmm / 1000, found.gmm / 1000, found.negative / 1000]
        assert rates == pytest.approx([wanted[n] for n in ("nonsat", "lmm", "gmm", "neg")], abs=1e-12)
        assert found.share_below(0.0) == pytest.approx(wanted["neg_cond"], abs=1e-12)
        assert found.correlation == pytest.approx(wanted["corr"], abs=1e-7)
        assert found.least == pytest.approx(wanted["corr_min"], abs=1e-7)
    every, pooled = TrialTally.of(control), expected["pooled"]
    assert len(every.gaps) == pooled["saturated"]
    assert every.correlation == pytest.approx(pooled["mean_corr"], abs=1e-7)
    assert every.where_negative.correlation == pytest.approx(pooled["mean_corr_given_neg"], abs=1e-7)
    for gap, share in pooled["gap_cdf"].items():
        assert every.share_below(float(gap)) == pytest.approx(share, abs=1e-12)
    least = control["slack"][every.saturated].min()
    assert least == pytest.approx(pooled["min_nonactive_slack"], rel=1e-6)


@pytest.mark.slow
def test_claims_about_the_whole_control():
    control = whole_control()
    claims = whole_claims(control, random_data.negative_table(control))
    assert [claim.id for claim in claims if not claim.holds] == []
    assert len(claims) == len({claim.id for claim in claims}) == 31


def whole_claims(control, negative):
    """All claims of B-FIG-10 at the paper's scale, its dearest tables made up from the numbers known."""
    damped = [0.99997, 0.9987, 0.9953, 0.9953, 0.9967, 0.9971]
    strongly = [0.9999, 0.9987, 0.9959, 0.9935, 0.9949, 0.9953]
    rows = []
    for kind, values, negatives, there in (
        (DAMPED, damped, 32, 0.995),
        (STRONGLY_DAMPED, strongly, 80, 0.9936),
    ):
        for d, value, saturated in zip(DIMENSIONS, values, (316, 946, 1000, 1000, 1000, 1000), strict=True):
            made = made_up(kind, [value] * 6)[0] | {"d": d}
            rows += [made] * saturated
        rows[-negatives:] = [made | {"score_gap": -0.1, "misalignment": 1 - there}] * negatives
    return random_data.control_claims(
        {
            "trials": control,
            "control": control,
            "negative": negative,
            "control_arithmetic": random_data.table_of(rows, *random_data.PLAIN),
            "sensitivity": sensitivity_made_up(),
        }
    )


def sensitivity_made_up():
    """200 trials per variant and d with the shares that are known of them."""
    known = random_data.KNOWN[200]
    rows = []
    for variant in ("exponential loss", "correlation loss", "start 0.01 N(0, I)", "10,000 steps"):
        special = {("correlation loss", 2): (114, 83), ("10,000 steps", 2): (106, 90),
                   ("10,000 steps", 5): (3, 197)}  # fmt: skip
        for at, d in enumerate(DIMENSIONS):
            open_, lmm = special.get((variant, d), (known.nonsaturated[at], known.lmm[at]))
            rows += [
                dict.fromkeys(("trial", "certified", "defect", "norm", "margin"), 0)
                | {"variant": variant, "d": d, "saturated": trial >= open_, "misalignment": 1e-5}
                | {"locally_optimal": open_ <= trial < open_ + lmm, "selection": "", "score_gap": 0.1}
                | {"globally_optimal": open_ <= trial < open_ + known.gmm[at]}
                for trial in range(200)
            ]
    return random_data.table_of(rows, *random_data.TRIAL, "variant")


def test_sensitivity_trains_what_it_says():
    table = random_data.sensitivity_table(count=3)
    problems = list(hm.data.fig9_oracle(5, 3))
    found = {name: TrialTally.of(table, variant=name, d=5).rows for name in np.unique(table["variant"])}
    assert found["10,000 steps"]["norm"] == pytest.approx(
        [path.p_norm for path in hm.train(problems, hm.optim.Normalized(1.0), steps=10_000)], rel=1e-12
    )
    exponential = [
        hm.Problem(problem.split(problem.keys), problem.split(problem.scores), "exponential")
        for problem in problems
    ]
    assert found["exponential loss"]["norm"] == pytest.approx(
        [path.p_norm for path in hm.train(exponential, hm.optim.Normalized(1.0), steps=1000)], rel=1e-12
    )
    usual = [path.p_norm for path in hm.train(problems, hm.optim.Normalized(1.0), steps=1000)]
    for name in ("correlation loss", "start 0.01 N(0, I)"):
        assert np.abs(found[name]["norm"] - usual).min() > 1e-9


# -- the sweep --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sweep_runs_once_from_seeds_that_can_be_drawn_again(monkeypatch):
    monkeypatch.setattr(random_data, "TRIALS", {"quick": 3})
    monkeypatch.setattr(random_data, "_swept", {})
    seen = []
    table = random_data.sweep_table("quick", seen.append)
    assert seen[-1] == 1.0
    monkeypatch.setattr(hm, "sweep", None)
    assert random_data.sweep_table("quick", seen.append) is table
    for d in (5, 100):
        of = table["d"] == d
        key = cell_key({"experiment": "sphere", "n": 4, "T": 6, "d": d})
        assert table["seed"][of].tolist() == seeds(random_data.SEED, key, 0, 3)
        again = outcomes([hm.data.sphere(4, 6, d, rng=int(seed)) for seed in table["seed"][of]])
        assert table["misalignment"][of].tolist() == [row["misalignment"] for row in again]
    arithmetic = random_data.arithmetic_table(table, 2)
    exact = TrialTally.of(arithmetic, arithmetic=EXACT).rows["norm"]
    assert exact.tolist() == table["norm"][table["trial"] < 2].tolist()
    assert {DAMPED, STRONGLY_DAMPED, UNDAMPED, SINGLE, EXACT} == set(arithmetic["arithmetic"])
    assert len(arithmetic["d"]) == 5 * 6 * 2


# -- claims -----------------------------------------------------------------------------------------------


def all_claims(tables):
    return (
        *random_data.rates_claims(tables),
        *random_data.gap_claims(tables),
        *random_data.control_claims(tables),
    )


def failing(tables):
    return {claim.id for claim in all_claims(tables) if not claim.holds}


def test_claims_hold_and_have_names_of_their_own(tables):
    assert failing(tables) == set()
    claims = all_claims(tables)
    assert len(claims) == len({claim.id for claim in claims}) == 46
    assert sum(claim.id.startswith("B-FIG-9a.") for claim in claims) == 31


def _set(name, value, d=None, table="trials"):
    def change(tables):
        columns = dict(tables[table])
        column = columns[name].copy()
        column[slice(None) if d is None else columns["d"] == d] = value
        return tables | {table: columns | {name: column}}

    return change


def _first(name, value, table):
    def change(tables):
        column = tables[table][name].copy()
        column[0] = value
        return tables | {table: tables[table] | {name: column}}

    return change


def _scale(kind, factor):
    def change(tables):
        table = tables["arithmetic"]
        of = table["arithmetic"] == kind
        return tables | {
            "arithmetic": table | {"misalignment": np.where(of, factor, 1.0) * table["misalignment"]}
        }

    return change


MUTATIONS = {
    "no trial of d = 2 saturates": (
        _set("saturated", False, 2),
        {"B-FIG-9a.nonsaturated-2", "B-FIG-9a.correlation-2", "B-FIG-9b.split"},
    ),
    "d = 100 never saturates": (
        _set("saturated", False, 100),
        {"B-FIG-9a.nonsaturated-100", "B-FIG-9a.correlation-100", "B-FIG-9b.split"},
    ),
    "no LMM at d = 5": (_set("locally_optimal", False, 5), {"B-FIG-9a.lmm-5", "B-FIG-9b.split"}),
    "every d = 2 is GMM": (_set("globally_optimal", True, 2), {"B-FIG-9a.gmm-2", "B-FIG-9a.gmm-grows"}),
    "no GMM at d = 500": (_set("globally_optimal", False, 500), {"B-FIG-9a.gmm-500", "B-FIG-9a.gmm-grows"}),
    "the official correlation": (_set("misalignment", 0.003, 300), {"B-FIG-9a.correlation-300"}),
    "an uncertified direction": (_first("certified", False, "trials"), {"B-FIG-9a.certified"}),
    "negative gaps": (
        _set("score_gap", -0.01, 10),
        {
            "B-FIG-9b.negative",
            "B-FIG-9b.peak",
            "B-FIG-9b.split",
            "B-FIG-10.below-zero",
            "B-FIG-10.same-distribution",
        },
    ),
    "no gap near zero": (
        _set("score_gap", 0.3),
        {
            "B-FIG-9b.peak",
            "B-FIG-9b.correlation-negative",
            "B-FIG-9b.split",
            "B-FIG-10.transition",
            "B-FIG-10.same-distribution",
        },
    ),
    "a damping that does no harm": (_scale(DAMPED, 0.01), {"B-FIG-9a.damped", "B-FIG-9a.exact-is-closer"}),
    "another strong damping": (_scale(STRONGLY_DAMPED, 1.5), {"B-FIG-9a.strongly-damped"}),
    "plain float64 that is right": (_scale(UNDAMPED, 0.5), {"B-FIG-9a.undamped"}),
    "float32 that is right": (_scale(SINGLE, 0.01), {"B-FIG-9a.single"}),
    "exact that is not": (_scale(EXACT, 100.0), {"B-FIG-9a.exact-is-closer"}),
    # the control's first trial is saturated, not LMM, with a negative gap
    "one control trial does not saturate": (
        _first("saturated", False, "control"),
        {"B-FIG-10.control-nonsaturated", "B-FIG-10.control-negative"},
    ),
    "one control trial is LMM": (_first("locally_optimal", True, "control"), {"B-FIG-10.control-lmm"}),
    "one control trial is GMM": (_first("globally_optimal", True, "control"), {"B-FIG-10.control-gmm"}),
    "one control trial has a positive gap": (
        _first("score_gap", 0.01, "control"),
        {"B-FIG-10.control-negative"},
    ),
    "one control trial is far off": (
        _first("misalignment", 0.5, "control"),
        {"B-FIG-10.control-correlation", "B-FIG-10.control-correlation-bound", "B-FIG-10.control-least"},
    ),
    "a slack that hangs on the tolerance": (_first("slack", 2e-6, "control"), {"B-FIG-10.control-slack"}),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_wrong_tables_fail_by_name(tables, name):
    change, wanted = MUTATIONS[name]
    assert failing(change(tables)) == wanted


# -- drawings ---------------------------------------------------------------------------------------------


def drawn(id, tables):
    with style():
        canvas = Canvas(figsize=recipes()[id].size, layout="constrained")
        recipes()[id].draw(tables, canvas)
        canvas.draw_without_rendering()
    return canvas


def test_bars_are_the_shares(tables, expected):
    left, right = drawn("B-FIG-9a", tables).axes
    for bars, kind in zip(left.containers[1::2], ("nonsat", "lmm", "gmm"), strict=True):
        wanted = [expected["first_200_trials"][str(d)][kind] for d in DIMENSIONS]
        assert [bar.get_height() for bar in bars] == pytest.approx(wanted)
    exact = right.lines[4]
    assert exact.get_ydata() == pytest.approx(1e-5)
    assert right.get_yscale() == "log"


def test_histogram_and_distribution_count_the_saturated_trials(tables):
    (panel,) = drawn("B-FIG-9b", tables).axes
    gaps = TrialTally.of(tables["trials"]).gaps
    below, near_zero, above = (sum(bar.get_height() for bar in bars) for bars in panel.containers)
    assert below == pytest.approx(np.mean(gaps < 0))
    assert near_zero == pytest.approx(np.mean((gaps >= 0) & (gaps < 0.01)))
    assert above == pytest.approx(np.mean((gaps >= 0.01) & (gaps < 0.8)))
    panel = drawn("B-FIG-10", tables).axes[0]
    step = panel.lines[1]
    assert np.interp(0.1, step.get_xdata(), step.get_ydata()) == pytest.approx(np.mean(gaps < 0.1), abs=2e-3)


def test_three_figures_share_one_sweep(monkeypatch, control):
    """9b costs nothing after 9a; a figure's seed is the sweep's."""
    swept = {"quick": control | {"seed": np.zeros(len(control["d"]), dtype=int)}}
    monkeypatch.setattr(random_data, "_swept", swept)
    found = recipes()["B-FIG-9b"].compute(Setting())
    assert found.tables["trials"] is swept["quick"]
    assert found.seed == random_data.SEED
    assert all(claim.holds for claim in found.claims)
