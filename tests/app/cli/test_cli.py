"""The rules that every command keeps: streams, JSON, exit codes, no traceback."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import typer
from rich.text import Text

from hardmax import __version__
from hardmax._lib.result import Result
from hardmax._lib.terminal import brief, fitted
from hardmax.app import cli
from hardmax.app.cli import commands, options
from hardmax.app.cli.options import Command, typer_command
from hardmax.app.results import session as module
from hardmax.app.results.session import Progress, Session, session


class Told(Result):
    """An answer of given fields, text and exit code."""

    schema = "hardmax.try/1"
    exit_code = 0

    def __init__(self, fields, text, exit_code=0):
        self.given, self.text, self.exit_code = fields, text, exit_code

    def fields(self):
        return self.given

    def table(self):
        return self.text


@pytest.fixture
def restored_environment(monkeypatch):
    # --no-color sets NO_COLOR for the process; undo that after the test
    monkeypatch.setenv("NO_COLOR", "")


@pytest.fixture
def run_body(monkeypatch, capsys):
    """Run a function as the only command of the command line; return exit code, stdout and stderr."""

    def run(body, *arguments, before=()):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.callback()(commands.set_globally)
        monkeypatch.setattr(options, "_load", lambda place: body)
        made, kind = typer_command("try", Command("", ("hardmax try",), metavars={"file": "FILE"}))
        app.command("try", cls=kind)(made)
        monkeypatch.setattr(commands, "typer_app", lambda word: app)
        code = cli.run([*before, "try", *arguments])
        return code, *capsys.readouterr()

    return run


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"hardmax {__version__}\n"


def test_installed_script_exits_with_the_code():
    script = [sys.executable, "-c", "from hardmax.app.cli import main; main()"]
    done = subprocess.run([*script, "--nonsense"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--nonsense" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_needs_nothing_heavy():
    code = (
        "import sys; from hardmax.app.cli import run; run(['--help']);"
        "print([m for m in ('numpy', 'scipy', 'numba', 'matplotlib', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_no_arguments_print_help(capsys):
    assert cli.run([]) == 0
    assert "doctor" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["doctor", "--json", "--nonsense"]])
def test_bad_usage_is_one_sentence_and_exit_2(arguments, capsys, validated):
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" if "--json" not in arguments else f"hardmax: {validated(out)['error']}\n" == err
    assert "nonsense" in err
    assert "--help" in err
    assert err.count("\n") == 1


def test_json_is_one_object_with_null_for_what_json_lacks(run_body):
    def body():
        session().say("working")
        fields = {
            "seed": 7,
            "direction": np.array([0.6, -0.8]),
            "norm": np.float64(np.inf),
            "kkt": {"dual": float("nan"), "rows": (np.int64(1), 2)},
        }
        return Told(fields, "text", 3)

    code, out, err = run_body(body, "--json")
    assert code == 3
    assert json.loads(out) == {
        "schema": "hardmax.try/1",
        "version": __version__,
        "seed": 7,
        "direction": [0.6, -0.8],
        "norm": None,
        "kkt": {"dual": None, "rows": [1, 2]},
    }
    assert err == "working\n"


def test_text_goes_to_stdout_and_messages_to_stderr(run_body):
    def body():
        session().say("working")
        return Told({}, "the result")

    assert run_body(body) == (0, "the result\n", "working\n")


@pytest.mark.parametrize("where", ["before", "after"])
def test_quiet_and_no_color_work_on_both_sides_of_the_command(where, run_body, restored_environment):
    def body():
        session().say("working")
        return Told({}, "the result")

    flags = ["--quiet", "--no-color"]
    outcome = run_body(body, before=flags) if where == "before" else run_body(body, *flags)
    assert outcome == (0, "the result\n", "")
    assert os.environ["NO_COLOR"] == "1"


@pytest.mark.parametrize(
    "error, code, words",
    [
        (ValueError("labels must be +1 or -1,\n  not 3"), 2, "labels must be +1 or -1, not 3"),
        (FileNotFoundError(2, "No such file or directory", "data.json"), 2, "data.json: No such file"),
        (OSError("the disk went away"), 2, "the disk went away"),
        (
            OSError(28, "No space left on device", "proof.json"),
            2,
            "proof.json: No space left on device; free",
        ),
        (OSError(27, "File too large"), 2, "NUMBA_CACHE_DIR"),
        (BrokenPipeError(32, "Broken pipe"), 2, "a connection was lost"),
        (MemoryError(), 2, "not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_mistakes_end_in_one_sentence(error, code, words, run_body, validated):
    def body():
        raise error

    got, out, err = run_body(body, "--json")
    told = validated(out)
    assert (got, told["code"], told["schema"]) == (code, code, "hardmax.error/1")
    assert err == f"hardmax: {told['error']}\n"
    assert words in err
    assert run_body(body) == (code, "", err)


def test_interrupt_outside_a_command(monkeypatch, capsys):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "typer_app", lambda word: interrupted)
    assert cli.run(["doctor"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_bug_keeps_its_traceback(run_body):
    def body():
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        run_body(body)


def test_commands_keep_their_own_options(run_body):
    def body(file: "str", *, limit: "int" = 3):
        return Told({"limit": limit, "file": file}, "text")

    _, out, _ = run_body(body, "data.npz", "--limit", "5", "--json")
    assert json.loads(out)["limit"] == 5
    assert json.loads(out)["file"] == "data.npz"


class Clock:
    """Stands in for the time module in hardmax.app.results.session."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_progress_appears_after_two_seconds_on_a_terminal(clock, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("trials", 10) as bar:
        bar.advance()
        assert bar.bar is None
        clock.now = 2.5
        bar.advance(2)
        assert bar.bar is not None
        assert bar.bar.tasks[0].completed == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "trials" in err


