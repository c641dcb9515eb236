"""Sweeps in TOML files: what is read, and the one sentence about what is wrong."""

import subprocess
from pathlib import Path

import pytest

from hardmax.trials.grid import Grid
from hardmax.trials.plan import BUILT_IN, read_plan

ROOT = Path(__file__).parents[2]


@pytest.fixture
def plan(tmp_path: Path):
    def read(text: str):
        (tmp_path / "mine.toml").write_text(text)
        (tmp_path / "own.py").write_text(
            "import subprocess\nfrom subprocess import run\n\n"
            "def toss(parameters, seed):\n    return {}\n\nrate = 3\n"
        )
        if not (tmp_path / "linked.py").is_symlink():
            (tmp_path / "linked.py").symlink_to(subprocess.__file__)
        (tmp_path / "broken.py").write_text("def toss(:\n")
        return read_plan(tmp_path / "mine.toml")

    return read


def test_everything_that_may_be_said(plan, tmp_path: Path) -> None:
    found = plan(
        """
        function = "own.py:toss"
        batched = true
        trials = 7
        seed = 5
        workers = 2
        batch = 3
        retries = 0
        data_files = ["corpus.txt"]

        [parameters]
        n = 4

        [grid]
        d = [2, 5]
        loss = "logistic"
        number = { from = 1, to = 3 }
        """
    )
    assert found.function == f"{tmp_path / 'own.py'}:toss"
    assert (found.batched, found.trials, found.seed) == (True, 7, 5)
    options = {"workers": 2, "batch": 3, "retries": 0, "data_files": [tmp_path / "corpus.txt"]}
    assert found.options == options
    cells = list(Grid(found.grid))
    assert len(cells) == 6
    assert cells[0] == {"n": 4, "d": 2, "loss": "logistic", "number": 1}
    assert found.varying == ("d", "number")
    assert found.store == tmp_path / "mine.sqlite"


def test_cells_one_by_one(plan) -> None:
    found = plan('function = "own.py:toss"\ntrials = 1\n[[cells]]\na = 1\nb = 2\n[[cells]]\na = 3\n')
    assert list(Grid(found.grid)) == [{"a": 1, "b": 2}, {"a": 3}]
    assert found.varying == ("a", "b")


def test_a_built_in_experiment(plan) -> None:
    found = plan(
        """
        experiment = "B-FIG-8"
        trials = 3
        [parameters]
        start = [2.0, 0]
        measure = ["saturated", "selection"]
        """
    )
    assert (found.function, found.batched, found.seed) == (BUILT_IN, True, 0)
    (cell,) = Grid(found.grid)
    assert cell == {"experiment": "B-FIG-8", "start": "2.0 0", "measure": "saturated selection"}


def test_step_rules(plan) -> None:
    """Each rule with its own parameters is a cell; what all of them have may be shared."""
    found = plan(
        """
        experiment = "sphere"
        trials = 2
        [parameters]
        rate = 0.01
        measure = ["selection", "deficit", "event"]
        [[cells]]
        rule = "Sign"
        decay = 0.5
        [[cells]]
        rule = "Adam"
        betas = [0.9, 0.99]
        epsilon = 0
        """
    )
    shared = {"experiment": "sphere", "rate": 0.01, "measure": "selection deficit event"}
    assert list(Grid(found.grid)) == [
        shared | {"rule": "Sign", "decay": 0.5},
        shared | {"rule": "Adam", "betas": "0.9 0.99", "epsilon": 0},
    ]
    with pytest.raises(ValueError, match=r"betas is not a parameter of sphere.* of Sign lr, decay"):
        plan('experiment = "sphere"\ntrials = 1\n[grid]\nrule = ["Sign"]\nbetas = ["0.9 0.9"]')


def test_experiments_may_be_a_parameter_of_the_grid(plan) -> None:
    found = plan(
        'experiment = "sphere"\ntrials = 1\n[grid]\nexperiment = ["sphere", "gaussian"]\nrate = [0.1, 1]'
    )
    assert found.varying == ("experiment", "rate")
    assert len(list(Grid(found.grid))) == 4


def test_the_worked_example_is_valid() -> None:
    found = read_plan(ROOT / "examples" / "phase-diagram.toml")
    assert found.varying == ("d", "n", "T")
    assert len(Grid(found.grid)) == 135


