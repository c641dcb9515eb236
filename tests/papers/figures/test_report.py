"""The report: everything is on the page, what fails comes first, and nothing is asked of the network."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from hardmax.papers.figures.claims import at_least, shown, true
from hardmax.papers.figures.figure import Figure, Recipe, recipes
from hardmax.papers.figures.reproduce import ClaimRecord, FigureRun, Record, page, read_records, write_report
from hardmax.papers.registry import ERRATA

ROOT = Path(__file__).parents[3]
VOID = {"meta", "link", "img"}


class Page(HTMLParser):
    """Collects tags with their attributes and the text, and checks that tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, name, attribute):
        return [
            attributes[attribute] for tag, attributes in self.tags if tag == name and attribute in attributes
        ]


@pytest.fixture(scope="module")
def parsed(reproduction):
    return Page(reproduction.report.read_text(encoding="utf-8"))


def test_everything_is_said(parsed, reproduction):
    good, fails, broken = reproduction.figures
    for record in reproduction.figures:
        assert record.title in parsed.text
        for claim in record.claims:
            assert claim.text in parsed.text
            assert claim.expected.replace("1e-06", "1e−06") in parsed.text
            assert claim.found in parsed.text
    wanted = ["0.98", "A note with <b>brackets</b>.", "seed 7", "B-ERR-12", ERRATA["B-ERR-11"]]
    wanted += [good.run.command, good.run.started, *good.run.versions.values()]
    assert [words for words in wanted if words not in parsed.text] == []
    assert "ZeroDivisionError" in broken.error
    assert "return 1 / 0" in parsed.text
    assert fails.seed is None


def test_what_fails_comes_first_and_is_linked(parsed, reproduction):
    text = parsed.text
    assert text.index("3 of 5 claims hold, 1 figure could not be made") < text.index("What does not hold")
    places = [text.index(id) for id in ("C-FIG-92", "B-FIG-91.end", "B-FIG-91.nothing", "Paper B")]
    assert places == sorted(places)
    marked = [attributes["id"] for tag, attributes in parsed.tags if attributes.get("class") == "fails"]
    assert marked == ["B-FIG-91.end", "B-FIG-91.nothing"]
    assert text.count("✗ fails") == 2
    sections = [a["id"] for tag, a in parsed.tags if a.get("class") == "figure fails"]
    assert sections == ["B-FIG-91", "C-FIG-92"]


def test_more_digits_where_a_claim_fails(parsed):
    assert "0.9995123457" in parsed.text


def test_links_lead_somewhere_and_nothing_is_loaded(parsed, reproduction):
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for target in parsed.all("a", "href"):
        if target.startswith("#"):
            assert target[1:] in ids
        else:
            assert (reproduction.report.parent / target).is_file()
    assert parsed.all("link", "href") == ["data:,"]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in parsed.all("img", "src"))
    assert len(parsed.all("img", "src")) == 2
    assert not any(tag == "script" for tag, _ in parsed.tags)
    assert "url(" not in reproduction.report.read_text(encoding="utf-8")


def test_tables_and_pictures_are_accessible(parsed):
    assert parsed.all("img", "alt") == ["B-FIG-90: A cosine that rises", "B-FIG-91: Two cosines, one too low"]
    assert set(parsed.all("th", "scope")) == {"col", "row"}
    assert parsed.all("html", "lang") == ["en"]
    assert parsed.all("nav", "aria-label") == ["Figures"]


def test_a_page_without_failures_says_so(reproduction):
    good = reproduction.figures[0]
    text = Page(page([good], {good.id: reproduction.report.parent / "B-FIG-90.svg"})).text
    assert "✓ 2 of 2 claims hold" in text
    assert "does not hold" not in text
    assert "fails" not in text.split("claims hold", 1)[1]


def test_records_come_back_as_written(reproduction):
    assert read_records(reproduction.report.parent) == list(reproduction.figures)


def test_the_report_shows_the_folder_in_the_order_of_the_papers(table, reproduction, tmp_path):
    for record in reproduction.figures[::-1]:
        replace(record, files=(), error="gone").write(tmp_path)
    (tmp_path / "B-FIG-99.json").write_text('{"schema": "of something else"}')
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert re.findall(r'<section class="figure fails" id="([^"]+)"', text) == [
        "B-FIG-90",
        "B-FIG-91",
        "C-FIG-92",
    ]


def test_each_run_is_named_once(reproduction):
    first, second, _ = reproduction.figures
    later = replace(second, run=replace(second.run, started="later", command="hardmax reproduce B-FIG-91"))
    assert page([first, first, later], {}).count("<dt>Command</dt>") == 2


def test_a_spoilt_record_is_named(table, tmp_path):
    (tmp_path / "B-FIG-90.json").write_text("{")
    with pytest.raises(ValueError, match=r"B-FIG-90\.json is not a valid record of a figure .*; delete it"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    "value, text",
    [
        (0.123456789, "0.123457"),
        ([[1, 2.5], [3, 4.0]], "(1, 2.5), (3, 4)"),
        ({"d = 2": 0.64, "d = 5": True}, "d = 2: 0.64; d = 5: True"),
        ("GMM", "GMM"),
        ([], ""),
    ],
)
def test_measured_values_for_a_reader(value, text):
    assert shown(value) == text


def test_words_are_not_taken_for_undefined_numbers():
    claim = ClaimRecord.of(true("x", "who", True, ["infant", 1.0], "inf"))
    assert (claim.status, claim.measured, claim.found) == ("measured", ["infant", 1.0], "infant, 1")


def test_undefined_numbers_are_named():
    claim = ClaimRecord.of(true("x", "two", False, np.array([1.0, np.inf]), "finite"))
    assert (claim.measured, claim.status, claim.found) == ([1.0, None], "1, inf", "1, inf")


def test_numbers_and_symbols_as_a_reader_expects_them():
    good = at_least("B-FIG-90.a", "|p_mm|^2 and eta_c, x-axis <b>", -1.5e-7, -2, paper="pre-2 e-mail -3")
    figure = _made(good)
    about = {"scale": figure.scale, "seconds": 0.1, "run": FigureRun.now("hardmax reproduce")}
    record = Record.of(figure.recipe, (figure, []), **about)
    text = page([record], {"B-FIG-90": ROOT / "README.md"})
    assert "|p<sub>mm</sub>|<sup>2</sup> and eta<sub>c</sub>, x-axis &lt;b&gt;" in text
    assert [cell for cell in ("≥ −2", "−1.5e−07", "pre-2 e-mail −3") if f">{cell}<" not in text] == []


def _made(*claims):
    recipe = Recipe("B-FIG-90", "a title", lambda setting: None, lambda tables, canvas: None, (3.4, 2.6), ())
    return Figure(recipe, "quick", {}, claims, (), None, 0.1)


def test_errata_that_figures_cite_are_known():
    assert [id for each in recipes().values() for id in each.errata if id not in ERRATA] == []


def test_all_errata_of_the_papers_shown_stand_at_the_end(parsed, reproduction):
    shown_papers = {record.id[0] for record in reproduction.figures}
    for id in ERRATA:
        assert (f"{id} :" in parsed.text) == (id[0] in shown_papers)