@pytest.mark.parametrize("terminal, allowed", [(False, True), (True, False)])
def test_progress_is_silent_without_a_terminal_or_when_quiet(terminal, allowed, clock, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with Session(quiet=not allowed).progress("trials", 10) as bar:
        clock.now = 2.5
        bar.advance()
    assert capsys.readouterr() == ("", "")


def test_tab_completion_of_commands_and_options(monkeypatch):
    def completed(words: str) -> list[str]:
        environment = {
            **os.environ,
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_HARDMAX_COMPLETE": "complete_bash",
        }
        command = [sys.executable, "-m", "hardmax"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("hardmax so") == ["solve"]
    assert completed("hardmax solve --fl") == ["--flow"]
    assert completed("hardmax ntp t") == ["train"]


def test_wide_lines_go_on_below_and_nothing_is_lost():
    plain = "verdict: " + "a word and another one " * 9 + "/a/path/" + "x" * 90 + "\n  inset " + "more " * 30
    done = fitted(Text(plain + "\nhardmax " + "ntp " * 40), 80).plain
    *lines, command = done.splitlines()
    assert [line for line in lines if len(line) > 80] == ["  /a/path/" + "x" * 90]
    assert " ".join(done.split()) == " ".join((plain + " hardmax " + "ntp " * 40).split())
    assert lines[1].startswith("  ")
    assert lines[-1].startswith("    more")
    assert command == "hardmax " + "ntp " * 39 + "ntp"


def test_colours_survive_the_fitting():
    text = Text("short ")
    text.append("bold " * 30, style="bold")
    folded = fitted(text, 40)
    bold = "".join(folded.plain[span.start : span.end] for span in folded.spans if span.style == "bold")
    assert bold.count("bold") == 30


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "/nowhere/" + "x" * 6000 + ".json"],
        ["solve", "/nowhere/" + "two words/" * 600 + "b.json"],
        ["certify", "/nowhere/" + "a/" * 3000 + "b.json"],
        ["solve", "problem.json", "--" + "y" * 5000],
        ["y" * 5000],
        ["verify", "y" * 5000],
    ],
    ids=["name", "spaces", "folders", "option", "command", "id"],
)
def test_long_names_are_cut_in_messages(arguments, capsys):
    """A path of 6,000 characters once came back whole."""
    assert cli.run([*arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert len(err) < 600
    assert " ... " in err
    assert json.loads(out)["error"] in err


def test_a_command_to_copy_stays_whole():
    path = "/nowhere/" + "x" * 600
    told = brief(f"{path} is not finished; go on with: hardmax ntp train {path} --resume")
    assert told.endswith(f"hardmax ntp train {path} --resume")
    assert len(told) < 900
