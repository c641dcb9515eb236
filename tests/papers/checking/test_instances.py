"""Every statement on every instance, and that the table of instances leaves nothing out."""

import json
from collections import defaultdict
from pathlib import Path

import jsonschema
import pytest

import hardmax as hm
from hardmax.app.results.verify import StatementVerdict, VerifyResult
from hardmax.papers.checking.check import statements
from hardmax.papers.checking.instances import Instance, instances

ALL = instances()
SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "verify.schema.json").read_text()
)
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


@pytest.mark.parametrize("instance", ALL, ids=lambda each: f"{each.id}: {each.name}")
def test_the_verdict_is_the_expected_one(instance: Instance) -> None:
    found = instance.run()
    assert found.verdict == instance.expected, (found.slack, found.hypotheses, found.measured)
    assert found.claim
    assert found.label in ("proved", "derived", "measured", "conjecture")
    answer = VerifyResult((StatementVerdict(found, instance.expected),)).json()
    VALIDATOR.validate(json.loads(json.dumps(answer, allow_nan=False)))


def test_every_statement_holds_somewhere_and_breaks_somewhere() -> None:
    verdicts = defaultdict(set)
    for each in ALL:
        verdicts[each.id].add(each.expected)
    assert set(verdicts) == set(statements())
    assert all(found & {"holds", "consistent"} for found in verdicts.values())
    assert [id for id, found in verdicts.items() if not found & {"fails", "not applicable"}] == []


def test_no_instance_is_undecided() -> None:
    """`hardmax verify` would end with 3 though everything is as expected."""
    assert [each for each in ALL if each.expected == "undecided"] == []
    assert (
        hm.check_statement("D-THM-4", hm.data.example("skew")).verdict == "undecided"
    )  # the same words in all norms


def test_names_are_unique() -> None:
    assert len({(each.id, each.name) for each in ALL}) == len(ALL)


def test_verify_runs_each_instance_of_a_statement() -> None:
    found = hm.verify(["B-ASM-B"]).checks
    assert [(each.expected, each.check.verdict) for each in found] == [("holds",) * 2, ("fails",) * 2]


def test_an_unknown_id_names_the_near_ones() -> None:
    with pytest.raises(ValueError, match="B-THM-L10"):
        instances(["B-THM-L11"])
