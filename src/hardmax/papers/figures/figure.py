"""Figure: the numbers behind a picture, the claims about them and the picture; the table of all figures.

Computing and drawing are two functions. The first returns `Findings`: tables of numbers, which are named
columns of equal length as in a CSV file, and claims. The second sees nothing but the tables, so a saved
figure can be drawn again from its raw numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal, Protocol

from hardmax._lib import notebook
from hardmax._lib.arguments import check_arguments
from hardmax._lib.style import style
from hardmax.papers.figures.claims import Claim, Claims, failed, shown
from hardmax.papers.figures.tables import Canvas, Tables
from hardmax.papers.registry import Registry, places

Scale = Literal["quick", "day", "paper"]
Logits = Literal["printed", "scaled"]
SCALES: tuple[Scale, ...] = ("quick", "day", "paper")


class FigureProgress(Protocol):
    """Called with the share of a figure that is done, from 0 to 1, and the part in progress."""

    def __call__(self, done: float, what: str = "", /) -> None:
        """Report progress."""


def _ignore(done: float, what: str = "") -> None:
    """Do nothing; the default for progress."""


@dataclass(frozen=True)
class Setting:
    """The conditions of a computation: the scale, a folder of real data, and a callback for progress.

    "paper" is the paper's own numbers; "day" is less where these take days, and the same elsewhere.
    ``logits`` is for the trainings of paper A on text: as "printed", or "scaled" by 1/sqrt(d) in every
    softmax, which the paper does not print. Work of many minutes is kept in the folder ``checkpoints``, if
    there is one, and goes on from there.
    """

    scale: Scale = "quick"
    data: Path | None = None
    progress: FigureProgress = _ignore
    checkpoints: Path | None = None
    logits: Logits = "printed"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(f"scale must be quick, day or paper, got {self.scale!r}")
        if self.logits not in ("printed", "scaled"):
            raise ValueError(f"logits must be printed or scaled, got {self.logits!r}")


@dataclass(frozen=True, eq=False)
class Findings:
    """The result of computing a figure: tables of numbers, claims about them, and notes for the reader.

    ``claims`` are claims, or the measured values by name that `recipe` compares with the figure's table of
    claims. ``seed`` is None where chance plays no part.
    """

    tables: Tables
    claims: tuple[Claim, ...] | Mapping[str, Any]
    notes: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Recipe:
    """How a figure is made: ``compute`` from a Setting to Findings, ``draw`` from tables onto a canvas.

    ``size`` is that of the printed picture in inches; ``errata`` are the ids that bear on it. ``reduced``
    says that ``compute`` has a size of its own for the scale "day"; others take the paper's then.
    """

    id: str
    title: str
    compute: Callable[[Setting], Findings]
    draw: Callable[[Tables, Canvas], None]
    size: tuple[float, float]
    errata: tuple[str, ...]
    reduced: bool = False

    @property
    def paper(self) -> str:
        """The letter of the paper, as in its id."""
        return self.id[0]


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure of a paper, computed: its tables, its claims, and `plot` to draw it.

    >>> import hardmax as hm
    >>> figure = hm.figure("B-FIG-1a")
    >>> figure.holds, figure.failed
    (True, [])
    """

    recipe: Recipe
    scale: Scale
    tables: Tables
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    seed: int | None
    seconds: float

    def __repr__(self) -> str:
        count = sum(claim.holds is True for claim in self.claims)
        return f"Figure({self.id}: {count} of {len(self.claims)} claims hold)"

    @property
    def id(self) -> str:
        """The id, such as "B-FIG-1a"."""
        return self.recipe.id

    @property
    def title(self) -> str:
        """The message of the figure, in one line."""
        return self.recipe.title

    @property
    def failed(self) -> list[Claim]:
        """The claims that do not hold."""
        return failed(self.claims)

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return not self.failed

    def _repr_html_(self) -> str:
        claims = [("yes" if c.holds else "NO", c.text, c.expected, shown(c.measured)) for c in self.claims]
        columns = ["holds", "claim", "expected", "measured"]
        return notebook.image(self.plot()) + notebook.table(f"{self.id} {self.title}", columns, claims)

    def plot(self) -> Canvas:
        """Draw the figure in the project's style and return the matplotlib figure."""
        with style():
            canvas = notebook.picture(self.recipe.size)
            self.recipe.draw(self.tables, canvas)
        return canvas


