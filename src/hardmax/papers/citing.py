"""BibTeX of hardmax and of the works that it builds on."""

from __future__ import annotations

import re
from importlib.resources import files

from hardmax import __version__
from hardmax._lib.arguments import WrongType
from hardmax._lib.expect import _short
from hardmax.papers.registry import PAPERS


def cite(*papers: str) -> str:
    """Return BibTeX for hardmax and for papers.

    Args:
        papers: Letters of papers (A, B, C) or keys of `references`; the three papers by default.

    Returns:
        The entries, hardmax's first.

    Raises:
        TypeError: A paper is not a text.
        ValueError: A paper is unknown.

    >>> import hardmax as hm
    >>> print(hm.cite("B").splitlines()[0])
    @software{hardmax,
    """
    for paper in papers:
        if not isinstance(paper, str):
            raise WrongType(f"papers must be texts such as 'A', got {_short(paper)}")
    entries = references()
    keys = {letter: PAPERS[letter].bibtex for letter in sorted(PAPERS) if PAPERS[letter].bibtex}
    works = ["hardmax", *(keys.get(paper.upper(), paper) for paper in papers or keys)]
    unknown = [work for work in works if work not in entries]
    if unknown:
        raise ValueError(f"unknown paper {unknown[0]!r}. Known: {', '.join([*keys, *entries])}")
    return "\n\n".join(entries[work] for work in dict.fromkeys(works))


def references() -> dict[str, str]:
    """Return the BibTeX entry of every work that hardmax cites, by key."""
    text = (files("hardmax.papers") / "references.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{(\w+),.*?^\}", text, re.MULTILINE | re.DOTALL)
    entries = re.split(r"\n\n(?=@)", text.strip())
    entries[0] = re.sub(r"version = \{[^}]*\}", f"version = {{{__version__}}}", entries[0])
    return dict(zip(keys, entries, strict=True))
