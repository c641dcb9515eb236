"""`hardmax ntp check` and its files: which can be read, once or twice, and what an interrupt leaves."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hardmax.app.results.next_token_check import check as ntp_check
from hardmax.nexttoken import realizable, walking
from hardmax.nexttoken.walking import TORN

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "svop.txt")


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "file.txt"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_all_files_are_looked_at_before_the_first_is_read(ntp, file, tmp_path):
    bad = file("a\0\n")  # which is refused when it is read
    code, out, err = ntp("check", bad, tmp_path / "missing.txt")
    assert (code, out) == (2, "")
    assert "missing.txt: No such file or directory" in err
    assert "Is a directory" in ntp("check", bad, tmp_path)[2]
    assert "zero bytes" in ntp("check", bad, EXAMPLE)[2]


def test_an_empty_name_is_no_folder(ntp):
    code, out, err = ntp("check", "")
    assert (code, out) == (2, "")
    assert "FILE must be the name of a file or folder" in err
    assert err.count("\n") == 1


def test_help_names_standard_input(ntp):
    assert "- is standard input" in " ".join(ntp("check", "--help")[1].split())


def piped(text, *arguments):
    """The command behind a pipe: its exit code and streams."""
    command = [sys.executable, "-m", "hardmax", "ntp", "check", *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="standard input has no path on this system")
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_read_but_not_a_second_time(tmp_path, name):
    """The second reading met an empty pipe, and an empty file was said to be the realizable part."""
    code, out, _ = piped("a b b\na b c\nb a\nc c\n", name, "--json")
    found = json.loads(out)
    assert (code, found["sentences"]["count"], found["realizable_part"]["samples"]) == (1, 4, 5)
    saved = tmp_path / "saved.txt"
    code, out, err = piped("a b b\na b c\nb a\nc c\n", name, "--save-realizable", saved)
    assert (code, out, saved.exists()) == (2, "", False)
    assert "/dev/stdin must be a file on disk" in err
    assert err.count("\n") == 1


def test_a_packed_file_is_read_a_second_time(ntp, tmp_path):
    packed, saved = tmp_path / "raw.txt.gz", tmp_path / "saved.txt"
    packed.write_bytes(gzip.compress(b"a b b\n\nd\na b c\r\nb a\rc c"))
    assert ntp("check", packed, "--save-realizable", saved)[0] == 1
    assert saved.read_text() == "a b b\na b\nb a\nc c\n"


@pytest.mark.parametrize("text", ["a b b\na b c\nb a\nc c\n", "a b\n\nb a\n"])
def test_a_file_that_shrank_since_it_was_checked_is_not_saved(file, tmp_path, text):
    path, saved = file(text), tmp_path / "saved.txt"
    found = ntp_check(path)
    path.write_text(text[: text.rindex("b a")])
    with pytest.raises(ValueError, match="must be as it was when it was checked"):
        found.save(saved)
    assert not saved.exists()
    path.write_text(text + "a d\n")  # what was added was not checked
    found.save(saved)
    assert "d" not in saved.read_text()
    assert saved.read_text().count("\n") == found.sentences.n


@pytest.mark.parametrize("count, words", [(2, "and 1 other:"), (3, "and 2 others:")])
def test_several_files_are_named_by_the_first(ntp, count, words):
    assert words in ntp("check", *[EXAMPLE] * count)[1]


@pytest.fixture
def signals():
    """As at a terminal; a test run in the background may have been handed down an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "where, name, text, words",
    [
        (
            walking.Walk,
            "add",
            "a b\nb a\n",
            "2 sentences that were read were checked: they are realizable; start",
        ),
        (walking.Walk, "relations", "a b\na c\nb a\n", "3 sentences that were read were checked; start"),
        (realizable, "heaviest", "a b\na c\nb a\n", "were checked: they are not realizable; start"),
    ],
)
def test_an_interrupt_behind_the_reading_is_not_swallowed(
    ntp, file, monkeypatch, signals, where, name, text, words
):
    plain = getattr(where, name)

    def interrupted(self, *arguments):
        found = plain(self, *arguments)
        signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(where, name, interrupted)
    code, out, err = ntp("check", file(text))
    assert (code, out) == (130, "")
    assert words in err
    assert err.count("\n") == 1


def test_an_interrupt_of_the_walk_says_what_it_met(ntp, file, monkeypatch, signals):
    monkeypatch.setattr(walking, "SHARE", 1)
    add = walking.Walk.add

    def interrupted(self, *found):
        add(self, *found)
        if self.tally[TORN]:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(walking.Walk, "add", interrupted)
    code, out, _ = ntp("check", file("b a\na b\na c\nc c\n"), "--json")
    told = json.loads(out)
    assert (code, told["schema"], told["code"]) == (130, "hardmax.error/1", 130)
    assert "4 sentences that were read were checked: they are not realizable; start" in told["error"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
