"""The pages: examples run, links lead somewhere, every page, figure, schema and public name has its place."""

import doctest
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from hardmax.papers.checking.check import statements
from hardmax.papers.figures.figure import recipes
from hardmax.papers.registry import ERRATA

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parts[len(DOCS.parts)] != "tutorials"]
TEXTS = {page: page.read_text(encoding="utf-8") for page in (*PAGES, *ROOT.glob("*.md"))}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE


def named() -> set[str]:
    """Ids of small data sets, which `named_sentences` takes, and of assumptions that reports print."""
    sentences = {"C-EX-1", "C-CEX-P2", "C-EXT-1", "C-EXT-2", "C-EXT-3", "C-FIG-2"}
    return sentences | {"C-ASM-1", "C-ASM-1R", "C-ASM-3", "B-ASM-A", "B-FIG-9"}


def anchors(text: str) -> set[str]:
    """What hosts of Markdown make of the headings, and anchors that are written down."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


def runnable() -> list:
    """Every page with examples; those with PyTorch need it."""
    found = []
    for page in PAGES:
        if ">>>" in TEXTS[page]:
            marks = [pytest.mark.extra] if re.search(r">>> (import|from) torch", TEXTS[page]) else []
            found.append(pytest.param(page, marks=marks, id=str(page.relative_to(DOCS))))
    return found


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("page", runnable())
def test_examples_run(page):
    if "import transformers" in TEXTS[page]:
        pytest.importorskip("transformers", reason="real architectures need it: make test-extras")
    ran = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert ran.attempted > 0
    assert ran.failed == 0


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
        r"^\*\*(\S+)\*\* (.+)\n\n!\[\1\]\(\.\./img/figures/\1\.png\)$",
        TEXTS[DOCS / "research" / "gallery.md"],
        re.MULTILINE,
    )
    again = "hardmax reproduce, then python docs/_tools/gallery.py results"
    titles = {id: text.removesuffix(". *Stand-in data, not the paper's own.*") for id, text in shown}
    assert titles == {each.id: each.title for each in recipes().values()}, again
    assert {path.stem for path in (DOCS / "img" / "figures").iterdir()} == set(recipes()), again


def test_the_schemas_are_listed():
    folder = DOCS / "reference" / "schemas"
    shown = re.findall(r"^```\{literalinclude\} (.+)$", TEXTS[folder / "index.md"], re.MULTILINE)
    assert sorted(shown) == sorted(path.name for path in folder.glob("*.json"))


def test_every_public_name_has_one_entry():
    names = importlib.import_module("names")
    places = [
        place
        for page in (DOCS / "reference" / "api").glob("*.md")
        for line in re.findall(r"^\.\. public-names:: (.+)$", TEXTS[page], re.MULTILINE)
        for place in line.split()
    ]
    entries = [name for place in places for name in names.names_of(place)]
    assert len(entries) > 150
    assert sorted(entries) == sorted(names.homes())


def test_the_page_of_names_is_the_table():
    page = importlib.import_module("migration").page()
    assert TEXTS[DOCS / "project" / "migration.md"] == page, "python docs/_tools/migration.py"
    old = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    assert len(old) > 100
    assert len(set(old)) == len(old)


@pytest.mark.parametrize(
    "tool", ["docstrings", "house", "links", "migration", "names", "root_files", "tutorials", "words"]
)
def test_tools_do_as_they_say(tool):
    if tool == "links":
        pytest.importorskip("docutils", reason="the tools of the site need it: make docs")
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


def test_notebooks_get_the_outputs_of_their_pages(tmp_path):
    tutorials = importlib.import_module("tutorials")
    (tmp_path / "a.png").write_bytes(b"picture")
    part = "\n.. GENERATED FROM PYTHON SOURCE LINES 1-2\n\n"
    page = f"Title\n{part}Text.\n{part}.. code-block:: Python\n\n    x = 1\n\n"
    page += f"{part}.. code-block:: Python\n\n    print(x)\n\n.. image-sg:: /a.png\n   :alt: a\n\n"
    page += ".. rst-class:: sphx-glr-script-out\n\n .. code-block:: none\n\n    1\n      2\n\n\n"
    cells = [{"cell_type": kind, "source": []} for kind in ("markdown", "markdown", "code", "code")]
    tutorials.fill({"cells": cells}, page, tmp_path)
    assert cells[2]["outputs"] == []
    printed, picture = cells[3]["outputs"]
    assert (printed["text"], cells[3]["execution_count"]) == (["1\n", "  2\n"], 2)
    assert picture["data"]["image/png"] == "cGljdHVyZQ=="
    with pytest.raises(ValueError, match="zip"):
        tutorials.fill({"cells": cells[:3]}, page, tmp_path)


def test_every_erratum_has_a_row_and_every_statement_too():
    errata = anchors(TEXTS[DOCS / "research" / "errata.md"])
    listed = anchors(TEXTS[DOCS / "reference" / "statements.md"])
    assert {id.lower() for id in ERRATA} <= errata | listed
    assert importlib.import_module("statements").page() == TEXTS[DOCS / "reference" / "statements.md"]


def test_ids_in_pages_can_be_looked_up():
    """Ids of a private specification, such as those of definitions, lead nowhere."""
    known = {*ERRATA, *statements(), *recipes(), *named(), "B-THM-99", "B-FIG-90"}
    unknown = {
        (page.name, id)
        for page, text in TEXTS.items()
        for id in re.findall(r"\b[ABCD]-[A-Z]{2,5}-\w+\b", text)
        if id not in known and page.name not in ("ledger.md", "migration.md", "CONTRIBUTING.md")
    }
    assert unknown == set()


def test_citations_are_complete():
    page = TEXTS[DOCS / "research" / "bibliography.md"]
    entries = re.findall(r'^\| <a id="(\w+)"></a>[^|]+ \| (.+) \|$', page, re.MULTILINE)
    assert len(entries) > 20
    for key, entry in entries:
        assert re.search(r"\*.+\*.*(19|20)\d\d.*(arXiv:\d{4}\.\d{4,5}|doi:|aclanthology|jmlr)", entry), key
    cited = {key for text in TEXTS.values() for key in re.findall(r"bibliography\.md#(\w+)\)", text)}
    assert cited == {key for key, _ in entries}  # every citation has its entry, every entry is cited


def test_formulas_can_be_drawn():
    """The site converts them itself, so a browser needs no network; an unknown command stops the build."""
    pytest.importorskip("docutils", reason="the tools of the site need it: make docs")
    mathml = importlib.import_module("links")._mathml
    count = 0
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", TEXTS[page]))
        for formula in re.findall(r"\$\$(.+?)\$\$|(?<!\$)\$([^$\n]+)\$(?!\$)", text, re.DOTALL):
            assert "<math" in mathml("".join(formula), block=True), page
            count += 1
    assert count > 300


def test_every_extra_is_documented():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"bench", "dev", "docs"}
    for page in (ROOT / "README.md", DOCS / "getting-started" / "installation.md"):
        table = re.search(r"^\| extra \|.*\n(?:\|.*\n)+", TEXTS[page], re.MULTILINE)[0]
        first = [row.split("|")[1] for row in table.splitlines()[2:]]
        assert set(re.findall(r"`(\w+)`", "".join(first))) == extras, page


def test_classifiers_name_the_pythons_of_the_support_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {text.split()[-1] for text in project["classifiers"] if re.search(r":: 3\.\d+$", text)}
    table = TEXTS[DOCS / "getting-started" / "installation.md"].split("## Support")[1].split("\n## ")[0]
    tested = [row for row in table.splitlines() if "Linux x86-64" in row]
    assert set(re.findall(r"3\.\d+", " ".join(tested))) == named


def test_see_also_and_returns_are_made():
    reference = pytest.importorskip("reference", reason="the tools of the site need sphinx: make docs")
    assert "hm.train" in reference.page("hardmax.flow")
    assert "hm.flow" in reference.page("hardmax.Run")
    functions = [name for name in reference.homes() if reference.annotated(reference.thing_of(name))]
    assert len(functions) > 80
    for name in reference.homes():
        assert re.search(r"rubric:: (See also|Related)", reference.page(name)), name
