"""The one registry: the papers, and where each of their statements and figures lives.

A statement or figure enters its table by the decorator `statement` or `recipe` when its file is imported,
and its file is imported when it is first needed. A file outside the package enters its own in the same way,
and `register` adds a whole paper.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Generic, TypeVar

from hardmax.papers.paper import Paper

FOLDERS = ("max_margin", "next_token", "trained_embeddings", "geometry")  # a new paper is one more

Thing = TypeVar("Thing")


class Registry(Generic[Thing]):
    """Things by id, each imported from its file when it is first needed.

    >>> from hardmax.papers.registry import Registry
    >>> numbers = Registry("number", {})
    >>> numbers.enter("one", 1)
    >>> numbers["one"], list(numbers.all())
    (1, ['one'])
    """

    def __init__(self, kind: str, places: Mapping[str, str]) -> None:
        self.kind = kind
        self.places = places  # id -> module
        self.entered: dict[str, Thing] = {}

    def enter(self, id: str, thing: Thing) -> None:
        """Add a thing by its id, in place of an earlier one: a notebook's cell may be run again."""
        self.entered[id] = thing

    @property
    def ids(self) -> list[str]:
        """The ids of everything, without importing it: the papers' in their order, then those of others."""
        return list(dict.fromkeys([*self.places, *self.entered]))

    def __getitem__(self, id: str) -> Thing:
        ids = self.ids
        if id not in ids:  # "9a" is the one id that ends in "-9a"
            similar = [other for other in ids if other.upper().endswith(f"-{id.upper()}")]
            if len(similar) != 1:
                similar = similar or difflib.get_close_matches(id.upper(), ids, n=3, cutoff=0)
                raise ValueError(f"unknown {self.kind} {id!r}. Did you mean {' or '.join(similar)}?")
            id = similar[0]
        if id not in self.entered:
            import_module(self.places[id])
        return self.entered[id]

    def all(self) -> dict[str, Thing]:
        """Return everything by id: the papers' in their order, then the entries of others."""
        for place in dict.fromkeys(self.places.values()):
            import_module(place)
        return {id: self.entered[id] for id in self.ids}


PAPERS: dict[str, Paper] = {}
ERRATA: dict[str, str] = {}
_PLACES: dict[str, dict[str, str]] = {"statements": {}, "figures": {}, "printed": {}}


def places(part: str) -> Mapping[str, str]:
    """Return id -> module of all "statements", "figures" or "printed" sentences of the papers.

    >>> from hardmax.papers.registry import places
    >>> places("statements")["B-THM-3"]
    'hardmax.papers.max_margin.local'
    """
    return _PLACES[part]


def register(paper: Paper) -> Paper:
    """Add a paper: `verify`, `reproduce` and `hunt` find its statements and figures from then on.

    Raises:
        ValueError: Another paper has the letter.
    """
    first = PAPERS.setdefault(paper.letter, paper)
    if first.title != paper.title:
        raise ValueError(f"letter: {paper.letter} is the letter of {first.title!r}; choose another one")
    PAPERS[paper.letter] = paper
    ERRATA.update(paper.errata)
    for part, modules in _PLACES.items():
        modules.update({id: paper.module(name) for id, name in getattr(paper, part).items()})
    return paper


for _folder in FOLDERS:
    register(import_module(f"hardmax.papers.{_folder}").PAPER)
