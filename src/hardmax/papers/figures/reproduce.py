"""Make many figures: compute, save, keep a record of each, and write the report.

A figure on disk is the picture as SVG and PNG, and the numbers behind it as NPZ and CSV.
"""

from __future__ import annotations

import base64
import csv
import re
import shlex
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from hardmax._lib.archive import read_arrays, write_arrays
from hardmax._lib.files import refusal, whole, whole_text
from hardmax._lib.style import style
from hardmax.papers.figures import figure as figures
from hardmax.papers.figures.figure import Figure, FigureProgress, Logits, Recipe, Scale, Setting
from hardmax.papers.figures.record import ClaimRecord, FigureRun, Record, count, read_records, summary, tally
from hardmax.papers.registry import ERRATA, PAPERS

if TYPE_CHECKING:
    from hardmax.papers.figures.tables import Tables


WIDE = 5.0  # inches: a picture this wide is above its claims, a narrower one next to them
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # no script, whatever the texts hold
PIXELS = 120  # of the page for an inch of the picture


def write_report(folder: Path) -> Path:
    """Write index.html for the figures recorded in a folder and return its path."""
    order = {id: place for place, id in enumerate(figures.RECIPES.ids)}
    records = sorted(read_records(folder), key=lambda record: order.get(record.id, len(order)))
    pictures = {record.id: folder / f"{record.id}.svg" for record in records if record.error is None}
    path = folder / "index.html"
    with whole_text(path) as file:
        file.write(page(records, pictures))
    return path


