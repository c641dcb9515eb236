"""The store: what it takes back, whom it lets in, and what it refuses to mix."""

import math
import os
import shlex
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.trials import provenance
from hardmax.trials.store import Store, StoreBusy

TASKS = Path(__file__).with_name("tasks.py")


def bits(x):
    return struct.pack("d", x)


def test_every_scalar_comes_back_as_it_was(tmp_path):
    values = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2, 1.7976931348623157e308]
    row = {f"x{i}": value for i, value in enumerate(values)}
    row |= {"yes": True, "no": False, "big": 2**80, "text": 'ü"\n\x00', "none": None}
    result = hm.sweep(lambda parameters, seed: row, {"a": [1]}, 1, store=tmp_path / "s.db", workers=0)
    (found,) = result.rows()
    for i, value in enumerate(values):
        assert bits(found[f"x{i}"]) == bits(value)
    for name in ("yes", "no", "big", "text", "none"):
        assert found[name] == row[name]
        assert type(found[name]) is type(row[name])
    result.store.close()


def test_one_driver_at_a_time(tmp_path):
    first = Store.drive(tmp_path / "s.db")
    with pytest.raises(StoreBusy, match=r"s\.db is in use by another process; wait for it"):
        Store.drive(tmp_path / "s.db")
    Store.read(tmp_path / "s.db").close()
    first.close()
    Store.drive(tmp_path / "s.db").close()


@pytest.fixture
def made(tmp_path):
    """A store with 2 cells of 3 trials."""
    path = tmp_path / "s.db"
    hm.sweep(f"{TASKS}:rows", {"a": [1, 2]}, 3, store=path, workers=0).store.close()
    return path


def trials_of(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        found = connection.execute("SELECT cell, trial, session FROM trials ORDER BY 1, 2").fetchall()
    connection.close()
    return found


def dump(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        found = list(connection.iterdump())
    connection.close()
    return found


def test_a_finished_store_is_one_file_that_can_be_read_anywhere(made, monkeypatch):
    assert sorted(path.name for path in made.parent.iterdir()) == ["s.db", "s.db.lock"]
    monkeypatch.setattr("os.access", lambda path, mode: False)
    result = hm.Sweep.open(made)
    assert result.done + result.failed == 6
    assert sorted(path.name for path in made.parent.iterdir()) == ["s.db", "s.db.lock"]
    assert made.with_name("s.db.lock").stat().st_size == 0  # docs/reference/files.md names it too
    result.store.close()


def writable(monkeypatch, *not_these):
    """What os.access says of places that cannot be written; root, who may run the tests, can write to all."""
    real = os.access
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) not in not_these and real(path, mode))


@pytest.mark.parametrize("name", ["", "s.db", "s.db.lock"])
def test_a_store_that_cannot_be_written_says_so_and_what_to_do(made, monkeypatch, name):
    call = {"function": f"{TASKS}:rows", "grid": {"a": [1, 2]}, "trials": 3, "workers": 0}
    what = made.parent / name
    writable(monkeypatch, what)
    told = f"store: {'' if name else 'the folder '}{what} cannot be written, .*; copy the store .*Sweep.open$"
    with pytest.raises(ValueError, match=told):
        hm.sweep(store=made, **call)
    hm.Sweep.open(made).store.close()
    (made.parent / "else").mkdir()
    copy = shutil.copy(made, made.parent / "else")
    result = hm.sweep(store=copy, **call)
    assert result.remaining == 0
    result.store.close()


def test_a_folder_that_takes_no_new_store_says_so(tmp_path, monkeypatch):
    writable(monkeypatch, tmp_path)
    with pytest.raises(
        ValueError, match=f"the folder {tmp_path} cannot be written, .*; choose another place"
    ):
        hm.sweep(f"{TASKS}:rows", {"a": 1}, 1, store=tmp_path / "s.db", workers=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder in which root can make no file either")
def test_a_lock_that_cannot_be_made_says_so():
    with pytest.raises(ValueError, match=r"store: .*/proc.* cannot be written, .*; choose another place"):
        hm.sweep(f"{TASKS}:rows", {"a": 1}, 1, store="/proc/s.db", workers=0)


def test_more_cells_and_more_trials_extend(made):
    result = hm.sweep(f"{TASKS}:rows", {"a": [0, 1, 2.0]}, 5, store=made, workers=0)
    assert result.cells() == [{"a": 1}, {"a": 2}, {"a": 0}]
    assert result.total == result.done + result.failed == 15
    sessions = {(cell, trial): session for cell, trial, session in trials_of(made)}
    assert all(session == (1 if cell < 2 and trial < 3 else 2) for (cell, trial), session in sessions.items())
    result.store.close()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rng": 1}, "made with seed 0, not 1; use that, or another store"),
        ({"function": f"{TASKS}:logged"}, "made with function 'tasks:rows', not 'tasks:logged'"),
        ({"batched": True}, "made with batched False, not True"),
        ({"trials": 2}, "holds 3 trials for each cell, more than the 2 asked for"),
        ({"grid": {"a": [1]}}, "holds 1 cells that are not in the grid"),
        ({"grid": {"a": [1, 2, 2.0]}}, r"grid\[\'a\'\] holds a value twice"),
        ({"data_files": [__file__]}, "made by other code: data files changed"),
        ({"data_files": ["no-such-file"]}, "data_files: cannot read no-such-file"),
    ],
)
def test_another_experiment_is_refused_and_leaves_no_trace(made, change, message):
    before = dump(made)
    call = {"function": f"{TASKS}:rows", "grid": {"a": [1, 2]}, "trials": 3, "workers": 0} | change
    with pytest.raises(ValueError, match=message):
        hm.sweep(store=made, **call)
    assert dump(made) == before


