"""Hostile files and options for every command: an exit code of the contract, one JSON object, no other file.

A few hundred cases run as a test. More of them, or one again, as a program:

    python tests/app/cli/test_fuzz.py 100000 2000      # seeds 100000 to 101999
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import jsonschema
import pytest

HERE = Path(__file__).parent
CODES = (0, 1, 2, 3, 130)
SEEDS = range(340)
PATIENCE = 120.0  # seconds; a case that is stuck would be one more way to fail


def _hostile() -> Any:
    spec = importlib.util.spec_from_file_location("hostile", HERE / "hostile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def schemas() -> dict[str, Any]:
    files = (HERE.parents[2] / "docs" / "reference" / "schemas").glob("*.schema.json")
    found = [json.loads(path.read_text()) for path in files]
    return {each["properties"]["schema"]["const"]: each for each in found}


class Stuck(BaseException):
    """No command catches it."""


def _stuck(*_: object) -> None:
    raise Stuck


def answer(arguments: list[str]) -> tuple[int | str, str, str]:
    """The exit code, or the traceback, and both streams of a command line."""
    from hardmax.app import cli

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, _stuck)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            return cli.run(arguments), out.getvalue(), err.getvalue()
    except Stuck:
        return f"no end within {PATIENCE:g} seconds", out.getvalue(), err.getvalue()
    except BaseException:
        return traceback.format_exc(limit=-4), out.getvalue(), err.getvalue()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def content(folder: Path) -> dict[str, str]:
    """Every file below a folder with what it holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def faults(code: int | str, out: str, err: str, arguments: list[str], known: dict[str, Any]) -> list[str]:
    """What breaks the contract in an answer."""
    if not isinstance(code, int):
        return [code]
    found = [] if code in CODES else [f"exit code {code}"]
    if "Traceback" in err or "Traceback" in out:
        found.append("a traceback was printed")
    if code in (2, 130) and not err.strip():
        found.append("no sentence says why")
    if code == 2 and err.rstrip("\n").count("\n") and "--help" not in arguments:
        last = err.rstrip("\n").splitlines()[-1]
        found += [] if last.startswith("hardmax: ") else ["the sentence has several lines"]
    if any(
        ord(letter) < 32 and letter != "\n" for letter in err + (out if "--json" not in arguments else "")
    ):
        found.append("a control character reached the terminal")
    if "--json" in arguments and "--version" not in arguments and "--help" not in arguments:
        lines = out.splitlines()
        try:
            told = json.loads(lines[0]) if len(lines) == 1 else None
            assert told is not None, f"{len(lines)} lines on standard output"
            jsonschema.validate(told, known[told["schema"]])
            if told["schema"].startswith("hardmax.error/") and told["code"] != code:
                found.append(f"the object says {told['code']}, the exit code is {code}")
        except (AssertionError, ValueError, KeyError, jsonschema.ValidationError) as error:
            found.append(f"not one valid JSON object: {error!s:.300}")
    return found


def try_case(seed: int, good: Path, known: dict[str, Any], hostile: Any) -> tuple[list[str], list[str]]:
    """The command line of a case, and what it did that it must not."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        here = Path(folder)
        arguments, outputs = hostile.hostile_case(seed, good, here)
        before = content(here)
        code, out, err = answer(arguments)
        after = content(here)
        found = faults(code, out, err, arguments, known)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        named = [os.path.normpath(name) for name in outputs]
        strange = [name for name in changed if not any(f"{name}/".startswith(f"{each}/") for each in named)]
        found += [f"the file {name!r} was changed or made" for name in strange]
    return arguments, found


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    with contextlib.redirect_stdout(io.StringIO()):
        _hostile().good_files(folder)
    return folder


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("tenth", range(10))
def test_hostile_cases(good, tenth):
    hostile, known, before = _hostile(), schemas(), content(good)
    bad = []
    for seed in SEEDS[tenth::10]:
        arguments, found = try_case(seed, good, known, hostile)
        bad += [f"seed {seed}: hardmax {shlex.join(arguments)}\n  {each}" for each in found]
    assert not bad, "\n".join(bad)
    assert content(good) == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_new_interpreter_answers_the_same(good, tmp_path, seed):
    arguments, _ = _hostile().hostile_case(seed, good, tmp_path)
    with contextlib.chdir(tmp_path):
        shutil.copytree(tmp_path, tmp_path / "again", symlinks=True)
        code, out, _ = answer(arguments)
    done = subprocess.run(
        [sys.executable, "-m", "hardmax", *arguments], cwd=tmp_path / "again", capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (code, out)
    assert "Traceback" not in done.stderr


def main(first: int, count: int) -> int:
    """Try many seeds and print what is wrong."""
    hostile, known, wrong, start = _hostile(), schemas(), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()):
            hostile.good_files(Path(folder))
        for seed in range(first, first + count):
            begin = time.monotonic()
            arguments, found = try_case(seed, Path(folder), known, hostile)
            took = time.monotonic() - begin
            wrong += bool(found)
            for each in found:
                print(f"seed {seed}: hardmax {shlex.join(arguments)[:400]}\n  {each}", flush=True)
            if took > 10:
                print(f"seed {seed}: hardmax {shlex.join(arguments)[:400]}\n  took {took:.0f} s", flush=True)
    print(f"{count} cases, {wrong} wrong, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