RECIPES: Registry[Recipe] = Registry("figure", places("figures"))


def recipe(
    id: str,
    title: str,
    *,
    draw: Callable[[Tables, Canvas], None],
    size: tuple[float, float] = (3.4, 2.6),
    errata: tuple[str, ...] = (),
    claims: str = "",
    reduced: bool = False,
) -> Callable[[Callable[[Setting], Findings]], Callable[[Setting], Findings]]:
    """Enter the decorated function, from a Setting to Findings, into the table of figures under ``id``.

    ``claims`` is the table of what the figure must show, as in `Claims`.
    """
    table = Claims(id, claims)

    def enter(compute: Callable[[Setting], Findings]) -> Callable[[Setting], Findings]:
        @wraps(compute)
        def judged(setting: Setting) -> Findings:
            findings = compute(setting)
            measured = findings.claims
            return (
                findings if isinstance(measured, tuple) else replace(findings, claims=table.judge(measured))
            )

        RECIPES.enter(id, Recipe(id, title, judged, draw, size, errata, reduced))
        return judged

    return enter


def recipes() -> dict[str, Recipe]:
    """Return all figures that can be made, by id, in the order of the papers B, C, A and D."""
    return RECIPES.all()


def recipes_of(ids: Iterable[str] | None = None, paper: str | None = None) -> list[Recipe]:
    """Return the figures of some ids (by default all) and of a paper; a ValueError suggests similar ids."""
    table = recipes() if ids is None else RECIPES
    names = list(recipes()) if ids is None else list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
    chosen = [table[id] for id in names if paper is None or table[id].paper == paper]
    if not names:
        raise ValueError("ids must name at least one figure, got none; leave it out for all of them")
    if not chosen:
        papers = dict.fromkeys(recipe.paper for recipe in recipes().values())
        among = f", which has none of {', '.join(names)}" if paper in papers else ""
        raise ValueError(f"paper must be one of {', '.join(papers)}, got {paper}{among}")
    return chosen


@check_arguments
def figure(
    id: str, *, scale: Scale = "quick", data: str | Path | None = None, logits: Logits = "printed"
) -> Figure:
    """Compute a figure of the papers: its numbers and its claims, with a method that draws it.

    ``scale="paper"`` takes the paper's sizes. ``data`` is a folder of real data for the figures that use it,
    ``logits`` is as in `Setting`.

    >>> import hardmax as hm
    >>> figure = hm.figure("B-FIG-1b")
    >>> [claim.text for claim in figure.failed]
    []
    """
    folder = None if data is None else Path(data)
    return make(recipes_of([id])[0], Setting(scale, folder, logits=logits))


def make(recipe: Recipe, setting: Setting) -> Figure:
    """Compute one figure and time it."""
    if setting.scale == "day" and not recipe.reduced:
        setting = replace(setting, scale="paper")
    start = time.perf_counter()
    findings = recipe.compute(setting)
    seconds = time.perf_counter() - start
    for name, table in findings.tables.items():
        lengths: set[Any] = {len(column) for column in table.values()}
        if len(lengths) != 1:
            raise AssertionError(f"{recipe.id}: columns of {name} have lengths {sorted(lengths)}")
    assert isinstance(findings.claims, tuple)
    parts = (findings.tables, findings.claims, findings.notes, findings.seed)
    return Figure(recipe, setting.scale, *parts, seconds)
