"""Summaries are those of the rows, one by one, to the bit, however and how often batches came."""

import math
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.trials.store import TALLIES
from hardmax.trials.summary import Proportion, spread

TASKS = Path(__file__).with_name("tasks.py")
GRID, TRIALS = {"a": [1, 2.5], "b": [0, 1]}, 90


def kinds(parameters, seed):
    """Results of all kinds, some with several kinds, some not in every row; fails where told to."""
    if seed % 7 == 3 and parameters["b"] == 0 and not LENIENT:
        raise ValueError("no")
    row = {"late": seed / 3} if seed % 5 == 0 else {}
    row |= {"x": (math.nan, math.inf, -0.5, seed / 7, seed)[seed % 5], "even": seed % 2 == 0}
    row |= {"word": "ü" * (seed % 3), "nothing": None, "wide": 2**70 if seed % 9 else 1}
    return row | {"mixed": (True, 3, "three", None, 0.25)[seed % 5]}


LENIENT: list[bool] = []


def from_rows(result, by):
    """The plain way: all rows, one by one."""
    groups = {}
    for row in result.rows():
        key = tuple(row[name] for name in by)
        done, failed, values = groups.setdefault(key, ([], [], {}))
        (done if row["status"] == "done" else failed).append(row["trial"])
        for name in list(row)[5:]:
            values.setdefault(name, []).append(row[name])
    names = list(dict.fromkeys(name for row in result.rows() for name in list(row)[5:]))
    found = []
    for key, (done, failed, values) in groups.items():
        of = {}
        for name in [name for name in names if name in values]:
            flags = [value for value in values[name] if isinstance(value, bool)]
            texts = Counter(value for value in values[name] if isinstance(value, str))
            numbers = [value for value in values[name] if type(value) in (int, float)]
            flag = f"{name} is true" if numbers else name
            of |= {flag: Proportion(sum(flags), len(flags))} if flags else {}
            of |= {name: spread(numbers)} if numbers else {}
            of |= {f"{name} = {text}": Proportion(texts[text], texts.total()) for text in sorted(texts)}
        found.append((key, len(done), len(failed), of))
    return found


def from_summary(result, by):
    return [
        (tuple(cell.parameters.values()), cell.done, cell.failed, dict(cell.of))
        for cell in result.summary(by)
    ]


def assert_summary_is_that_of_the_rows(result):
    for by in (["a", "b"], ["b"], []):
        expected, found = from_rows(result, by), from_summary(result, by)
        assert repr(found) == repr(expected)  # nan and the sign of zero too, and the order of names
    assert (result.done, result.failed) == tuple(
        sum(row["status"] == status for row in result.rows()) for status in ("done", "failed")
    )


@pytest.fixture(scope="module")
def plain():
    """The summary of the sweep in one go."""
    return hm.sweep(kinds, GRID, TRIALS, workers=0)


@pytest.mark.parametrize("batch", [1, 7, None])
def test_summary_is_that_of_the_rows_whatever_the_batches(plain, batch):
    result = hm.sweep(kinds, GRID, TRIALS, workers=0, batch=batch)
    assert_summary_is_that_of_the_rows(result)
    assert repr(result.summary()) == repr(plain.summary())
    assert 0 < result.failed < result.done


def test_workers_make_the_same_rows(tmp_path):
    first, second = (
        hm.sweep(
            f"{TASKS}:rows", {"a": [1, 2.5]}, 200, store=tmp_path / str(workers), workers=workers, batch=9
        )
        for workers in (0, 2)
    )
    assert repr(first.summary()) == repr(second.summary())
    first.store.close()
    second.store.close()


class Stop(Exception):
    """Raised by whoever watches."""


def test_a_batch_that_comes_twice_is_counted_once(plain, tmp_path):
    """What progress raises comes after its batch is written, which then is written once more."""

    def stop(done, total):
        raise Stop

    call = {"function": kinds, "grid": GRID, "trials": TRIALS, "store": tmp_path / "s.db", "workers": 0}
    for stopped in range(1, 4):
        with pytest.raises(Stop):
            hm.sweep(**call, batch=20, progress=stop)
        half = hm.Sweep.open(tmp_path / "s.db")
        assert half.done + half.failed == 20 * stopped
        assert_summary_is_that_of_the_rows(half)
        half.store.close()
    result = hm.sweep(**call)
    assert_summary_is_that_of_the_rows(result)
    assert repr(result.summary()) == repr(plain.summary())
    result.store.close()


def test_failed_trials_that_run_again_are_counted_once(plain, tmp_path, monkeypatch):
    call = {"function": kinds, "grid": GRID, "trials": TRIALS, "store": tmp_path / "s.db", "workers": 0}
    failed = hm.sweep(**call).failed
    assert failed == plain.failed > 0
    assert hm.sweep(**call, retry_failed=True).failed == failed
    monkeypatch.setattr(f"{__name__}.LENIENT", [True])
    result = hm.sweep(**call, retry_failed=True)
    assert (result.done, result.failed) == (4 * TRIALS, 0)
    assert_summary_is_that_of_the_rows(result)
    whole = hm.sweep(kinds, GRID, TRIALS, workers=0)
    assert repr(result.summary()) == repr(whole.summary())
    result.store.close()


