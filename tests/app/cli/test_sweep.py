"""`hardmax sweep`: the contract, the exit codes, going on after an interrupt, and one trial alone."""

from __future__ import annotations

import csv
import math
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax._lib.progress import Pace
from hardmax.app import cli
from hardmax.app.results.sweep import _Watch
from hardmax.trials import summary
from hardmax.trials.experiments import built_in, outcomes

OWN = """
import math, random, time

def toss(parameters, seed):
    chance = random.Random(seed)
    if chance.random() < parameters.get("bad", 0.0):
        raise RuntimeError(f"bad luck with {seed}")
    time.sleep(parameters.get("pause", 0.0))
    heads = chance.random() < parameters["bias"]
    return {"heads": heads, "x": chance.gauss(0, 1), "y": math.inf, "side": "ab"[seed % 2]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, trials: int = 20, **parameters: float) -> None:
    lines = ['function = "own.py:toss"', f"trials = {trials}", "seed = 3", "workers = 1", "[parameters]"]
    lines += [f"{name} = {value}" for name, value in parameters.items()]
    (folder / "mine.toml").write_text("\n".join([*lines, "[grid]", "bias = [0.1, 0.5]"]))


@pytest.fixture
def sweep(capsys: pytest.CaptureFixture[str], validated):
    def run(*arguments: str):
        code = cli.run(["sweep", *arguments])
        out, err = capsys.readouterr()
        if "--json" in arguments:
            return code, validated(out), err
        return code, out, err

    return run


def test_all_trials_once(sweep, folder: Path) -> None:
    write(folder)
    code, answer, err = sweep("mine.toml", "--json")
    assert (code, err) == (0, "")
    counts = [answer[name] for name in ("store", "done", "failed", "remaining", "seed")]
    assert counts == ["mine.sqlite", 40, 0, 0, 3]
    assert [cell["parameters"] for cell in answer["summary"]] == [{"bias": 0.1}, {"bias": 0.5}]
    rows = list(hm.Sweep.open("mine.sqlite").rows())
    for cell, part in zip(answer["summary"], (rows[:20], rows[20:]), strict=True):
        results = cell["results"]
        assert results["heads"]["k"] == sum(row["heads"] for row in part)
        assert results["x"]["mean"] == pytest.approx(np.mean([row["x"] for row in part]))
        assert results["y"]["mean"] is None
        assert results["y"]["status"] == "infinite numbers"
        assert "side" not in results
    again = sweep("mine.toml", "--json")[1]
    assert again | {"seconds": 0} == answer | {"seconds": 0}
    assert len(hm.Sweep.open("mine.sqlite").sessions()) == 2
    assert list(hm.Sweep.open("mine.sqlite").rows()) == rows


def test_a_table_for_people(sweep, folder: Path) -> None:
    write(folder)
    code, out, _ = sweep("mine.toml")
    header, first, second, last = out.splitlines()
    assert code == 0
    assert header.split() == ["bias", "trials", "heads"]
    assert first.split()[:5] == ["0.1", "20", "1", "of", "20"]
    assert second.startswith(" 0.5      20")
    assert last.startswith("40 done, 0 failed, 0 remaining")
    assert last.endswith("results in mine.sqlite")
    chosen = sweep("mine.toml", "--of", "x", "--of", "side")[1].splitlines()[0]
    assert chosen.endswith("side = b")
    assert "±" in sweep("mine.toml", "--of", "x")[1]
    code, out, err = sweep("mine.toml", "--of", "tails")
    assert (code, out) == (2, "")
    assert "--of must be a result of the trials (heads, x, y, side), got 'tails'" in err


def test_failed_trials_can_be_run_alone(sweep, folder: Path) -> None:
    write(folder, bad=0.2)
    code, answer, _ = sweep("mine.toml", "--store", "else where.sqlite", "--json")
    assert code == 1
    assert answer["failed"] == len(answer["failures"]) > 0
    assert answer["done"] + answer["failed"] == 40
    failure = answer["failures"][0]
    assert failure["error"] == f"RuntimeError: bad luck with {failure['seed']}"
    code, out, err = sweep(*shlex.split(failure["command"])[2:], "--json")
    assert code == 1
    assert "in toss" in err
    for name in ("cell", "trial", "seed", "parameters", "error"):
        assert out[name] == failure[name]
    assert out["row"] is None
    text = sweep("mine.toml", "--store", "else where.sqlite")[1]
    assert f"failed: {failure['error']}\n  alone: {failure['command']}\n" in text
    good = next(t for t in range(20) if (0, t) not in {(f["cell"], f["trial"]) for f in answer["failures"]})
    code, out, err = sweep("mine.toml", "--store", "else where.sqlite", "--trial", f"0:{good}", "--json")
    row = list(hm.Sweep.open("else where.sqlite").rows())[good]
    assert (code, err) == (0, "")
    assert out["seed"] == row["seed"]
    assert out["row"]["x"] == row["x"]
    assert (out["row"]["y"], out["status"]) == (None, "not finite: y")
    assert f"x = {row['x']}" in sweep("mine.toml", "--store", "else where.sqlite", "--trial", f"0:{good}")[1]


def test_failed_trials_are_run_again_if_asked(sweep, folder: Path) -> None:
    write(folder, bad=0.2)
    before = sweep("mine.toml", "--json")[1]["failed"]
    assert sweep("mine.toml", "--json")[1]["failed"] == before
    (folder / "own.py").write_text(OWN.replace("raise RuntimeError", "return dict(heads=False) if 1 else "))
    code, _, err = sweep("mine.toml", "--json", "--retry-failed")
    assert code == 2
    assert "pass --allow-changes" in err
    code, answer, _ = sweep("mine.toml", "--json", "--retry-failed", "--allow-changes")
    assert (code, answer["failed"], answer["done"]) == (0, 0, 40)


@pytest.mark.slow
def test_the_time_runs_out_and_the_next_run_goes_on(sweep, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr("hardmax.trials.sweep.BEAT", 60.0)  # the clock is looked at when a batch ends only
    write(folder, pause=0.01, trials=40)
    code, answer, err = sweep("mine.toml", "--seconds", "0", "--json")
    assert code == 3
    assert 0 < answer["done"] < 80
    assert answer["done"] + answer["remaining"] == 80
    assert "0 seconds are over; go on with: hardmax sweep mine.toml\n" in err
    first = list(hm.Sweep.open("mine.sqlite").rows())
    code, answer, _ = sweep("mine.toml", "--json")
    assert (code, answer["done"]) == (0, 80)
    rows = list(hm.Sweep.open("mine.sqlite").rows())
    assert [row for row in rows if row in first] == first
    sweep("mine.toml", "--store", "whole.sqlite")
    assert list(hm.Sweep.open("whole.sqlite").rows()) == rows


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(sweep, folder: Path, validated) -> None:
    write(folder, pause=0.02, trials=60)
    program = "import sys; from hardmax.app import cli; sys.exit(cli.run(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "sweep", "mine.toml", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (Path("mine.sqlite").is_file() and _settled() > 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.strip() == (
        "hardmax: interrupted; what is done is kept in mine.sqlite; go on with: hardmax sweep mine.toml"
    )
    answer = validated(out)
    assert 3 < answer["done"] < 120
    assert answer["remaining"] == 120 - answer["done"]
    # somebody may have edited a file of hardmax in the meantime
    assert sweep("mine.toml", "--json", "--allow-changes")[1]["remaining"] == 0


def _settled() -> int:
    try:
        found = hm.Sweep.open("mine.sqlite")
    except ValueError:  # the tables are being made
        return 0
    return found.done


def test_exports(sweep, folder: Path) -> None:
    write(folder, bad=0.1)
    sweep("mine.toml", "--csv", "rows.csv", "--parquet", "rows.parquet")
    with open("rows.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    rows = list(hm.Sweep.open("mine.sqlite").rows())
    assert [line["x"] for line in lines] == [repr(row["x"]) if "x" in row else "" for row in rows]
    import pyarrow.parquet

    table = pyarrow.parquet.read_table("rows.parquet").to_pylist()
    assert [line["x"] for line in table] == [row.get("x") for row in rows]


@pytest.mark.slow
def test_a_built_in_experiment(sweep, folder: Path) -> None:
    (folder / "mine.toml").write_text(
        'experiment = "sphere"\ntrials = 6\nworkers = 1\n'
        "[parameters]\nn = 3\nT = 4\nsteps = 100\n[grid]\nd = [2, 6]\n"
    )
    code, answer, _ = sweep("mine.toml", "--json")
    assert code == 0
    assert answer["summary"][0]["results"].keys() >= {"saturated", "locally_optimal", "misalignment"}
    for row in hm.Sweep.open("mine.sqlite").rows():
        parameters = {name: row[name] for name in ("experiment", "n", "T", "steps", "d")}
        (expected,) = built_in(parameters, [row["seed"]])
        found = {name: row[name] for name in expected}
        assert repr(found) == repr(expected)
        problem = hm.data.sphere(3, 4, row["d"], rng=row["seed"])
        assert outcomes([problem], steps=100)[0]["selection"] == row["selection"]


def test_long_tables_and_lists_are_cut_for_people(sweep, folder: Path) -> None:
    (folder / "mine.toml").write_text(
        'function = "own.py:toss"\ntrials = 1\nworkers = 1\n'
        "[parameters]\nbad = 1.0\n[grid]\nbias = {from = 1, to = 70}\n"
    )
    code, out, _ = sweep("mine.toml")
    assert code == 1
    assert out.count("alone:") == 5
    assert "and 65 more failures are in the JSON" in out
    assert "and 10 more cells are in the JSON" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none.toml"], "none.toml: No such file or directory"),
        (["mine.toml", "--backend", "spark"], "'spark' is not one of 'local', 'dask', 'ray'"),
        (["mine.toml", "--address", "tcp://a:1"], "address is for the backends dask and ray"),
        (["mine.toml", "--store", "none/a.sqlite"], "there is no folder"),
        (["mine.toml", "--store", "own.py"], "--store own.py: this file is needed"),
        (["mine.toml", "--trial", "0:0"], "no such store"),
        (["mine.toml", "--seconds", "-1"], "seconds"),
        (["mine.toml", "--csv", "none/a.csv"], "none/a.csv: there is no folder none"),
        (["mine.toml", "--csv", "."], "--csv .: this is a folder"),
        (["mine.toml", "--csv", "mine.sqlite"], "--csv mine.sqlite: this file is needed"),
        (["mine.toml", "--csv", "a", "--parquet", "a"], "--parquet a: this file is needed"),
        (["mine.toml", "--trial", "0:0", "--csv", "a"], "leave --csv and --parquet out"),
    ],
)
def test_mistakes_are_one_sentence(sweep, folder: Path, arguments: list[str], message: str) -> None:
    write(folder)
    code, out, err = sweep(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_trial_that_is_not_there(sweep, folder: Path) -> None:
    write(folder)
    sweep("mine.toml")
    for which in ("2:0", "0:20", "zero", "0"):
        code, _, err = sweep("mine.toml", "--trial", which)
        assert code == 2
        assert f"--trial must be CELL:TRIAL, 0:0 to 1:19, got '{which}'" in err


def test_another_seed_needs_another_store(sweep, folder: Path) -> None:
    write(folder)
    sweep("mine.toml")
    (folder / "mine.toml").write_text((folder / "mine.toml").read_text().replace("seed = 3", "seed = 4"))
    code, _, err = sweep("mine.toml")
    assert code == 2
    assert "was made with seed 3, not 4" in err
    assert sweep("mine.toml", "--store", "other.sqlite", "--quiet")[0] == 0


def test_progress_in_lines_where_no_bar_can_be_drawn(sweep, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["hardmax.app.results.sweep"], "LINE", 0.0)
    write(folder, bad=0.2)
    _, _, err = sweep("mine.toml")
    last = err.splitlines()[-1]
    assert last.startswith("40 of 40 trials, ")
    assert "failed, " in last
    assert last.endswith("trials/s, 0 s left")
    assert sweep("mine.toml", "--store", "b.sqlite", "--quiet")[2] == ""


@pytest.mark.parametrize("way", [[], ["--trial", "0:1"]])
def test_what_a_users_file_prints_does_not_mix_with_the_answer(
    folder: Path, way: list[str], validated
) -> None:
    (folder / "noisy.py").write_text(
        "import os\nprint('loaded')\n"
        "def f(parameters, seed):\n    os.system('echo from a program')\n    return {'x': 1}\n"
    )
    (folder / "noisy.toml").write_text('function = "noisy.py:f"\ntrials = 2\nworkers = 1')
    hm.sweep(f"{folder / 'noisy.py'}:f", {}, 2, store=folder / "noisy.sqlite", workers=1).store.close()
    program = "from hardmax.app.cli import main; main()"
    command = [sys.executable, "-c", program, "sweep", "noisy.toml", "--json", "--allow-changes", *way]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    validated(run.stdout)
    assert "loaded" in run.stderr


@pytest.mark.parametrize("leave", ["import sys; sys.exit(0)", "raise SystemExit"])
def test_a_file_that_leaves_the_program_is_a_mistake(sweep, folder: Path, leave: str) -> None:
    (folder / "leaving.py").write_text(f"{leave}\ndef f(parameters, seed):\n    return {{}}\n")
    (folder / "leaving.toml").write_text('function = "leaving.py:f"\ntrials = 2')
    code, answer, err = sweep("leaving.toml", "--json")
    assert (code, answer["schema"]) == (2, "hardmax.error/1")
    assert "leaving.py cannot be run: SystemExit" in err


def test_a_trial_that_leaves_the_program_is_shown(sweep, folder: Path) -> None:
    (folder / "quits.py").write_text("import sys\ndef f(parameters, seed):\n    sys.exit(3)\n")
    (folder / "quits.toml").write_text('function = "quits.py:f"\ntrials = 1\nworkers = 1')
    code, answer, _ = sweep("quits.toml", "--json")
    assert (code, answer["failures"][0]["error"]) == (1, "SystemExit: 3")
    code, answer, err = sweep("quits.toml", "--json", "--trial", "0:0", "--allow-changes")
    assert (code, answer["row"], answer["error"]) == (1, None, "SystemExit: 3")
    assert "quits.py" in err


def test_the_time_is_over_although_no_trial_ends(sweep, folder: Path) -> None:
    write(folder, pause=1e6)
    code, answer, err = sweep("mine.toml", "--json", "--seconds", "0.5")
    assert (code, answer["done"], answer["remaining"]) == (3, 0, 40)
    assert "go on with: hardmax sweep mine.toml" in err


@pytest.mark.parametrize("name", ["mine.toml", "own.py", "data.txt", "mine.sqlite-wal", "mine.sqlite.lock"])
def test_an_output_does_not_overwrite_what_the_sweep_needs(sweep, folder: Path, name: str) -> None:
    (folder / "data.txt").write_text("")
    write(folder)
    text = (folder / "mine.toml").read_text()
    (folder / "mine.toml").write_text(f'data_files = ["data.txt"]\n{text}')
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for option in ("--csv", "--parquet", *(["--store"] if name in before else [])):
        code, answer, err = sweep("mine.toml", option, name, "--json")
        assert (code, answer["schema"]) == (2, "hardmax.error/1")
        assert f"{option} {name}: this file is needed" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_rows_go_through_a_pipe_and_a_device(folder: Path) -> None:
    write(folder)
    program = "from hardmax.app.cli import main; main()"
    line = f"{sys.executable} -c '{program}' sweep mine.toml --quiet --csv >(cat > rows.csv) > told.txt"
    done = subprocess.run(["bash", "-c", f"{line}; wait"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for _ in range(100):  # bash does not wait for the reader
        if (folder / "rows.csv").is_file() and (folder / "rows.csv").read_text().count("\n") == 41:
            break
        time.sleep(0.05)
    assert (folder / "rows.csv").read_text().count("\n") == 41
    device = folder / "null"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")  # a folder may be mounted without devices
    except OSError:
        pytest.skip("no device can be made here")
    assert cli.run(["sweep", "mine.toml", "--csv", "null", "--allow-changes"]) == 0
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_table_of_many_results_fits_80_columns():
    names = [f"quite_a_long_result_{k}" for k in range(7)]
    cells = [
        {
            "parameters": {"alpha": a},
            "done": 3,
            "failed": 0,
            "results": {n: {"text": "4 ± 1.5"} for n in names},
        }
        for a in (1, 2)
    ]
    lines = summary._table(cells, ["alpha"], None)
    assert max(map(len, lines)) <= 80
    assert [word for line in lines for word in line.split() if word in names] == names
    assert sum(line.startswith("alpha  trials") for line in lines) == 4


@pytest.mark.parametrize(
    "progress, words",
    [
        (Pace(0, 0, 400, 0.0, math.inf), "0 of 400 trials, none finished yet"),
        (Pace(0, 0, 400, 0.0, math.inf, compiling=True), "0 of 400 trials, compiling kernels"),
        (Pace(4, 1, 400, 0.5, 790.0), "5 of 400 trials, 1 failed, 0.5 trials/s, 13 min left"),
    ],
)
def test_progress_is_never_infinite(progress, words):
    class Bar:
        total, done, allowed, what = 0, 0, True, ""

        def rename(self, what):
            self.what = what

        def to(self, done, total):
            self.done, self.total = done, total

    bar = Bar()
    _Watch(bar, None).see(progress)
    assert bar.what == words
