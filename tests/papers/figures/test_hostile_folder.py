"""A folder of figures may hold what others put there: nothing of it is run, followed or believed."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import matplotlib
import pytest

from hardmax.app.results.reproduce import reproduce
from hardmax.papers.figures.reproduce import FigureJob, page, read_records, write_report

SCRIPT = "<script>alert(1)</script>"
DEEP = "[" * 100_000 + "]" * 100_000


class Page(HTMLParser):
    """What a browser would make of it: elements, and where links lead."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        assert not [name for name, _ in attrs if name.startswith("on")]


@pytest.fixture
def record(reproduction, table, tmp_path):
    """Change the record of a good figure."""
    for file in reproduction.report.parent.glob("B-FIG-90.*"):
        shutil.copy(file, tmp_path)
    path = tmp_path / "B-FIG-90.json"

    def change(text=None, **values):
        stored = json.loads(path.read_text())
        for name, value in values.items():
            place = stored
            *parents, last = name.split("__")
            for each in parents:
                place = place[int(each) if each.isdigit() else each]
            place[last] = value
        path.write_text(text if text is not None else json.dumps(stored))

    return change


TEXTS = [
    "title",
    "scale",
    "error",
    "trace",
    "run__command",
    "run__started",
    "run__system",
    "claims__0__text",
    "claims__0__expected",
    "claims__0__paper",
    "claims__0__status",
    "claims__0__id",
    "claims__0__measured",
]


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_of_an_old_record_is_escaped(record, tmp_path, name):
    record(**{name: f'{SCRIPT}" onclick="alert(2)'})
    text = write_report(tmp_path).read_text()
    assert "script" not in Page(text).tags
    assert "default-src 'none'" in text


def test_lists_of_texts_are_escaped_too(record, tmp_path):
    record(notes=[SCRIPT], errata=[SCRIPT], run__versions={SCRIPT: SCRIPT})
    assert "script" not in Page(write_report(tmp_path).read_text()).tags


def test_what_is_no_text_is_escaped_too(record, tmp_path):
    """The page believes no type, even of a record that was not read from a file."""
    from dataclasses import replace

    (found,) = read_records(tmp_path)
    forged = replace(
        found, seed=SCRIPT, scale=SCRIPT, files=("javascript:alert(1)", "//evil.example/x", SCRIPT)
    )
    parsed = Page(page([forged], {}))
    assert "script" not in parsed.tags
    assert all(link.startswith(("#", "./", "data:")) for link in parsed.links)


@pytest.mark.parametrize(
    "values, words",
    [
        ({"seed": SCRIPT}, "its seed"),
        ({"seed": 1.5}, "its seed"),
        ({"scale": 3}, "its scale"),
        ({"seconds": "1"}, "its seconds"),
        ({"seconds": 1e999}, "its seconds"),
        ({"size": [1]}, "its size"),
        ({"size": [0, 1]}, "its size"),
        ({"size": "ab"}, "its size"),
        ({"files": ["../../etc/passwd"]}, "its files"),
        ({"files": ["javascript:alert(1)"]}, "its files"),
        ({"files": ["//evil.example/x"]}, "its files"),
        ({"files": ["B-FIG-90.svg/../x"]}, "its files"),
        ({"files": 3}, "its files"),
        ({"id": "B-FIG-91"}, "its id"),
        ({"id": ["B-FIG-90"]}, "its id"),
        ({"title": None}, "its title"),
        ({"error": 3}, "its error"),
        ({"claims": {}}, "its claims"),
        ({"claims": [3]}, "its claims"),
        ({"claims__0__holds": "yes"}, "its claims.holds"),
        ({"claims__0__measured": json.loads("[" * 50 + "]" * 50)}, "its claims.measured"),
        ({"claims__0__more": 1}, "more"),
        ({"run": []}, "its run"),
        ({"run__versions": []}, "its run.versions"),
        ({"more": 1}, "more"),
        ({"text": DEEP}, "nested too deeply"),
        ({"text": '{"schema": "hardmax.figure/1", "claims": ' + DEEP + "}"}, "nested too deeply"),
        ({"text": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")}, "Expecting"),
    ],
)
def test_a_bad_record_is_refused_before_the_work(record, table, tmp_path, values, words):
    record(**values)
    expected = rf"B-FIG-90\.json is not a valid record of a figure .*{words}.*; delete it"
    with pytest.raises(ValueError, match=expected):
        FigureJob([table["B-FIG-91"]], "quick", None, tmp_path)


def test_planted_links_and_pipes(record, table, tmp_path):
    """A fixed name of a draft led to another file; a picture that is a link is not shown to others."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_text("secret")
    for name in (".B-FIG-91.part.svg", ".out.part.svg", ".index.part.html", ".B-FIG-91.part.json"):
        (tmp_path / name).symlink_to(secret)
    os.mkfifo(tmp_path / "A-FIG-0.json")
    (tmp_path / "A-FIG-1.json").symlink_to(secret)
    (tmp_path / "B-FIG-90.svg").unlink()
    (tmp_path / "B-FIG-90.svg").symlink_to(secret)
    text = reproduce(["B-FIG-91"], out=tmp_path).report.read_text()
    assert secret.read_text() == "secret"
    assert "The picture B-FIG-90.svg is gone" in text
    with pytest.raises(ValueError, match=r"B-FIG-90\.svg: this is a link"):
        FigureJob([table["B-FIG-90"]], "quick", None, tmp_path)
    (tmp_path / "index.html").unlink()
    (tmp_path / "index.html").mkdir()
    with pytest.raises(ValueError, match=r"index\.html: this is a folder"):
        reproduce(["B-FIG-91"], out=tmp_path)


def test_two_at_once(table, tmp_path):
    before = dict(matplotlib.rcParams)
    with ThreadPoolExecutor(4) as threads:
        jobs = [FigureJob([table["B-FIG-90"]], "quick", None, tmp_path) for _ in range(4)]
        records = list(threads.map(lambda job: (job.make(job.recipes[0]), job.report())[0], jobs))
    assert all(record.error is None for record in records)
    assert not list(tmp_path.glob(".hardmax-*"))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_two_commands_at_once(tmp_path):
    line = [
        sys.executable,
        "-c",
        "from hardmax.app.cli import main; main()",
        "reproduce",
        "B-FIG-3a",
        "--out",
        "both",
    ]
    running = [
        subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for each in running:
        out, err = each.communicate(timeout=300)
        assert each.returncode == 0, (out, err)
    assert not [path for path in (tmp_path / "both").rglob("*") if path.name.startswith(".")]
