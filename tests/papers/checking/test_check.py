"""The rule from hypotheses and slack to a verdict, and the two readings."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

import hardmax as hm
from hardmax.papers.checking.check import (
    Hypothesis,
    Outcome,
    check_statement,
    outcome_of,
    statements,
    verdict_of,
)
from hardmax.papers.max_margin.instances import opposed

MET, UNMET, OPEN = (Hypothesis("h", holds) for holds in (True, False, None))


def stated(kind="finite", label="proved"):
    return replace(statements()["B-THM-L4"], kind=kind, label=label)


@pytest.mark.parametrize(
    "hypotheses, slack, vacuous, verdict",
    [
        ((MET,), 0.0, False, "holds"),
        ((MET,), -1e-300, False, "fails"),
        ((MET,), -1.0, True, "fails"),
        ((MET,), 1.0, True, "vacuous"),
        ((MET, UNMET), -1.0, False, "not applicable"),
        ((OPEN, UNMET), 1.0, False, "not applicable"),
        ((MET, OPEN), 1.0, False, "undecided"),
        ((), None, False, "undecided"),
        ((), math.nan, False, "undecided"),
        ((), math.inf, False, "holds"),
    ],
)
def test_the_rule(hypotheses, slack, vacuous, verdict):
    assert verdict_of(stated(), Outcome(hypotheses, slack, vacuous=vacuous, proof="a proof")) == verdict


@pytest.mark.parametrize(
    "kind, label, proof, verdict",
    [
        ("finite", "proved", None, "undecided"),
        ("limit", "derived", None, "undecided"),
        ("limit", "proved", "a Farkas vector", "fails"),
        ("existential", "proved", "even with one", "undecided"),
        ("finite", "measured", None, "fails"),
        ("limit", "conjecture", None, "undecided"),
        ("limit", "conjecture", "an absorbing set", "refuted"),
    ],
)
def test_nothing_fails_without_a_proof(kind, label, proof, verdict):
    assert verdict_of(stated(kind, label), Outcome((MET,), -1.0, proof=proof)) == verdict


def test_a_conjecture_is_never_said_to_hold():
    assert verdict_of(stated(label="conjecture"), Outcome((MET,), 1.0)) == "consistent"


def test_the_wrong_subject_is_named():
    with pytest.raises(ValueError, match="B-THM-3 is about a Problem, got int"):
        check_statement("B-THM-3", 3)


def test_properties_follow_the_verdict():
    found = check_statement("B-ASM-B", hm.data.example("B-FIG-1a"))
    assert (found.holds, found.vacuous) == (True, False)
    found = check_statement("B-EQ-79", hm.data.example("B-FIG-3a"), selection=(1, 1, 1))
    assert (found.holds, found.vacuous) == (False, True)


def test_the_two_readings_of_theorem_2():
    found = check_statement("B-THM-2", opposed())
    assert (found.verdict, found.paper_verdict) == ("not applicable", "fails")
    assert [h.erratum for h in found.hypotheses if not h.holds] == ["B-ERR-01"]
    assert "B-ERR-01" in found.errata


def test_a_hypothesis_of_the_paper_itself_excuses_its_reading_too():
    lone = Outcome((UNMET,), slack=-1.0, paper_slack=-1.0)
    assert verdict_of(stated(), lone, "paper") == "not applicable"


def test_a_reading_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="has no wording of the paper here; use reading='corrected'"):
        check_statement("B-ASM-B", hm.data.example("B-FIG-1a"), reading="paper")


def test_the_table_is_in_reading_order():
    ids = list(statements())
    assert ids.index("B-THM-L2") < ids.index("B-THM-L10")
    assert all(each.claim.endswith(".") and each.title for each in statements().values())


def test_theorem_3_judges_a_given_path():
    problem = hm.data.example("B-FIG-8")
    path = hm.train(problem, hm.optim.Normalized(0.1), steps=2000)
    assert check_statement("B-THM-3", problem, path).holds
    short = hm.train(problem, hm.optim.Normalized(0.1), steps=20)
    assert check_statement("B-THM-3", problem, short).verdict == "not applicable"
    assert check_statement("B-THM-3", problem).holds  # around the best tokens


@pytest.mark.parametrize(
    "slack, proved, as_float",
    [
        (Fraction(-1, 4), "fractions", -0.25),
        (arb(-1), "balls", -1.0),
        (Fraction(-1, 10**400), "fractions", -math.ulp(0.0)),  # below zero, though no double tells
        (-(10**400), None, -math.inf),
        (-0.25, None, -0.25),
        (np.float32(-0.25), None, -0.25),
        (arb(0, 1), None, None),
        (Fraction(1, 4), None, 0.25),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exact_slack_proves_itself_except_of_a_limit(slack, proved, as_float):
    for kind, wanted in (("finite", proved), ("limit", None)):
        tested = replace(stated(kind), test=lambda subject: Outcome((MET,), slack, paper_slack=slack))
        found = outcome_of(tested, opposed())
        assert (found.slack, found.proof) == (as_float, wanted)
        assert (found.paper_slack, found.paper_proof) == (as_float, wanted)
        given = replace(tested, test=lambda subject: Outcome((MET,), slack, proof="counted"))
        assert outcome_of(given, opposed()).proof == "counted"


def test_a_numpy_bool_is_a_condition_like_any():
    assert Hypothesis("h", np.bool_(False)).holds is False
    found = Outcome((Hypothesis("h", np.bool_(False)),), -1.0, proof="a proof")
    assert verdict_of(stated(), found) == "not applicable"
