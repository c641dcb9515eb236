"""What trials measure: the oracle's rates, the single-problem functions, and rows that know no batch."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.dynamics.train import train_quietly
from hardmax.limits.late import late_residual
from hardmax.trials.experiments import (
    COLUMNS,
    FIGURES,
    MEASURE,
    built_in,
    check_parameters,
    outcomes,
    rule_of,
)
from hardmax.trials.grid import cell_key, seeds

# B-FIG-9 on the first 200 trials of the streams: non-saturated, LMM, GMM, mean and least correlation.
FIRST_200 = {2: (0.640, 0.345, 0.130, 0.99996, 0.9984), 10: (0.0, 1.0, 0.345, 0.99984, 0.9816)}


def rates(rows: list[dict]) -> tuple[float, ...]:
    aligned = [1 - row["misalignment"] for row in rows if row["saturated"]]
    return (
        *(np.mean([row[name] for row in rows]) for name in ("locally_optimal", "globally_optimal")),
        np.mean(aligned),
        min(aligned),
    )


@pytest.mark.slow
@pytest.mark.parametrize("d", FIRST_200)
@pytest.mark.no_cover
def test_figure_9_on_the_first_200_trials(d: int) -> None:
    rows = outcomes(list(hm.data.fig9_oracle(d, 200)))
    assert all(row["certified"] for row in rows)
    loose, local, best, mean, least = FIRST_200[d]
    assert np.mean([not row["saturated"] for row in rows]) == pytest.approx(loose, abs=1e-12)
    assert rates(rows)[:2] == pytest.approx((local, best), abs=1e-12)
    assert rates(rows)[2:] == (pytest.approx(mean, abs=5e-6), pytest.approx(least, abs=5e-5))


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.no_cover
def test_figure_9_on_whole_streams(d: int, oracles: dict) -> None:
    expected = oracles["b"]["fig9_expected"]["per_d"][str(d)]
    rows = outcomes(list(hm.data.fig9_oracle(d, 1000)))
    negative = [row["saturated"] and row["score_gap"] < 0 for row in rows]
    assert 1 - np.mean([row["saturated"] for row in rows]) == pytest.approx(expected["nonsat"], abs=1e-12)
    assert np.mean(negative) == pytest.approx(expected["neg"], abs=1e-12)
    wanted = [expected[name] for name in ("lmm", "gmm", "corr", "corr_min")]
    # Beyond eta_c p swings, and rounding decides on which side of a swing the last step falls: a start moved
    # by 1e-15 changes 1 - cos of six such trials in the plane by up to 5e-6, the mean of 316 by up to 4e-8.
    assert rates(rows) == pytest.approx(wanted, abs=5e-8 if d == 2 else 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "d, saturated, local, best",
    [(2, (0.21, 0.42), (0.20, 0.41), (0.04, 0.18)), (10, (0.99, 1), (0.975, 1), (0.27, 0.47))],
)
@pytest.mark.no_cover
def test_trials_of_their_own_seeds_stay_within_the_bands(
    d: int, saturated: tuple[float, float], local: tuple[float, float], best: tuple[float, float]
) -> None:
    """The acceptance of B-FIG-9 for 200 trials, with the seeds that a sweep gives them."""
    parameters = {"experiment": "sphere", "n": 4, "T": 6, "d": d}
    rows = built_in(parameters, seeds(0, cell_key(parameters), 0, 200))
    for name, (low, high) in zip(
        ("saturated", "locally_optimal", "globally_optimal"), (saturated, local, best), strict=True
    ):
        assert low <= np.mean([row[name] for row in rows]) <= high
    # A few slow transients carry the mean: 0.9995 of the specification fails for 2 of 5 such samples.
    assert rates(rows)[2] >= 0.999


def by_hand(problem: hm.Problem, path: hm.Run, rate: float) -> dict:
    """The same row from the functions for one problem."""
    chosen = path.selection
    row = {
        "saturated": path.off_top_attention() <= 1e-5,
        "defect": path.off_top_attention(),
        "norm": path.p_norm,
        "event": path.event,
        "selection": " ".join("=".join(map(str, tied)) for tied in chosen.sets),
    }
    nothing = dict.fromkeys(("score_gap", "margin", "misalignment", "deficit", "eta_ratio"), math.nan)
    if not chosen.is_unique:
        return row | nothing | dict.fromkeys(("certified", "locally_optimal", "globally_optimal"), False)
    best = hm.max_margin(problem, chosen)
    row |= nothing | {
        "certified": best.is_certified,
        "score_gap": hm.directions.score_gap(problem, best),
        "margin": best.margin,
        "locally_optimal": row["saturated"] and hm.attracts(problem, best).verdict,
        "globally_optimal": row["saturated"] and hm.directions.is_best(problem, chosen),
    }
    if best.direction is not None and path.p.any():
        row["misalignment"], row["deficit"] = path.cosine_distance(best), path.margin_gap(best)
    if row["locally_optimal"] and best.p_norm:
        row["eta_ratio"] = rate / late_residual(problem, best).eta_c
    return row


def assert_rows_agree(found: dict, expected: dict) -> None:
    assert list(found) == list(COLUMNS)
    for name in COLUMNS:
        if expected[name] is None or isinstance(expected[name], (str, bool)):
            assert found[name] == expected[name], name
        elif name == "deficit":  # a difference of numbers near one
            assert found[name] == pytest.approx(expected[name], abs=1e-9, nan_ok=True)
        else:
            # The solver for one problem differs from the one for many in the last digit of p_mm.
            close = pytest.approx(expected[name], rel=1e-9, abs=1e-28, nan_ok=True)
            assert found[name] == close, name


CASES = {
    "ragged": hm.Problem(
        [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0], [0.5, 2.0]]], [[1, 0], [1, 0, 0.5]]
    ),
    "twins of the best token": hm.Problem([[[1.0, 0], [1.0, 0], [0, 1.0]]], [[1.0, 1.0, 0.0]]),
    "twins of a worse token": hm.Problem([[[1.0, 0], [0, 1.0], [0, 1.0]]], [[1.0, 0.0, 0.5]]),
    "opposed": hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [1, 0]]),
    "equal scores": hm.Problem([[[1.0, 2.0], [0.0, 1.0]]], [[1.0, 1.0]]),
    "one token": hm.Problem([[[1.0, 2.0]]], [[1.0]]),
    "higher score far away": hm.data.example("B-FIG-8"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_what_the_functions_for_one_problem_say(name: str) -> None:
    problem = CASES[name]
    (row,) = outcomes([problem], steps=200, measure=COLUMNS)
    assert_rows_agree(row, by_hand(problem, hm.train(problem, hm.optim.Normalized(1.0), steps=200), 1.0))


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 4),
    T=st.integers(1, 5),
    d=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    rate=st.sampled_from([0.1, 1.0]),
    steps=st.integers(0, 60),
)
@example(n=1, T=3, d=1, seed=0, rate=0.1, steps=0)  # the top token stands twice
@example(n=1, T=3, d=1, seed=3, rate=1.0, steps=26)  # swings about a finite minimum
def test_and_so_on_random_problems(n: int, T: int, d: int, seed: int, rate: float, steps: int) -> None:
    problems = [hm.data.gaussian(n, T, d, rng=seed), hm.data.sphere(n, T, d, rng=seed)]
    for problem, row in zip(
        problems, outcomes(problems, hm.optim.Normalized(rate), steps=steps, measure=COLUMNS), strict=True
    ):
        # A batch and a run by itself part where steps swing about a finite minimum: it is a batch of one.
        (run,) = hm.train([problem], hm.optim.Normalized(rate), steps=steps)
        assert_rows_agree(row, by_hand(problem, run, rate))


def same(a: dict, b: dict) -> bool:
    """Equal to the bit, nan included."""
    return a.keys() == b.keys() and all(repr(a[name]) == repr(b[name]) for name in a)


@pytest.mark.parametrize("experiment", ["sphere", "gaussian", "B-FIG-1c", "B-FIG-8"])
@pytest.mark.no_cover
def test_a_row_is_the_same_in_any_batch(experiment: str) -> None:
    parameters = {"experiment": experiment, "steps": 60, "measure": " ".join(COLUMNS)}
    if experiment in ("sphere", "gaussian"):
        parameters |= {"n": 3, "T": 5, "d": 7}
    chosen = seeds(0, cell_key(parameters), 0, 80)
    whole = built_in(parameters, chosen)
    backwards = built_in(parameters, chosen[::-1])[::-1]
    alone = [built_in(parameters, [seed])[0] for seed in chosen[::7]]
    pairs = [row for i in range(0, 20, 2) for row in built_in(parameters, chosen[i : i + 2])]
    assert all(map(same, whole, backwards))
    assert all(map(same, whole[::7], alone))
    assert all(map(same, whole[:20], pairs))


def test_threads_and_other_layouts_in_the_batch_change_nothing() -> None:
    problems = [hm.data.sphere(3, T, d, rng=d) for d in (2, 40) for T in (4, 6)] * 3
    one, two = (outcomes(problems, steps=50, workers=workers) for workers in (1, 2))
    assert all(map(same, one, two))
    assert all(same(one[i], outcomes([problems[i]], steps=50)[0]) for i in range(4))


def test_columns_are_those_asked_for() -> None:
    problems = [hm.data.sphere(2, 3, 4, rng=seed) for seed in range(3)]
    full = outcomes(problems, steps=30, measure=COLUMNS)
    for measure in (["selection"], ["misalignment", "saturated"], ["eta_ratio"]):
        few = outcomes(problems, steps=30, measure=measure)
        assert [list(row) for row in few] == [measure] * 3
        assert all(
            same({name: row[name] for name in measure}, part) for row, part in zip(full, few, strict=True)
        )
    assert list(outcomes(problems, steps=1)[0]) == list(MEASURE)
    with pytest.raises(ValueError, match=r"measure must be some of saturated.*got speed"):
        outcomes(problems, measure=["speed"])


def test_steps_of_figure_9_above_the_threshold() -> None:
    """B-NEW-3: 74 of the first 100 trials at d = 10 exceed eta_c; the addendum's count."""
    rows = outcomes(list(hm.data.fig9_oracle(10, 100)), measure=["eta_ratio"])
    assert 72 <= sum(row["eta_ratio"] > 1 for row in rows) <= 76


