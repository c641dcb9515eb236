"""Hunts end in a proof, in a suspicion or in nothing, and hand over what they found."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.app.cli import run as cli
from hardmax.app.results.hunt import judge_file
from hardmax.papers.checking.check import Hypothesis, Outcome
from hardmax.papers.hunting.candidates import ProblemCandidate, WordsCandidate, candidate_of, read_ranges
from hardmax.papers.hunting.claims import claim_of, outcome_from
from hardmax.papers.hunting.search import explore, look_again, shrink

ROOT = Path(__file__).parents[3]
OPPOSED = ProblemCandidate(
    (np.array([[1.0, 0.5], [0.0, 0.0]]), np.array([[-1.0, -0.5], [0.0, 0.0]])), (np.array([1.0, 0.0]),) * 2
)


# what a hunt says


def test_a_printed_statement_is_refuted_and_shrunk_to_the_least():
    found = hm.hunt("B-THM-1", reading="paper", tries=3, workers=0)
    assert (found.verdict, found.exit_code) == ("refuted (proved)", 1)
    assert found.candidate.size == (1, 2, 1)  # two tokens of one key: nothing separates them
    assert "Farkas" in found.proof
    assert hm.check_statement("B-THM-1", found.subject(), reading="paper").verdict == "fails"


def test_a_theorem_survives():
    found = hm.hunt("B-THM-L10", tries=2, workers=0)
    assert found.verdict == f"nothing found in {found.instances} instances"
    assert (found.exit_code, found.candidate, found.tries) == (0, None, 2)
    assert found.instances > 100


def test_a_float_is_a_suspicion_and_a_fraction_a_proof():
    def in_floats(problem):
        return 3.0 - problem.scores.max()

    def in_fractions(problem):
        return Fraction(3) - Fraction(float(problem.scores.max()))

    suspected, proved = (hm.hunt(each, tries=3, workers=0) for each in (in_floats, in_fractions))
    assert suspected.verdict.startswith("suspected (15 digits")
    assert (suspected.exit_code, suspected.proof) == (3, None)
    assert (proved.verdict, proved.proof) == ("refuted (proved)", "fractions")
    assert proved.subject().scores.max() == 4.0  # the simplest number above 3


def test_hypotheses_push_back_and_never_end_the_search():
    def needs_a_tie(problem):
        tied = problem.n == 1 and len(set(problem.scores.tolist())) < problem.scores.size
        return Outcome((Hypothesis("tied", tied),), -1.0 if tied else 1.0, proof="counted" if tied else None)

    found = hm.hunt(needs_a_tie, tries=5, workers=0, space="n=1..3,T=3,d=1")
    assert found.verdict == "refuted (proved)"
    assert found.words["not applicable"] > 0


def test_an_open_hypothesis_is_doubtful_not_refuted():
    def open_one(problem):
        return Outcome((Hypothesis("nobody knows", None),), -1.0, proof="of something else")

    found = hm.hunt(open_one, tries=1, workers=0)
    assert (found.verdict, found.exit_code) == ("hypothesis doubtful", 3)


def test_noise_is_not_even_a_suspicion():
    def noisy(problem):
        return -1e-16 * float(problem.keys @ np.pi ** np.arange(problem.d) @ np.arange(len(problem.keys)))

    claim = claim_of(noisy)
    rng = np.random.default_rng(0)
    found = next(x for x in iter(lambda: claim.space.draw(rng), None) if claim.judge(x).fails)
    assert look_again(claim, found, claim.judge(found)).word == "nothing"


def test_what_a_function_raises_is_told():
    found = hm.hunt(lambda problem: 1 / 0, tries=1, workers=0)
    assert found.verdict.startswith("nothing found")
    assert found.refusal == "ZeroDivisionError: division by zero"
    assert found.exit_code == 3  # nothing was tested, so a script must not take it for a survival
    assert "could not be tested" in str(found)
    assert "each was refused" in str(found)


def test_a_hunt_whose_every_call_raises_stops():
    def broken(problem):
        return problem.nonsense

    found = hm.hunt(broken, seconds=600, workers=0)
    assert (found.tries, found.exit_code, found.words) == (3, 3, {"refused": found.instances})
    assert 100 < found.instances < 400
    assert found.refusal == "AttributeError: 'Problem' object has no attribute 'nonsense'"
    assert "every call raised, so the hunt stopped after 3 units" in str(found)
    assert found.json()["notes"] == list(found.notes)


def test_one_call_that_returns_keeps_a_hunt_going():
    def often_broken(problem):
        return 1.0 if problem.n == 1 else 1 / 0

    found = hm.hunt(often_broken, tries=4, workers=0)
    assert (found.tries, found.notes) == (4, ())
    assert set(found.words) == {"refused", "holds"}


@pytest.mark.parametrize("proof", [None, "counted"])
def test_a_fraction_in_an_outcome_proves_itself(proof):
    def few(problem):
        slack = Fraction(3) - Fraction(float(problem.scores.max()))
        return Outcome((Hypothesis("two inputs", problem.n == 2),), slack, proof=proof)

    found = hm.hunt(few, tries=3, workers=0)
    assert (found.verdict, found.proof) == ("refuted (proved)", proof or "fractions")
    assert found.candidate.size == (2, 4, 1)
    assert found.judged.slack == float(3 - Fraction(float(found.subject().scores.max())))


def test_a_numpy_bool_is_a_bool():
    assert outcome_from(np.bool_(False)).slack == -1.0
    unmet = Outcome((Hypothesis("never", np.bool_(False)),), -1.0, proof="none")
    assert claim_of(lambda problem: unmet).judge(OPPOSED).word == "not applicable"


def test_an_outcome_without_a_number_is_refused():
    judged = claim_of(lambda problem: Outcome(slack="low")).judge(OPPOSED)
    assert judged.word == "refused"
    assert "a slack must be a number" in judged.measured["error"]


# claims about positions


@pytest.mark.parametrize(
    "claim, verdict, orders",
    [
        (lambda problem: float(1 - problem.scores[0]), "suspected (15 digits)", ["tokens"]),
        (lambda problem: Fraction(1) - Fraction(float(problem.scores[0])), "refuted (proved)", ["tokens"]),
        (
            lambda problem: float(1 - problem.split(problem.scores)[0].max()),
            "suspected (15 digits)",
            ["inputs"],
        ),
        (lambda problem: float(1 + problem.keys[:, 0].min()), "suspected (15 digits)", ["coordinates"]),
        (lambda problem: float(1 - problem.scores.max()), "suspected (15 digits)", []),
    ],
)
def test_a_claim_that_depends_on_an_order_is_told(claim, verdict, orders):
    found = hm.hunt(claim, tries=2, workers=0, space="n=2,T=2,d=2")
    assert found.verdict == verdict
    assert found.exit_code == (1 if verdict.startswith("refuted") else 3)
    told = "".join(found.notes)
    assert [name for name in ("inputs", "tokens", "coordinates") if name in told] in (
        orders,
        ["inputs", *orders],
    )
    assert bool(told) == bool(orders)


# one loss


def test_one_loss(tmp_path, capsys):
    claim = lambda problem: -1.0 if problem.loss.name == "correlation" else 1.0  # noqa: E731
    assert hm.hunt(claim, tries=1, workers=0).verdict.startswith("suspected")
    found = hm.hunt(claim, tries=2, workers=0, loss="exponential")
    assert (found.exit_code, set(found.words), found.loss) == (0, {"holds"}, "exponential")
    assert found.commands[0].endswith("--loss exponential")
    arguments = ["hunt", "margin <= 3", "--loss", "correlation", "--tries", "1", "--workers", "0", "--json"]
    assert cli(arguments) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["loss"], told["counterexample"]["loss"]) == ("correlation", "correlation")


@pytest.mark.parametrize(
    "claim, loss, words",
    [
        ("margin <= 3", "hinge", "one of logistic, exponential, correlation, log or None, got 'hinge'"),
        ("margin <= 3", "log", "logistic or exponential or correlation"),
        ("D-THM-11", "logistic", "loss must be log"),
        ("C-THM-P2", "logistic", "left out for claims about sentences"),
    ],
)
def test_refused_losses(claim, loss, words):
    with pytest.raises(ValueError, match=words):
        hm.hunt(claim, loss=loss, tries=1, workers=0)


def test_claims_about_labels_take_their_loss():
    assert hm.hunt("D-THM-11", loss="log", tries=1, workers=0).loss == "log"


def test_sentences_keep_a_next_token():
    """Shrinking and moves never make sentences of one token each."""
    drawn = WordsCandidate(((0, 1), (1,)))
    assert all(max(map(len, each.rows)) > 1 for each in drawn.shrunk({"n": (1, 2), "T": (1, 2), "V": (1, 2)}))


# shrinking and orders


def test_shrinking_keeps_failing_and_gets_simpler():
    claim = claim_of("B-THM-1", "paper")
    judged = claim.judge(OPPOSED)
    small, found = shrink(claim, OPPOSED, judged)
    assert judged.word == found.word == "refuted"
    assert small.cost < OPPOSED.cost
    assert small.size <= (2, 4, 1)


@pytest.mark.parametrize("kind", ["scores", "tokens", "queries", "labels", "corpus", "sentences"])
def test_candidates_survive_orders_files_and_moves(kind):
    from hardmax.papers.hunting.candidates import RANGES, Space

    space = Space(kind, RANGES.get(kind, RANGES["problem"]), () if kind == "sentences" else ("selection",))
    rng = np.random.default_rng(3)
    for _ in range(20):
        drawn = space.draw(rng)
        again = candidate_of(json.loads(json.dumps(drawn.to_dict())))
        assert again.to_dict() == drawn.to_dict()
        assert drawn.shuffled(rng).size == drawn.size
        moved = drawn.moved(rng, space.ranges).moved(rng, space.ranges)
        moved.subject()
        assert np.array_equal(moved.at(moved.vector()).vector(), moved.vector())
        for small in drawn.shrunk(space.ranges):
            small.subject()


def test_an_order_changes_neither_margins_nor_selections():
    rng = np.random.default_rng(5)
    drawn = claim_of("B-THM-L7").space.draw(rng)
    other = drawn.shuffled(rng)
    margins = [hm.max_margin(x.subject(), x.options["selection"]).margin for x in (drawn, other)]
    assert margins[0] == pytest.approx(margins[1], rel=1e-12)


# one line


def test_a_line_is_parsed_and_proved():
    found = hm.hunt("margin <= 3", tries=5, workers=0)
    assert "ball arithmetic" in found.proof
    assert hm.max_margin(found.subject()).margin > 3


@pytest.mark.parametrize(
    "line",
    [
        "__import__('os').system('true') == 0",
        "margin <= 3 <= 4",
        "margin",
        "nonsense <= 1",
        "9**9**9 <= 1",
        "margin.real <= 1",
        "margin <= 'a'",
        "[1] == 1",
        "sqrt(1, 2) <= 1",
        "True <= 1 + margin * (lambda: 1)",
    ],
)
def test_a_line_is_arithmetic_and_nothing_else(line):
    with pytest.raises(ValueError, match=r"conjecture|exponent|argument|claim must be"):
        claim_of(line)


@pytest.mark.parametrize(
    "line", ["(n-9)**0.5 <= 1", "abs((n-9)**0.5) <= 1", "log(n-2) <= 1", "1 / (n-2) <= 1"]
)
def test_an_undefined_number_decides_nothing(line):
    judged = claim_of(line).judge(OPPOSED)  # n = 2
    assert (judged.word, judged.measured.get("error")) == ("undecided", None)


def test_a_condition_is_a_hypothesis():
    claim = claim_of("margin <= 0.1 given n == 7")
    assert claim.judge(OPPOSED).word == "not applicable"


@pytest.mark.parametrize("text", ["n=0..2", "x=1", "n=2..1", "n=1..999999", "n", "n=1;T=2", "d=-1"])
def test_refused_spaces(text):
    with pytest.raises(ValueError, match="space"):
        read_ranges(text, "problem")


def test_numbers_that_prove_themselves():
    from flint import arb

    assert outcome_from(arb(-1)).proof == "balls"
    assert outcome_from(arb(0, 1)).slack is None
    assert outcome_from(True).slack == 1.0
    with pytest.raises(ValueError, match="must return a number"):
        outcome_from("no")


# units


def test_a_unit_depends_on_its_seed_alone():
    claim = claim_of("B-THM-L8", "paper")
    first, second = (explore(claim, 11) for _ in range(2))
    assert first.best.to_dict() == second.best.to_dict()
    assert first.count == second.count


def test_without_cma_gaussian_steps_are_taken(monkeypatch):
    monkeypatch.setattr("hardmax.papers.hunting.search.strategy", lambda: None)
    found = explore(claim_of(lambda problem: 9.0 - float(problem.scores.max())), 0)
    assert found.judged.slack < 7


# handing over


def test_files_reproduce_the_verdict(tmp_path, capsys):
    code = cli(
        [
            "hunt",
            "B-THM-L7",
            "--reading",
            "paper",
            "--tries",
            "2",
            "--workers",
            "0",
            "--json",
            "--out",
            str(tmp_path),
        ]
    )
    told = json.loads(capsys.readouterr().out)
    assert (code, told["verdict"]) == (1, "refuted (proved)")
    assert {Path(each).suffix for each in told["files"]} >= {".json", ".tex"}
    import shlex

    verify = shlex.split(told["commands"][1])[1:]
    assert (cli([*verify, "--json"]), verify[0]) == (1, "verify")
    assert json.loads(capsys.readouterr().out)["checks"][0]["verdict"] == "fails"
    assert cli(["solve", told["files"][0], "--json"]) == 0


def test_words_are_written_and_read(tmp_path):
    from hardmax.papers.hunting.telling import read, write

    corpus = WordsCandidate(((0, 2), (1, 2)), (1, -1))
    (file, *_) = write(corpus, tmp_path, "A-ERR-5", "refuted (proved)", None)
    assert read(claim_of("A-ERR-5"), file, {}).subject().sequences()[1].tolist() == [1, 2]
    assert judge_file("A-ERR-15", file).verdict == "refuted (proved)"
    sentences = WordsCandidate(((0, 1, 1), (1, 0)))
    (file, *_) = write(sentences, tmp_path, "C-ERR-04", "refuted (proved)", None)
    assert read(claim_of("C-ERR-04"), file, {}).rows == sentences.rows


HEAD_START, FILE = (
    f"{ROOT}/examples/hunts/{name}" for name in ("conjectures.py:head_start", "head-start.json")
)


def test_a_refusal_on_a_file_is_told(capsys):
    assert cli(["hunt", HEAD_START, "--on", FILE, "--given", "start=[1]"]) == 3
    assert "each was refused" in capsys.readouterr().out


def test_bad_command_lines(capsys):
    for arguments in (
        ["hunt"],
        ["hunt", "B-THM-99"],
        ["hunt", "B-THM-1", "--reading", "mine"],
        ["hunt", "B-THM-1", "--tries", "0"],
        ["hunt", "B-THM-1", "--space", "q=3"],
        ["hunt", "no.py:f"],
        ["hunt", "margin"],
        ["hunt", "B-THM-1", "--on", "missing.json"],
        ["hunt", HEAD_START, "--on", FILE],
        ["hunt", HEAD_START, "--on", FILE, "--given", "x=1"],
        ["verify", "B-THM-1", "--given", "p=1"],
        ["hunt", "B-THM-1", "--loss", "hinge"],
        ["hunt", HEAD_START, "--on", FILE, "--given", "start=[0,1]", "--loss", "logistic"],
    ):
        assert cli(arguments) == 2
        assert "Traceback" not in capsys.readouterr().err


# a hypothesis that may be missing


def test_a_missing_hypothesis_is_suggested():
    def several_inputs(problem):
        return Fraction(1 if problem.n == 1 else -1)

    found = hm.hunt(several_inputs, tries=1, workers=0, suggest=True)
    assert found.verdict == "refuted (proved)"
    assert "with one input" in [line.partition(":")[0] for line in found.suggestions]
    assert hm.hunt(several_inputs, tries=1, workers=0).suggestions == ()


def test_nothing_is_suggested_where_no_condition_helps():
    assert hm.hunt(lambda problem: Fraction(-1), tries=1, workers=0, suggest=True).suggestions == ()
