"""`hardmax verify`: the contract, the exit codes, and what it says to a person."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from hardmax import cli
from hardmax.theory.instances import instances
from hardmax.theory.paper_b import instances as table

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "verify.schema.json").read_text())


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
    assert "holds, not fails" in verify("B-ASM-B")[1]


def test_undecided_is_exit_code_3(verify, monkeypatch):
    # the theorem asks for one best token: with two of them nothing is decided about their separation
    tied = replace(instances(["B-THM-L4"])[0], subject=table.examples.mirrored, expected="undecided")
    monkeypatch.setattr(table, "INSTANCES", [tied])
    monkeypatch.setattr("hardmax.theory.paper_b.gradients.assumption_b", lambda problem: _Holds())
    code, out, _ = verify("B-THM-L4", "--json")
    assert code == 3
    assert json.loads(out)["checks"][0]["verdict"] == "undecided"


def test_an_unknown_id_is_exit_code_2(verify):
    code, out, err = verify("B-THM-L11")
    assert (code, out) == (2, "")
    assert "B-THM-L10" in err


class _Holds:
    holds, witness = True, None


@pytest.mark.no_cover
def test_several_are_as_expected(verify):
    """All of them are run one by one in tests/theory/test_instances.py."""
    chosen = ["B-ASM-B", "B-EQ-73", "B-EQ-79", "B-NEW-2", "B-THM-1", "B-THM-L1"]
    code, out, err = verify("--json", *chosen)
    result = json.loads(out)
    jsonschema.validate(result, SCHEMA)
    assert (code, err) == (0, "")
    assert {c["id"] for c in result["checks"]} == set(chosen)
    assert {c["verdict"] for c in result["checks"]} == {"holds", "fails", "vacuous", "not applicable"}