def test_starts_of_figure_8_choose_the_direction() -> None:
    starts = [[0, 0], [0, 2], [-1, 1], [3, 3], [2, 0], [4, 0], [2, -2], [1, -1]]
    rows = outcomes([hm.data.example("B-FIG-8")] * 8, hm.optim.Normalized(0.1), starts=starts)
    assert [row["selection"] for row in rows] == ["0 0"] * 4 + ["0 1"] * 4
    assert [row["globally_optimal"] for row in rows] == [True] * 4 + [False] * 4
    assert all(row["locally_optimal"] and row["misalignment"] < 2e-4 for row in rows)


def test_starts_of_an_experiment() -> None:
    parameters = {"experiment": "B-FIG-8", "rate": 0.1, "measure": "selection norm"}
    fixed = built_in(parameters | {"start": "2 0"}, [1, 2])
    assert [row["selection"] for row in fixed] == ["0 1", "0 1"]
    assert same(*fixed)
    spread = built_in(parameters | {"start": 3.0}, range(40))
    assert {row["selection"] for row in spread} == {"0 0", "0 1"}
    path = hm.train(
        hm.data.example("B-FIG-8"),
        hm.optim.Normalized(0.1),
        steps=1000,
        start=3.0 * np.random.default_rng(7).normal(size=2),
    )
    assert spread[7]["norm"] == path.p_norm