def page(records: list[Record], pictures: Mapping[str, Path]) -> str:
    """Return the page as HTML; ``pictures`` are the SVG files of the figures that could be made."""
    style = (files("hardmax.papers.figures") / "report.css").read_text(encoding="utf-8")
    sections = "\n".join(_section(record, pictures.get(record.id)) for record in records)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>hardmax: {escape(tally(records))}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#figures">To the figures</a>
{_header(records)}
<div class="page">
{_navigation(records)}
<main id="figures">
{sections}
{_errata(records)}
{_runs(records)}
</main>
</div>
</body>
</html>
"""


def _header(records: list[Record]) -> str:
    good = all(record.holds for record in records)
    seconds = sum(record.seconds for record in records)
    total = _tag("b", f"{_mark(good)} {escape(tally(records))}", class_=_tone(good))
    about = (
        f"{count(len(records), 'figure')}, made in {_time(seconds)}. Each is next to what is claimed "
        "about it: what is expected, what was measured, and the paper’s own number where it prints one."
    )
    return _tag(
        "header",
        _tag("p", "hardmax", class_="brand"),
        _tag("h1", "The papers’ figures, reproduced"),
        _tag("p", total, class_="tally"),
        _tag("p", about, class_="about"),
        _failures(records),
    )


def _failures(records: list[Record]) -> str:
    lines = [
        f"{_link(record.id)} could not be made: {escape(record.error)}"
        for record in records
        if record.error is not None
    ]
    for claim in (claim for record in records for claim in record.failed):
        numbers = f"expected {claim.expected}, measured {claim.found}"
        lines.append(f"{_link(claim.id)}: {_prose(claim.text)}; {_typeset(numbers)}")
    if not lines:
        return ""
    return _tag("section", _tag("h2", "What does not hold"), _list(lines), class_="failures")


def _navigation(records: list[Record]) -> str:
    parts = []
    for paper, group in groupby(records, key=lambda record: record.id[0]):
        links = []
        for record in group:
            name = escape(record.id) + ("" if record.holds else " (fails)")
            mark = _tag("span", _mark(record.holds), class_=_tone(record.holds))
            words = _tag("span", name, _tag("small", _prose(record.title)))
            links.append(_tag("a", mark, words, href=f"#{record.id}"))
        parts += [_tag("h2", _paper(paper)), _list(links)]
    return _tag("nav", *parts, aria_label="Figures")


def _section(record: Record, picture: Path | None) -> str:
    if picture is None:
        body = _error(record) + _after(record)
    else:
        place = "beside" if record.size[0] < WIDE else "beside wide"
        parts = (_picture(record, picture), _claims(record.claims), _after(record))
        body = _tag("div", *parts, class_=place)
    facts = [f"scale {escape(record.scale)}", _time(record.seconds)]
    if record.error is None:
        seed = "no chance involved" if record.seed is None else f"seed {escape(str(record.seed))}"
        facts = [escape(summary(record.claims)), seed, *facts]
    name = _tag("span", escape(record.id), class_="name")
    return _tag(
        "section",
        _tag("h2", f"{name} {_prose(record.title)}"),
        _tag("p", " · ".join(facts), class_="facts"),
        body,
        class_="figure" if record.holds else "figure fails",
        id=record.id,
    )


def _picture(record: Record, picture: Path) -> str:
    if not picture.is_file() or picture.is_symlink():
        gone = f"The picture {picture.name} is gone; make this figure again."
        return _tag("p", escape(gone), class_="error")
    code = base64.b64encode(picture.read_bytes()).decode()
    width, height = (str(round(PIXELS * inches)) for inches in record.size)
    source = f"data:image/svg+xml;base64,{code}"
    alt = f"{record.id}: {record.title}"
    image = _tag("img", alt=alt, width=width, height=height, src=source)
    return _tag("figure", _tag("a", image, href=_beside(picture.name), title="Open the picture by itself"))


def _claims(claims: Iterable[ClaimRecord]) -> str:
    claims = sorted(claims, key=lambda claim: claim.holds)  # what fails comes first
    has_paper = any(claim.paper for claim in claims)
    columns = ["expected", "measured", *(["paper"] if has_paper else [])]
    names = ("claim", *columns, "verdict")
    heads = [_tag("th", name, scope="col", role="columnheader", class_=name) for name in names]
    rows = []
    for claim in claims:
        values = (claim.expected, claim.found, claim.paper or "")
        text = _prose(claim.text) + _tag("code", escape(claim.id), class_="claim-id")
        verdict = "✓ holds" if claim.holds else "✗ fails"
        rows.append(
            _tag(
                "tr",
                _tag("th", text, scope="row", role="rowheader"),
                *(_cell(name, value, "number") for name, value in zip(columns, values, strict=False)),
                _cell("verdict", verdict, f"verdict {_tone(claim.holds)}"),
                role="row",
                id=claim.id,
                class_="holds" if claim.holds else "fails",
            )
        )
    head = _tag("thead", _tag("tr", *heads, role="row"), role="rowgroup")
    return _tag("table", head, _tag("tbody", *rows, role="rowgroup"), role="table")


def _cell(column: str, value: str, kind: str) -> str:
    return _tag("td", _typeset(value), role="cell", class_=kind, data_label=column)


def _error(record: Record) -> str:
    text = _tag("strong", "✗ This figure could not be made.") + escape(record.error or "")
    paragraph = _tag("p", text, class_="error")
    if record.trace is None:
        return paragraph
    trace = f"<pre><code>{escape(record.trace)}</code></pre>"
    return paragraph + _tag("details", "<summary>Where it happened</summary>", trace)


def _after(record: Record) -> str:
    parts = []
    if record.notes:
        parts += [_tag("h3", "Notes"), _list(map(_prose, record.notes))]
    if record.errata:
        lines = (f"<b>{escape(id)}</b>: {_prose(ERRATA.get(id, ''))}" for id in record.errata)
        parts += [_tag("h3", "Errata of the paper"), _list(lines)]
    if record.files:
        links = [_tag("a", escape(name), href=_beside(name)) for name in record.files]
        parts.append(_tag("div", _tag("h3", "Files"), _list(links), class_="files"))
    return _tag("div", *parts, class_="after")


def _errata(records: list[Record]) -> str:
    """List all errata of the papers on the page; each figure names those that concern it."""
    parts = []
    for paper in dict.fromkeys(record.id[0] for record in records):
        lines = [f"<b>{id}</b>: {_prose(text)}" for id, text in ERRATA.items() if id.startswith(paper)]
        heading = _tag("summary", f"{_paper(paper)}, {len(lines)} errata")
        parts.append(_tag("details", heading, _list(lines)))
    return _tag("section", _tag("h2", "Errata of the papers"), *parts, class_="runs")


def _runs(records: list[Record]) -> str:
    runs: list[FigureRun] = []
    for record in records:
        if record.run not in runs:
            runs.append(record.run)
    parts = []
    for run in runs:
        facts = {
            "Command": f"<code>{escape(run.command)}</code>",
            "Started": escape(run.started),
            "Versions": escape(", ".join(f"{name} {number}" for name, number in run.versions.items())),
            "System": escape(run.system),
            "Figures": escape(", ".join(record.id for record in records if record.run == run)),
        }
        parts.append(_tag("dl", *(_tag("dt", name) + _tag("dd", fact) for name, fact in facts.items())))
    return _tag("section", _tag("h2", "How this page was made"), *parts, class_="runs")


def _tag(name: str, *inner: str, **attributes: str) -> str:
    """Return an element: ``inner`` is HTML already, attributes are escaped here (class_, data_label)."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    if name == "img":
        return f"<img{words}>"
    gap = "\n" if len(inner) > 1 else ""
    return f"<{name}{words}>{gap}{gap.join(inner)}{gap}</{name}>"


def _prose(text: str) -> str:
    """Escape a text and set p_mm and |p|^2 with subscripts and superscripts."""
    lowered = re.sub(r"\b([A-Za-z]|eta|lambda|rho|gamma)_([A-Za-z0-9]+)\b", r"\1<sub>\2</sub>", escape(text))
    return re.sub(r"\^(\d+)", r"<sup>\1</sup>", lowered)


def _typeset(numbers: str) -> str:
    """Escape numbers, with a true minus sign, at which a browser does not break the line."""
    return re.sub(r"(?<=\de)-(?=\d)|(?<!\w)-(?=[\d.])", "−", escape(numbers))


def _list(lines: Iterable[str]) -> str:
    return _tag("ul", *(_tag("li", line) for line in lines))


def _beside(name: str) -> str:
    """Return a link to a file in the folder of the page, whatever its name."""
    return f"./{quote(name, safe='')}"


