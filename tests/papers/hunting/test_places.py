"""Hunts that are killed, interrupted, or run on a cluster end as others do."""

import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.app.results.hunt import conclude
from hardmax.papers.hunting.claims import claim_of
from hardmax.papers.hunting.search import Drive

ROOT = Path(__file__).parents[3]
CONJECTURE = """
def small(problem):
    import time
    time.sleep(0.004)
    return 1e6 - float(abs(problem.keys).sum())
"""


@pytest.mark.slow
def test_a_killed_hunt_goes_on_to_the_same_end(tmp_path, monkeypatch, command):
    """And a hunt on two workers ends as one in this process does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CONJECTURE)
    line = ["hunt", "mine.py:small", "--tries", "4", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}

    def begin(*more):
        return subprocess.Popen(
            [sys.executable, "-m", "hardmax", *line, *more],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    store = tmp_path / "hunt.sqlite"
    killed = begin("--store", store.name, "--workers", "1")
    for _ in range(600):
        time.sleep(0.1)
        if store.exists() and store.with_name("hunt.sqlite-wal").exists():
            break
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    ends = [
        json.loads(begin("--store", store.name, "--workers", "2").communicate()[0]),
        json.loads(command(*line, "--workers", "0")[1]),
    ]
    for end in ends:
        del end["seconds"]
    assert ends[0] == ends[1]
    assert ends[0]["tries"] == 4


def test_an_interrupt_keeps_what_was_found():
    count = 0

    def stops(problem):
        nonlocal count
        count += 1
        if count > 150:
            raise KeyboardInterrupt
        return Fraction(-1) if count == 3 else Fraction(1)

    drive = Drive(claim_of(stops), named=False, tries=5)
    drive.run()  # the third instance refutes, before the interrupt comes
    assert conclude(drive, interrupted=True).exit_code == 130
    drive.close()


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_clusters_find_the_same(backend):
    pytest.importorskip("distributed" if backend == "dask" else "ray")
    here, there = (
        hm.hunt("B-THM-L7", reading="paper", tries=2, workers=workers, backend=place)
        for place, workers in (("local", 0), (backend, 1))
    )
    assert there.verdict == "refuted (proved)"
    assert there.candidate.to_dict() == here.candidate.to_dict()
    assert (there.tries, there.instances, there.words) == (here.tries, here.instances, here.words)


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_found(tmp_path):
    """The command says what it has so far, keeps the store, and goes on from there."""
    (tmp_path / "mine.py").write_text(CONJECTURE)
    command = [
        sys.executable,
        "-m",
        "hardmax",
        "hunt",
        "mine.py:small",
        "--tries",
        "200",
        "--json",
        "--store",
        "hunt.sqlite",
        "--workers",
        "1",
    ]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        time.sleep(0.1)
        if _units(tmp_path / "hunt.sqlite"):
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    told = json.loads(out)
    assert (running.returncode, told["status"]) == (130, "interrupted")
    assert 1 <= told["tries"] < 200
    assert "go on with" in err
    assert _units(tmp_path / "hunt.sqlite") >= told["tries"]


def _units(store):
    import sqlite3
    from contextlib import closing

    if not store.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as base, base:
            return base.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.Error:
        return 0
