"""What `hardmax verify` runs: every statement where it holds and where a hypothesis or the claim fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from hardmax.papers import PAPERS
from hardmax.theory.check import Check, Reading, Verdict, check, statement_of


@dataclass(frozen=True)
class Instance:
    """A statement, what to test it on, and the verdict that is expected there.

    ``subject`` makes a problem, or the dataset that the statements of its paper take.

    >>> from hardmax.theory.instances import instances
    >>> [(each.name, each.expected) for each in instances(["B-ASM-B"])]
    [('B-FIG-1a', 'holds'), ('B-FIG-1b', 'fails')]
    """

    id: str
    name: str
    expected: Verdict | None  # None where nothing is expected: own data
    subject: Callable[[], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    reading: Reading = "corrected"

    def run(self) -> Check:
        """Test the statement here."""
        return check(self.id, self.subject(), reading=self.reading, instance=self.name, **self.options)


def instances(ids: Iterable[str] | None = None) -> list[Instance]:
    """The instances of the given statements, of all if none are given; a ValueError names near ids."""
    wanted = None if ids is None else [statement_of(id).id for id in ids]
    asked = sorted(PAPERS) if wanted is None else sorted({id[0] for id in wanted} & set(PAPERS))
    tables = [
        import_module(f"hardmax.theory.{PAPERS[letter].folder}.instances").INSTANCES for letter in asked
    ]
    return [each for table in tables for each in table if wanted is None or each.id in wanted]


def verify(ids: Iterable[str] | None = None) -> Iterator[tuple[Instance, Check]]:
    """Run the instances one by one.

    >>> from hardmax.theory.instances import verify
    >>> [found.verdict for _, found in verify(["B-THM-L9"])]
    ['holds', 'not applicable']
    """
    for each in instances(ids):
        yield each, each.run()
