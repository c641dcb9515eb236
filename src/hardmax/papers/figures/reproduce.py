"""Make many figures: compute, save, keep a record of each, and write the report.

A figure on disk is the picture as SVG and PNG, and the numbers behind it as NPZ and CSV. Next to them is its
record, a JSON file. The report is made of the records in a folder, so figures made at different times are on
one page, each with the run that made it.
"""

from __future__ import annotations

import base64
import csv
import json
import platform
import re
import shlex
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from hardmax import __version__
from hardmax._lib.archive import read_arrays, write_arrays
from hardmax._lib.files import refusal, whole, whole_text
from hardmax._lib.json import plain
from hardmax._lib.reading import NotJson, parse_json, read_bytes
from hardmax._lib.style import style
from hardmax.papers.figures import figure as figures
from hardmax.papers.figures.claims import Claim, shown
from hardmax.papers.figures.figure import Figure, FigureProgress, Logits, Recipe, Scale, Setting
from hardmax.papers.registry import ERRATA, PAPERS

if TYPE_CHECKING:
    from hardmax.papers.figures.tables import Tables

LARGEST = 2**24  # bytes of a record
LARGEST_NUMBER = 1e300
DEEPEST = 20  # lists within lists of what was measured

Kinds = Mapping[str, tuple[type, ...] | list[tuple[type, ...]]]


def read_records(folder: Path) -> list[Record]:
    """Read the records in a folder, by name; other files are left alone."""
    records = []
    for path in sorted(folder.glob("*-FIG-*.json")):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            stored = parse_json(read_bytes(path, LARGEST).decode())
            if isinstance(stored, dict) and stored.pop("schema", None) == SCHEMA:
                records.append(_record(stored, path.stem))
        except (NotJson, UnicodeDecodeError, TypeError, KeyError, _Wrong) as error:
            reason = (
                f"its {error.args[0]} is not what a figure writes" if isinstance(error, _Wrong) else error
            )
            raise ValueError(f"{path} is not a valid record of a figure ({reason}); delete it") from None
    return records


class _Wrong(Exception):
    """The name of a value that no figure wrote."""


_TEXT, _MAYBE_TEXT, _NUMBER = (str,), (str, type(None)), (int, float)
# The types of the fields of a record, of its claims and of its run; a list in brackets has elements of these.
_RECORD: Kinds = {
    **dict.fromkeys(("id", "title", "scale"), _TEXT),
    **dict.fromkeys(("error", "trace"), _MAYBE_TEXT),
    **{name: [_TEXT] for name in ("notes", "errata", "files")},
    "size": [_NUMBER],
    "seed": (int, type(None)),
    "seconds": _NUMBER,
    "claims": [(dict,)],
    "run": (dict,),
}
_CLAIM: Kinds = {
    **dict.fromkeys(("id", "text", "expected", "status"), _TEXT),
    **dict.fromkeys(("holds", "stand_in"), (bool,)),
    "paper": _MAYBE_TEXT,
}
_RUN: Kinds = {**dict.fromkeys(("command", "started", "system"), _TEXT), "versions": (dict,)}


def _record(stored: dict[str, Any], name: str) -> Record:
    _check(stored, _RECORD)
    _require("id", stored["id"] == name and re.fullmatch(r"[A-Z]-FIG-[\w-]+", name) is not None)
    # files are names in this folder, and of this figure
    pattern = re.compile(rf"{re.escape(name)}\.[\w. -]+")
    _require("files", all(pattern.fullmatch(file) for file in stored["files"]))
    _require("size", len(stored["size"]) == 2 and all(0 < x < LARGEST_NUMBER for x in stored["size"]))
    _require("seconds", abs(stored["seconds"]) < LARGEST_NUMBER)
    claims = [{"stand_in": False, **claim} for claim in stored["claims"]]  # older records lack it
    for claim in claims:
        _check(claim, _CLAIM, "claims.")
        _require("claims.measured", _depth(claim["measured"]) <= DEEPEST)
    run = stored["run"]
    _check(run, _RUN, "run.")
    _require("run.versions", all(isinstance(number, str) for number in run["versions"].values()))
    fields = {key: tuple(stored[key]) for key in ("notes", "errata", "files", "size")}
    records = tuple(ClaimRecord(**claim) for claim in claims)
    return Record(**{**stored, **fields, "claims": records, "run": FigureRun(**run)})


def _check(stored: dict[str, Any], kinds: Kinds, inside: str = "") -> None:
    for name, kind in kinds.items():
        values, types = (stored[name], kind[0]) if isinstance(kind, list) else ([stored[name]], kind)
        _require(inside + name, isinstance(values, list) and all(type(value) in types for value in values))


def _require(name: str, holds: bool) -> None:
    if not holds:
        raise _Wrong(name)


def _depth(value: Any) -> int:
    """Return how deep lists and objects are nested, without recursion."""
    depth, level = -1, [value]
    while level:
        depth += 1
        parents = [x.values() if isinstance(x, dict) else x for x in level if isinstance(x, dict | list)]
        level = [item for items in parents for item in items]
    return depth


SCHEMA = "hardmax.figure/1"
PACKAGES = ("numpy", "scipy", "numba", "matplotlib")
MEASURED = "measured"


