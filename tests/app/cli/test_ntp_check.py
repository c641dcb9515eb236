"""`hardmax ntp check` and `hardmax ntp generate`: the contract, the exit codes, and what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from hardmax._lib import terminal

ROOT = Path(__file__).parents[3]
SCHEMAS = {
    name: json.loads((ROOT / "docs" / "reference" / "schemas" / f"ntp-{name}.schema.json").read_text())
    for name in ("check", "generate")
}
EXAMPLE = str(ROOT / "examples" / "svop.txt")


@pytest.fixture
def answer(ntp):
    """The exit code and the JSON object, held against its schema."""

    def run(name, *arguments):
        code, out, _ = ntp(name, *arguments, "--json")
        found = json.loads(out)
        jsonschema.validate(found, SCHEMAS[name])
        return code, found

    return run


@pytest.fixture
def file(tmp_path):
    def write(text, name="file.txt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_example_1_is_realizable(answer, oracles):
    code, found = answer("check", EXAMPLE)
    oracle = oracles["c"]["C-ORC-1_example1"]
    assert (code, found["realizable"], found["violations"]) == (0, True, [])
    assert found["collocation"] == oracle["collocation"]
    assert found["orders"]["P"] == {
        "optimal": ["O"],
        "non_optimal": ["P"],
        "confused": [],
        "non_comparable": ["S", "V"],
        "status": "complete",
    }
    assert (found["samples"], found["sentences"]["longest"]) == (oracle["N"], oracle["L_max"])
    assert found["frequencies"]["smallest"] == pytest.approx(1 / 9)
    assert found["realizable_part"] is None


def test_example_1_in_words(ntp):
    code, out, err = ntp("check", EXAMPLE)
    assert (code, err) == (0, "")
    assert "collocation: S -> V, V -> O, O -> P, P -> S" in out
    assert "under O: O > S, V" in out


@pytest.mark.parametrize("number", range(7))
def test_each_violation_is_named_with_a_witness(oracles, answer, file, number):
    oracle = oracles["c"]["C-ORC-7_violations"][number]
    text = "\n".join(" ".join(raw) for raw in oracle["raw_sentences"])
    code, found = answer("check", file(text))
    assert (code, found["realizable"]) == (1, False)
    kinds = [each["kind"] for each in found["violations"]]
    assert oracle["witness"]["kind"] in kinds
    assert set(kinds) - {"cycle"} == set(oracle["all_violation_kinds"])
    assert all(each["witness"] for each in found["violations"])


@pytest.mark.parametrize(
    "text, words",
    [
        (
            "A B C\nA C\nB C\nC A",
            "several next tokens 1 (sentences with several next tokens) [A] is followed by B, C",
        ),
        ("A B\nB C", "C: no sentence begins with it"),
        ("a q q\nb y z q y\ny z\nz q\nq a", "a, z all lead to q"),
        ("A B A\nB C\nC A", "[A B] is followed by A, but no token in it leads there; C does"),
        ("p q q\nr p q p\nq r", "under q: r > p in [r p q] -> p, but p > q in [p q] -> q"),
        ("A B B\nC A B C\nB C", "under B: A > B > A"),
        ("p q q q\nq p", "[p q q] -> q: q occurs 2 times, what decides 1"),
    ],
)
def test_each_violation_in_words(ntp, file, text, words):
    code, out, _ = ntp("check", file(text))
    assert code == 1
    assert "not realizable" in out
    assert words in " ".join(out.split())


def test_a_next_token_that_was_made_up_is_called_so(ntp, file):
    """The table once read: [The cat] goes on with sat, but sat leads there."""
    code, out, _ = ntp("check", file("The cat sat\n"), "--repair")
    assert code == 1
    told = " ".join(out.split())
    assert "[The cat] is followed by sat, but no token in it leads there; sat itself does, as made up" in told


def test_people_read_plain_names_and_json_keeps_its_words(ntp, answer, file):
    text = file("p q q\nr p q p\nq r")
    _, out, _ = ntp("check", text)
    assert "contradictory order" in out
    assert not {"nondeterministic", "missing_collocation", "not_injective", "assumption3"} & set(out.split())
    assert "confused" in [each["kind"] for each in answer("check", text)[1]["violations"]]


@pytest.mark.parametrize(
    "how, vocabulary, realizable",
    [("keep", ["She", "sings.", "sings"], False), ("split", ["She", "sings", "."], False)],
)
def test_punctuation_is_kept_or_becomes_tokens(answer, file, how, vocabulary, realizable):
    raw = file("She sings.\nShe sings\n")
    _, found = answer("check", raw, "--punctuation", how)
    assert (list(found["collocation"]), found["realizable"]) == (vocabulary, realizable)
    assert found["punctuation"] == how
    assert any("sings. and sings" in note for note in found["notes"]) is (how == "keep")


def test_punctuation_is_stripped_in_what_is_checked_saved_and_trained_on(answer, ntp, file, tmp_path):
    raw, part = file("She sings.\n(sings) she!\n-- she sings --\n"), tmp_path / "part.txt"
    code, found = answer("check", raw, "--punctuation", "strip", "--save-realizable", part)
    assert list(found["collocation"]) == ["She", "sings", "she"]
    assert set(part.read_text().split()) <= {"She", "sings", "she"}
    raw = file("we sing.\n(sing) we!\n")
    code, _, err = ntp(
        "train", raw, "--out", tmp_path / "model.npz", "--steps", "0", "--punctuation", "strip"
    )
    assert code == 0, err
    code, out, _ = ntp("predict", tmp_path / "model.npz", "we")
    assert "sing" in out.split()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc")
@pytest.mark.parametrize("command", ["check", "train", "generate"])
def test_json_is_alone_on_standard_output(command, file, tmp_path):
    """A file that is written to standard output would come before the object, or after it."""
    option = {"check": "--save-realizable"}.get(command, "--out")
    words = [
        command,
        *([] if command == "generate" else [str(file("a b\nb a\n"))]),
        option,
        "/proc/self/fd/1",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "hardmax", "ntp", *words, "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert f"{option} /proc/self/fd/1: --json prints its object to standard output" in done.stderr
    assert json.loads(done.stdout)["schema"] == "hardmax.error/1"


def test_an_unknown_way_with_punctuation_is_refused(ntp, file, tmp_path):
    for command in (["check"], ["train", "--out", tmp_path / "model.npz"]):
        code, _, err = ntp(*command, file("a b\n"), "--punctuation", "drop")
        assert code == 2
        assert "'drop' is not one of 'keep', 'split', 'strip'" in err


def test_a_sentence_in_place_of_a_file_is_told_where_sentences_go(ntp):
    code, _, err = ntp("check", "S V O P")
    assert code == 2
    assert "no file is called 'S V O P'" in err
    assert "one per line" in err


def test_the_realizable_part_is_measured_saved_and_realizable(answer, ntp, file, tmp_path):
    raw, out = file("a b b\na b c\nb a\nc c\n"), tmp_path / "part.txt"
    code, found = answer("check", raw, "--save-realizable", out)
    assert (code, found["saved"]) == (1, str(out))
    assert found["realizable_part"] == {
        "sentences": 4,
        "whole": 3,
        "cut": 1,
        "vocabulary": 3,
        "samples": 5,
        "of_samples": 6,
    }
    assert out.read_text() == "a b b\na b\nb a\nc c\n"
    assert answer("check", out)[0] == 0
    code, text, _ = ntp("check", raw)
    assert "5 of 6 samples (83.33%), from 3 whole sentences and the beginnings of 1" in " ".join(text.split())
    assert "It can be saved as a file" in text


def test_a_realizable_file_is_saved_as_it_is(answer, tmp_path):
    out = tmp_path / "all.json"
    assert answer("check", EXAMPLE, "--save-realizable", out)[0] == 0
    assert json.loads(out.read_text())[0] == ["S", "V", "O", "P"]


def test_an_empty_part_is_not_written(ntp, file, tmp_path):
    out = tmp_path / "none.txt"
    code, text, err = ntp("check", file("a b c\n"), "--save-realizable", out)
    assert code == 1
    assert "nothing was written" in err
    assert "realizable part found: none" in text
    assert "Tokens that begin no sentence: 2; a repair" in " ".join(text.split())
    assert not out.exists()


def test_a_repair_is_asked_for_and_named(answer, ntp, file):
    path = file("a b\nb c\n")
    assert answer("check", path)[0] == 1
    code, found = answer("check", path, "--repair")
    assert (code, found["repaired"], found["collocation"]["c"]) == (0, ["c"], "a")
    assert "with a next token made up for c" in ntp("check", path, "--repair")[1]


def test_a_long_line_is_cut_and_said_so(answer, ntp, file):
    path = file("a b " * 50)
    _, found = answer("check", path, "--max-length", 10)
    assert found["sentences"] == {"count": 1, "longest": 10, "cut": 1, "cut_tokens": 90, "max_length": 10}
    assert "90 tokens were left out" in found["notes"][0]
    assert "90 tokens were left out" in ntp("check", path, "--max-length", 10)[2]
    assert ntp("check", path, "--max-length", 10, "--quiet")[2] == ""


def test_what_was_not_read_is_not_called_realizable(answer, ntp, file):
    chain = " ".join(f"w{i}" for i in range(70))
    lines = [chain + " w0", "w68 w69 w69", *(f"w{i} w{(i + 1) % 70}" for i in range(1, 70))]
    path = file("\n".join(lines))
    code, found = answer("check", path)
    assert (code, found["realizable"], found["violations"]) == (3, None, [])
    assert found["status"] == "checked up to 64 tokens; 1 of 71 sentences are longer"
    assert found["sentences"]["max_length"] == 64
    assert "not decided" in ntp("check", path)[1]
    assert "checked up to 64 tokens" in ntp("check", path)[1]
    code, found = answer("check", path, "--max-length", 100)
    assert (code, found["realizable"], found["status"]) == (1, False, "complete")
    code, found = answer("check", file("a b c\na c " + "a " * 100), "--max-length", 10)
    assert (code, found["realizable"]) == (1, False)  # a violation in the beginning is one of the whole


def test_components_are_the_tokens_on_common_cycles(answer, file):
    code, found = answer("check", file("A B B\nC A B C\nB C"))
    assert (code, found["components"]) == (1, {"B": [["A", "B"]]})
    assert answer("check", EXAMPLE)[1]["components"] == {}


ORDINARY = "the cat sat on the mat\nthe dog barked\na bird sang\ndogs bark at cats\ncats chase mice\n"


def test_the_recommended_step_works_on_ordinary_sentences(answer, ntp, file, tmp_path):
    part, model = tmp_path / "part.txt", tmp_path / "model.npz"
    code, out, _ = ntp("check", file(ORDINARY), "--repair", "--save-realizable", part)
    assert code == 1
    assert "attention nothing, which never has to choose" in " ".join(out.split())
    assert answer("check", file(ORDINARY), "--repair")[1]["teaches_attention"] is False
    command = out.split("hardmax ntp ")[1].split(" trains on it")[0].replace("MODEL", str(model))
    code, _, err = ntp(*command.split())
    assert (code, err) == (0, "")
    assert "cat" in ntp("predict", model, "the")[1].splitlines()[1]
    code, _, err = ntp("train", part, "--out", model, "--repair")
    assert (code, "(--steps 0)" in err) == (2, True)


def test_the_recommended_step_trains_attention_where_it_can(ntp, file, tmp_path):
    out = ntp("check", file("a b b\na b c\nb a\nc c\n"), "--save-realizable", tmp_path / "part.txt")[1]
    command = out.split("hardmax ntp ")[1].split(" trains on it")[0].replace("MODEL", str(tmp_path / "m"))
    assert "--steps" not in command
    assert ntp(*command.split())[0] == 0


def test_uniform_frequencies(answer, file):
    path = file("a b\na b\na b\nb a\n")
    assert answer("check", path)[1]["frequencies"]["largest"] == 0.75
    assert answer("check", path, "--uniform")[1]["frequencies"]["largest"] == 0.5


def test_only_one_token(answer, ntp, file):
    code, found = answer("check", file("hello\n"))
    assert (code, found["samples"], found["frequencies"]["smallest"]) == (1, 0, None)
    assert "none, because no sentence has two tokens" in ntp("check", file("hello\n"))[1]


def test_many_tokens_are_not_all_listed_under_each_query(answer, ntp, file):
    path = file("\n".join(f"w{i} w{(i + 1) % 1200} w{(i + 1) % 1200}" for i in range(1200)))
    code, found = answer("check", path)
    assert code == 0
    assert found["orders"]["w1"]["optimal"] == ["w0"]
    assert found["orders"]["w1"]["non_comparable"] is None
    assert "not listed" in found["orders"]["w1"]["status"]
    assert len(ntp("check", path)[1].splitlines()) < 30  # a long name of the file may take two lines


def test_words_that_steer_a_terminal_are_spelled_out(ntp, file):
    _, out, _ = ntp("check", file("a \x1b[31mred [bold]x\n"))
    assert "\x1b[31m" not in out
    assert r"\x1b[31mred" in out
    assert "[bold]x" in out
    _, out, _ = ntp("check", file("\x1b[31m b b\nb \x1b[31m\n"))
    assert r"collocation: '\x1b[31m' -> b, b -> '\x1b[31m'" in out


def test_words_that_a_terminal_cannot_show_are_spelled_out(ntp, file, monkeypatch):
    path = file("b caf\u00e9\n")
    assert "caf\u00e9: no sentence" in ntp("check", path)[1]
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stdout=SimpleNamespace(encoding="ascii")))
    assert r"'caf\xe9': no sentence" in ntp("check", path)[1]


@pytest.mark.parametrize(
    "content, words",
    [(b"", "at least one sentence"), (b"a \xff\n", "save it as UTF-8"), (b"a\0\n", "zero bytes")],
)
def test_bad_files_are_exit_code_2(ntp, tmp_path, content, words):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    code, out, err = ntp("check", path)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_bad_usage_is_exit_code_2(ntp, tmp_path):
    assert ntp("check", tmp_path / "missing.txt")[0] == 2
    assert ntp("check", EXAMPLE, "--max-length", 1)[0] == 2
    code, _, err = ntp("check", EXAMPLE, "--save-realizable", EXAMPLE)
    assert (code, "this file is needed" in err) == (2, True)
    assert ntp("nonsense")[0] == 2
    assert ntp("generate", "--permutation", "random")[0] == 2


@pytest.mark.slow
def test_real_text_is_told_briefly(ntp, shared_data):
    code, out, _ = ntp("check", shared_data / "tinyshakespeare.txt.xz")
    assert code == 1
    assert len(out.splitlines()) < 60  # of 80 columns
    assert "C-THM-STRUCT" in out


def test_generate_draws_figure_2(answer, oracles):
    code, found = answer("generate")
    oracle = oracles["c"]["C-ORC-9_fig2_V20"]
    assert (code, found["seed"], found["realizable"]) == (0, 0, True)
    assert found["sentences"] == oracle["raw_sentences"]
    assert found["lags"] == oracle["lag"]
    assert (found["samples"], found["longest"]) == (oracle["N"], oracle["L_max"])


def test_generate_writes_what_check_reads(ntp, answer, tmp_path):
    path = tmp_path / "made.txt"
    code, out, err = ntp("generate", "--vocabulary", 6, "--truncate", "--multiplicity", 3, "--out", path)
    assert code == 0
    assert path.read_text() == out
    assert str(path) in err
    assert answer("check", path)[0] == 0


def test_generate_beyond_assumption_3(answer):
    code, found = answer(
        "generate", "--no-assumption3", "--permutation", "uniform", "--lag0", 0, "--max-length", 20
    )
    assert (code, found["realizable"]) == (0, False)
    assert [each["kind"] for each in found["violations"]] == ["assumption3"]
