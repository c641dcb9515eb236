"""A hostile machine: full disks, closed pipes, narrow terminals, interrupts, nowhere to keep kernels."""

import contextlib
import importlib.abc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hardmax._lib.extras import install
from hardmax.app import cli
from hardmax.app.cli import errors
from hardmax.papers.checking.instances import Instance

resource = pytest.importorskip("resource", reason="limits as on POSIX")

EXAMPLE = Path(__file__).parents[3] / "examples" / "three-inputs.json"
MAIN = [sys.executable, "-c", "from hardmax.app.cli import main; main()"]


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.run([*map(str, arguments)])
        return code, *capsys.readouterr()

    return run


@contextlib.contextmanager
def small_disk(size):
    """No file may grow beyond this many bytes; the system answers as for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_no_half_file_and_the_old_one_stays(command, tmp_path, validated):
    command("solve", EXAMPLE)  # what is compiled is kept before the disk is full
    command("ntp", "generate", "--out", "old.txt", "--vocabulary", 3)
    old = Path("old.txt").read_bytes()
    with small_disk(100):
        code, out, err = command("ntp", "generate", "--out", "old.txt", "--json")
    assert (code, f"hardmax: {validated(out)['error']}\n") == (2, err)
    assert "old.txt: File too large; free some space" in err
    assert Path("old.txt").read_bytes() == old
    with small_disk(100):
        code, out, err = command("solve", EXAMPLE, "--certificates", "proofs", "--json")
    assert code == 2
    assert validated(out)["feasible"] == 11  # the result is not lost with its file
    assert "selection-0.json: File too large" in err
    with small_disk(100):
        code, _, err = command("ntp", "train", EXAMPLE.with_name("svop.txt"), "--out", "model", "--json")
    assert (code, "model: File too large" in err) == (2, True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["old.txt"]


def test_places_that_cannot_be_written_are_refused_before_the_work(command, tmp_path):
    Path("folder").mkdir()
    svop = EXAMPLE.with_name("svop.txt")
    for arguments, words in [
        (["solve", EXAMPLE, "--plot", "folder"], "--plot must end in .svg, .png, .pdf, got folder"),
        (["solve", EXAMPLE, "--plot", "none/a.svg"], "--plot none/a.svg: there is no folder none"),
        (["solve", EXAMPLE, "--certificates", svop], "this is a file"),
        (["ntp", "generate", "--out", "folder"], "--out folder: this is a folder"),
        (["ntp", "generate", "--out", "/proc/nothing"], "/proc/nothing: "),
        (
            ["ntp", "check", svop, "--save-realizable", "none/a"],
            "--save-realizable none/a: there is no folder",
        ),
        (
            ["ntp", "check", svop, "--save-realizable", "a.gz"],
            f"{tmp_path}/a.gz: sentences are written unpacked",
        ),
        (["ntp", "train", svop, "--out", "folder"], "--out folder: this is a folder"),
        (["ntp", "generate", "--vocabulary", 10**20], "--vocabulary"),
    ]:
        code, out, err = command(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words.replace(f"{tmp_path}/", "") in err
    assert not list(Path("folder").iterdir())


def test_keys_so_small_that_p_overflows(command, validated):
    Path("small.json").write_text('{"keys": [[[1e-320, 0], [0, 1e-320]]], "scores": [[1, 0]]}')
    code, out, _ = command("solve", "small.json", "--json")
    (found,) = validated(out)["selections"]
    assert (code, found["norm"], found["direction"]) == (0, None, None)
    assert "too long" in found["status"]


def test_an_interrupt_of_verify_keeps_what_was_checked(command, monkeypatch, validated):
    run, limit = Instance.run, 1

    def some(instance):
        nonlocal limit
        limit -= 1
        if limit < 0:
            raise KeyboardInterrupt
        return run(instance)

    monkeypatch.setattr(Instance, "run", some)
    code, out, err = command("verify", "B-THM-L9", "B-ASM-B", "--json", "--quiet")
    (check,) = validated(out)["checks"]
    assert (code, check["verdict"], check["status"]) == (130, check["expected"], "complete")
    assert err.startswith("hardmax: interrupted; to go on: hardmax verify B-")
    code, out, err = command("verify", "B-ASM-B", "--json")  # before there is anything to keep
    assert (code, validated(out)["code"]) == (130, 130)


def test_an_interrupt_that_compiled_code_turns_into_another_error(command, monkeypatch, validated):
    def lost(instance):
        with contextlib.suppress(KeyboardInterrupt):
            errors.interrupt(2, None)
        raise TypeError("_get_wrapper_address() missing 1 required positional argument: 'sig'")

    monkeypatch.setattr(Instance, "run", lost)
    code, out, _ = command("verify", "B-ASM-B", "--json")
    assert (code, validated(out)["code"]) == (130, 130)
    monkeypatch.setattr(errors, "interrupt", lambda *_: None)
    with pytest.raises(TypeError):  # without one it is a bug like any other
        command("verify", "B-ASM-B")


def test_an_interrupt_while_the_program_is_loaded(monkeypatch, capsys, validated):
    class Interrupting(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "hardmax.app.cli.commands":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "hardmax.app.cli.commands", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert cli.run(["doctor", "--json"]) == 130
    assert validated(capsys.readouterr().out)["error"] == "interrupted"


@pytest.mark.slow
def test_streams_as_a_shell_can_hand_them_down(tmp_path):
    """A reader who has seen enough, a full disk behind the pipe, closed streams, a poor encoding."""
    bad = f"{' '.join(map(_quoted, MAIN))} certify '\u00e9.json'"
    generate = f"{' '.join(map(_quoted, MAIN))} ntp generate --vocabulary 9000"
    ascii_only = "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0"
    for line, expected in [
        (f"{generate} | head -c 2; echo ${{PIPESTATUS[0]}}", (0, "0 0\n", "")),
        (f"{generate} --json > /dev/full", (2, "", "standard output: No space left on device")),
        (f"{ascii_only} {bad} --json 2> /dev/full", (2, '"hardmax.error/1"', "")),
        (f"{bad} <&- 2>&-", (2, "", "")),
    ]:
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        code, out, err = expected
        assert done.returncode == code, (line, done.stderr)
        assert (out in done.stdout, bool(done.stdout)) == (True, bool(out)), line
        assert err in done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


def _quoted(word):
    return f"'{word}'"


def test_a_narrow_terminal_loses_no_column(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    code, out, _ = command("verify", "B-ASM-B")
    assert (code, out.count("B-ASM-B")) == (0, 2)


def test_a_missing_extra_is_named_before_the_sweep(command, monkeypatch, tmp_path):
    (tmp_path / "own.py").write_text("def f(parameters, seed):\n    return {'x': 1.0}\n")
    (tmp_path / "own.toml").write_text('function = "own.py:f"\ntrials = 2\nworkers = 1')
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = command("sweep", "own.toml", "--parquet", "a.parquet")
    assert (code, install("export") in err) == (2, True)
    assert not (tmp_path / "own.sqlite").exists()


def test_every_schema_names_itself():
    for path in (Path(__file__).parents[3] / "docs" / "reference" / "schemas").glob("*.json"):
        name = json.loads(path.read_text())["properties"]["schema"]["const"]
        schema, number = name.split("/")
        assert schema == f"hardmax.{path.name.removesuffix('.schema.json')}"
        assert int(number) >= 1


def test_a_picture_does_not_replace_the_problem_under_another_name(command, tmp_path):
    problem, alias = tmp_path / "p.json", tmp_path / "p.svg"
    problem.write_text('{"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]]}')
    alias.hardlink_to(problem)
    before = problem.read_bytes()
    code, _, err = command("solve", problem, "--plot", alias)
    assert (code, "this file is needed; choose another name" in err) == (2, True)
    assert problem.read_bytes() == before
