"""`hardmax reproduce`: the contract, the exit codes, and what it says to a person."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from hardmax.app import cli
from hardmax.app.results import session
from hardmax.papers.figures import figure
from hardmax.papers.figures.claims import at_least, on_stand_in, true
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.max_margin import vision
from hardmax.papers.registry import Registry
from hardmax.papers.trained_embeddings.reviews import reviews_of

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "reproduce.schema.json").read_text()
)


TABLES = {"path": {"t": np.arange(3)}}


def draw(tables, canvas):
    canvas.subplots().plot(tables["path"]["t"])


@pytest.fixture(autouse=True)
def table(monkeypatch):
    """Two figures that hold, one that fails, one that is interrupted, one that breaks."""
    monkeypatch.setattr(figure, "RECIPES", Registry("figure", {}))

    def enter(id, *claims, seed=None, notes=()):
        findings = Findings(TABLES, claims, notes, seed=seed)
        recipe(id, f"the title of {id}", draw=draw)(lambda setting: findings)

    enter("B-FIG-90", at_least("B-FIG-90.cos", "cosine", 0.99, 0.9, paper="0.98"), seed=3)
    enter("C-FIG-91", true("C-FIG-91.all", "tokens [0]", True, "x" * 90, "many"), notes=("give --data DIR",))
    enter("B-FIG-92", at_least("B-FIG-92.cos", "cosine", float("nan"), 0.9))

    @recipe("B-FIG-93", "forever", draw=draw)
    def interrupted(setting):
        raise KeyboardInterrupt

    @recipe("B-FIG-94", "broken", draw=draw)
    def broken(setting):
        return {}["missing"]


@pytest.fixture
def reproduce(capsys, tmp_path):
    def run(*arguments):
        code = cli.run(["reproduce", *arguments, "--out", str(tmp_path / "out")])
        return code, *capsys.readouterr()

    return run


def test_json_keeps_the_contract(reproduce, tmp_path):
    code, out, err = reproduce("B-FIG-90", "C-FIG-91", "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert code == 0
    assert err.splitlines()[0].startswith("B-FIG-90: 1 of 1 claims hold (")
    first, second = answer["figures"]
    assert (first["id"], first["seed"], second["seed"]) == ("B-FIG-90", 3, None)
    assert first["claims"][0]["measured"] == 0.99
    assert answer["report"] == str(tmp_path / "out" / "index.html")
    assert all(Path(path).is_file() for path in [*first["files"], answer["report"]])


def test_a_table_for_people(reproduce, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    code, out, err = reproduce("--paper", "C", "--quiet")
    assert (code, err) == (0, "")
    assert "tokens [0]" in out
    assert "many" in out
    assert "xxx..." in out
    *_, scale, _, data, report = out.splitlines()
    assert scale.endswith(": hardmax reproduce --scale paper")
    assert data == "hardmax reproduce C-FIG-91 --data DIR"
    assert report.startswith("1 of 1 claims hold; report: ")
    assert report.endswith("index.html")
    *_, before, _ = reproduce("B-FIG-90", "--scale", "paper")[1].splitlines()
    assert before == ""


def test_a_folder_that_lacks_the_data_is_told_what_it_lacks(reproduce, tmp_path, monkeypatch):
    """The notes of a figure without its data, as the figures write them."""
    empty = tmp_path / "empty [1]"
    empty.mkdir()
    setting = Setting("quick", empty)
    yelp, imdb = (reviews_of(source, setting).notes for source in ("Yelp", "IMDB"))
    for id, notes in (("A-FIG-91", yelp), ("A-FIG-92", (*yelp, *imdb))):
        recipe(id, "stands in", draw=draw)(lambda setting, notes=notes: Findings(TABLES, (), notes))
    torch = vision.surrogate_note("it needs PyTorch: pip install it.")
    recipe("B-FIG-95", "no torch", draw=draw)(lambda setting: Findings(TABLES, (), (torch,)))
    monkeypatch.setenv("COLUMNS", "2000")
    code, out, _ = reproduce("A-FIG-91", "A-FIG-92", "B-FIG-95", "B-FIG-90", "--data", str(empty))
    *_, scale, lacks, first, second, other, why, _ = (line.rstrip() for line in out.splitlines())
    assert code == 0
    assert scale.endswith("--scale paper")
    assert lacks == (
        f"the folder {empty} holds none of these files, so synthetic data were used instead in "
        "A-FIG-91 A-FIG-92:"
    )
    assert first.startswith(f"  Yelp: no yelp reviews in {empty}: ")
    assert "yelp_academic_dataset_review.json" in first
    assert second.startswith("  IMDB: no imdb reviews in")
    assert "IMDB Dataset.csv" in second
    assert (other, why) == (
        "synthetic data were used instead in B-FIG-95:",
        "  it needs PyTorch: pip install it",
    )
    assert "--data DIR" not in out


def test_a_failed_claim_is_exit_code_1(reproduce):
    code, out, _ = reproduce("B-FIG-90", "B-FIG-92", "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert code == 1
    claim = answer["figures"][1]["claims"][0]
    assert (claim["holds"], claim["measured"], claim["status"]) == (False, None, "nan")
    assert "NO  cosine: B-FIG-92.cos" in reproduce("B-FIG-92")[1]


def test_a_figure_that_breaks_costs_no_other(reproduce):
    code, out, err = reproduce("B-FIG-94", "B-FIG-90", "--json")
    broken, good = json.loads(out)["figures"]
    assert code == 1
    assert (broken["status"], broken["files"], broken["claims"]) == ("KeyError: 'missing'", [], [])
    assert good["status"] == "made"
    assert "B-FIG-94: could not be made: KeyError: 'missing'" in err
    assert "Traceback" not in err
    assert "could not be made: KeyError" in " ".join(reproduce("B-FIG-94")[1].split())


def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(reproduce, tmp_path):
    code, out, err = reproduce("B-FIG-90", "B-FIG-93", "C-FIG-91", "--scale", "paper", "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert code == 130
    assert [each["id"] for each in answer["figures"]] == ["B-FIG-90"]
    assert Path(answer["report"]).is_file()
    command = f"hardmax reproduce B-FIG-93 C-FIG-91 --scale paper --out {tmp_path / 'out'}"
    assert err.splitlines()[-1] == f"hardmax: interrupted; to go on: {command}"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["B-FIG-9"], "Did you mean B-FIG-9"),
        (["--paper", "A"], "got A"),
        (["--paper", "E"], "--paper"),
        (["--scale", "huge"], "--scale"),
        (["--data", "no/such/folder"], "no/such/folder"),
    ],
)
def test_bad_usage_is_exit_code_2(reproduce, tmp_path, arguments, words):
    code, out, err = reproduce(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_exit_code_2(reproduce, tmp_path):
    (tmp_path / "out").write_text("a file")
    code, out, err = reproduce("B-FIG-90")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(tmp_path / "out") in err


def test_the_bar_names_the_figure(reproduce, monkeypatch):
    monkeypatch.setattr(session, "PATIENCE", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    code, _, err = reproduce("B-FIG-90", "C-FIG-91")
    assert code == 0
    assert "C-FIG-91 (2 of 2)" in err


def test_claims_on_stand_ins_are_counted_apart(reproduce, monkeypatch, tmp_path):
    """On the terminal, in the JSON and on the page."""
    claims = (
        at_least("A-FIG-94.a", "own", 1.0, 0.5),
        *on_stand_in([at_least("A-FIG-94.b", "other", 1.0, 2.0)]),
    )
    recipe("A-FIG-94", "both", draw=draw)(lambda setting: Findings(TABLES, claims))
    words = "1 of 1 claims hold on the papers' own data, 0 of 1 on stand-ins"
    monkeypatch.setenv("COLUMNS", "150")
    code, out, err = reproduce("A-FIG-94")
    assert code == 1
    assert err.startswith(f"A-FIG-94: {words} (")
    assert f"{words}; report: " in " ".join(out.split())
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count(words.replace("'", "&#x27;")) == 3  # title, heading and the figure's own line
    answer = json.loads(reproduce("A-FIG-94", "--json")[1])
    jsonschema.validate(answer, SCHEMA)
    assert answer["counts"] == {"own_data": {"held": 1, "claims": 1}, "stand_ins": {"held": 0, "claims": 1}}
    assert [claim["stand_in"] for claim in answer["figures"][0]["claims"]] == [False, True]


def test_a_day_is_the_paper_where_nothing_is_reduced(reproduce, tmp_path):
    seen = []
    for id, reduced in (("A-FIG-95", False), ("A-FIG-96", True)):
        recipe(id, "of a day", draw=draw, reduced=reduced)(
            lambda setting: seen.append((setting.scale, setting.logits)) or Findings(TABLES, ())
        )
    code, _, _ = reproduce("A-FIG-95", "A-FIG-96", "--scale", "day", "--logits", "scaled")
    assert (code, seen) == (0, [("paper", "scaled"), ("day", "scaled")])
    records = [json.loads((tmp_path / "out" / f"{id}.json").read_text()) for id in ("A-FIG-95", "A-FIG-96")]
    assert [record["scale"] for record in records] == ["paper", "day"]
    assert "--scale day --logits scaled" in records[0]["run"]["command"]


def test_the_ledger_by_paper(capsys, validated):
    assert cli.run(["reproduce", "--ledger", "--paper", "C", "--json"]) == 0
    answer = validated(capsys.readouterr().out)
    assert {row["paper"] for row in answer["rows"]} == {"C"}
    assert sum(answer["counts"].values()) == len(answer["rows"])
    assert cli.run(["reproduce", "--ledger"]) == 0
    out = capsys.readouterr().out
    assert "\n137 rows: " in out
    assert cli.run(["reproduce", "--ledger", "B-FIG-1a"]) == 2
    assert "ID cannot be combined with --ledger" in capsys.readouterr().err
