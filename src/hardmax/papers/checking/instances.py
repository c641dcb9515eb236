"""What `hardmax verify` runs: statements on the papers' instances, and on a user's data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hardmax.data.corpora.corpus import Corpus
from hardmax.data.reviews import read_reviews
from hardmax.data.sentences.reading import read_sentences
from hardmax.papers.checking.check import Check, Reading, Verdict, check_statement, statement_of, subject_of
from hardmax.papers.registry import PAPERS
from hardmax.problem import Problem

# What a statement takes -> the file that holds it.
FILES = {
    "problem": "a problem (.json, .npz or .csv, as docs/reference/files.md says)",
    "corpus": "texts with labels (a table, as docs/how-to/classify-texts.md says)",
    "sentences": "sentences (a text with one per line, or .json, as docs/how-to/check-sentences.md says)",
}


def own_instances(ids: Iterable[str], on: Any) -> list[Instance]:
    """Return instances of statements on a file or an object; a ValueError names the kind of file required."""
    wanted = [statement_of(id).id for id in dict.fromkeys(ids)]
    if not wanted:
        raise ValueError("ids must name at least one statement for your own data, such as B-THM-2")
    if not isinstance(on, str | os.PathLike):
        return [Instance(id, "own data", None, lambda: on) for id in wanted]
    file = Path(on)
    # once for all statements, and a slip before the first one
    subjects = {kind: read_subject(kind, file) for kind in dict.fromkeys(map(kind_of, wanted))}
    return [Instance(id, file.name, None, partial(subjects.get, kind_of(id))) for id in wanted]


def kind_of(id: str) -> str:
    """Return the kind of data that a statement takes, as a key of `FILES`."""
    known = instances([id])  # a user's own statement has none, and its function says what it takes
    kind = type(known[0].subject()) if known else subject_of(statement_of(id))
    if kind is Problem:
        return "problem"
    return "corpus" if kind is Corpus else "sentences"


def read_subject(kind: str, file: Path) -> Any:
    """Read a problem, a corpus or sentences; a ValueError names the kind of file required."""
    try:
        if kind == "problem":
            return Problem.load(file)
        return _corpus(file) if kind == "corpus" else read_sentences(file)
    except ValueError as error:
        raise ValueError(f"on must be {FILES[kind]} for this statement: {error}") from None


def _corpus(file: Path) -> Corpus:
    """Read labeled texts and split them at white space: statements are about words, not about stems."""
    labelled = [review for review in read_reviews(file) if review.label is not None and review.text.split()]
    if not labelled:
        raise ValueError(f"{file} holds no text with a label")
    return Corpus.from_sequences([r.text for r in labelled], [r.label for r in labelled])


@dataclass(frozen=True)
class Instance:
    """A statement, what to test it on, and the verdict that is expected there.

    ``subject`` makes a problem, or the dataset that the statements of its paper take.

    >>> from hardmax.papers.checking.instances import instances
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
        """Test the statement on this instance."""
        return check_statement(
            self.id, self.subject(), reading=self.reading, instance=self.name, **self.options
        )


def instances(ids: Iterable[str] | None = None) -> list[Instance]:
    """Return the instances of the given statements, by default of all; a ValueError suggests similar ids."""
    wanted = None if ids is None else [statement_of(id).id for id in ids]
    letters = sorted(PAPERS if wanted is None else {id[0] for id in wanted} & set(PAPERS))
    asked = [PAPERS[letter] for letter in letters if PAPERS[letter].statements]
    tables = [import_module(paper.module(paper.instances)).INSTANCES for paper in asked]
    return [each for table in tables for each in table if wanted is None or each.id in wanted]
