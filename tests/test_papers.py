"""The registry: every statement and figure is in the file that it names, and nowhere else."""

import subprocess
import sys

import pytest

from hardmax.papers.checking.check import STATEMENTS, statements
from hardmax.papers.figures.figure import RECIPES, recipes
from hardmax.papers.registry import ERRATA, PAPERS, Registry, places


def test_every_statement_is_where_the_registry_says():
    found = {id: each.test.__module__ for id, each in statements().items()}
    assert found == places("statements")
    assert len(found) == 96


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
        "print(*sorted(m for m in sys.modules if '.statements' in m))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "hardmax.papers.max_margin.statements.directions" in loaded
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
