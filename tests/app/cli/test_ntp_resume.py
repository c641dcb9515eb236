"""`hardmax ntp train`, interrupted and continued; and the way from a text to a model of a part of it."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from hardmax.app import cli
from hardmax.nexttoken import generate, write_sentences
from hardmax.nexttoken.predict import load_reached

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "ntp-train.schema.json").read_text()
)

# Tells when the first steps are done, and sleeps between pieces, so that there is time for a signal.
CHILD = """
import sys, time
from hardmax.app import cli
from hardmax.nexttoken.stages import StageTwo

train = StageTwo.train

def slow(self, *arguments, told, **options):
    def slowly(taken):
        if taken:
            print("stepped", file=sys.stderr, flush=True)
            time.sleep(0.05)
        return told(taken)

    return train(self, *arguments, told=slowly, **options)

StageTwo.train = slow
cli.main()
"""


@pytest.fixture
def ntp(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.run(["ntp", *map(str, arguments)])
        out, err = capsys.readouterr()
        if out.startswith("{"):
            out = json.loads(out)
            jsonschema.validate(out, SCHEMA)
        return code, out, err

    return run


def stored(name):
    with np.load(name) as file:
        return {key: file[key].tobytes() for key in file.files}


def interrupt(number, *arguments):
    """Start the command, send this signal during stage 2, and return its code and streams."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, "ntp", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background may have handed down an ignored SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    line = process.stderr.readline()
    while "stepped" not in line and process.poll() is None:
        line = process.stderr.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX")
@pytest.mark.parametrize("name", ["figure 2", "assumption 3"])
def test_an_interrupt_keeps_the_model_and_the_next_command_ends_with_the_same_bits(ntp, tmp_path, name):
    if name == "figure 2":
        write_sentences(tmp_path / "a file.txt", generate(rng=0).text)
        number, options = signal.SIGINT, ["--steps", 150_000, "--rate", 0.03, "--uniform"]
    else:  # structured and signed steps in turn
        (tmp_path / "a file.txt").write_text(f"h o{20 * ' s h'} s\no s h s\ns h\n")
        number, options = signal.SIGTERM, ["--steps", 60_000, "--rate", 0.02, "--first-rate", 1]
    code, out, err = interrupt(number, "train", "a file.txt", "--out", "part.npz", *options, "--json")
    assert code == 130, err
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert 0 < answer["steps"] < options[1]
    assert answer["status"].startswith("interrupted after")
    assert "Traceback" not in err
    message = err.splitlines()[-1]
    assert message.startswith("hardmax: interrupted after")
    assert load_reached("part.npz")[1].steps == answer["steps"]
    again = shlex.split(message.split("go on with: ")[1])
    assert again[:2] == ["hardmax", "ntp"]
    code, resumed, _ = ntp(*again[2:], "--json")
    assert (code, resumed["steps"], resumed["status"]) == (0, options[1], "complete")
    _, whole, _ = ntp("train", "a file.txt", "--out", "whole.npz", *options, "--json")
    assert {**resumed, "model": None} == {**whole, "model": None}
    assert stored("part.npz") == stored("whole.npz")
    assert (whole["signed_steps"] > 0) == (name == "assumption 3")


def test_more_steps_later(ntp, tmp_path):
    (tmp_path / "svop.txt").write_text("S V O P\nV O P\nO P P\nP S V\n")
    assert ntp("train", "svop.txt", "--out", "m", "--steps", 300, "--resume")[0] == 0  # nothing there yet
    _, longer, _ = ntp("train", "svop.txt", "--out", "m", "--steps", 1000, "--resume", "--json")
    _, once, _ = ntp("train", "svop.txt", "--out", "n", "--steps", 1000, "--json")
    assert {**longer, "model": None} == {**once, "model": None}
    assert stored("m") == stored("n")
    again = ntp("train", "svop.txt", "--out", "m", "--steps", 1000, "--resume", "--json")
    assert (again[0], again[1]) == (0, longer)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "n", "svop.txt"]


def test_what_cannot_go_on(ntp, tmp_path):
    (tmp_path / "svop.txt").write_text("S V O P\nV O P\nO P P\nP S V\n")
    (tmp_path / "other.txt").write_text("S V O P\nV O P\nO P P\nP S V\nP S V\n")
    ntp("train", "svop.txt", "--out", "m")
    before = stored("m")
    for arguments, words in [
        (["svop.txt", "--rate", 1], "the step of stage 2"),
        (["svop.txt", "--stage1", 9], "stage 1"),
        (["other.txt"], "the sentences"),
        (["svop.txt", "--steps", 9], "holds 900 steps already"),
    ]:
        code, out, err = ntp("train", *arguments, "--out", "m", "--resume")
        assert (code, out, words in err) == (2, "", True), err
    assert stored("m") == before
    (tmp_path / "broken").write_text("no model")
    assert ntp("train", "svop.txt", "--out", "broken", "--resume")[0] == 2


def test_a_repaired_part_is_trained_with_a_repair(ntp, tmp_path):
    (tmp_path / "raw.txt").write_text("a b c\nb c c\nb c c\nb a\n")
    code, out, _ = ntp("check", "raw.txt", "--repair", "--save-realizable", "part.txt")
    assert (code, "hardmax ntp train part.txt --out MODEL --repair" in out) == (1, True)
    code, _, err = ntp("train", "part.txt", "--out", "m")
    assert (code, "--repair gives them a next token" in err) == (2, True)
    code, answer, _ = ntp("train", "part.txt", "--out", "m", "--repair", "--json")
    assert (code, answer["realizable"], answer["repaired"]) == (0, True, ["c"])
    code, out, _ = ntp("predict", "m", "b c")
    assert (code, out.splitlines()[1].split()[0]) == (0, "c")


@pytest.mark.slow
@pytest.mark.parametrize("repair", [[], ["--repair"]])
def test_from_real_text_to_a_prediction(ntp, tmp_path, shared_data, repair):
    """The whole way on tiny Shakespeare: check, save, train, predict every sample of the part."""
    text = shared_data / "tinyshakespeare.txt.xz"
    code, out, _ = ntp("check", text, *repair, "--save-realizable", "part.txt")
    assert (code, "part.txt" in out) == (1, True)
    assert ntp("check", "part.txt", *repair)[0] == 0
    code, answer, err = ntp("train", "part.txt", "--out", "m", *repair, "--json")
    assert (code, answer["realizable"], answer["status"]) == (0, True, "complete")
    assert bool(answer["repaired"]) == bool(repair)
    assert "a larger --stage1 or --first-rate raises it" in err
    model = load_reached("m")[0]
    for line in {line for line in (tmp_path / "part.txt").read_text().splitlines() if len(line.split()) > 2}:
        *words, last = line.split()
        told = model.predict(words)
        assert (told.next(1)[0][0], told.rule) == (last, "unique")
