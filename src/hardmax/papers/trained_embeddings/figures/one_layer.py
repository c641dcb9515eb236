"""A-FIG-3: the one-layer model on reviews of IMDB, top row, and of Yelp, bottom row."""

from __future__ import annotations

from collections.abc import Mapping

from hardmax.papers.figures.figure import Canvas, Findings, Scale, Setting, recipe
from hardmax.papers.figures.tables import Tables
from hardmax.papers.trained_embeddings.figures.reviews import (
    ONE_LAYER,
    SOURCES,
    ReviewPart,
    Size,
    Source,
    draw_source,
    findings,
    reviews_of,
    schedule,
    surrogate_claims,
    text_claims,
    trained,
)
from hardmax.papers.trained_embeddings.figures.training import Share

PAPER = Size(None, schedule(2048, 500, (100, 200)))
SIZES: dict[Scale, Mapping[Source, Size]] = {
    "quick": {
        "IMDB": Size(8000, schedule(256, 30, (15, 24))),
        "Yelp": Size(None, schedule(256, 60, (30, 48))),
    },
    "paper": {"IMDB": PAPER, "Yelp": PAPER},
}
SURROGATE = schedule(64, 150, (75, 120))
LOSS = (
    "The paper reports a loss of about 1e-1 for one layer on both sources; ours is told, not claimed. Where "
    "E p grows to tens and hundreds, attention rests on single tokens and the loss hardly moves any more."
)
SHARES = {"IMDB": (0.0, 0.9), "Yelp": (0.9, 1.0)}  # of the work: there are far fewer reviews of Yelp


def draw_3(tables: Tables, canvas: Canvas) -> None:
    """A row for each source."""
    rows = canvas.subfigures(2, 1, squeeze=False)[:, 0]
    for row, name, letters in zip(rows, tables["cases"]["case"], ("abcd", "efgh"), strict=True):
        draw_source(row, tables, str(name), letters=letters)


@recipe(
    "A-FIG-3",
    "IMDB and Yelp, one layer: the shapes of figure 1 at a higher loss",
    draw=draw_3,
    size=(8.4, 5.4),
    errata=("A-ERR-4",),
)
def fig_3(setting: Setting) -> Findings:
    """The one-layer model on both sources."""
    return findings(*(part_of(source, setting) for source in SOURCES), layers=1, sources=SOURCES)


def part_of(source: Source, setting: Setting) -> ReviewPart:
    """The model trained on one source, with what is claimed about it."""
    size = SIZES[setting.scale][source]
    data = reviews_of(source, setting, sample=size.reviews)
    share, name = Share(setting, *SHARES[source]), f"A-FIG-3.{source.lower()}"
    if data.drawn_from is None:
        case = trained(data, size.schedule, share, name)
        claims = text_claims(name, case)
        a = case.training.a
        notes = (*data.notes, f"{source}: E p ends between {a.min():.3g} and {a.max():.3g}.", LOSS)
    else:
        case = trained(data, SURROGATE, share, name)
        claims, notes = surrogate_claims(name, case, data.drawn_from, ONE_LAYER), data.notes
    return ReviewPart(case, claims, notes)
