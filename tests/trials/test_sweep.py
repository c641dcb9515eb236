"""The verb: rows that do not depend on how they were run, failures that stop nothing, and one trial alone."""

import math
import os
import subprocess
import sys
from concurrent.futures import wait
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax._lib.progress import Watcher
from hardmax.trials.plan import read_plan
from hardmax.trials.provenance import load, named
from hardmax.trials.sweep import IDLE, First, Here, Sizes, TrialClock

TASKS = Path(__file__).with_name("tasks.py")
GRID = {"a": [1, 2.5], "b": ["x", None]}


def comparable(result):
    return [{name: repr(value) for name, value in row.items()} for row in result.rows()]


@pytest.fixture(scope="module")
def plain():
    return hm.sweep(f"{TASKS}:rows", GRID, 50, workers=0, batch=1)


@pytest.mark.parametrize("function", ["rows", "together", "forgetful"])
@pytest.mark.parametrize("batch", [1, 7, None])
def test_rows_do_not_depend_on_the_batch(function, batch, plain):
    result = hm.sweep(f"{TASKS}:{function}", GRID, 50, workers=0, batch=batch, batched=function != "rows")
    assert comparable(result) == comparable(plain)
    assert [f.error for f in result.failures()] == [f.error for f in plain.failures()]


def test_rows_are_those_of_a_plain_loop(plain):
    rows = load(f"{TASKS}:rows")
    done = 0
    for found in plain.rows():
        parameters = {"a": found["a"], "b": found["b"]}
        if found["status"] == "failed":
            with pytest.raises(RuntimeError):
                rows(parameters, found["seed"])
            continue
        expected = {**parameters, "trial": found["trial"], "seed": found["seed"], "status": "done"}
        assert repr(found) == repr(expected | rows(parameters, found["seed"]))
        done += 1
    assert (done, plain.done, plain.total, plain.remaining) == (plain.done, 200 - plain.failed, 200, 0)
    assert len({row["seed"] for row in plain.rows()}) == 200


def test_a_part_of_the_grid_has_the_same_trials(plain):
    part = hm.sweep(f"{TASKS}:rows", [{"b": None, "a": 2.5}], 20, workers=0)
    whole = [row for row in comparable(plain) if row["a"] == "2.5" and row["b"] == "None"]
    assert comparable(part) == whole[:20]
    other = hm.sweep(f"{TASKS}:rows", GRID, 5, rng=1, workers=0)
    assert not set(other.column("count")) & set(plain.column("count"))


def test_a_failure_can_be_run_alone_by_its_command(tmp_path):
    store = tmp_path / "a store.db"
    result = hm.sweep(f"{TASKS}:rows", GRID, 50, store=store, workers=0)
    failures = list(result.failures())
    assert len(failures) == result.failed > 0
    first = failures[0]
    assert first.seed % 23 == 0
    assert first.parameters == result.cells()[first.cell]
    assert "raise RuntimeError" in first.traceback
    with pytest.raises(RuntimeError, match=f"seed {first.seed} is a multiple"):
        hm.trials.run_one(store, first.cell, first.trial, f"{TASKS}:rows")
    assert first.command.startswith("python -c ")
    command = first.command.replace("python", sys.executable, 1)
    alone = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert alone.stderr.endswith(f"{first.error}\n")
    good = next(
        row for row in result.rows() if row["status"] == "done" and row["a"] == 2.5 and row["b"] is None
    )
    again = hm.trials.run_one(result, 3, good["trial"])
    assert repr(good) == repr(
        {"a": 2.5, "b": None, **{k: good[k] for k in ("trial", "seed", "status")}, **again}
    )
    for cell, trial, message in (
        (4, 0, "cell must be 0 to 3, got 4"),
        (0, 50, "trial must be 0 to 49, got 50"),
    ):
        with pytest.raises(ValueError, match=message):
            hm.trials.run_one(result, cell, trial)
    result.store.close()


def test_failed_trials_run_again_only_if_asked(tmp_path):
    broken = [True]

    def fragile(parameters, seed):
        if broken[0] and seed % 2:
            raise OSError("the file server is away")
        return {"x": seed}

    call = {"function": fragile, "grid": {}, "trials": 20, "store": tmp_path / "s.db", "workers": 0}
    first = hm.sweep(**call)
    assert first.failed == sum(row["seed"] % 2 for row in first.rows()) > 0
    broken[0] = False
    assert hm.sweep(**call).failed == first.failed
    calls = []
    last = hm.sweep(**call, retry_failed=True, progress=lambda *call: calls.append(call))
    assert (last.done, last.failed, last.remaining) == (20, 0, 0)
    assert calls[-1] == (20, 20)
    assert hm.trials.run_one(last, 0, 0) == {"x": next(last.rows())["seed"]}
    with pytest.raises(ValueError, match=r"function must be given.* a store is data"):
        hm.trials.run_one(tmp_path / "s.db", 0, 0)


