"""`hardmax verify`: the contract, the exit codes, and what it says to a person."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import hardmax as hm
from hardmax.app import cli
from hardmax.papers.checking.instances import instances
from hardmax.papers.max_margin import instances as table

EXAMPLES = Path(__file__).parents[3] / "examples"
SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "verify.schema.json").read_text()
)


@pytest.fixture
def verify(capsys):
    def run(*arguments):
        code = cli.run(["verify", *arguments])
        return code, *capsys.readouterr()

    return run


def test_json_keeps_the_contract(verify):
    code, out, err = verify("B-THM-2", "B-THM-L9", "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert (code, err) == (0, "")
    assert {each["id"] for each in answer["checks"]} == {"B-THM-2", "B-THM-L9"}
    opposed = next(each for each in answer["checks"] if each["instance"] == "opposed inputs")
    assert opposed["verdict"] == opposed["expected"] == "not applicable"
    separable = {"id": "best tokens separable", "holds": False, "measured": 0.0}
    assert separable in opposed["hypotheses"]


def test_a_table_for_people(verify):
    code, out, _ = verify("B-THM-L4")
    assert code == 0
    assert "B-FIG-1a" in out
    assert "not met: B-ASM-B" in out


def test_an_unexpected_verdict_is_exit_code_1(verify, monkeypatch):
    wrong = [replace(each, expected="fails") for each in instances(["B-ASM-B"])]
    monkeypatch.setattr(table, "INSTANCES", wrong)
    code, out, err = verify("B-ASM-B", "--json")
    assert code == 1
    assert "B-ASM-B on B-FIG-1a: holds, expected fails" in err
    jsonschema.validate(json.loads(out), SCHEMA)
    row = next(line for line in verify("B-ASM-B")[1].splitlines() if "B-FIG-1a" in line)
    assert row.split()[:4] == ["B-ASM-B", "B-FIG-1a", "holds", "fails"]


def test_undecided_is_exit_code_3(verify, monkeypatch):
    # the theorem asks for one best token: with two of them nothing is decided about their separation
    tied = replace(instances(["B-THM-L4"])[0], subject=table.mirrored, expected="undecided")
    monkeypatch.setattr(table, "INSTANCES", [tied])
    monkeypatch.setattr("hardmax.papers.max_margin.lemmas.assumption_b", lambda problem: _Holds())
    code, out, _ = verify("B-THM-L4", "--json")
    assert code == 3
    assert json.loads(out)["checks"][0]["verdict"] == "undecided"


def test_an_unknown_id_is_exit_code_2(verify):
    code, out, err = verify("B-THM-L11")
    assert (code, out) == (2, "")
    assert "B-THM-L10" in err


def test_verdict_and_expected_verdict_stand_side_by_side(verify):
    """A claim that fails where it should is no "ok ... fails"."""
    code, out, _ = verify("B-ASM-B")
    assert code == 0
    assert out.splitlines()[0].split() == ["id", "on", "verdict", "expected", "slack"]
    assert ["B-ASM-B", "B-FIG-1b", "fails", "fails", "-1"] in [line.split() for line in out.splitlines()]
    assert out.splitlines()[-1] == "2 of 2 verdicts as expected"
    assert max(map(len, verify("B-THM-2", "B-THM-L4")[1].splitlines())) <= 80


def test_own_data_by_the_kind_that_a_statement_takes(verify, tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\ngood film,positive\nbad film,negative\n")
    for id, file, verdict, exit_code in (
        ("B-THM-2", EXAMPLES / "three-inputs.json", "not applicable", 0),
        ("B-ASM-B", EXAMPLES / "three-inputs.json", "fails", 1),
        ("A-LEM-2", texts, "holds", 0),
        ("C-LEM-1", EXAMPLES / "svop.txt", "holds", 0),
    ):
        code, out, err = verify(id, "--on", str(file), "--json")
        (found,) = json.loads(out)["checks"]
        jsonschema.validate(json.loads(out), SCHEMA)
        assert (code, err) == (exit_code, "")
        assert (found["id"], found["verdict"], found["expected"]) == (id, verdict, None)
        assert found["instance"] == file.name
    out = verify("B-ASM-B", "--on", str(EXAMPLES / "three-inputs.json"))[1]
    assert out.startswith("B-ASM-B, Assumption B: one best token, equal others on three-inputs.json: fails")


@pytest.mark.parametrize(
    "id, file, words",
    [
        ("A-LEM-2", "three-inputs.json", "on must be texts with labels"),
        ("B-THM-2", "svop.txt", "on must be a problem (.json, .npz or .csv"),
        ("B-ASM-C", "three-inputs.json", "missing a required argument: 'selection'"),
        ("B-ASM-B", "missing.json", "No such file"),
    ],
)
def test_the_wrong_file_is_told_which_one_is_wanted(verify, id, file, words):
    code, out, err = verify(id, "--on", str(EXAMPLES / file))
    assert (code, out) == (2, "")
    assert words in err
    assert verify("--on", str(EXAMPLES / file))[0] == 2


def test_where_the_best_tokens_do_not_separate_others_are_named(verify):
    """The option that is printed works."""
    file = str(EXAMPLES / "opposed.json")
    code, out, _ = verify("D-THM-5", "--on", file, "--json")
    (found,) = json.loads(out)["checks"]
    jsonschema.validate(json.loads(out), SCHEMA)
    assert (code, found["verdict"]) == (0, "not applicable")
    told, _, option = found["advice"].partition("add ")
    assert told.startswith("the best tokens cannot be separated; tokens [0, 1] can.")
    assert option == "--given selection=[0,1]"
    (found,) = json.loads(verify("D-THM-5", "--on", file, "--json", *option.split())[1])["checks"]
    assert found["advice"] is None
    assert "selection separable" not in [h["id"] for h in found["hypotheses"] if h["holds"] is False]
    assert (
        "Advice: the given tokens cannot" in verify("B-THM-3", "--on", file, "--given", "selection=[0,0]")[1]
    )


def test_a_statement_about_the_best_tokens_names_the_one_about_any(verify):
    code, out, _ = verify("B-THM-1", "--on", str(EXAMPLES / "opposed.json"), "--json")
    (found,) = json.loads(out)["checks"]
    command = found["advice"].rpartition("run: ")[2].split()
    assert (code, command[:3]) == (0, ["hardmax", "verify", "B-THM-3"])
    (found,) = json.loads(verify(*command[2:], "--json")[1])["checks"]
    met = {h["id"]: h["holds"] for h in found["hypotheses"]}
    assert (met["selection separable"], met["locally optimal"]) == (True, False)


def test_python_passes_a_selection():
    problem = hm.Problem.load(EXAMPLES / "opposed.json")
    (first,) = hm.verify("B-THM-3", on=problem).checks
    assert first.advice.endswith('add given={"selection": [0, 1]}')
    (second,) = hm.verify("B-THM-3", on=problem, given={"selection": [0, 1]}).checks
    assert second.advice is None
    same_keys = hm.Problem([[[1.0], [1.0]]], [[1.0, 0.0]])
    (third,) = hm.verify("B-THM-1", on=same_keys).checks
    assert third.advice == "the best tokens cannot be separated, and no selection was found that can."


class _Holds:
    holds, witness = True, None


@pytest.mark.no_cover
def test_several_are_as_expected(verify):
    """All of them are run one by one in tests/papers/checking/test_instances.py."""
    chosen = ["B-ASM-B", "B-EQ-73", "B-EQ-79", "B-NEW-2", "B-THM-1", "B-THM-L1"]
    code, out, err = verify("--json", *chosen)
    result = json.loads(out)
    jsonschema.validate(result, SCHEMA)
    assert (code, err) == (0, "")
    assert {c["id"] for c in result["checks"]} == set(chosen)
    assert {c["verdict"] for c in result["checks"]} == {"holds", "fails", "vacuous", "not applicable"}