def _link(id: str) -> str:
    return _tag("a", escape(id), href=f"#{id}")


def _paper(letter: str) -> str:
    return escape(f"Paper {letter}: {PAPERS[letter].about}" if letter in PAPERS else f"Paper {letter}")


def _tone(holds: bool) -> str:
    return "good" if holds else "bad"


def _mark(holds: bool) -> str:
    return "✓" if holds else "✗"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def save(figure: Figure, folder: str | Path) -> list[Path]:
    """Write ID.npz, a file ID.TABLE.csv for each table, ID.svg and ID.png; the same figure, the same bytes.

    >>> import tempfile
    >>> import hardmax as hm
    >>> from hardmax.papers.figures.reproduce import save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     names = [path.name for path in save(hm.figure("B-FIG-1a"), folder)]
    >>> names[-2:]
    ['B-FIG-1a.svg', 'B-FIG-1a.png']
    """
    import matplotlib

    Path(folder).mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []

    def path_of(ending: str) -> Path:
        paths.append(Path(folder) / f"{figure.id}.{ending}")
        return paths[-1]

    # numbers first: a picture that cannot be drawn leaves them behind
    columns = {
        f"{name}/{column}": np.asarray(values)
        for name, table in figure.tables.items()
        for column, values in table.items()
    }
    write_arrays(path_of("npz"), columns, packed=True)
    for name, table in figure.tables.items():
        with whole_text(path_of(f"{name}.csv")) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table)
            # the csv module writes a Python float with all its digits
            writer.writerows(zip(*(np.asarray(column).tolist() for column in table.values()), strict=True))
    canvas = figure.plot()
    with style():
        # names inside the SVG would be drawn at random and the date stamped
        matplotlib.rcParams["svg.hashsalt"] = figure.id
        for ending, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            with whole(path_of(ending)) as picture:
                canvas.savefig(picture, format=ending, metadata=metadata)
    return paths


def load_tables(path: str | Path) -> Tables:
    """Read the tables of a saved ID.npz, as the figure's ``draw`` takes them.

    >>> import tempfile
    >>> import hardmax as hm
    >>> from hardmax.papers.figures.reproduce import load_tables, save
    >>> figure = hm.figure("B-FIG-1a")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tables = load_tables(save(figure, folder)[0])
    >>> list(tables) == list(figure.tables)
    True
    """
    tables: dict[str, dict[str, np.ndarray]] = {}
    for name, values in read_arrays(path).items():
        table, _, column = name.partition("/")
        tables.setdefault(table, {})[column] = values
    return tables


class FigureJob:
    """Figures to be made into a folder, one by one; finished ones are kept after an interrupt."""

    def __init__(
        self, recipes: list[Recipe], scale: Scale, data: Path | None, out: Path, logits: Logits = "printed"
    ) -> None:
        self.recipes, self.out = recipes, out
        self.setting = Setting(scale, data, checkpoints=out / "checkpoints", logits=logits)
        out.mkdir(parents=True, exist_ok=True)
        # a folder whose page cannot be made is refused before hours of work, not after
        read_records(out)
        names = [f"{recipe.id}.{ending}" for recipe in recipes for ending in ("json", "npz", "svg", "png")]
        for path in (out / name for name in ("index.html", *names)):
            reason = refusal(path)
            if reason is not None:
                raise ValueError(f"{path}: {reason}")
        self.done: list[Record] = []
        self.run = FigureRun.now(self.command(recipes))

    @property
    def remaining(self) -> list[Recipe]:
        """The figures that have not been made yet."""
        return self.recipes[len(self.done) :]

    def make(self, recipe: Recipe, progress: FigureProgress | None = None) -> Record:
        """Compute and save a figure and write its record; an error becomes part of the record."""
        start = time.perf_counter()
        setting = self.setting if progress is None else replace(self.setting, progress=progress)
        try:
            figure = figures.make(recipe, setting)
            result: tuple[Figure, list[Path]] | Exception = (figure, save(figure, self.out))
            scale = figure.scale
        except Exception as error:  # one figure's bug must not cost the reader the others
            result, scale = error, self.setting.scale
        seconds = time.perf_counter() - start
        record = Record.of(recipe, result, scale=scale, seconds=seconds, run=self.run)
        record.write(self.out)
        self.done.append(record)
        return record

    def report(self) -> Path:
        """Write the page of all figures in the folder."""
        return write_report(self.out)

    def command(self, recipes: list[Recipe]) -> str:
        """Return the command line that makes these figures."""
        every = figures.RECIPES.ids
        which = [recipe.id for recipe in recipes]
        paper = recipes[0].paper
        if which == every:
            which = []
        elif which == [id for id in every if id[0] == paper]:
            which = ["--paper", paper]
        setting = self.setting
        data = [] if setting.data is None else ["--data", str(setting.data)]
        how = ["--scale", setting.scale, *([] if setting.logits == "printed" else ["--logits", "scaled"])]
        return shlex.join(["hardmax", "reproduce", *which, *how, *data, "--out", str(self.out)])