@pytest.mark.parametrize(
    "text, message",
    [
        ("trials = 3 3", "not a TOML file: .*line 1"),
        ("", "must set exactly one of experiment .* and function"),
        ('experiment = "sphere"\nfunction = "own.py:toss"\ntrials = 1', "exactly one of"),
        ('experiment = "sphere"', "trials must be an integer of at least 1, got None"),
        ('experiment = "sphere"\ntrials = 0', "trials must be an integer of at least 1, got 0"),
        ('experiment = "sphere"\ntrails = 3', "trails is not a key of a sweep; the keys are experiment"),
        ('experiment = "sphere"\ntrials = 3\nseed = -1', "seed must be an integer of at least 0, got -1"),
        ('experiment = "sphere"\ntrials = 3\nworkers = 0', "workers must be an integer of at least 1, got 0"),
        ('experiment = "sphere"\ntrials = 3\nbatched = true', "batched goes with function"),
        ('experiment = "cube"\ntrials = 3', "experiment must be one of sphere.*got 'cube'"),
        (
            'experiment = "sphere"\ntrials = 3\n[grid]\nd = [2, 0]',
            "d must be an integer of at least 1, got 0",
        ),
        ('experiment = "sphere"\ntrials = 3\n[grid]\nd = []', "at least one cell"),
        ('experiment = "sphere"\ntrials = 3\n[grid]\nd = {from = 2}', "grid.d must be a list of values or"),
        ('experiment = "sphere"\ntrials = 3\n[grid]\nd = [[2]]', "must be a bool, a number, a text or None"),
        ('experiment = "sphere"\ntrials = 3\ngrid = 3', r"grid must be a table, \[grid\], got 3"),
        ('experiment = "sphere"\ntrials = 3\ncells = 3', "cells must be a list of tables"),
        ('experiment = "sphere"\ntrials = 3\ncells = []', "at least one cell"),
        ('experiment = "sphere"\ntrials = 3\ncells = [{d = 2}]\n[grid]\nd = [2]', "got both"),
        ('experiment = "sphere"\ntrials = 3\n[parameters]\ndepth = 3', "depth is not a parameter of sphere"),
        ('experiment = "sphere"\ntrials = 3\ndata_files = "a"', "data_files must be a list"),
        ('experiment = "sphere"\ntrials = 3\ndata_files = [1]', "data_files must be text, got 1"),
        ('function = "own.py:toss"\ntrials = 3\n[grid]\nseed = [1]', "'seed' is a column of every sweep"),
        ('function = "own.py:toss"\ntrials = 3\nbatched = 1', "batched must be true or false, got 1"),
        ("function = 3\ntrials = 3", "function must be text, got 3"),
        ('function = "own.py:miss"\ntrials = 3', "has no function 'miss'"),
        ('function = "own.py:rate"\ntrials = 3', "must name a function, got int"),
        ('function = "none.py:toss"\ntrials = 3', "no such file"),
        ('function = "broken.py:toss"\ntrials = 3', "broken.py cannot be run: SyntaxError"),
        (
            'function = "subprocess:call"\ntrials = 3',
            "a file alone may not choose a module.*'subprocess', pass it in `allow`",
        ),
        ('function = "../own.py:toss"\ntrials = 3', "../own.py is not next to this file"),
        ('function = "/usr/lib/x.py:toss"\ntrials = 3', "/usr/lib/x.py is not next to this file"),
        ('function = "own.py:subprocess.call"\ntrials = 3', "subprocess.call is only imported in own.py"),
        ('function = "own.py:run"\ntrials = 3', "run is only imported in own.py"),
        ('function = "linked.py:call"\ntrials = 3', "linked.py is not next to this file"),
        ("function = " + "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("a = " + "9" * 5000, "Exceeds the limit"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(plan, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^mine\.toml.*{message}"):
        plan(text)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a TOML file"):
        read_plan(tmp_path / "mine.toml")


def test_code_is_run_that_lies_beside_the_file_or_that_its_reader_names(plan, tmp_path: Path) -> None:
    (tmp_path / "lent_beside.py").write_text("def lent(parameters, seed):\n    return {}\n")
    (tmp_path / "lends.py").write_text("from lent_beside import lent\n")
    assert plan('function = "lends.py:lent"\ntrials = 1').function.endswith("lends.py:lent")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "mine.toml").write_text('function = "../own.py:toss"\ntrials = 1')
    found = read_plan(tmp_path / "below" / "mine.toml", allow=[str(tmp_path / "own.py")])
    assert found.function == f"{tmp_path / 'own.py'}:toss"
    (tmp_path / "module.toml").write_text('function = "math:hypot"\ntrials = 1')
    assert read_plan(tmp_path / "module.toml", allow=["math"]).function == "math:hypot"
    with pytest.raises(ValueError, match="'math', pass it in `allow`"):
        read_plan(tmp_path / "module.toml", allow=["os", "math:hypot"])


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"#" * (2**24 + 1))
    with pytest.raises(ValueError, match=r"mine\.toml exceeds the limit of 16 MiB"):
        read_plan(tmp_path / "mine.toml")