def test_a_trial_can_be_made_again_from_its_seed() -> None:
    row = built_in({"experiment": "gaussian", "n": 3, "T": 4, "d": 6, "loss": "exponential"}, [42])[0]
    problem = hm.data.gaussian(3, 4, 6, rng=np.random.default_rng(42), loss="exponential")
    assert same(row, outcomes([problem])[0])


def test_the_stream_gives_its_trials_in_any_order() -> None:
    parameters = {"experiment": "fig9-oracle", "d": 5, "steps": 20}
    expected = outcomes(list(hm.data.fig9_oracle(5, 6)), steps=20)
    for number in (0, 1, 4, 2, 5):
        assert same(built_in(parameters | {"number": number}, [123])[0], expected[number])


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_an_experiment(figure: str) -> None:
    rows = built_in({"experiment": figure, "steps": 300}, [0, 1])
    assert all(row["saturated"] and row["certified"] and row["locally_optimal"] for row in rows)


CELLS = [
    {"rule": "Sign", "rate": 0.1, "decay": 0.5},
    {"rule": "Coordinate", "rate": 2.0},
    {"rule": "Mirror", "power": 1.5, "rate": 0.03},  # 0.1 amplifies one ulp of the keys to 5e-3
    {"rule": "Adam", "rate": 0.1, "betas": "0.9 0.99", "epsilon": 0},
    {"rule": "RMSprop", "rate": 0.1, "beta": 0.9},
    {"rule": "Momentum", "norm": "l3", "rate": 0.01},
    {"rule": "GD", "norm": "linf"},
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell["rule"])
def test_every_rule_by_its_name(cell: dict) -> None:
    """A row of the rule, with the deficit in its norm."""
    cell = {"experiment": "gaussian", "n": 2, "T": 3, "d": 3, "steps": 300, **cell}
    check_parameters(cell)
    columns = "selection norm deficit event"
    rows, rule = built_in(cell | {"measure": columns}, [5, 6]), rule_of(cell)
    for row, seed in zip(rows, (5, 6), strict=True):
        problem = hm.data.gaussian(2, 3, 3, rng=np.random.default_rng(seed))
        run = train_quietly(problem, rule, steps=300)
        assert list(row) == columns.split()
        assert (row["norm"], row["event"]) == (pytest.approx(run.p_norm, rel=1e-12), run.event)
        best = hm.max_margin(problem, run.selection, norm=rule.norm)
        assert row["deficit"] == (
            pytest.approx(run.margin_gap(best), abs=1e-12) if best.is_certified else best
        )


