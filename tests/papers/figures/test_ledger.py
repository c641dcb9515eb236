"""The replication ledger: every numbered item has a row, and each verdict follows from what is stored."""

import copy
import json
import re
import sys
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.papers import ledger, stored
from hardmax.papers.figures.figure import recipes
from hardmax.papers.ledger import (
    ITEMS,
    VERDICTS,
    CheckEvidence,
    ClaimEvidence,
    Contrast,
    Evidence,
    Fact,
    FigureEvidence,
    Stored,
    TrainedEvidence,
    below,
    of_order,
    rows,
    shape,
)
from hardmax.papers.registry import PAPERS

ROOT = Path(__file__).parents[3]


def numbered(word, *numbers):
    return [f"{word} {number}" for number in numbers]


# As the three papers number them.
ITEMS_OF = {
    "A": [
        *numbered("Figure", 1, 2, 3, 4),
        *numbered("Definition", 1, 15, 16),
        *numbered("Lemma", 2, 3, *range(6, 15), *range(17, 22)),
        "Assumption 4",
        "Theorem 5",
    ],
    "B": [
        *numbered("Figure", *range(1, 11)),
        *numbered("Assumption", *"ABCD"),
        *numbered("Definition", 1, 2, 3),
        *numbered("Lemma", *range(1, 15)),
        *numbered("Theorem", *range(1, 9)),
        *numbered("Bound", "(73)", "(75)", "(79)", "(84)"),
    ],
    "C": [
        *numbered("Figure", 1, 2),
        *numbered("Assumption", 1, 2, 3),
        *numbered("Lemma", *range(1, 8)),
        *numbered("Proposition", *range(1, 5)),
        *numbered("Theorem", 1, 2, 3),
        *numbered("Example", 1, 2),
        "Definition 1",
        "Corollary 1",
        "Algorithm 1",
    ],
}
OLDER = {
    "A.1",
    "A.2",
    "A.3",
    "A.4",
    "B.1",
    "B.2",
    *(f"C.{k}" for k in range(1, 7)),
    "4.1",
    "4.2",
    "4.3",
    "4.5",
}


@pytest.mark.parametrize("paper", ITEMS_OF)
def test_every_numbered_item_has_a_row(paper):
    found = {
        re.match(r"[A-Z][a-z]+ \(?[0-9A-D]+\)?|.*", row.item).group() for row in rows() if row.paper == paper
    }
    assert [item for item in ITEMS_OF[paper] if item not in found] == []


def test_the_older_appendix_is_found_by_its_numbers():
    assert {alias for row in rows() for alias in row.aliases} == OLDER
    assert {row.item for row in rows() if "C.6" in row.aliases} == {"Lemma 18"}


def test_every_printed_figure_and_checked_statement_of_the_registry_stands_behind_a_row():
    used = {each.id.partition(".")[0] for item in ITEMS for each in item.evidence if hasattr(each, "id")}
    ours = {"B-FIG-RHO", "B-FIG-INDEX", "B-FIG-CHAOS", "A-FIG-L2", "A-FIG-T5"}
    new = {
        "A-LEM-3P",
        "A-THM-5S",
        "B-NEW-1",
        "B-NEW-1b",
        "B-NEW-2",
        "B-NEW-3",
        "B-NEW-4",
        "C-THM-ASY",
        "C-THM-BLOCK",
    }
    for letter in "ABC":
        paper = PAPERS[letter]
        assert set(paper.figures) - ours <= used
        assert set(paper.statements) - new <= used
    assert not used & (ours | new)


def test_every_id_exists():
    for each in (each for item in ITEMS for each in item.evidence):
        if isinstance(each, CheckEvidence):
            assert any(each.id in paper.statements for paper in PAPERS.values())
        elif isinstance(each, FigureEvidence):
            assert each.id in recipes()
        elif isinstance(each, TrainedEvidence):
            assert all(
                re.fullmatch(r"(imdb|yelp)-[12]-(printed|scaled)[-\w]*-seed\d", name) for name in each.names
            )
        else:
            assert isinstance(each, ClaimEvidence | Contrast | Fact)