@dataclass(frozen=True)
class FigureRun:
    """The command that made a figure, when (UTC), on what system, and with which versions."""

    command: str
    started: str
    system: str
    versions: Mapping[str, str]

    @classmethod
    def now(cls, command: str) -> FigureRun:
        """Return a run that starts now."""
        versions = {"hardmax": __version__, "Python": platform.python_version()}
        versions |= {name: version(name) for name in PACKAGES}
        system = f"{platform.system()} {platform.machine()}"
        return cls(command, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", system, versions)


@dataclass(frozen=True)
class ClaimRecord:
    """A claim with its measured value as JSON can hold it.

    ``status`` is "measured", or the value in words where it is not a finite number.
    """

    id: str
    text: str
    expected: str
    measured: Any
    status: str
    holds: bool
    paper: str | None
    stand_in: bool

    @classmethod
    def of(cls, claim: Claim) -> ClaimRecord:
        """Return the record of a claim."""
        text, measured = shown(claim.measured), plain(claim.measured)
        status = MEASURED if shown(measured) == text else text
        marks = (claim.holds, claim.paper, claim.stand_in)
        return cls(claim.id, claim.text, claim.expected, measured, status, *marks)

    @property
    def found(self) -> str:
        """The measured value for a reader, with more digits if the claim fails, to show by how much."""
        if self.status != MEASURED:
            return self.status
        return shown(self.measured, digits=6 if self.holds else 10)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One figure that was made: its claims and the notes on it, or the reason why it could not be made.

    ``files`` are names in the record's folder. ``error`` is None, or a sentence; then there are no files and
    no claims, and ``trace`` names the place in the program, unless the error explains itself.
    """

    id: str
    title: str
    size: tuple[float, float]
    scale: Scale
    claims: tuple[ClaimRecord, ...] = ()
    notes: tuple[str, ...] = ()
    errata: tuple[str, ...]
    seed: int | None = None
    seconds: float
    files: tuple[str, ...] = ()
    error: str | None = None
    trace: str | None = None
    run: FigureRun

    @classmethod
    def of(cls, recipe: Recipe, result: tuple[Figure, list[Path]] | Exception, **about: Any) -> Record:
        """Return the record of a figure with its written files, or of the error that prevented it."""
        about |= {"id": recipe.id, "title": recipe.title, "size": recipe.size, "errata": recipe.errata}
        if not isinstance(result, Exception):
            figure, files = result
            claims = tuple(map(ClaimRecord.of, figure.claims))
            names = tuple(path.name for path in files)
            return cls(claims=claims, notes=figure.notes, seed=figure.seed, files=names, **about)
        sentence = " ".join(str(result).split())
        # a ValueError or a missing file states the remedy; anything else is a bug, which needs its trace
        if isinstance(result, ValueError | OSError):
            return cls(error=sentence, **about)
        trace = "".join(traceback.format_exception(result))
        return cls(error=f"{type(result).__name__}: {sentence}", trace=trace, **about)

    @property
    def failed(self) -> list[ClaimRecord]:
        """The claims that do not hold."""
        return [claim for claim in self.claims if not claim.holds]

    @property
    def holds(self) -> bool:
        """Whether the figure was made and every claim holds."""
        return self.error is None and not self.failed

    def write(self, folder: Path) -> Path:
        """Write ID.json atomically."""
        path = folder / f"{self.id}.json"
        content = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, ensure_ascii=False)
        with whole_text(path) as file:
            file.write(content + "\n")
        return path


class Counts(NamedTuple):
    """How many of some claims hold."""

    held: int
    claims: int

    @classmethod
    def of(cls, claims: Iterable[ClaimRecord], *, stand_in: bool) -> Counts:
        """Count the claims on stand-in data, or all others."""
        holds = [claim.holds for claim in claims if claim.stand_in == stand_in]
        return cls(sum(holds), len(holds))

    def __str__(self) -> str:
        return f"{self.held:,} of {self.claims:,}"


def summary(claims: Sequence[ClaimRecord]) -> str:
    """Write how many claims hold; those on stand-in data are counted separately.

    >>> from hardmax.papers.figures.claims import at_least, on_stand_in
    >>> from hardmax.papers.figures.reproduce import ClaimRecord, summary
    >>> claims = (at_least("a", "", 1.0, 0.5), *on_stand_in([at_least("b", "", 1.0, 2.0)]))
    >>> summary([ClaimRecord.of(claim) for claim in claims])
    "1 of 1 claims hold on the papers' own data, 0 of 1 on stand-ins"
    """
    real, stand_ins = (Counts.of(claims, stand_in=stand_in) for stand_in in (False, True))
    if not stand_ins.claims:
        return f"{real} claims hold"
    if not real.claims:
        return f"{stand_ins} claims hold, all on stand-ins"
    return f"{real} claims hold on the papers' own data, {stand_ins} on stand-ins"


def tally(records: Sequence[Record]) -> str:
    """Write how many claims hold, and how many figures could not be made, if any."""
    broken = sum(record.error is not None for record in records)
    text = summary([claim for record in records for claim in record.claims])
    return text + (f", {count(broken, 'figure')} could not be made" if broken else "")


def count(number: int, what: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


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
