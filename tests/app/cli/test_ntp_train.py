"""`hardmax ntp train` and `hardmax ntp predict`: the contract, Example 2's table, and what goes wrong."""

import json
from pathlib import Path

import jsonschema
import pytest

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"
TRAIN, PREDICT = (
    json.loads((SCHEMAS / f"ntp-{name}.schema.json").read_text()) for name in ("train", "predict")
)


@pytest.fixture
def example_1(tmp_path):
    file = tmp_path / "svop.txt"
    file.write_text("S V O P\nV O P\nO P P\nP S V\n")
    return file


OPTIONS = ("--first-rate", 0.1, "--rate", 0.025)


@pytest.mark.parametrize("stage1, probability, tied", [(20, 0.51381, 0.32019), (900, 1.0, 0.5)])
def test_example_2_through_the_command_line(ntp, tmp_path, example_1, stage1, probability, tied):
    """C-EX-2: four unseen inputs, the last an exact tie."""
    model = tmp_path / "model.npz"
    code, out, err = ntp("train", example_1, "--out", model, "--stage1", stage1, *OPTIONS, "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, TRAIN)
    assert (code, err, answer["status"], answer["model"]) == (0, "", "complete", str(model))
    assert answer["norm_ov"] == pytest.approx(0.1 * stage1)
    assert answer["misalignment_ov"] == 0
    assert answer["steps"] == 900
    for sentence, word in {"S P": "V", "O S P": "P", "V P": "O"}.items():
        code, out, err = ntp("predict", model, sentence, "--json")
        told = json.loads(out)
        jsonschema.validate(told, PREDICT)
        assert (code, err, told["rule"]) == (0, "", "unique")
        assert told["next"][0] == {"token": word, "probability": pytest.approx(probability, abs=5e-6)}
        assert told["attended"][0]["weight"] == pytest.approx(0.99945, abs=2e-5)
    told = json.loads(ntp("predict", model, "S V P", "--json")[1])
    jsonschema.validate(told, PREDICT)
    assert told["rule"] == "tie"
    assert {each["token"] for each in told["next"][:2]} == {"V", "O"}
    assert [each["probability"] for each in told["next"][:2]] == [pytest.approx(tied, abs=5e-6)] * 2
    assert told["attended"][0]["type"] == "non_comparable"
    assert "equally probable" in told["reason"]


def test_text_for_people(ntp, tmp_path, example_1):
    code, out, _ = ntp("train", example_1, "--out", tmp_path / "m")
    assert code == 0
    assert "1 - cos(W_kq, W_kq*)" in out
    code, out, _ = ntp("predict", tmp_path / "m", "O S P")
    assert code == 0
    assert "non-comparable" in out
    assert "unique: O: optimal under the last token" in out
    limit = json.loads(ntp("predict", tmp_path / "m", "O S P", "--at-infinity", "--json")[1])
    assert [each["weight"] for each in limit["attended"]] == [1, 0, 0]


def test_data_that_is_not_realizable(ntp, tmp_path):
    file = tmp_path / "confused.txt"
    file.write_text("p q q\nr p q p\nq r\n")
    code, out, err = ntp("train", file, "--out", tmp_path / "m")
    assert (code, out) == (2, "")
    assert "not realizable (contradictory order)" in err
    assert "hardmax ntp check" in err
    assert "save_realizable" in err
    assert not (tmp_path / "m").exists()
    code, out, err = ntp("train", file, "--out", tmp_path / "m", "--anyway", "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, TRAIN)
    assert (code, answer["realizable"], answer["status"]) == (0, False, "complete")
    assert answer["misalignment_kq"] < 0.1


def test_undefined_numbers_are_null_with_a_reason(ntp, tmp_path):
    file = tmp_path / "cyclic.txt"
    file.write_text("A B B\nC A B C\nB C\n")
    code, out, _ = ntp("train", file, "--out", tmp_path / "m", "--anyway", "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, TRAIN)
    assert (code, answer["misalignment_kq"]) == (0, None)
    assert "contradict" in answer["status"]
    file.write_text("a b c a\nb c\n")
    answer = json.loads(ntp("train", file, "--out", tmp_path / "m", "--anyway", "--json")[1])
    jsonschema.validate(answer, TRAIN)
    assert answer["excess_loss"] is None
    assert "excess_loss is not known" in answer["status"]
    answer = json.loads(ntp("train", file, "--out", tmp_path / "m", "--anyway", "--steps", 0, "--json")[1])
    jsonschema.validate(answer, TRAIN)
    assert "before the first step" in answer["status"]


def test_steps_above_a_bound_are_reported(ntp, tmp_path, example_1):
    code, out, err = ntp("train", example_1, "--out", tmp_path / "m", "--rate", 5, "--steps", 3, "--json")
    assert code == 0
    assert "above the bound of the condition eta < eta_c" in err
    broken = {c["condition"]: c["holds"] for c in json.loads(out)["conditions"]}
    assert broken["eta < eta_c"] is False
    assert broken["eta0 <= |W_ov*|/2"] is True


def test_mistakes_are_sentences(ntp, tmp_path, example_1):
    assert ntp("train", example_1, "--out", tmp_path / "no" / "m")[0] == 2
    code, _, err = ntp("train", example_1, "--out", tmp_path / "m", "--rate", -1)
    assert (code, "--rate must be a positive number" in err) == (2, True)
    single = tmp_path / "single.txt"
    single.write_text("a b\nb a\n")
    code, _, err = ntp("train", single, "--out", tmp_path / "m")
    assert (code, "no sentence has two distinct tokens" in err) == (2, True)
    code, _, err = ntp("predict", example_1, "S P")
    assert (code, "must be a model written by hardmax ntp train" in err) == (2, True)
    ntp("train", example_1, "--out", tmp_path / "m")
    code, _, err = ntp("predict", tmp_path / "m", "S X")
    assert (code, "does not know 'X'" in err) == (2, True)
    code, _, err = ntp("train", example_1, "--out", tmp_path)
    assert (code, "this is a folder" in err) == (2, True)
    code, _, err = ntp("train", example_1, "--out", example_1)
    assert (code, "this file is needed" in err) == (2, True)
    assert example_1.read_text().startswith("S V O P")


@pytest.mark.parametrize(
    "text, words",
    [
        ("a a a\n", "with one token there is no wrong next token"),
        ("a\nb\n", "only sentences of one token"),
        ("a b c b\nb c\n", "tokens that begin no sentence: 1, such as 'c'; --repair"),
    ],
)
def test_data_without_enough_to_learn(ntp, tmp_path, text, words):
    file = tmp_path / "few.txt"
    file.write_text(text)
    code, out, err = ntp("train", file, "--out", tmp_path / "m", "--quiet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_words_with_spaces_and_without_letters(ntp, tmp_path):
    file = tmp_path / "words.json"
    file.write_text(json.dumps([["New York", "\x1b[7m", "\x1b[7m"], ["\x1b[7m", "New York"]]))
    assert ntp("train", file, "--out", tmp_path / "m")[0] == 0
    sentence = json.dumps(["New York", "\x1b[7m"])
    told = json.loads(ntp("predict", tmp_path / "m", sentence, "--json")[1])
    jsonschema.validate(told, PREDICT)
    assert (told["sentence"], told["next"][0]["token"]) == (["New York", "\x1b[7m"], "\x1b[7m")
    code, out, _ = ntp("predict", tmp_path / "m", sentence)
    assert (code, "\x1b" in out, r"'\x1b[7m'" in out) == (0, False, True)
    code, _, err = ntp("predict", tmp_path / "m", "New York")
    assert (code, "does not know 'New'; it knows 'New York'" in err) == (2, True)


def test_a_long_reason_is_told_whole(ntp, tmp_path, example_1):
    ntp("train", example_1, "--out", tmp_path / "m")
    out = ntp("predict", tmp_path / "m", "S V P")[1]
    assert "and there are 2 of them; V and O are equally probable" in " ".join(out.split())


def test_a_short_first_stage_is_mentioned(ntp, tmp_path, example_1):
    _, _, err = ntp("train", example_1, "--out", tmp_path / "m", "--stage1", 1)
    assert "the right next token has a probability of at most 0.26" in err
    assert ntp("train", example_1, "--out", tmp_path / "m", "--stage1", 1, "--quiet")[2] == ""


@pytest.mark.parametrize("options", [[], ["--uniform", "--rate", 0.3]])
def test_the_same_command_writes_the_same_bytes(ntp, tmp_path, example_1, options):
    printed = [ntp("train", example_1, "--out", tmp_path / "m", *options, "--json")[1] for _ in range(2)]
    assert printed[0] == printed[1]
    one = (tmp_path / "m").read_bytes()
    ntp("train", example_1, "--out", tmp_path / "other", *options)
    assert (tmp_path / "other").read_bytes() == one