def test_trainings_are_those_that_can_be_run():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from paper_a_runs import PLANNED
    finally:
        sys.path.pop(0)
    evidence = [each for item in ITEMS for each in item.evidence]
    named = {name for each in evidence if isinstance(each, TrainedEvidence) for name in each.names}
    named |= {name for each in evidence if isinstance(each, Contrast) for name in (each.two, each.one)}
    assert named == set(PLANNED)
    assert set(stored.read_runs()) <= set(PLANNED)
    for name, run in stored.read_runs().items():
        plan = PLANNED[name]
        assert (run["d"], run["epochs"], run["seed"], run["scale"]) == (
            plan.d,
            plan.epochs,
            plan.seed,
            plan.scale,
        )


def test_no_row_without_a_stored_result_is_anything_but_not_run():
    found = rows()
    assert {row.verdict for row in found} <= set(VERDICTS)
    for row in found:
        assert (row.result is None) == (row.verdict == "not run")
        assert all((row.printed, row.ours, row.data, row.command))
        assert row.differs or row.verdict != "reproduced with a stated change"
    assert len({(row.paper, row.item) for row in found}) == len(found)
    nothing = Stored({"checks": {}, "figures": {}, "facts": {}, "version": "0", "date": "2000-01-01"}, {})
    assert {row.verdict for row in rows(nothing)} == {"not run"}


def verdict_of(paper, item, results=None, runs=None):
    held = Stored(
        stored.read_results() if results is None else results, stored.read_runs() if runs is None else runs
    )
    return next(row for row in rows(held) if (row.paper, row.item) == (paper, item))


def test_verdicts_follow_the_stored_checks():
    """The stored file is changed, and the rows with it."""
    assert verdict_of("B", "Theorem 7").verdict == "reproduced"
    assert verdict_of("B", "Theorem 1").verdict == "reproduced with a stated change"
    assert "B-ERR-01" in verdict_of("B", "Theorem 1").differs
    assert verdict_of("C", "Corollary 1").verdict == "not reproduced"
    assert verdict_of("B", "Figure 6").verdict == "reproduced with a stated change"
    assert verdict_of("B", "Figure 7").verdict == "not reproduced"
    results = copy.deepcopy(stored.read_results())
    results["checks"]["B-THM-4"]["as_expected"] -= 1
    assert verdict_of("B", "Theorem 7", results).verdict == "not reproduced"
    results["figures"]["B-FIG-1a"]["claims"]["B-FIG-1a.extra"] = {"holds": False, "stand_in": False}
    assert verdict_of("B", "Figure 1(a)", results).verdict == "not reproduced"
    del results["checks"]["C-LEM-3"]
    assert verdict_of("C", "Lemma 3", results).verdict == "not run"


def training(loss, **other):
    end = {"mass": 0.07, "r_v": 0.7, "r_p": 0.26, "sign_accuracy": 0.95, "cpu_seconds": 1500.0, "seed": 0}
    plan = {"layers": 2, "epochs": 500, "epochs_done": 500}
    return {"loss": loss, "version": "0.2.0", "date": "2026-01-02", **end, **plan, **other}


def test_verdicts_follow_the_stored_trainings():
    item = "Appendix E, loss of two layers on Yelp, logits over sqrt(d)"
    assert verdict_of("A", item, runs={}).verdict == "not run"
    good = {"yelp-2-scaled-seed0": training(1.7e-5)}
    row = verdict_of("A", item, runs=good)
    assert (row.verdict, row.result.date) == ("reproduced with a stated change", "2026-01-02")
    assert "2 of 3 seeds not run" in row.result.text
    assert "Logits of every softmax are divided by sqrt(d)" in row.differs
    bad = {**good, "yelp-2-scaled-seed1": training(0.3)}
    assert verdict_of("A", item, runs=bad).verdict == "not reproduced"
    figure = "Figure 4, as printed"
    row = verdict_of("A", figure, runs={})
    assert row.verdict == "stand-in only"
    assert row.data.startswith("stand-in data")
    shown = {"yelp-2-printed-seed0": training(0.3, sign_accuracy=0.5)}
    assert verdict_of("A", figure, runs=shown).verdict == "not reproduced"