def test_other_code_is_refused_unless_allowed(made, monkeypatch):
    monkeypatch.setattr(provenance, "version", lambda name: "0.9")
    call = {"function": f"{TASKS}:rows", "grid": {"a": [1, 2, 3]}, "trials": 3, "store": made, "workers": 0}
    with pytest.raises(ValueError, match=r"made by other code: .*numpy was .*, is 0\.9.*allow_changes=True"):
        hm.sweep(**call)
    result = hm.sweep(**call, allow_changes=True)
    old, new = result.sessions()
    assert (new["code"]["numpy"], old["code"]["hardmax"]) == ("0.9", hm.__version__)
    assert old["code"]["numpy"] != "0.9"
    assert {session for cell, _, session in trials_of(made) if cell == 2} == {2}
    result.store.close()


def test_sessions_tell_where_rows_come_from(tmp_path):
    data = tmp_path / "data.txt"
    data.write_bytes(b"abc")
    result = hm.sweep(f"{TASKS}:rows", {"a": [1]}, 1, workers=0, data_files=[data])
    (session,) = result.sessions()
    sha256_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert session["code"]["data files"] == {"data.txt": sha256_of_abc}
    assert session["ended"] >= session["started"]
    assert shlex.split(session["command"]) == sys.orig_argv


def test_files_that_are_no_stores(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be read as one" * 100)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    for path in (text, other):
        before = path.read_bytes()
        for attempt in (hm.Sweep.open, lambda p: hm.sweep(f"{TASKS}:rows", {"a": 1}, 1, store=p, workers=0)):
            with pytest.raises(ValueError, match=f"{path.name} is not a store of a sweep"):
                attempt(path)
        assert path.read_bytes() == before
    with pytest.raises(ValueError, match="no such store"):
        hm.Sweep.open(tmp_path / "none.db")
    with pytest.raises(ValueError, match="there is no folder"):
        hm.sweep(f"{TASKS}:rows", {"a": 1}, 1, store=tmp_path / "none" / "s.db")
    made = tmp_path / "s.db"
    Store.drive(made).close()
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("UPDATE meta SET value = '\"hardmax.sweep/9\"' WHERE key = 'schema'")
    connection.close()
    with pytest.raises(
        ValueError, match=r"has the format hardmax\.sweep/9, this version reads hardmax\.sweep/1"
    ):
        hm.Sweep.open(made)


def test_more_trials_than_sqlite_counts_are_damage(tmp_path):
    path = tmp_path / "s.db"
    hm.sweep(f"{TASKS}:rows", {"a": 1}, 1, store=path, workers=0)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'trials'", (str(10**30),))
    with pytest.raises(ValueError, match="is damaged: trials is int and not what a sweep writes there"):
        hm.Sweep.open(path)


def test_a_store_that_was_deleted_stops_the_sweep(tmp_path):
    store = tmp_path / "s.db"
    with pytest.raises(OSError, match="deleted or moved while the sweep was writing"):
        hm.sweep(
            f"{TASKS}:rows", {"a": 1}, 9, store=store, workers=0, batch=3, progress=lambda *_: store.unlink()
        )


def test_a_store_that_never_began_holds_no_sweep(tmp_path):
    Store.drive(tmp_path / "s.db").close()
    with pytest.raises(ValueError, match="holds no sweep yet"):
        hm.Sweep.open(tmp_path / "s.db")
    assert hm.sweep(f"{TASKS}:rows", {"a": 1}, 2, store=tmp_path / "s.db", workers=0).remaining == 0


def test_a_store_with_a_strange_table_is_no_store(tmp_path):
    Store.drive(tmp_path / "s.db").close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection, connection:
        connection.execute("UPDATE meta SET value = 'no JSON'")
    connection.close()
    with pytest.raises(ValueError, match="is damaged: schema is not JSON"):
        hm.Sweep.open(tmp_path / "s.db")


def test_a_full_disk_is_said_and_costs_nothing_that_was_kept(tmp_path):
    program = (
        "import resource, signal, sys, hardmax as hm\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
        f"hm.sweep({str(TASKS) + ':rows'!r}, {{'a': 1}}, 2000, store='s.db', workers=0, batch=50)\n"
    )
    for size in (20_000, 80_000):  # while the store begins, and later
        command = [sys.executable, "-c", program, str(size)]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.stderr.splitlines()[-1].startswith("OSError: "), run.stderr
    result = hm.sweep(f"{TASKS}:rows", {"a": 1}, 2000, store=tmp_path / "s.db", workers=0, allow_changes=True)
    assert result.remaining == 0
    result.store.close()


def test_a_session_without_rows_binds_nothing(tmp_path, monkeypatch):
    ready = []

    def trial(parameters, seed):
        if not ready:
            raise KeyboardInterrupt
        return {"x": seed}

    call = {"function": trial, "grid": {"a": 1}, "trials": 2, "store": tmp_path / "s.db", "workers": 0}
    with pytest.raises(KeyboardInterrupt):
        hm.sweep(**call)
    ready.append(True)
    monkeypatch.setattr(provenance, "version", lambda name: "0.9")
    result = hm.sweep(**call)
    assert (result.done, len(result.sessions())) == (2, 2)
    result.store.close()
