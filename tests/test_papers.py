"""The registry: every statement and figure is in the file that it names, and nowhere else."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.app.results.hunt import hunt_entry
from hardmax.papers.checking.check import PRINTED, STATEMENTS, statements
from hardmax.papers.figures.figure import RECIPES, recipes
from hardmax.papers.paper import Paper
from hardmax.papers.registry import ERRATA, PAPERS, Registry, places, register

ROOT = Path(__file__).parents[1]


def test_every_statement_is_where_the_registry_says():
    found = {id: each.test.__module__ for id, each in statements().items()}
    assert found
    assert found == places("statements")


def test_every_printed_sentence_is_where_the_registry_says():
    assert {id: each.test.__module__ for id, each in PRINTED.all().items()} == places("printed")


def test_every_figure_is_where_the_registry_says_and_in_the_papers_order():
    found = {id: each.compute.__module__ for id, each in recipes().items()}
    assert list(found.items()) == list(places("figures").items())
    assert list(recipes())[:4] == ["B-FIG-1a", "B-FIG-1b", "B-FIG-1c", "B-FIG-2"]


def test_ids_begin_with_the_letter_of_their_paper():
    for letter, paper in PAPERS.items():
        assert {id[0] for id in [*paper.statements, *paper.figures]} == {letter} == {paper.letter}
    assert {id[0] for id in ERRATA} <= set(PAPERS)


def test_one_statement_imports_one_file():
    code = (
        "import sys; from hardmax.papers.checking.check import statement_of; statement_of('B-THM-L9');"
        "print(*sorted(m for m in sys.modules if m.startswith('hardmax.papers.')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "hardmax.papers.max_margin.lemmas" in loaded
    assert not any(".trained_embeddings." in each or ".next_token." in each for each in loaded)


def test_a_wrong_id_is_told_near_ones():
    with pytest.raises(ValueError, match=r"unknown statement 'b-thm-33'\. Did you mean B-THM-3 or"):
        STATEMENTS["b-thm-33"]
    with pytest.raises(ValueError, match=r"unknown figure 'B-FIG-9'\. Did you mean B-FIG-9"):
        RECIPES["B-FIG-9"]


def test_a_registry_takes_things_of_others():
    numbers = Registry("number", {})
    numbers.enter("one", 1)
    numbers.enter("one", 11)
    assert numbers["one"] == 11
    assert numbers.all() == {"one": 11}


def _codes(file):
    """The strings of a file that are not docstrings."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    told = [node.value for node in nodes if isinstance(node, ast.Expr)]
    texts = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.value for node in texts if node not in told]


@pytest.mark.parametrize("part", ["checking", "hunting"])
def test_the_machinery_names_no_statement_and_imports_no_paper(part):
    ids = {*STATEMENTS.places, *PRINTED.places, *RECIPES.places}
    for file in (ROOT / "src" / "hardmax" / "papers" / part).glob("*.py"):
        texts = [text for text in _codes(file) if "such as" not in text]  # an error may give an example
        assert [text for text in texts if ids & set(re.findall(r"[A-D]-[A-Z]+-\w+", text))] == []
        for paper in PAPERS.values():
            assert f"import {paper.package}" not in file.read_text()
            assert f"from {paper.package}" not in file.read_text()


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The paper of docs/how-to/add-your-own.md, a module outside the package; it leaves the tables again."""
    page = (ROOT / "docs" / "how-to" / "add-your-own.md").read_text()
    (code,) = re.findall(r"Save this as `toy.py`:\n\n```python\n(.+?)```", page, re.DOTALL)
    (tmp_path / "toy.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    tables = [PAPERS, ERRATA, places("statements"), places("figures"), STATEMENTS.entered, RECIPES.entered]
    before = [dict(table) for table in tables]
    yield importlib.import_module("toy")
    del sys.modules["toy"]
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


def test_a_paper_from_outside_is_verified_reproduced_and_hunted(toy, tmp_path):
    assert PAPERS["T"] is toy.PAPER
    found = hm.verify("T-THM-1")
    assert [each.check.verdict for each in found.checks] == ["holds", "fails"]
    assert found.exit_code == 0
    assert hm.verify("T-THM-1", on=hm.data.example("B-FIG-1a")).checks[0].check.proof == "fractions"
    done = hm.reproduce("T-FIG-1", out=tmp_path / "figures")
    assert [(each.id, each.holds) for each in done.figures] == [("T-FIG-1", True)]
    assert "Paper T: a toy" in done.report.read_text()
    hunted = hm.hunt("T-THM-1", tries=2, workers=0)
    assert (hunted.verdict, hunted.candidate.size) == ("refuted (proved)", (1, 3, 1))
    (entry,) = toy.PAPER.catalogue
    assert hunt_entry(entry, seconds=60, workers=0).verdict == "refuted (proved)"
    assert "T-THM-1" in statements()


def test_a_letter_is_given_once():
    with pytest.raises(ValueError, match=r"letter: B is the letter of 'Max-Margin.*choose another"):
        register(Paper("B", "another", "Another Paper", "elsewhere"))
