"""The runs of `hardmax verify`: statements on the papers' instances, and on a user's data."""

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

# Kind of data of a statement -> the file that holds it.
FILES = {
    "problem": "a problem (.json, .npz or .csv, as docs/reference/files.md says)",
    "corpus": "texts with labels (a table, as docs/how-to/classify-texts.md says)",
    "sentences": "sentences (a text with one per line, or .json, as docs/how-to/check-sentences.md says)",
}


def own_instances(ids: Iterable[str], on: Any) -> list[Instance]:
    """Return instances of statements on a file or an object; a ValueError names the kind of file required."""
    names = [statement_of(id).id for id in dict.fromkeys(ids)]
    if not names:
        raise ValueError("ids must name at least one statement for your own data, such as B-THM-2")
    if not isinstance(on, str | os.PathLike):
        return [Instance(id, "own data", None, lambda: on) for id in names]
    file = Path(on)
    # once for all statements, and a slip before the first one
    subjects = {kind: read_subject(kind, file) for kind in dict.fromkeys(map(kind_of, names))}
    return [Instance(id, file.name, None, partial(subjects.get, kind_of(id))) for id in names]


def kind_of(id: str) -> str:
    """Return the kind of data that a statement takes, as a key of `FILES`."""
    examples = instances([id])  # a user's own statement has none; the annotation of its function counts
    kind = type(examples[0].subject()) if examples else subject_of(statement_of(id))
    if kind is Problem:
        return "problem"
    return "corpus" if kind is Corpus else "sentences"


def read_subject(kind: str, file: Path) -> Any:
    """Read a problem, a corpus or sentences; a ValueError names the kind of file required."""
    try:
        if kind == "problem":
            return Problem.load(file)
        if kind == "sentences":
            return read_sentences(file)
        # split at white space: statements are about words, not about stems
        reviews = [
            review for review in read_reviews(file) if review.label is not None and review.text.split()
        ]
        if not reviews:
            raise ValueError(f"{file} holds no text with a label")
        return Corpus.from_sequences([r.text for r in reviews], [r.label for r in reviews])
    except ValueError as error:
        raise ValueError(f"on must be {FILES[kind]} for this statement: {error}") from None


@dataclass(frozen=True)
class Instance:
    """A statement, its data, and the verdict that is expected there.

    ``subject`` makes a problem, or the dataset that the statements of its paper take.

    >>> from hardmax.papers.checking.instances import instances
    >>> [(instance.name, instance.expected) for instance in instances(["B-ASM-B"])]
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
        options = {"reading": self.reading, "instance": self.name, **self.options}
        return check_statement(self.id, self.subject(), **options)


def instances(ids: Iterable[str] | None = None) -> list[Instance]:
    """Return the instances of the given statements, by default of all; a ValueError suggests similar ids."""
    wanted = None if ids is None else [statement_of(id).id for id in ids]
    letters = sorted(PAPERS if wanted is None else {id[0] for id in wanted} & set(PAPERS))
    papers = [PAPERS[letter] for letter in letters if PAPERS[letter].statements]
    tables = [import_module(paper.module(paper.instances)).INSTANCES for paper in papers]
    return [row for table in tables for row in table if wanted is None or row.id in wanted]
