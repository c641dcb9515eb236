"""A store is data: what it names is not run, and what it holds is looked at before it is believed."""

import json
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.app import cli

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "def f(parameters, seed):\n"
        "    if seed % 3 == 0:\n        raise RuntimeError('bad luck')\n"
        "    return {'x': seed % 7, 'y': seed % 2 == 0}\n"
    )
    (tmp_path / "own.toml").write_text('function = "own.py:f"\ntrials = 8\nworkers = 1\n[grid]\na = [1, 2]\n')
    hm.sweep(f"{tmp_path / 'own.py'}:f", {"a": [1, 2]}, 8, store="own.sqlite", workers=0).store.close()
    return tmp_path


def change(*statements: str, values: tuple[object, ...] = ()) -> None:
    with closing(sqlite3.connect("own.sqlite", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement, values if "?" in statement else ())


def ends_in_a_sentence(capsys, validated, *arguments: str) -> str:
    """Run a command that must refuse; return what it said."""
    code = cli.run([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert code == 2, (code, out, err)
    assert "Traceback" not in err
    answer = validated(out)
    assert answer["schema"] == "hardmax.error/1"
    return str(answer["error"])


def test_the_function_that_a_store_names_is_not_run(folder: Path, capsys, validated) -> None:
    """`subprocess:call` on the keys of the parameters would run a program."""
    change("UPDATE meta SET value = ? WHERE key IN ('load', 'function')", values=('"subprocess:call"',))
    parameters = json.dumps({"touch": 1, "ran": 2})
    change("UPDATE cells SET parameters = ? WHERE cell = 0", values=(parameters,))
    with pytest.raises(ValueError, match=r"function must be given.*'subprocess:call'.*names no code to run"):
        hm.trials.run_one("own.sqlite", 0, 0)
    with pytest.raises(
        ValueError, match=r"function must be that of the sweep, 'subprocess:call', got 'own:f'"
    ):
        hm.trials.run_one("own.sqlite", 0, 0, "own.py:f")
    said = ends_in_a_sentence(capsys, validated, "sweep", "own.toml", "--trial", "0:0")
    assert "function must be that of the sweep" in said
    for failure in hm.Sweep.open("own.sqlite").failures():
        assert "subprocess" not in failure.command
        assert '"FILE.py:NAME"' in failure.command
    assert not (folder / "ran").exists()


def test_only_the_name_by_which_it_was_loaded_is_forged(folder: Path, capsys, validated) -> None:
    change("UPDATE meta SET value = ? WHERE key = 'load'", values=('"subprocess:call"',))
    row = next(row for row in hm.Sweep.open("own.sqlite").rows() if row["status"] == "done")
    cell = [1, 2].index(row["a"])
    expected = {"x": row["x"], "y": row["y"]}
    assert hm.trials.run_one("own.sqlite", cell, row["trial"], "own.py:f") == expected
    assert cli.run(["sweep", "own.toml", "--trial", f"{cell}:{row['trial']}", "--json"]) == 0
    assert validated(capsys.readouterr().out)["row"] == expected


def test_a_sweep_that_was_run_here_knows_its_function(folder: Path) -> None:
    found = hm.sweep("own.py:f", {"a": [1, 2]}, 8, store="own.sqlite", workers=0)
    failure = next(found.failures())
    assert f'"{folder / "own.py"}:f"' in failure.command
    with pytest.raises(RuntimeError, match="bad luck"):
        hm.trials.run_one(found, failure.cell, failure.trial)


@pytest.mark.parametrize(
    "statement, value, words",
    [
        ("UPDATE trials SET row = ? WHERE status = 'done'", "[1, 2]", "a row is a list"),
        ("UPDATE trials SET row = ? WHERE status = 'done'", DEEP, "nested too deeply"),
        ("UPDATE trials SET row = ? WHERE status = 'done'", '{"x": [1]}', "x must be a bool"),
        (
            "UPDATE trials SET row = ? WHERE status = 'done'",
            '{"x": 1' + "0" * 400 + "}",
            "x must be a number",
        ),
        ("UPDATE trials SET row = ? WHERE status = 'done'", b"{}", "a row is bytes"),
        ("UPDATE trials SET row = ? WHERE status = 'done'", '{"x"', "a row is not JSON"),
        ("UPDATE trials SET status = ? WHERE trial = 1", "lost", "trials that are neither done nor failed"),
        ("UPDATE trials SET seed = ? WHERE trial = 1", "many", "seed of a trial is 'many'"),
        ("UPDATE trials SET trial = ? WHERE trial = 1", "first", "trial of a trial is 'first'"),
        ("UPDATE trials SET error = ? WHERE status = 'failed'", b"\xff", "error of a trial is bytes"),
        ("UPDATE meta SET value = ? WHERE key = 'trials'", '"many"', "trials is str"),
        ("UPDATE meta SET value = ? WHERE key = 'trials'", "2", "more trials than it says"),
        ("UPDATE meta SET value = ? WHERE key = 'trials'", "1e3", "trials is float"),
        ("UPDATE meta SET value = ? WHERE key = 'trials'", DEEP, "nested too deeply"),
        ("UPDATE meta SET value = ? WHERE key = 'trials'", b"\xff\xfe", "trials is not JSON"),
        ("UPDATE meta SET value = ? WHERE key = 'seed'", "null", "seed is NoneType"),
        ("UPDATE meta SET value = ? WHERE key = 'batched'", "3", "batched is int"),
        ("UPDATE meta SET value = ? WHERE key = 'function'", "[]", "function is list"),
        ("DELETE FROM meta WHERE key = ?", "seed", "does not say its seed"),
        ("UPDATE meta SET value = ? WHERE key = 'schema'", "3", "is not a store of a sweep"),
        ("UPDATE cells SET parameters = ?", "[]", "parameters is a list"),
        ("UPDATE cells SET parameters = ?", DEEP, "nested too deeply"),
        ("UPDATE cells SET cell = ? WHERE cell = 1", 7, "cell 1 is missing"),
    ],
)
def test_values_of_another_hand(
    folder: Path, capsys, validated, statement: str, value: object, words: str
) -> None:
    change(statement, values=(value,))
    said = []
    for way in (["--trial", "0:0"], ["--csv", "rows.csv"]):
        code = cli.run(["sweep", "own.toml", "--allow-changes", "--json", *way])
        out, err = capsys.readouterr()
        assert code in (0, 1, 2), err
        assert "Traceback" not in err or "bad luck" in err
        assert validated(out)["schema"] in ("hardmax.sweep/1", "hardmax.error/1")
        said.append(err)
    assert words in " ".join(said)
    assert "own.sqlite" in " ".join(said)


@pytest.mark.parametrize("record", ["{}", "[]", '{"code": 3}', DEEP, "not JSON"])
def test_a_session_that_says_nothing(folder: Path, capsys, validated, record: str) -> None:
    change("UPDATE sessions SET provenance = ?", values=(record,))
    said = ends_in_a_sentence(capsys, validated, "sweep", "own.toml")
    assert "own.sqlite is damaged: provenance" in said
    with pytest.raises(ValueError, match="is damaged: provenance"):
        hm.Sweep.open("own.sqlite").sessions()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM trials; END",
        "CREATE VIEW more AS SELECT * FROM trials",
        "CREATE TABLE more (x)",
        "DROP TABLE sessions",
        "ALTER TABLE trials RENAME COLUMN row TO line",
    ],
)
def test_tables_of_another_hand(folder: Path, capsys, validated, statement: str) -> None:
    change(statement)
    said = ends_in_a_sentence(capsys, validated, "sweep", "own.toml")
    assert "own.sqlite has other tables" in said or "is not a store of a sweep" in said


def test_a_view_without_end_is_not_asked(folder: Path) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    change("DROP TABLE trials", f"CREATE VIEW trials AS {endless}")
    with pytest.raises(ValueError, match="is not a store of a sweep"):
        hm.Sweep.open("own.sqlite")


@pytest.mark.parametrize("seed", range(12))
def test_flipped_bits(folder: Path, capsys, validated, seed: int) -> None:
    """Whatever SQLite makes of a damaged file, a person reads a sentence or a result."""
    chance = random.Random(seed)
    content = bytearray((folder / "own.sqlite").read_bytes())
    for _ in range(chance.choice([1, 10, 100])):
        content[chance.randrange(100, len(content))] ^= 1 << chance.randrange(8)
    (folder / "own.sqlite").write_bytes(content)
    for way in (["--trial", "0:1"], ["--allow-changes", "--csv", "rows.csv"]):
        code = cli.run(["sweep", "own.toml", "--json", *way])
        out, err = capsys.readouterr()
        assert code in (0, 1, 2), err
        assert "Traceback" not in err or "bad luck" in err
        validated(out)


def test_places_of_a_store(folder: Path, capsys, validated) -> None:
    os.mkfifo("pipe.sqlite")
    Path("loop.sqlite").symlink_to("loop.sqlite")
    Path("away.sqlite").symlink_to(folder / "nowhere.sqlite")
    Path("folder.sqlite").mkdir()
    for name in ("pipe", "loop", "away", "folder"):
        said = ends_in_a_sentence(capsys, validated, "sweep", "own.toml", "--store", f"{name}.sqlite")
        assert f"{name}.sqlite is not a file" in said
        ends_in_a_sentence(
            capsys, validated, "sweep", "own.toml", "--store", f"{name}.sqlite", "--trial", "0:0"
        )
    assert not Path("nowhere.sqlite").exists()
    Path("own.sqlite.lock").unlink(missing_ok=True)
    Path("own.sqlite.lock").symlink_to(folder / "own.py")
    assert "must be a file that a sweep locks" in ends_in_a_sentence(capsys, validated, "sweep", "own.toml")
    Path("own.sqlite.lock").unlink()
    Path("own.sqlite.lock").write_text("x" * 5000)
    assert "must be an empty file" in ends_in_a_sentence(capsys, validated, "sweep", "own.toml")
    assert Path("own.sqlite.lock").read_text() == "x" * 5000
    Path("own.sqlite.lock").unlink()
    Path("data").mkdir()
    text = Path("own.toml").read_text()
    for name, words in (("pipe.sqlite", "is not a file"), ("none", "cannot read")):
        Path("own.toml").write_text(f'data_files = ["{name}"]\n{text}')
        assert words in ends_in_a_sentence(capsys, validated, "sweep", "own.toml")


@pytest.mark.parametrize(
    "line", ["trials = 1" + "0" * 30, "workers = 1" + "0" * 30, "batch = 1" + "0" * 30, "seed = -1"]
)
def test_numbers_beyond_reason(folder: Path, capsys, validated, line: str) -> None:
    name = line.split()[0]
    text = "\n".join(x for x in Path("own.toml").read_text().splitlines() if not x.startswith(name))
    Path("own.toml").write_text(f"{line}\n{text}")
    assert name in ends_in_a_sentence(capsys, validated, "sweep", "own.toml", "--store", "new.sqlite")


def test_control_characters_are_shown_and_not_obeyed(folder: Path, capsys) -> None:
    """In names, errors, messages, results and tracebacks."""
    name = "a\x1b[2J\x9b\u202eb"
    assert cli.run(["certify", f"{name}.json"]) == 2
    err = capsys.readouterr().err
    assert "a\\x1b[2J\\x9b\\u202eb.json" in err
    (folder / "own.py").write_text(
        f"def f(parameters, seed):\n    if seed % 2: raise RuntimeError({name!r})\n"
        f"    return {{{name!r}: 1.5}}\n"
    )
    store = f"{name}.sqlite"
    assert cli.run(["sweep", "own.toml", "--store", store]) == 1
    first = next(hm.Sweep.open(store).failures())
    assert cli.run(["sweep", "own.toml", "--store", store, "--trial", f"{first.cell}:{first.trial}"]) == 1
    out, err = capsys.readouterr()
    for said in (out, err):
        assert "a\\x1b[2J\\x9b\\u202eb" in said
        assert not set(said) & {"\x1b", "\x9b", "\u202e"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [("1 / 0", "ZeroDivisionError: division by zero"), ("def (:", "SyntaxError"), ("raise SystemExit", "")],
)
def test_a_file_that_cannot_be_run_is_named(
    tmp_path, monkeypatch, capsys, validated, content, reason
) -> None:
    """Also one that ends the process: that is no answer."""
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(content)
    Path("proof.json").write_text("{}")
    for command in ("solve two-inputs --norm own.py:w", "certify proof.json --norm own.py", "hunt own.py:f"):
        said = ends_in_a_sentence(capsys, validated, *command.split())
        assert f"own.py cannot be run: {reason}" in said


def test_a_function_that_ends_the_process_gives_no_answer(tmp_path, monkeypatch, capsys, validated) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("def f(problem):\n    raise SystemExit(0)\n")
    hm.data.example("two-inputs").save("problem.npz")
    said = ends_in_a_sentence(capsys, validated, *["hunt", "own.py:f", "--on", "problem.npz"])
    assert "your function ended the process (SystemExit(0))" in said
