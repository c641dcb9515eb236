"""`verify --list` and `reproduce --list`: the statements and figures that exist, found by words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from hardmax._lib.arguments import check_arguments
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, grid


class Item(NamedTuple):
    """A statement or figure; ``label`` is the name in the paper, ``kind`` the kind of its refutation."""

    id: str
    paper: str
    title: str
    label: str | None
    kind: str | None
    claim: str


@dataclass(frozen=True, eq=False, repr=False)
class Listing(Result, Sequence[Item]):
    """Statements or figures, list-like.

    >>> import hardmax as hm
    >>> [item.id for item in hm.statements("theorem 3")[:2]]
    ['B-THM-3', 'C-THM-3']
    """

    schema: ClassVar[str] = "hardmax.list/1"
    row_field: ClassVar[str] = "items"

    kind: Literal["statements", "figures"]
    items: tuple[Item, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    @property
    def headline(self) -> str:
        """The number of items."""
        return f"{len(self.items)} {self.kind}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {"kind": self.kind, "items": [item._asdict() for item in self.items]}

    def table(self) -> Page:
        """Return what the list prints: an id and a title per line."""
        rows = [(item.id, item.title) for item in self.items]
        return [grid(("id", "title"), rows, head=False), self.headline]


@check_arguments
def statements(words: str | Iterable[str] = "") -> Listing:
    """List the statements of the papers whose id, title or claim contains all words.

    Args:
        words: Words to search for, in any order; all statements without one.

    See also:
        `hm.check_statement` tests a statement on your data, `hm.verify` on built-in instances.

    >>> import hardmax as hm
    >>> [item.id for item in hm.statements("neighbors Lemma 10")]
    ['B-THM-L10']
    """
    from hardmax.papers.checking.check import statements as by_id

    items = (Item(s.id, s.id[0], s.title, s.label, s.kind, s.claim) for s in by_id().values())
    return Listing("statements", _matching(items, words))


@check_arguments
def figures(words: str | Iterable[str] = "", *, paper: Literal["A", "B", "C", "D"] | None = None) -> Listing:
    """List the figures of the papers whose id or title contains all words.

    Args:
        words: Words to search for, in any order; all figures without one.
        paper: Only the figures of this paper.

    >>> from hardmax.app.results.listing import figures
    >>> [item.id for item in figures("9a")]
    ['B-FIG-9a']
    """
    from hardmax.papers.figures.figure import recipes

    items = (Item(recipe.id, recipe.paper, recipe.title, None, None, "") for recipe in recipes().values())
    return Listing("figures", _matching((item for item in items if paper in (None, item.paper)), words))


def _matching(items: Iterable[Item], words: str | Iterable[str]) -> tuple[Item, ...]:
    """Return the items whose texts contain all words, those with all of them in id and title first."""
    query = _words(words if isinstance(words, str) else " ".join(words))

    def contains(*texts: str) -> bool:
        entries = _words(" ".join(texts))
        return all(any(word == w if word.isdigit() else word in w for w in entries) for word in query)

    hits = [item for item in items if contains(item.id, item.title, item.claim)]
    return tuple(sorted(hits, key=lambda item: not contains(item.id, item.title)))


def _words(text: str) -> list[str]:
    """Return the words of a text, and the parts of ids, in small letters and American spelling."""
    words = text.lower().replace("neighbour", "neighbor").replace("isation", "ization").split()
    return [word for part in words for word in {part, *part.strip("(),.:;").split("-")}]
