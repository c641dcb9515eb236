"""The pages: examples run, links lead somewhere, every page, figure, schema and public name has its place."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from hardmax.papers.figures.figure import recipes

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in DOCS.rglob("*.md") if "tutorials" not in page.parts]
TEXTS = {page: page.read_text(encoding="utf-8") for page in (*PAGES, *ROOT.glob("*.md"))}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """What hosts of Markdown make of the headings."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "concepts.md",
        "choosing.md",
        "dynamics.md",
        "margin.md",
        "geometry.md",
        "non-separable.md",
        "queries.md",
        "classifier.md",
    ],
)
def test_examples_run(page):
    found = doctest.testfile(str(DOCS / page), module_relative=False)
    assert found.attempted > 2
    assert found.failed == 0


def test_links_lead_somewhere():
    broken = []
    for page, text in TEXTS.items():
        links = re.findall(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)", FENCED.sub("", text))
        for target, place in links:
            file = (page.parent / target).resolve() if target else page
            if not file.exists() or (place and place not in anchors(TEXTS[file])):
                broken.append((page.name, f"{target}#{place}"))
    assert broken == []


def test_tables_have_equal_rows():
    """A bar inside a cell would cut it off."""
    for page, text in TEXTS.items():
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, (page, table)


def test_every_page_is_in_one_table_of_contents():
    listed = []
    for page in PAGES:
        for block in re.findall(r"```\{toctree\}\n(.*?)```", TEXTS[page], re.DOTALL):
            listed += [
                (page.parent / line).with_suffix(".md")
                for line in block.splitlines()
                if re.match(r"[a-z]", line)
            ]
    assert sorted(set(listed)) == sorted(listed)
    generated = {DOCS / "tutorials" / "index.md"}
    assert set(PAGES) - {DOCS / "index.md"} == set(listed) - generated


def test_every_tutorial_has_its_place():
    scripts = {path.name for path in (ROOT / "examples" / "tutorials").glob("*.py")}
    assert set(importlib.import_module("tutorials").ORDER) == scripts


def test_the_gallery_shows_every_figure():
    shown = re.findall(
        r"^\*\*(\S+)\*\* (.+)\n\n!\[\1\]\(img/figures/\1\.png\)$", TEXTS[DOCS / "gallery.md"], re.MULTILINE
    )
    again = "hardmax reproduce, then python docs/_tools/gallery.py results"
    assert dict(shown) == {each.id: each.title for each in recipes().values()}, again
    assert {path.stem for path in (DOCS / "img" / "figures").iterdir()} == set(recipes()), again


def test_the_schemas_are_listed():
    shown = re.findall(r"^```\{literalinclude\} (.+)$", TEXTS[DOCS / "schemas" / "index.md"], re.MULTILINE)
    assert sorted(shown) == sorted(path.name for path in (DOCS / "schemas").glob("*.json"))


def test_every_public_name_has_one_entry():
    names = importlib.import_module("names")
    places = [
        place
        for page in (DOCS / "api").glob("*.md")
        for line in re.findall(r"^\.\. public-names:: (.+)$", TEXTS[page], re.MULTILINE)
        for place in line.split()
    ]
    entries = [name for place in places for name in names.names_of(place)]
    assert len(entries) > 150
    assert sorted(entries) == sorted(names.homes())


def test_the_page_of_names_is_the_table():
    page = importlib.import_module("migration").page()
    assert TEXTS[DOCS / "migration.md"] == page, "python docs/_tools/migration.py"
    old = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    assert len(old) > 100
    assert len(set(old)) == len(old)


@pytest.mark.parametrize("tool", ["docstrings", "house", "migration", "names", "root_files", "tutorials"])
def test_tools_do_as_they_say(tool):
    found = doctest.testmod(importlib.import_module(tool))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_check_of_the_site_finds_what_is_wrong(tmp_path, monkeypatch):
    check_site = importlib.import_module("check_site")
    monkeypatch.setattr(
        check_site, "homes", lambda: {"hardmax.flow": "", "hardmax.data": "", "hardmax.gone": ""}
    )
    (tmp_path / "a.html").write_text(
        '<link href="b.css"><script src="https://elsewhere.org/x.js"></script><a href="https://elsewhere.org">'
        '<dt id="hardmax.flow"><a href="b.html#here"><a href="b.html#there"><a href="#hardmax.flow">'
    )
    (tmp_path / "b.html").write_text(
        '<p id="here"><p id="module-hardmax.data"><img src="data:x"><a href="a.html">'
    )
    assert sorted(check_site.complaints(tmp_path)) == [
        "a.html leads to b.css, which is not there",
        "a.html leads to b.html#there, which has no such place",
        "a.html loads https://elsewhere.org/x.js",
        "hardmax.gone has no entry in the API reference",
    ]


def test_tutorials_are_offered_as_notebooks():
    settings = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert '"notebook_extensions": {".py"}' in settings
    assert ".ipynb" in (ROOT / "examples" / "tutorials" / "GALLERY_HEADER.rst").read_text(encoding="utf-8")