def test_the_contrast_needs_both_trainings():
    item = "Appendix E, two layers against one on Yelp, logits over sqrt(d)"
    two = {"yelp-2-scaled-seed0": training(2e-5)}
    assert verdict_of("A", item, runs=two).verdict == "not run"
    for loss, verdict in ((1e-5, "not reproduced"), (0.1, "reproduced with a stated change")):
        row = verdict_of("A", item, runs={**two, "yelp-1-scaled-seed0": training(loss)})
        assert row.verdict == verdict
        assert row.result.text.startswith("two layers 2e-05 after 500 epochs, one layer ")


def test_a_training_that_was_stopped_or_has_another_length_counts_and_says_so():
    item = "Appendix E, loss of two layers on IMDB, logits over sqrt(d)"
    short = training(3e-5, epochs=30, epochs_done=24)
    row = verdict_of("A", item, runs={"imdb-2-scaled-30-epochs-seed0": short})
    assert row.verdict == "reproduced with a stated change"
    assert row.result.text.startswith("seed 0, 24 of 30 epochs: loss 3e-05")
    assert "was stopped after 24 of 30 epochs" in row.differs
    longer = {"imdb-2-scaled-50-epochs-seed0": training(0.2, epochs=50, epochs_done=50)}
    assert verdict_of("A", item, runs={"imdb-2-scaled-30-epochs-seed0": short, **longer}).verdict == (
        "not reproduced"
    )
    item = "Appendix E, loss of one layer on Yelp, as printed"
    row = verdict_of("A", item, runs={"yelp-1-printed-seed0": training(0.47, layers=1, mass=0.97)})
    assert "From seed 0 attention saturates: one token has 0.97 of it on average." in row.differs


def test_a_claim_that_contradicts_the_paper_is_not_reproduced():
    item = "Appendix E, close to zero"
    assert verdict_of("B", item).verdict == "not reproduced"
    results = copy.deepcopy(stored.read_results())
    results["figures"]["B-FIG-10"]["claims"]["B-FIG-10.not-close-to-zero"]["holds"] = False
    assert verdict_of("B", item, results).verdict == "reproduced"


def test_orders_of_losses():
    one, two = of_order(-1), below(-5)
    assert [one({"loss": x}) for x in (0.157, 0.47, 0.03, 1.0)] == [True, True, False, False]
    assert [two({"loss": x}) for x in (1e-6, 3e-5, 1e-4)] == [True, True, False]
    assert not shape(training(0.1, r_p=-0.1))


def test_evidence_of_no_kind_is_asked_for_what_it_found():
    with pytest.raises(NotImplementedError):
        Evidence().finding(Stored({}, {}))
    commands = {each.command for item in ITEMS for each in item.evidence}
    assert all(
        re.match(r"(hardmax (verify|reproduce)|python benchmarks/\w+\.py) \S", each) for each in commands
    )


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps({"name": "a", "loss": 1}) + "\n" + '{"name": "b", "lo')
    assert list(stored.read_runs(file)) == ["a"]


def test_the_stored_results_hold_every_statement_and_figure_of_the_papers():
    results = stored.read_results()
    for letter in "ABC":
        assert set(PAPERS[letter].statements) <= set(results["checks"])
        assert set(PAPERS[letter].figures) <= set(results["figures"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", results["date"])
    own = [c for figure in results["figures"].values() for c in figure["claims"].values() if c["stand_in"]]
    assert len(own) == 32  # of A-FIG-1, 3 and 4


def test_the_page_is_as_the_stored_results_make_it():
    sys.path.insert(0, str(ROOT / "docs" / "_tools"))
    try:
        import ledger as tool
    finally:
        sys.path.pop(0)
    text = tool.PAGE.read_text(encoding="utf-8")
    assert text == tool.page(text, hm.ledger()), "run python docs/_tools/ledger.py"


def test_counts_add_up():
    found = hm.ledger()
    assert sum(found.counts.values()) == len(found.rows) == len(ITEMS)
    assert list(found.counts) == list(ledger.VERDICTS)
