"""The experiment that compares optimizers: its rows are those of single runs, whatever their batch."""

from pathlib import Path

import pytest

import hardmax as hm
from hardmax.trials import experiments
from hardmax.trials.experiments import built_in
from hardmax.trials.plan import read_plan

PARAMETERS = {"experiment": "optimizers", "n": 2, "T": 3, "d": 4, "rate": 0.1, "steps": 500}


def test_a_row_does_not_depend_on_its_batch():
    together = built_in(PARAMETERS, seeds=[3, 4, 5])
    assert together == [built_in(PARAMETERS, seeds=[seed])[0] for seed in (3, 4, 5)]
    assert any(row["normalized"] for row in together)


def test_on_known_data():
    """space-a: linf selects others. triple: sign descent stays 1/16 short, and falling rates cure that."""
    apart, short = experiments.compare([hm.data.example("space-a"), hm.data.example("triple")], steps=2000)
    assert [name for name, yes in apart.items() if yes and name.endswith("_parts")] == [
        "sign_parts",
        "signum_parts",
        "adam_parts",
        "any_parts",
    ]
    assert (short["coordinate"], short["normalized"], short["sign"]) == (True, True, False)
    assert not short["any_parts"]
    assert experiments.compare([hm.data.example("triple")], decay=0.5, steps=2000)[0]["sign"]


def test_other_parameters_are_refused():
    with pytest.raises(
        ValueError, match="start is not a parameter of optimizers; it has n, T, d, loss, lr, decay, steps"
    ):
        built_in({**PARAMETERS, "start": 1.0}, seeds=[0])


def test_the_example_is_a_sweep():
    plan = read_plan(Path(__file__).parents[2] / "examples" / "geometry.toml")
    assert plan.trials == 200
