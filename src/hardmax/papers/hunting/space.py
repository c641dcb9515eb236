"""The space of a hunt: the kind of data of a claim, its sizes, and the options of the claim.

A candidate is data that a claim may fail on: lists and arrays that a move can change, not the subject made of
them. Both kinds have the same methods. They move to a neighbor, shrink, come in another order of their
``orders``, and hold their continuous numbers as one vector; ``cost`` is how much there is to write down.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax.papers.checking.check import Statement
from hardmax.papers.hunting.candidate import Ranges
from hardmax.papers.hunting.problems import DRAWN_LOSSES, ProblemCandidate, draw_problem
from hardmax.papers.hunting.words import VALUES, WordsCandidate, draw_corpus, draw_sentences

Candidate = ProblemCandidate | WordsCandidate

LARGEST = {"n": 50, "T": 50, "d": 50, "V": 50}
RANGES: dict[str, Ranges] = {
    "problem": {"n": (1, 3), "T": (2, 4), "d": (1, 3)},
    "corpus": {"n": (2, 6), "T": (2, 4), "V": (3, 7)},
    "sentences": {"n": (2, 5), "T": (2, 5), "V": (2, 5)},
}

OPTIONS = ("selection", "p", "q", "start", "rho", VALUES)  # what can be drawn in addition to the data


@dataclass(frozen=True)
class Space:
    """Kind of data, ranges of its sizes, and options that are drawn too: selections, vectors, numbers.

    >>> import numpy as np
    >>> from hardmax.papers.hunting.space import Space, read_ranges
    >>> space = Space("scores", read_ranges("n=2..2,T=3", "problem"), ("selection",))
    >>> drawn = space.draw(np.random.default_rng(0))
    >>> drawn.size[:2], len(drawn.options["selection"])
    ((2, 6), 2)
    """

    kind: str  # scores, tokens, queries, labels; corpus; sentences
    ranges: Ranges
    options: tuple[str, ...] = ()  # that are drawn
    fixed: tuple[tuple[str, Any], ...] = ()
    loss: str | None = None  # of every problem; None draws it

    @property
    def family(self) -> str:
        """Problem, corpus or sentences."""
        return self.kind if self.kind in ("corpus", "sentences") else "problem"

    def draw(self, rng: np.random.Generator) -> Candidate:
        """Draw a candidate with all its options."""
        if self.family == "problem":
            candidate: Any = draw_problem(self.kind, self.ranges, rng)
            candidate = candidate if self.loss is None else replace(candidate, loss=self.loss)
        else:
            candidate = (draw_corpus if self.family == "corpus" else draw_sentences)(self.ranges, rng)
        for name in self.options:
            candidate.options[name] = _draw_option(name, candidate, rng)
        candidate.options.update(self.fixed)
        return candidate

    def with_loss(self, loss: str | None) -> Space:
        """Return the space with problems of one loss; a ValueError names those that it has."""
        if loss is None:
            return self
        if self.family != "problem":
            raise ValueError(f"loss must be left out for claims about {self.kind}, got {loss!r}")
        losses = ("log",) if self.kind == "labels" else DRAWN_LOSSES
        if loss not in losses:
            raise ValueError(f"loss must be {' or '.join(losses)} for this claim, got {loss!r}")
        return replace(self, loss=loss)


def _draw_option(name: str, candidate: Any, rng: np.random.Generator) -> Any:
    if name == "selection" and isinstance(candidate, WordsCandidate):
        picks = [rng.choice(row, size=int(rng.integers(1, len(row) + 1))) for row in candidate.rows]
        return [sorted(set(pick.tolist())) for pick in picks]
    if name == "selection":
        return tuple(int(rng.integers(len(part))) for part in candidate.tokens)
    if name == VALUES:
        return rng.integers(-1, 2, size=candidate.size[2]).astype(float)
    if name == "rho":
        return float(rng.choice([0.25, 0.5, 1.0, 2.0, 4.0]))
    if name == "q" and "p" in candidate.options:  # a neighbor of p, so that both select the same more often
        return candidate.options["p"] + 0.3 * rng.normal(size=candidate.d)
    return rng.normal(size=candidate.d)


def space_of(stated: Statement, ranges: str | None = None) -> Space:
    """Return what a statement or a user's function is hunted on: the data and draws that it declares.

    Without a declaration the annotation of its first parameter names the data (problems, unless it is about
    a Corpus, Sentences or a Subject of paper C), and keyword-only parameters without a default are drawn: a
    selection, vectors p, q and start, a number rho, values of words.
    """
    try:
        first, *others = inspect.signature(stated.test).parameters.values()
    except (TypeError, ValueError):
        raise ValueError("a conjecture must be a function of one argument, the problem") from None
    hint = first.annotation
    name = hint if isinstance(hint, str) else getattr(hint, "__name__", "")
    kind = stated.data or ("corpus" if "Corpus" in name else "scores")
    if not stated.data and ("Sentences" in name or "Subject" in name):
        kind = "sentences"
    required = (p.name for p in others if p.default is p.empty and p.kind is p.KEYWORD_ONLY)
    options = stated.draws or tuple(required)
    if unknown := [name for name in options if name not in OPTIONS]:
        raise ValueError(f"a conjecture may ask for {', '.join(OPTIONS)} besides its data, got {unknown[0]}")
    family = kind if kind in RANGES else "problem"
    return Space(kind, read_ranges(ranges, family), options, tuple(stated.hunt.items()))


def read_ranges(text: str | None, family: str) -> Ranges:
    """Read ``n=2..4,T=3,d=2..3`` as ranges, over the defaults of the kind.

    >>> from hardmax.papers.hunting.space import read_ranges
    >>> read_ranges("n=2..4,T=3", "problem")
    {'n': (2, 4), 'T': (3, 3), 'd': (1, 3)}
    """
    ranges = dict(RANGES[family])
    for part in text.replace(" ", "").split(",") if text else ():
        match = re.fullmatch(r"(\w+)=(\d{1,6})(?:\.\.(\d{1,6}))?", part)
        if match is None or match[1] not in ranges:
            names = ", ".join(ranges)
            raise ValueError(
                f"space must be ranges of {names}, as n=2..4 or n=3, got {part!r}; separate them by commas"
            )
        name, low, high = match[1], int(match[2]), int(match[3] or match[2])
        if not 1 <= low <= high <= LARGEST[name]:
            raise ValueError(
                f"space: {name} must go from 1 or more up to {LARGEST[name]} at most, got {low}..{high}"
            )
        ranges[name] = (low, high)
    return ranges


def ranges_text(ranges: Ranges) -> str:
    """Write ranges as `read_ranges` reads them."""
    return ",".join(f"{name}={low}..{high}" for name, (low, high) in ranges.items())


def candidate_of(parts: dict[str, Any]) -> Candidate:
    """Read the output of ``to_dict`` of a candidate."""
    kind = ProblemCandidate if parts["kind"] == "problem" else WordsCandidate
    return kind.of_dict(parts)
