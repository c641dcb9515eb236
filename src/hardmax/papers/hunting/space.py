"""The space of a hunt: which kind of data a claim is about, how large, and what the claim must be told."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax.papers.hunting.candidate import Candidate, Ranges
from hardmax.papers.hunting.problems import DRAWN_LOSSES, ProblemCandidate, draw_problem
from hardmax.papers.hunting.words import VALUES, WordsCandidate, draw_corpus, draw_sentences

LARGEST = {"n": 50, "T": 50, "d": 50, "V": 50}
RANGES: dict[str, Ranges] = {
    "problem": {"n": (1, 3), "T": (2, 4), "d": (1, 3)},
    "corpus": {"n": (2, 6), "T": (2, 4), "V": (3, 7)},
    "sentences": {"n": (2, 5), "T": (2, 5), "V": (2, 5)},
}

# Statements about problems that are not keys and scores.
TOKENS = (
    "B-ASM-C",
    "B-EQ-75",
    "B-EQ-79",
    "B-NEW-1",
    "B-NEW-1b",
    "B-THM-5",
    "B-THM-6",
    "B-THM-L1",
    "B-THM-L2",
    "B-THM-L3",
    "B-THM-8N",
)
QUERIES = ("D-THM-1", "D-THM-2", "D-CONJ-1", "D-CONJ-2")
LABELS = ("D-THM-8", "D-THM-11", "D-THM-12", "D-CONJ-4", "D-CONJ-5")
KNOWN = ("selection", "p", "q", "start", "rho", VALUES)  # what can be drawn beside the data
PROBLEMS_OF_A = ("A-DEF-16", "A-THM-5S")

# What a statement is told beside the data, always the same. Samples are smaller than where one instance is
# verified: many instances show more than many draws on one.
FIXED: dict[str, dict[str, Any]] = {
    "B-APP-E": {"steps": 300},
    "B-ERR-21": {"count": 2},
    "B-THM-2M": {"steps": 200},
    "B-THM-3": {"starts": 1},
    "B-THM-L1": {"steps": 20, "normalized": True},
    "B-THM-L3": {"draws": 100},
    "B-THM-L4": {"draws": 50},
    "B-THM-L5": {"draws": 60},
    "B-THM-L6": {"draws": 40, "steps": 40},
    "B-THM-L7": {"draws": 15},
    "B-THM-L10": {"draws": 30},
    "B-THM-L14": {"draws": 40},
    "B-EQ-75": {"draws": 10},
    "B-THM-8N": {"draws": 10},
    "A-LEM-6": {"draws": 20},
    "A-LEM-8": {"draws": 5},
    "A-LEM-10": {"draws": 50},
    "C-COR-1": {"steps": 50_000},
    "C-LEM-1": {"draws": 10, "steps": 100},
    "C-LEM-2": {"draws": 20},
    "C-THM-3": {"steps": 100, "repeats": 3000},
    "D-CONJ-0": {"steps": 5000},
    "D-CONJ-1": {"steps": 4000},
    "D-CONJ-2": {"steps": 4000},
    "D-CONJ-3": {"steps": 8000},
    "D-CONJ-4": {"steps": 20_000},
}


@dataclass(frozen=True)
class Space:
    """Kind of data, ranges of its sizes, and what is drawn beside it: selections, vectors, numbers.

    >>> import numpy as np
    >>> from hardmax.papers.hunting.space import Space, read_ranges
    >>> space = Space("scores", read_ranges("n=2..2,T=3", "problem"), ("selection",))
    >>> drawn = space.draw(np.random.default_rng(0))
    >>> drawn.size[:2], len(drawn.options["selection"])
    ((2, 6), 2)
    """

    kind: str  # scores, tokens, queries, labels; corpus; sentences
    ranges: Ranges
    drawn: tuple[str, ...] = ()
    fixed: tuple[tuple[str, Any], ...] = ()
    loss: str | None = None  # of every problem; None draws it

    @property
    def family(self) -> str:
        """Problem, corpus or sentences."""
        return self.kind if self.kind in ("corpus", "sentences") else "problem"

    def draw(self, rng: np.random.Generator) -> Candidate:
        """A random candidate with all its options."""
        if self.family == "problem":
            made: Any = draw_problem(self.kind, self.ranges, rng)
            made = made if self.loss is None else replace(made, loss=self.loss)
        else:
            made = (draw_corpus if self.family == "corpus" else draw_sentences)(self.ranges, rng)
        for name in self.drawn:
            made.options[name] = _given(name, made, rng)
        made.options.update(self.fixed)
        return made

    def with_loss(self, loss: str | None) -> Space:
        """The same space with problems of one loss; a ValueError names those that it has."""
        if loss is None:
            return self
        if self.family != "problem":
            raise ValueError(f"loss must be left out for claims about {self.kind}, got {loss!r}")
        known = ("log",) if self.kind == "labels" else DRAWN_LOSSES
        if loss not in known:
            raise ValueError(f"loss must be {' or '.join(known)} for this claim, got {loss!r}")
        return replace(self, loss=loss)


def _given(name: str, made: Any, rng: np.random.Generator) -> Any:
    if name == "selection" and isinstance(made, WordsCandidate):
        return [
            sorted(set(rng.choice(row, size=int(rng.integers(1, len(row) + 1))).tolist()))
            for row in made.rows
        ]
    if name == "selection":
        return tuple(int(rng.integers(len(part))) for part in made.tokens)
    if name == VALUES:
        return rng.integers(-1, 2, size=made.size[2]).astype(float)
    if name == "rho":
        return float(rng.choice([0.25, 0.5, 1.0, 2.0, 4.0]))
    if name == "q" and "p" in made.options:  # a neighbour of p, so that both select the same more often
        return made.options["p"] + 0.3 * rng.normal(size=made.d)
    vector: np.ndarray = rng.normal(size=made.d)
    return vector


def space_of_statement(id: str, test: Callable[..., Any], ranges: str | None = None) -> Space:
    """What a statement of the papers is hunted on."""
    kind = "scores"
    if id in TOKENS:
        kind = "tokens"
    elif id in QUERIES:
        kind = "queries"
    elif id in LABELS:
        kind = "labels"
    elif id.startswith("A-") and id not in PROBLEMS_OF_A:
        kind = "corpus"
    elif id.startswith("C-"):
        kind = "sentences"
    family = kind if kind in RANGES else "problem"
    asked = list(inspect.signature(test).parameters.values())[1:]
    names = [p.name for p in asked if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    names += {"B-THM-2M": ["start"], "A-LEM-3": ["selection"]}.get(id, [])
    if id in ("B-THM-6", "A-LEM-13"):
        names.append("rho" if id == "B-THM-6" else VALUES)
    if id == "A-LEM-17":
        names[names.index("scores")] = VALUES
    known = read_ranges(ranges, family)
    return Space(kind, known, tuple(dict.fromkeys(names)), tuple(FIXED.get(id, {}).items()))


def space_of_function(function: Callable[..., Any], ranges: str | None = None) -> Space:
    """What a user's function is hunted on: problems, unless its first parameter says Corpus or Sentences.

    Its keyword-only parameters are drawn with the data: a selection, vectors p, q and start, a number rho.
    """
    try:
        first = next(iter(inspect.signature(function).parameters.values()))
    except (StopIteration, TypeError, ValueError):
        raise ValueError("a conjecture must be a function of one argument, the problem") from None
    said = (
        first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    )
    family = "corpus" if "Corpus" in said else "sentences" if "Sentences" in said else "problem"
    kind = getattr(function, "kind", "scores") if family == "problem" else family
    asked = list(inspect.signature(function).parameters.values())[1:]
    names = [p.name for p in asked if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if unknown := [name for name in names if name not in KNOWN]:
        raise ValueError(f"a conjecture may ask for {', '.join(KNOWN)} besides its data, got {unknown[0]}")
    return Space(kind, read_ranges(ranges, family), tuple(names))


def read_ranges(text: str | None, family: str) -> Ranges:
    """``n=2..4,T=3,d=2..3`` as ranges, over the defaults of the kind.

    >>> from hardmax.papers.hunting.space import read_ranges
    >>> read_ranges("n=2..4,T=3", "problem")
    {'n': (2, 4), 'T': (3, 3), 'd': (1, 3)}
    """
    found = dict(RANGES[family])
    for part in (text or "").replace(" ", "").split(",") if text else ():
        match = re.fullmatch(r"(\w+)=(\d{1,6})(?:\.\.(\d{1,6}))?", part)
        if match is None or match[1] not in found:
            names = ", ".join(found)
            raise ValueError(
                f"space must be ranges of {names}, as n=2..4 or n=3, got {part!r}; separate them by commas"
            )
        name, low, high = match[1], int(match[2]), int(match[3] or match[2])
        if not 1 <= low <= high <= LARGEST[name]:
            raise ValueError(
                f"space: {name} must go from 1 or more up to {LARGEST[name]} at most, got {low}..{high}"
            )
        found[name] = (low, high)
    return found


def ranges_text(ranges: Ranges) -> str:
    """Ranges as `read_ranges` reads them."""
    return ",".join(f"{name}={low}..{high}" for name, (low, high) in ranges.items())


def candidate_of(made: dict[str, Any]) -> Candidate:
    """What `Candidate.to_dict` wrote."""
    if made["kind"] == "problem":
        return ProblemCandidate.of_dict(made)
    return WordsCandidate.of_dict(made)
