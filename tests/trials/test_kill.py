"""Kill the driver, kill a worker, go on: the table is that of a sweep that nobody disturbed."""

import collections
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.trials.store import StoreBusy

TASKS = Path(__file__).with_name("tasks.py")
GRID, TRIALS, BATCH = {"a": [1, 2.5]}, 60, 4


def wait_until(true, seconds=90):
    """Poll, since processes tell nothing when they die."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def is_running(pid):
    """Whether a process lives; one that is dead but not yet waited for does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def table(store):
    """All that must not depend on how a sweep was run."""
    columns = "key, trial, seed, status, row, error"
    with closing(sqlite3.connect(store)) as connection, connection:
        found = connection.execute(
            f"SELECT {columns} FROM trials JOIN cells USING (cell) ORDER BY 1, 2"
        ).fetchall()
    connection.close()
    return found


def runs(log):
    """(process, (cell, seed)) of every run of a trial."""
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(int(pid), (cell, seed)) for pid, cell, seed in lines]


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Start a driver in a process of its own, and wait until it has stored some batches."""
    monkeypatch.setenv("SWEEP_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("SWEEP_STORE", str(tmp_path / "sweep.db"))
    started = []

    def start(backend):
        monkeypatch.setenv("SWEEP_BACKEND", backend)
        with open(tmp_path / "stderr", "w") as stderr:
            process = subprocess.Popen([sys.executable, TASKS], stderr=stderr, preexec_fn=_listen_to_ctrl_c)
        started.append(process)
        store = tmp_path / "sweep.db"
        wait_until(lambda: store.exists() and (process.poll() is not None or counted(store) > 5 * BATCH))
        assert process.poll() is None, (tmp_path / "stderr").read_text()
        return process, store, tmp_path / "log"

    yield start
    for process in started:
        process.kill()
        process.wait()


def _listen_to_ctrl_c():
    """A shell starts what runs in the background with interrupts ignored, tests included."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def counted(store):
    """How many trials a store holds; none while it is being made."""
    try:
        with closing(sqlite3.connect(store)) as connection, connection:
            return connection.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The table of the same trials in one process, in one go."""
    store = tmp_path_factory.mktemp("plain") / "plain.db"
    hm.sweep(f"{TASKS}:rows", GRID, TRIALS, store=store, workers=0)
    return table(store)


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    ["local", pytest.param("dask", marks=pytest.mark.extra), pytest.param("ray", marks=pytest.mark.extra)],
)
def test_nothing_is_lost_when_driver_and_worker_are_killed(backend, driver, undisturbed):
    process, store, log = driver(backend)
    with pytest.raises(StoreBusy, match=f"in use by process {process.pid} on .*, since 20"):
        hm.sweep(f"{TASKS}:logged", GRID, TRIALS, store=store)
    partial = hm.Sweep.open(store)  # a reader is welcome
    assert 0 < partial.done < 2 * TRIALS
    partial.store.close()
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(is_running(pid) for pid, _ in runs(log)))
    assert 0 < counted(store) < 2 * TRIALS
    assert counted(store) % BATCH == 0
    before = len(runs(log))
    in_flight = before - counted(store)
    assert in_flight <= 2 * BATCH

    killed = []

    def kill_one(done, total):
        if not killed and len(runs(log)) > before:  # progress is reported before the first batch too
            killed.append(runs(log)[-1][0])
            os.kill(killed[0], signal.SIGKILL)

    result = hm.sweep(
        f"{TASKS}:logged",
        GRID,
        TRIALS,
        store=store,
        backend=backend,
        workers=2,
        batch=BATCH,
        progress=kill_one,
        allow_changes=True,  # somebody may edit a file of hardmax while this runs
    )
    assert killed
    assert (result.remaining, result.done + result.failed) == (0, 2 * TRIALS)
    assert table(store) == undisturbed
    ran = collections.Counter(trial for _, trial in runs(log))
    assert len(ran) == 2 * TRIALS
    # twice: what was in flight at the driver's death, and the batch of the worker that was killed
    assert sum(ran.values()) - 2 * TRIALS <= in_flight + BATCH
    first, second = result.sessions()
    assert first["ended"] is None
    assert second["ended"] >= second["started"] >= first["started"]
    result.store.close()


@pytest.mark.slow
def test_25_kills_at_random_moments_change_nothing(tmp_path, monkeypatch):
    """Drivers are killed while they start or after some runs of trials; the last one runs to the end."""
    trials, starting, at_work = 300, (0.2, 0.5, 0.8), random.Random(0).choices(range(1, 30), k=22)
    plain, store, log = tmp_path / "plain.db", tmp_path / "sweep.db", tmp_path / "log"
    hm.sweep(f"{TASKS}:rows", GRID, trials, store=plain, workers=0).store.close()
    for name, value in {"LOG": log, "STORE": store, "BACKEND": "local", "TRIALS": trials}.items():
        monkeypatch.setenv(f"SWEEP_{name}", str(value))
    stages = []
    for moment in (*starting, *at_work):
        process = subprocess.Popen([sys.executable, TASKS], stderr=subprocess.DEVNULL)
        if moment in starting:
            time.sleep(moment)
        else:
            before = len(runs(log))
            wait_until(lambda count=before + moment: len(runs(log)) >= count)
        process.kill()
        process.wait()
        wait_until(lambda: not any(is_running(pid) for pid, _ in runs(log)))
        stages.append(counted(store))
        assert stages[-1] % BATCH == 0  # each batch is there entirely or not at all
        assert stages == sorted(stages)
    assert len(set(stages)) > 5  # some were killed at work
    assert subprocess.run([sys.executable, TASKS], check=False).returncode == 0
    assert table(store) == table(plain)
    again = len(runs(log)) - 2 * trials
    assert again <= len(stages) * 2 * BATCH  # what was under way, of two workers


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(driver, undisturbed):
    process, store, log = driver("local")
    process.send_signal(signal.SIGINT)
    assert process.wait() == -signal.SIGINT
    assert not any(is_running(pid) for pid, _ in runs(log))
    kept = counted(store)
    assert 0 < kept < 2 * TRIALS
    assert table(store) == [row for row in undisturbed if row in table(store)]
    result = hm.sweep(f"{TASKS}:logged", GRID, TRIALS, store=store, workers=0, allow_changes=True)
    assert table(store) == undisturbed
    result.store.close()