def test_a_runaway_is_a_row() -> None:
    cell = {"experiment": "gaussian", "rule": "Adam", "betas": "0.9 0.1", "epsilon": 0, "steps": 4000}
    (row,) = built_in(cell | {"measure": "norm event selection deficit"}, [0])
    assert row["event"] == "runaway"
    assert row["norm"] > 1e248
    assert 0.0 < row["deficit"] < 1.0


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"experiment": "cube"}, "experiment must be one of sphere, gaussian, fig9-oracle, B-FIG-1a"),
        ({}, "got None"),
        ({"experiment": "B-FIG-8", "d": 3}, "d is not a parameter of B-FIG-8; it has loss, steps"),
        ({"experiment": "fig9-oracle", "d": 3}, "needs d and number"),
        ({"experiment": "sphere", "d": 0}, "d must be an integer of at least 1, got 0"),
        ({"experiment": "sphere", "steps": 1.5}, "steps must be an integer of at least 0, got 1.5"),
        ({"experiment": "sphere", "rate": -1}, "lr must be a positive number"),
        ({"experiment": "sphere", "loss": "hinge"}, "loss must be one of logistic"),
        ({"experiment": "sphere", "measure": "speed"}, "measure must be some of saturated.*got speed"),
        ({"experiment": "sphere", "measure": 3}, "measure must be names in one text, got 3"),
        ({"experiment": "sphere", "start": "one"}, "start must be numbers"),
        ({"experiment": "sphere", "rate": "1/L_p"}, "lr must be a positive number"),
        ({"experiment": "sphere", "rule": "Muon"}, "optimizer must be one of GD, SGD, Adam.* got 'Muon'"),
        ({"experiment": "sphere", "rule": "Mirror"}, "optimizer Mirror requires power"),
        (
            {"experiment": "sphere", "rule": "Sign", "power": 3},
            "power is not a parameter of sphere.* of Sign lr",
        ),
        ({"experiment": "sphere", "rule": "Adam", "betas": "0.9 x"}, "betas must be two numbers in one text"),
        (
            {"experiment": "sphere", "rule": "Adam", "betas": "0.9 1"},
            "betas must be from 0 to below 1, got 1",
        ),
    ],
)
def test_refusals(parameters: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_parameters(parameters)