@pytest.mark.parametrize(
    "returned, message",
    [
        (3, "must return a dict of scalars, got int"),
        ({"x": [1, 2]}, r"result 'x' must be a bool, a number, a text or None, got \[1, 2\]"),
        ({"x": np.zeros(2)}, "result 'x' must be a bool"),
        ({"seed": 1}, "not 'seed', which is taken"),
        ({"a": 1}, "not 'a', which is taken"),
        ({1: 1}, "not 1, which is taken"),
        ({"x": 10**400}, "result 'x' must be a number that a float can hold, got one of 1329 bits"),
        ({"x": "caf\udce9"}, "result 'x' must be a text that UTF-8 can hold"),
        ({"caf\udce9": 1}, "the name of a result must be a text that UTF-8 can hold"),
    ],
)
def test_a_row_that_cannot_be_kept_is_a_failure(returned, message):
    for batched in (False, True):
        result = hm.sweep(
            lambda p, seed, batched=batched: [returned] * len(seed) if batched else returned,
            {"a": 1},
            3,
            workers=0,
            batched=batched,
        )
        assert result.failed == 3
        with pytest.raises(ValueError, match=message):
            raise ValueError(next(result.failures()).error)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error, message",
    [
        (Mute(), "Mute: its message cannot be shown"),
        (OSError("caf\udce9"), "OSError: caf\\udce9"),
        (ValueError(), "ValueError"),
    ],
)
def test_any_error_can_be_kept(error, message):
    def broken(parameters, seed):
        raise error

    assert next(hm.sweep(broken, {}, 1, workers=0).failures()).error == message


class Rude(BaseException):
    pass


@pytest.mark.parametrize("batched", [False, True])
def test_what_is_no_exception_ends_its_trial_only(batched):
    def rude(parameters, seed):
        raise Rude("out of the way")

    result = hm.sweep(rude, {}, 2, workers=0, batched=batched)
    assert [failure.error for failure in result.failures()] == ["Rude: out of the way"] * 2


def test_a_watcher_can_stop_trials_that_never_end(tmp_path, monkeypatch):
    monkeypatch.setattr("hardmax.trials.sweep.BEAT", 0.1)
    (tmp_path / "endless.py").write_text("import time\ndef f(parameters, seed):\n    time.sleep(1e6)\n")
    calls = []

    def stop(done, total):
        calls.append((done, total))
        if len(calls) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        hm.sweep(f"{tmp_path / 'endless.py'}:f", {}, 2, workers=1, progress=stop)
    assert calls == [(0, 2)] * 3


def test_exit_is_a_failure_and_interrupt_is_not():
    def leave(parameters, seed):
        sys.exit("enough")

    result = hm.sweep(leave, {}, 2, workers=0)
    assert next(result.failures()).error == "SystemExit: enough"
    assert next(result.failures()).command.endswith(f"leave({{}}, {next(result.failures()).seed})")

    def interrupted(parameters, seed):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hm.sweep(interrupted, {}, 2, workers=0)


def test_columns(plain):
    assert plain.column("a").dtype == float
    assert plain.column("trial").dtype == np.int64
    assert plain.column("even").dtype == bool
    assert plain.column("word").dtype == object
    assert list(plain.column("b")) == [row["b"] for row in plain.rows() if row["status"] == "done"]
    assert (plain.column("count") == plain.column("seed")).all()
    assert np.isnan(plain.column("x")).sum() == sum(
        isinstance(row.get("x"), float) and math.isnan(row["x"]) for row in plain.rows()
    )
    assert set(plain.column("nothing")) == {None}
    with pytest.raises(
        ValueError, match="column must name a parameter, a result, 'trial' or 'seed', got 'y'"
    ):
        plain.column("y")


def test_progress_counts_up(plain):
    calls, told = [], []
    call = {"function": f"{TASKS}:rows", "grid": GRID, "trials": 50, "workers": 0, "batch": 30}
    hm.sweep(**call, progress=lambda *call: calls.append(call))
    assert calls == [(done, 200) for done in (30, 50, 80, 100, 130, 150, 180, 200)]

    class Told(Watcher):
        def see(self, pace):
            told.append(pace)

    hm.sweep(**call, progress=Told())
    assert [each.done + each.failed for each in told] == [30, 50, 80, 100, 130, 150, 180, 200]
    assert all(each.total == 200 and each.rate > 0 for each in told)
    assert (told[-1].done, told[-1].failed, told[-1].remaining) == (plain.done, plain.failed, 0)


