"""What figures 1, 3 and 4 share: a model trained on a source's reviews or its surrogate, and its panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardmax.embeddings.minibatch import train_embeddings
from hardmax.figures.claims import Claim
from hardmax.figures.figure import Findings
from hardmax.figures.paper_a.panels import draw_training
from hardmax.figures.paper_a.review_data import Reviews
from hardmax.figures.paper_a.training import (
    SEED,
    THEORY,
    Case,
    Schedule,
    Share,
    Train,
    course_note,
    train,
    training_tables,
    words_note,
)
from hardmax.figures.style import INK, RED
from hardmax.figures.tables import Tables, part

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

MEANS = "White circles are means over the tokens of a level and sign."
MEDIANS = (
    "In text, the black line joins medians over twentieths of the tokens in their order along x, and a token "
    "is called mostly positive or negative if x is beyond 0.3 of the mean label, the upright line."
)
DRAWN = {1: "positive", -1: "negative", 0: "irrelevant"}
TEXT = {1: "mostly positive", -1: "mostly negative", 0: "in between"}


@dataclass(frozen=True)
class Size:
    """How many reviews are drawn, None for all, and how a model is trained on them."""

    reviews: int | None
    schedule: Schedule


@dataclass(frozen=True, eq=False)
class Part:
    """What one source gives to a figure: the training that is drawn, and one to compare it with, if any."""

    case: Case
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    compared: Case | None = None


def schedule(d: int, epochs: int, milestones: tuple[int, ...]) -> Schedule:
    """The first row of A-TRAIN-1, at some width and length."""
    return Schedule(d, epochs, rate=1e-2, weight_decay=1e-8, milestones=milestones)


def trained(data: Reviews, schedule: Schedule, share: Share, name: str, by: Train = train_embeddings) -> Case:
    """A model trained on reviews or on what stands in for them; ``name`` is that of the checkpoint."""
    kept = name if data.drawn_from is None else f"{name}.surrogate"
    found = train(data.corpus, schedule, share, kept, by=by)
    line = f"{data.says}; d = {schedule.d}, {found.epochs} epochs"
    return Case(data.name, line, schedule, found, data.drawn_from)


def findings(*parts: Part) -> Findings:
    """One figure of one or two sources."""
    cases = [each.case for each in parts] + [each.compared for each in parts if each.compared is not None]
    notes = [note for each in parts for note in (*each.notes, *_about(each.case))]
    legends = {MEDIANS if case.drawn_from is None else MEANS: None for case in cases}
    claims = tuple(claim for each in parts for claim in each.claims)
    return Findings(training_tables(cases), claims, tuple(dict.fromkeys([*notes, *legends, THEORY])), SEED)


def _about(case: Case) -> list[str]:
    return [course_note(case)] + ([words_note(case)] if case.drawn_from is None else [])


def draw_source(
    canvas: FigureBase, tables: Tables, name: str, *, letters: str = "abc", control: str | None = None
) -> None:
    """The panels of a training under a line that says what it is of, in red where that is no review."""
    about = part(tables["cases"], "case", name)
    real = bool(about["text"][0])
    canvas.suptitle(str(about["says"][0]), x=0.01, ha="left", weight="bold", color=INK if real else RED)
    draw_training(canvas, tables, name, TEXT if real else DRAWN, letters=letters, control=control)
