"""What `ntp check` says: is a next-token dataset realizable, and if not, why and how much of it is?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.terminal import DONE, INCOMPLETE, NOT_AS_EXPECTED
from hardmax.answers.answer import Answer

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.data.sentences.sentences import Sentences
    from hardmax.nexttoken import Analysis, RealizablePart

# Up to this many tokens every query is listed with all tokens; beyond, only queries that relate some.
SMALL = 1000
MAX_LENGTH = 64


@dataclass(frozen=True, eq=False, repr=False)
class Checked(Answer):
    """The analysis of sentences, and of those that are not realizable the ``part`` that is.

    ``saved`` is the file that `save` wrote.

    >>> import hardmax as hm
    >>> hm.answers.ntp_check(["A B", "B A"])
    sentences: raw sentences: 2, distinct samples: 2, tokens: 2
    realizable
    <BLANKLINE>
    collocation: A -> B, B -> A
    No sentence of these sentences goes on after two different tokens: it teaches
      which token follows which, and attention nothing, which never has to choose.
    """

    schema: ClassVar[str] = "hardmax.ntp-check/2"

    name: str
    analysis: Analysis
    part: RealizablePart | None
    uniform: bool
    saved: str | None = None

    @property
    def sentences(self) -> Sentences:
        """What was checked."""
        return self.analysis.trie.sentences

    @property
    def kept(self) -> Sentences | None:
        """The realizable part, which may be all sentences or none."""
        return self.sentences if self.part is None else self.part.sentences

    @property
    def teaches_attention(self) -> bool:
        """Whether a sentence of the realizable part goes on after two different tokens."""
        return self.kept is not None and self.kept.teach_attention

    @property
    def status(self) -> str:
        """Complete, or up to how many tokens sentences were checked."""
        if not self.sentences.cut:
            return "complete"
        longer = f"{self.sentences.cut:,} of {self.sentences.n:,} sentences are longer"
        return f"checked up to {self.sentences.max_length} tokens; {longer}"

    @property
    def exit_code(self) -> int:
        """0 if realizable, 1 if not, 3 if sentences were cut and no violation was met."""
        if self.analysis.realizable is None:
            return INCOMPLETE
        return DONE if self.analysis.realizable else NOT_AS_EXPECTED

    def save(self, path: str | os.PathLike[str]) -> Checked:
        """Write the realizable part, .json as JSON; returns the answer that says so."""
        from hardmax.data.sentences.reading import write_sentences

        if self.kept is None:
            raise ValueError("there is nothing to save: the realizable part is empty")
        write_sentences(path, self.kept)
        return replace(self, saved=os.fspath(path))

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        import numpy as np

        analysis, sentences, trie = self.analysis, self.sentences, self.analysis.trie
        weight = trie.frequencies(uniform=self.uniform)
        return {
            "file": self.name,
            "realizable": analysis.realizable,
            "status": self.status,
            "assumptions": analysis.assumptions,
            "violations": [
                {
                    "kind": each.kind,
                    "count": each.count,
                    "witness": each.witnesses[0],
                    "more": each.witnesses[1:],
                }
                for each in analysis.violations
            ],
            "repaired": analysis.words(analysis.repaired),
            "collocation": _collocation(analysis),
            "orders": _orders(analysis),
            "components": _components(analysis),
            "sentences": {
                "count": sentences.n,
                "longest": int(trie.depth.max()),
                "cut": sentences.cut,
                "cut_tokens": sentences.cut_tokens,
                "max_length": sentences.max_length,
            },
            "vocabulary": trie.V,
            "samples": len(trie.samples),
            "frequencies": {
                "uniform": self.uniform,
                "smallest": float(np.min(weight)) if len(weight) else None,
                "largest": float(np.max(weight)) if len(weight) else None,
                "status": "complete" if len(weight) else "no sentence has two tokens",
            },
            "notes": sentences.notes,
            "realizable_part": None if self.part is None else _measured(self.part),
            "teaches_attention": self.teaches_attention,
            "saved": self.saved,
        }

    def table(self) -> Text:
        """What `hardmax ntp check` prints."""
        from hardmax.answers.check_table import report

        return report(self)


def ntp_check(
    data: str | os.PathLike[str] | Sentences | Iterable[str | Sequence[Any]],
    *,
    uniform: bool = False,
    max_length: int = MAX_LENGTH,
    repair: bool = False,
) -> Checked:
    """Check that a next-token dataset is realizable, and find the part that is, as `hardmax ntp check` does.

    Args:
        data: a file of sentences, or sentences as `nexttoken.analyze` takes them.
        uniform: every distinct sentence weighs the same, however frequent.
        max_length: check longer sentences of a file up to here.
        repair: give tokens that begin no sentence a next token.

    >>> import hardmax as hm
    >>> found = hm.answers.ntp_check(["A B A", "B C", "C A"])
    >>> found.exit_code, found.part.samples, found.part.of_samples
    (1, 3, 4)
    """
    from hardmax import nexttoken
    from hardmax.nexttoken.analysis import as_trie

    name = "sentences"
    if isinstance(data, str | os.PathLike):
        name, data = os.fspath(data), nexttoken.read_sentences(data, max_length=max_length)
    trie = as_trie(data)
    analysis = nexttoken.analyze(trie, repair=repair)
    part = None if not analysis.violations else nexttoken.realizable_part(trie, repair=repair)
    return Checked(name, analysis, part, uniform)


def _collocation(analysis: Analysis) -> dict[str, str | None]:
    words = analysis.trie.sentences.vocabulary
    return {words[x]: words[y] if y >= 0 else None for x, y in enumerate(analysis.n.tolist())}


def _orders(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """The types of tokens under each query, in words."""
    orders, words = analysis.orders, analysis.trie.sentences.vocabulary
    found: dict[int, dict[str, Any]] = {q: _untyped() for q in range(orders.V)} if orders.V <= SMALL else {}
    for name in ("optimal", "non_optimal", "confused"):
        for q, x in zip(*(column.tolist() for column in orders.of_type(name)), strict=True):
            found.setdefault(q, _untyped())[name].append(words[x])
    for typed in found.values():
        seen = {*typed["optimal"], *typed["non_optimal"], *typed["confused"]}
        typed["non_comparable"] = [w for w in words if w not in seen] if orders.V <= SMALL else None
        typed["status"] = "complete" if orders.V <= SMALL else "non_comparable: all words not listed here"
    return {words[q]: typed for q, typed in sorted(found.items())}


def _components(analysis: Analysis) -> dict[str, list[list[str]]]:
    word = analysis.trie.sentences.vocabulary
    return {word[q]: [analysis.words(each) for each in found] for q, found in analysis.components.items()}


def _untyped() -> dict[str, Any]:
    return {"optimal": [], "non_optimal": [], "confused": [], "non_comparable": []}


def _measured(part: RealizablePart) -> dict[str, Any]:
    return {
        "sentences": part.whole + part.cut,
        "whole": part.whole,
        "cut": part.cut,
        "vocabulary": 0 if part.sentences is None else len(part.sentences.vocabulary),
        "samples": part.samples,
        "of_samples": part.of_samples,
    }