def test_rate_is_that_of_the_last_half_minute(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("hardmax.trials.sweep.time.monotonic", lambda: now[0])
    clock = TrialClock(10, 0, 1000)
    for second in range(1, 101):
        now[0] = float(second)
        told = clock.count(1 if second <= 50 else 4, 0)
    assert told.done == 10 + 50 + 200
    assert told.rate == pytest.approx(4)
    assert told.remaining == pytest.approx(740 / 4)


def test_batches_grow_to_half_a_second_and_shrink_in_a_new_cell():
    sizes = Sizes(None)
    seconds = {0: 1e-3, 1: 0.1}
    chosen = []
    for cell in (0, 0, 0, 0, 0, 1, 1, 1):
        chosen.append(sizes.next(cell))
        sizes.measure(cell, chosen[-1], chosen[-1] * seconds[cell])
    assert chosen == [1, 8, 64, 499, 500, 50, 5, 5] or chosen == [1, 8, 64, 500, 500, 50, 5, 5]
    assert Sizes(3).next(0) == 3


@pytest.mark.parametrize(
    "change, message",
    [
        ({"trials": 0}, "trials must be an integer of at least 1"),
        ({"rng": -1}, "rng must be an integer of at least 0"),
        ({"workers": -1}, "workers must be an integer of at least 0"),
        ({"batch": 0}, "batch must be an integer of at least 1"),
        ({"backend": "slurm"}, "backend must be one of local, dask, ray, got 'slurm'"),
        ({"address": "tcp://x:1"}, "address is for the backends dask and ray"),
        ({"backend": "ray", "workers": 0}, "workers=0 means this process"),
        ({"function": 3}, "function must be a function or a text"),
        ({"function": "rows"}, "function must be 'module:name'"),
        ({"function": "no_such_module:f"}, "cannot import 'no_such_module'"),
        ({"function": "no_such_file.py:f"}, "no such file"),
        ({"function": f"{TASKS}:nothing"}, "has no function 'nothing'"),
        ({"function": f"{TASKS}:math.pi"}, "must name a function, got float"),
        ({"function": lambda p, seed: {}}, "defined by name in a file.*workers=0"),
    ],
)
def test_refusals(change, message, tmp_path):
    call = {"function": f"{TASKS}:rows", "grid": {"a": 1}, "trials": 1, "store": tmp_path / "s.db"} | change
    with pytest.raises(ValueError, match=message):
        hm.sweep(**call)
    assert list(tmp_path.iterdir()) == []


def test_names_of_functions(tmp_path, monkeypatch):
    # loaded from its file, tasks.py has a name that no other process can import: it goes by its file
    assert named(load(f"{TASKS}:rows"))[1] == f"{TASKS}:rows"
    assert named(math.hypot)[1] == "math:hypot"
    assert named(hm.sweep)[1] == "hardmax.trials.sweep:sweep"
    assert named(lambda p, seed: {})[1] is None
    monkeypatch.chdir(TASKS.parent)
    assert named("tasks.py:rows")[1] == f"{TASKS}:rows"
    helper = tmp_path / "helper_of_sweep.py"
    helper.write_text("def f(parameters, seed):\n    return {'x': 1}\n")
    user = tmp_path / "user_of_sweep.py"
    user.write_text("from helper_of_sweep import f\n\nclass Kept:\n    g = staticmethod(f)\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert load(f"{user}:Kept.g")({}, 0) == {"x": 1}


def test_a_script_without_a_guard_is_told_what_to_do(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import hardmax as hm\n\ndef f(parameters, seed):\n    return {'x': seed}\n\n"
        "print(hm.sweep(f, {}, 3, workers=1).done)\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert 'put that under if __name__ == "__main__":' in run.stderr.splitlines()[-1]
    script.write_text(script.read_text().replace("print(", 'if __name__ == "__main__":\n    print('))
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=os.sep)
    assert (run.stdout, run.stderr) == ("3\n", "")


class _Time:
    now = 100.0

    def monotonic(self):
        return self.now


def test_the_others_wait_while_the_first_worker_compiles(monkeypatch):
    clock, compiles = _Time(), [True]
    monkeypatch.setattr("hardmax.trials.sweep.time", clock)
    monkeypatch.setattr("hardmax._lib.caching.is_compiling", lambda: compiles[0])
    first = First(alone=True)
    assert (first.is_alone(), first.compiles) == (True, False)  # too early to look
    clock.now += 60.0
    assert (first.is_alone(), first.compiles) == (True, True)
    compiles[0] = False
    clock.now += IDLE - 0.1
    assert first.is_alone()  # it may go on compiling
    first.ends()
    assert (first.is_alone(), first.compiles) == (False, False)


def test_a_long_first_trial_holds_up_nobody(monkeypatch):
    clock = _Time()
    monkeypatch.setattr("hardmax.trials.sweep.time", clock)
    monkeypatch.setattr("hardmax._lib.caching.is_compiling", lambda: False)
    first = First(alone=True)
    clock.now += IDLE
    assert first.is_alone()  # a worker that starts
    clock.now += 0.1
    assert not first.is_alone()
    assert not First(alone=False).is_alone()


def test_one_batch_is_under_way_until_it_ends(monkeypatch):
    """The driver submits one batch, and all that fit as soon as that is finished."""
    sizes = []

    class Pool(Here):
        capacity = 4

    def counted(handles, *rest):
        sizes.append(len(handles))
        return wait(handles, *rest)

    monkeypatch.setattr("hardmax.trials.sweep.wait", counted)
    monkeypatch.setattr("hardmax.trials.sweep.open_backend", lambda *_: Pool(load(f"{TASKS}:rows"), False, 0))
    monkeypatch.setattr("hardmax.trials.sweep.Here", int)  # this pool counts as one with workers
    hm.sweep(f"{TASKS}:rows", {"a": [1]}, 9, batch=1)
    assert sizes == [1, 4, 4]


# Seeds that version 0.2 gave to these cells, whose parameters it named rule, rate and epsilon.
SEEDS = [
    ("sphere", {"d": 2}, [8500628009960365659, 4695052941055434989]),
    (
        "sphere",
        {"d": 5, "optimizer": "Adam", "lr": 0.1, "eps": 0.0},
        [8297840921443624638, 5155593893382246871],
    ),
    ("gaussian", {"d": 3, "lr": 0.01}, [554918033505296848, 9220522145298968926]),
    ("optimizers", {"lr": 0.1, "decay": 0.5}, [635415649432408529, 6503327411181658454]),
    ("B-FIG-8", {"optimizer": "GD", "lr": 2.0}, [7744560708890280802, 3804310357631126282]),
]


@pytest.mark.parametrize("experiment, cell, expected", SEEDS)
def test_seeds_of_version_0_2(experiment, cell, expected, tmp_path):
    """The words of 0.3 and of 0.2 name one cell, in Python and in a file."""
    for old in ({}, {"optimizer": "rule", "lr": "rate", "eps": "epsilon"}):
        words = {old.get(name, name): value for name, value in cell.items()}
        made = hm.sweep(experiment, words, 2, rng=7, workers=0)
        assert [row["seed"] for row in made.rows()] == expected
        assert {row["status"] for row in made.rows()} == {"done"}
        lines = [f"{name} = {value!r}" for name, value in words.items()]
        file = tmp_path / "file.toml"
        file.write_text(
            "\n".join([f"experiment = {experiment!r}", "trials = 2", "seed = 7", "[parameters]", *lines])
        )
        plan = read_plan(file)
        again = hm.sweep(plan.function, plan.grid, plan.trials, rng=plan.seed, batched=True, workers=0)
        assert [row["seed"] for row in again.rows()] == expected


def test_built_in_experiments_refuse_other_names():
    with pytest.raises(
        ValueError, match="built-in experiment, got 'sphre'; the experiments are sphere, gaussian"
    ):
        hm.sweep("sphre", {"d": [2]}, 1, workers=0)
    with pytest.raises(ValueError, match="lr and rate are one parameter; leave rate out"):
        hm.sweep("sphere", {"lr": 0.1, "rate": 0.2}, 1, workers=0)
    with pytest.raises(
        ValueError, match=r"depth is not a parameter of sphere; .* of Normalized lr, decay, eps"
    ):
        hm.sweep("sphere", [{"depth": 2}], 1, workers=0)


@pytest.mark.parametrize(
    ("content", "reason"), [("1 / 0", "ZeroDivisionError"), ("raise SystemExit", "SystemExit")]
)
def test_a_module_that_cannot_be_run_is_named(tmp_path, monkeypatch, content, reason):
    (tmp_path / "unfit.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=f"unfit cannot be run: {reason}"):
        load("unfit:f")
    with pytest.raises(ValueError, match="cannot import 'unfitter'"):
        load("unfitter:f")


def test_an_interrupt_goes_through_a_file_that_is_read(tmp_path):
    """It is the user's, not the file's; the next reading begins anew."""
    file = tmp_path / "own.py"
    file.write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load(f"{file}:f")
    file.write_text("def f(): return 3")
    assert load(f"{file}:f")() == 3
