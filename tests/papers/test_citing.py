"""BibTeX: complete entries, one for every citation of the software paper."""

import re
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.papers.citing import cite, references

ROOT = Path(__file__).parents[2]


def test_hardmax_comes_first_with_its_version():
    assert cite("A").startswith("@software{hardmax,")
    assert f"version = {{{hm.__version__}}}" in cite()
    assert [key in cite() for key in ("wu2025", "tarzanagh2023maxmargin", "huang2024")] == [True] * 3
    assert cite("b").count("@") == 2


def test_an_unknown_paper_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"unknown paper 'Z'.*tarzanagh2023svm"):
        cite("Z")


def test_every_entry_is_complete():
    for key, entry in references().items():
        for field in ("author", "title", "year"):
            assert re.search(rf"^  {field} +=", entry, re.MULTILINE), (key, field)


def test_every_citation_of_the_paper_has_an_entry_and_every_entry_is_cited_or_software():
    text = (ROOT / "paper.md").read_text()
    cited = set(re.findall(r"@(\w+\d{4}\w*)", text))
    assert cited == set(references()) - {"hardmax"}
    assert 700 < len(text.split()) < 1300


def test_the_citation_file_agrees_with_the_paper_and_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    title = re.search(r'^title: "(.+)"$', (ROOT / "paper.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert f'title: "{title}"' in citation
    assert title in references()["hardmax"]
    assert f"\nversion: {hm.__version__}\n" in citation