def with_tallies(path):
    """Turn a store into one as version 0.2 wrote it, with summaries of batches that nobody believes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(TALLIES)
        connection.execute("UPDATE meta SET value = '\"hardmax.sweep/2\"' WHERE key = 'schema'")
        connection.execute("INSERT INTO tallies VALUES (0, 0, 5, '[[1]]', x'00')")


def schema_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()[0]


def test_a_store_of_version_0_2_is_read_and_goes_on(plain, tmp_path):
    call = {"function": kinds, "grid": GRID, "store": tmp_path / "s.db", "workers": 0}
    hm.sweep(**call, trials=40).store.close()
    assert schema_of(tmp_path / "s.db") == '"hardmax.sweep/1"'  # which version 0.2 reads as well
    with_tallies(tmp_path / "s.db")
    before = (tmp_path / "s.db").read_bytes()
    old = hm.Sweep.open(tmp_path / "s.db")
    assert_summary_is_that_of_the_rows(old)
    old.store.close()
    assert (tmp_path / "s.db").read_bytes() == before
    result = hm.sweep(**call, trials=TRIALS)
    assert result.store.meta["schema"] == "hardmax.sweep/1"
    assert_summary_is_that_of_the_rows(result)
    assert repr(result.summary()) == repr(plain.summary())
    result.store.close()


def test_a_store_of_version_0_2_that_is_refused_stays_so(tmp_path):
    path = tmp_path / "s.db"
    hm.sweep(kinds, GRID, 10, store=path, workers=0).store.close()
    with_tallies(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE sessions SET provenance = replace(provenance, 'numpy', 'numpie')")
    with pytest.raises(ValueError, match="was made by other code"):
        hm.sweep(kinds, GRID, 10, store=path, workers=0)
    with pytest.raises(ValueError, match="was made with seed 0, not 1"):
        hm.sweep(kinds, GRID, 10, store=path, workers=0, rng=1)
    assert schema_of(path) == '"hardmax.sweep/2"'
    hm.sweep(kinds, GRID, 10, store=path, workers=0, allow_changes=True).store.close()
    assert schema_of(path) == '"hardmax.sweep/1"'


@pytest.mark.parametrize(
    "statement", ["DELETE FROM trials WHERE cell = 1 AND trial < 50", "DELETE FROM trials WHERE cell = 1"]
)
def test_rows_that_are_gone_are_run_again(plain, tmp_path, statement):
    call = {"function": kinds, "grid": GRID, "trials": TRIALS, "store": tmp_path / "s.db", "workers": 0}
    hm.sweep(**call, batch=20).store.close()
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute(statement)
    half = hm.Sweep.open(tmp_path / "s.db")
    assert half.remaining > 0
    half.store.close()
    result = hm.sweep(**call)
    assert result.remaining == 0
    assert_summary_is_that_of_the_rows(result)
    assert repr(result.summary()) == repr(plain.summary())
    result.store.close()


@pytest.mark.parametrize(
    "statement, words",
    [
        ("UPDATE trials SET row = 'nonsense' WHERE cell = 1 AND trial = 7", "a row is not JSON"),
        ("UPDATE trials SET row = '[1]' WHERE cell = 1 AND trial = 7", "a row is a list"),
        ("UPDATE trials SET row = x'7b7d' WHERE cell = 1 AND trial = 7", "a row is bytes"),
        ("UPDATE trials SET row = CAST(x'ff' AS TEXT) WHERE cell = 1 AND trial = 7", "decode"),
        ("UPDATE trials SET row = '{\"x\":[1]}' WHERE cell = 1 AND trial = 7", "a row: x must be"),
        ("UPDATE trials SET row = '{\"x\":{}}' WHERE cell = 1 AND trial = 7", "a row: x must be"),
        ("UPDATE trials SET row = '{\"x\":1' || '" + 400 * "0" + "}'", "that a float can hold"),
        ('UPDATE trials SET row = \'{"x":"\\ud800"}\'', "that UTF-8 can hold"),
        ("UPDATE trials SET row = '{\"x\":' || replace(hex(zeroblob(99999)), '0', '[')", "nested too deeply"),
        ("UPDATE trials SET status = 'maybe' WHERE cell = 1 AND trial = 7", "neither done nor failed"),
        # three texts that are three objects only together: the first two make one, the third two
        (
            "UPDATE trials SET row = CASE trial % 3 WHEN 0 THEN '{\"x\":1' WHEN 1 THEN '\"y\":2}' "
            'ELSE \'{"x":3},{"x":4}\' END',
            "a row is not JSON",
        ),
        (
            "UPDATE trials SET row = CASE trial % 3 WHEN 0 THEN '{\"x\":[{}' WHEN 1 THEN '{}]}' "
            'ELSE \'{"x":3},{"x":4}\' END',
            "a row is not JSON",
        ),
        (
            "UPDATE trials SET row = CASE trial % 3 WHEN 0 THEN '{\"x\":\"}' WHEN 1 THEN '{\"}' "
            'ELSE \'{"x":3},{"x":4}\' END',
            "a row is not JSON",
        ),
    ],
)
def test_a_row_that_no_trial_returned_is_refused(tmp_path, statement, words):
    hm.sweep(kinds, GRID, TRIALS, store=tmp_path / "s.db", workers=0).store.close()
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute(statement + (" AND" if "WHERE" in statement else " WHERE") + " status <> 'failed'")

    def summary():
        opened = hm.Sweep.open(tmp_path / "s.db")
        try:
            opened.summary()
        finally:
            opened.store.close()

    with pytest.raises(ValueError, match=f"s.db is damaged: .*{words}.*; use a copy of it, or another store"):
        summary()


def test_rows_of_a_cell_that_is_not_there(tmp_path):
    call = {"function": kinds, "grid": GRID, "trials": 10, "store": tmp_path / "s.db", "workers": 0}
    hm.sweep(**call).store.close()
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute("UPDATE trials SET cell = 77 WHERE cell = 3")
    for attempt in (lambda: hm.Sweep.open(tmp_path / "s.db"), lambda: hm.sweep(**call)):
        with pytest.raises(ValueError, match=r"s\.db is damaged: cell 77 is missing; use a copy"):
            attempt()
