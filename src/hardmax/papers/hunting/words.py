"""Sequences of words as candidates: corpora with labels (paper A) and sentences (paper C)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from hardmax.data.corpora.corpus import Corpus
from hardmax.papers.hunting import candidate
from hardmax.papers.hunting.candidate import Ranges, Size

VALUES = "values"  # option: a value for each word, of which statements about values make E = [I | values]
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class WordsCandidate:
    """Sequences of whole numbers; with ``labels`` a corpus, without them sentences.

    >>> from hardmax.papers.hunting.words import WordsCandidate
    >>> WordsCandidate(((0, 1, 1), (1, 0))).subject(), WordsCandidate(((0, 2), (1, 2)), (1, -1)).size
    (['a b b', 'b a'], (2, 4, 3))
    """

    orders: ClassVar[tuple[str, ...]] = ("sequences",)

    rows: Rows
    labels: tuple[int, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> Size:
        """Sequences, tokens, words."""
        return len(self.rows), sum(map(len, self.rows)), len({x for row in self.rows for x in row})

    @property
    def cost(self) -> float:
        """Sequences, tokens and words, then their numbers and those of the options."""
        selected = sum(map(len, self.options.get("selection", ())))
        return 1000.0 * sum(self.size) + sum(map(sum, self.rows)) + selected + candidate.costs(self.vector())

    def subject(self) -> Any:
        """Return the corpus, or sentences as text: a, b, c, ..."""
        if self.labels is None:
            return [" ".join(word(x) for x in row) for row in self.rows]
        return Corpus.from_sequences([list(row) for row in self.rows], list(self.labels))

    def vector(self) -> np.ndarray:
        """Return the values of words, where a claim takes them."""
        return np.array(self.options.get(VALUES, ()), dtype=float)

    def at(self, vector: np.ndarray) -> WordsCandidate:
        """Return the candidate with other values of words."""
        if VALUES not in self.options:
            return self
        return self.told({**self.options, VALUES: np.asarray(vector, dtype=float)})

    def with_rows(self, rows: Any, labels: Any = None) -> WordsCandidate:
        """Return the candidate with other rows, words numbered in order of appearance."""
        order = {x: k for k, x in enumerate(dict.fromkeys(x for row in rows for x in row))}
        options = dict(self.options)
        if VALUES in options:
            old = options[VALUES]
            options[VALUES] = np.array([old[x] if x < len(old) else 0.0 for x in order])
        if "selection" in options:
            chosen = [*map(set, options["selection"]), *[set()] * len(rows)]
            options["selection"] = [
                sorted({order[x] for x in words & set(row)} or {order[row[0]]})
                for words, row in zip(chosen, rows, strict=False)
            ]
        new = tuple(tuple(order[x] for x in row) for row in rows)
        return replace(self, rows=new, labels=self.labels if labels is None else labels, options=options)

    def moved(self, rng: np.random.Generator, ranges: Ranges) -> WordsCandidate:
        """Exchange, copy, drop or add a word, turn a label, tie or round a value."""
        i = int(rng.integers(len(self.rows)))
        row, words = list(self.rows[i]), sorted({x for other in self.rows for x in other})
        kind = int(rng.integers(7))
        if kind == 0 and "selection" in self.options:
            chosen = list(map(list, self.options["selection"]))
            chosen[i] = sorted(set(rng.choice(row, size=int(rng.integers(1, len(row) + 1))).tolist()))
            return self.told({**self.options, "selection": chosen})
        if kind <= 1 and VALUES in self.options:
            x = self.vector()
            a, b = rng.integers(len(x), size=2)
            x[a] = (x[b], -x[a], 0.0, x[a] + 1)[int(rng.integers(4))]
            return self.at(candidate.rounded(x, 1) if rng.random() < 0.3 else x)
        smaller = list(self._dropped(ranges))
        if kind == 2 and smaller:
            return smaller[int(rng.integers(len(smaller)))]
        if kind == 3 and self.labels is not None:
            return replace(self, labels=tuple(-y if j == i else y for j, y in enumerate(self.labels)))
        if kind == 4 and self.labels is None and len(row) < ranges["T"][1]:
            row.insert(int(rng.integers(len(row) + 1)), int(rng.choice(words)))
        else:
            new = len(words) if len(words) < ranges["V"][1] and rng.random() < 0.3 else int(rng.choice(words))
            row[int(rng.integers(len(row)))] = new
        return self._with_row(i, row)

    def _with_row(self, i: int, row: Any) -> WordsCandidate:
        return self.with_rows([row if j == i else other for j, other in enumerate(self.rows)])

    def _picked(self, places: Iterable[int]) -> WordsCandidate:
        """Return the sequences at these places, in this order."""
        order, options = list(places), dict(self.options)
        if "selection" in options:
            options["selection"] = [options["selection"][i] for i in order]
        labels = None if self.labels is None else tuple(self.labels[i] for i in order)
        return replace(self, options=options).with_rows([self.rows[i] for i in order], labels)

    def _dropped(self, ranges: Ranges) -> Iterator[WordsCandidate]:
        """Yield candidates with one sequence or token less, or two words made one.

        Sentences of one token each have no next token and are left out.
        """
        smaller = self._smaller(ranges)
        return (x for x in smaller if x.labels is not None or max(map(len, x.rows)) > 1)

    def _smaller(self, ranges: Ranges) -> Iterator[WordsCandidate]:
        if len(self.rows) > ranges.get("n", (1, 1))[0]:
            for i in range(len(self.rows)):
                yield self._picked(k for k in range(len(self.rows)) if k != i)
            if self.labels is not None and len(self.rows) > 2:  # a pair, so that labels stay balanced
                for i, j in zip(*np.nonzero(np.subtract.outer(self.labels, self.labels)), strict=True):
                    if i < j:
                        yield self._picked(k for k in range(len(self.rows)) if k not in (i, j))
        words = {x for row in self.rows for x in row}
        for a in words:
            for b in range(a):
                yield self.with_rows([[b if x == a else x for x in row] for row in self.rows])
        if self.labels is None:
            for i, row in enumerate(self.rows):
                for t in range(len(row) if len(row) > 1 else 0):
                    yield self._with_row(i, row[:t] + row[t + 1 :])
        elif len(self.rows[0]) > ranges.get("T", (1, 1))[0]:
            for x in words:  # sequences stay of one length: one token of each goes, x where it can be
                cut = [row.index(x) if x in row else len(row) - 1 for row in self.rows]
                yield self.with_rows([r[:t] + r[t + 1 :] for r, t in zip(self.rows, cut, strict=True)])

    def shrunk(self, ranges: Ranges) -> Iterator[WordsCandidate]:
        """Yield smaller ones, then rounder values."""
        yield from self._dropped(ranges)
        x = self.vector()
        if x.size:
            yield self.at(candidate.rounded(x, 1))
            yield from map(self.at, candidate.with_simpler_number(x))
        if "selection" in self.options:
            for i, chosen in enumerate(self.options["selection"]):
                for t in chosen if len(chosen) > 1 else ():
                    less = list(map(list, self.options["selection"]))
                    less[i] = [s for s in chosen if s != t]
                    yield self.told({**self.options, "selection": less})

    def shuffled(self, rng: np.random.Generator, only: str | None = None) -> WordsCandidate:
        """Shuffle the sequences; words of a corpus then have another order too."""
        return self._picked(rng.permutation(len(self.rows)))

    def told(self, options: dict[str, Any]) -> WordsCandidate:
        """Return the candidate with other options."""
        return replace(self, options=options)

    def to_dict(self) -> dict[str, Any]:
        """Return the candidate as JSON can hold it."""
        options = candidate.as_lists(self.options)
        return {"kind": "words", "rows": self.rows, "labels": self.labels, "options": options}

    @classmethod
    def of_dict(cls, parts: dict[str, Any]) -> WordsCandidate:
        """Read the output of `to_dict`."""
        options = dict(parts["options"])
        if VALUES in options:
            options[VALUES] = np.array(options[VALUES], dtype=float)
        labels = parts["labels"]
        return cls(tuple(map(tuple, parts["rows"])), None if labels is None else tuple(labels), options)


def word(x: int) -> str:
    """Return a, b, ..., z, then w26 and so on."""
    return chr(ord("a") + x) if x < 26 else f"w{x}"


def draw_corpus(ranges: Ranges, rng: np.random.Generator) -> WordsCandidate:
    """Draw sequences of one length with labels: at random, or each with one word that only its label has."""
    n, T, V = candidate.draw_size(ranges, rng)
    if rng.random() < 0.3:
        rows = rng.integers(V, size=(n, T))
        labels = rng.choice([-1, 1], size=n)
    else:
        half = max(1, n // 2)
        few = [int(rng.integers(1, half + 1)) for _ in range(2)]
        fill = sum(few) + rng.integers(max(1, V - sum(few)), size=(half, T - 1))
        stars = [first + rng.integers(count, size=half) for first, count in ((0, few[0]), (few[0], few[1]))]
        both = [fill, rng.permutation(fill.ravel()).reshape(fill.shape)]
        rows = np.vstack([np.column_stack([s, f]) for s, f in zip(stars, both, strict=True)])
        labels = np.repeat([1, -1], half)
    return WordsCandidate((), ()).with_rows(rows.tolist(), tuple(labels.tolist()))


def draw_sentences(ranges: Ranges, rng: np.random.Generator) -> WordsCandidate:
    """Draw sentences of a rule: most often a word is n of a word before it; n is any map of words."""
    n, T, V = candidate.draw_size(ranges, rng)
    follows = rng.permutation(V) if rng.random() < 0.4 else rng.integers(V, size=V)
    rank = rng.permuted(np.tile(np.arange(V), (V, 1)), axis=1)  # under a query, the first word there decides
    rows = []
    for k in range(max(n, V)):
        row = [k % V]
        for _ in range(int(rng.integers(1, T))):
            order = rank[row[-1]]
            row.append(int(follows[row[int(np.argmin(order[row]))]]))
        rows.append(row)
    return WordsCandidate(()).with_rows(rows)
