"""The declaration in the folder of a paper, which `registry` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """A printed statement that is false: the erratum that explains it, and a known counterexample's size.

    ``size`` counts inputs, tokens of all inputs and dimensions; for sequences and sentences it counts these,
    their tokens and the words of the vocabulary. The entry is hunted in the reading "paper" if ``claim`` is a
    statement; other entries are printed sentences without a check.

    >>> from hardmax.papers.registry import PAPERS
    >>> next(entry.size for entry in PAPERS["B"].catalogue if entry.claim == "B-THM-1")
    (2, 4, 1)
    """

    claim: str
    erratum: str
    says: str
    size: tuple[int, int, int]


@dataclass(frozen=True)
class Paper:
    """A paper: the letter of all its ids, its subject, and the module of each statement and figure.

    ``package`` is the dotted name of the folder. Modules are relative to it; "" is the package itself, so
    that one module can hold a whole paper. ``printed`` are printed sentences that are not statements.

    >>> from hardmax.papers.registry import PAPERS
    >>> PAPERS["B"].about, PAPERS["B"].figures["B-FIG-RHO"]
    ('max-margin selection', 'joint_training')
    """

    letter: str
    about: str
    title: str
    package: str
    statements: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)  # in the order of the paper
    printed: Mapping[str, str] = field(default_factory=dict)
    errata: Mapping[str, str] = field(default_factory=dict)
    catalogue: tuple[Entry, ...] = ()
    instances: str = "instances"  # the module of INSTANCES, on which `verify` runs
    bibtex: str = ""  # the key in references.bib
    weighted: bool = True  # whether its statements allow weights and counts

    def module(self, name: str) -> str:
        """Return the dotted name of a module of the paper."""
        return f"{self.package}.{name}" if name else self.package


def located(*rows: str) -> dict[str, str]:
    """Return id -> module from rows that name a module and its ids.

    >>> from hardmax.papers.paper import located
    >>> located("rates B-FIG-4 B-FIG-5")
    {'B-FIG-4': 'rates', 'B-FIG-5': 'rates'}
    """
    return {id: file for file, *ids in map(str.split, rows) for id in ids}
