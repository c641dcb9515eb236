"""Candidates of a hunt, and the space that they are drawn from: kind of data of a claim, sizes, options.

A candidate is data that a claim may fail on: lists and arrays that a move can change, not the subject made
of them. Both kinds, problems and sequences of words, have the same methods. They move to a neighbor, shrink,
come in another order of their ``orders``, and hold their continuous numbers as one vector; ``cost`` is how
much there is to write down.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from hardmax.data.corpora.corpus import Corpus
from hardmax.papers.checking.check import Statement
from hardmax.problem import Problem

DENOMINATORS = (1, 2, 4, 10, 100)


def cost(x: float) -> float:
    """Count the characters of a number: none for 0, little for small integers, then fractions, then decimals.

    >>> from hardmax.papers.hunting.candidates import cost
    >>> [cost(x) for x in (0.0, 1.0, -1.0, 3.0, 0.5, 0.1234567)]
    [0.0, 1.0, 1.5, 2.2, 3.4, 11.0]
    """
    if x == 0:
        return 0.0
    sign, size = 0.5 * (x < 0), abs(x)
    if size < 100 and (4 * x).is_integer():
        weight = 0.0 if size == 1 else 0.6 + 0.2 * size if size > 1 else 0.4
        return (1.0 if x.is_integer() else 3.0 if (2 * x).is_integer() else 4.0) + sign + weight
    return 2.0 + len(repr(size)) + sign


def costs(values: np.ndarray) -> float:
    """Return the sum over an array."""
    return sum(cost(float(x)) for x in values.ravel())


def rounded(values: np.ndarray, denominator: int) -> np.ndarray:
    """Return all numbers at the nearest multiple of one over a whole number."""
    return np.round(values * denominator) / denominator + 0.0


def simpler(x: float) -> Iterator[float]:
    """Yield simpler numbers near one, the simplest first."""
    near = [0.0, float(np.sign(x)), *(float(np.round(x * q) / q) for q in DENOMINATORS)]
    near.append(float(Fraction(x).limit_denominator(1000)))
    if abs(x) > 2:
        near += [float(np.round(x / 2)), float(f"{x:.1g}")]
    for number in sorted(set(near), key=cost):
        if cost(number) < cost(x):
            yield number + 0.0


def with_simpler_number(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the same numbers with one of them replaced by a simpler one near it."""
    for place, value in enumerate(values):
        for near in simpler(float(value)):
            changed = values.copy()
            changed[place] = near
            yield changed


def as_lists(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON can hold them."""
    return {name: x.tolist() if isinstance(x, np.ndarray) else x for name, x in options.items()}


Size = tuple[int, int, int]
Ranges = Mapping[str, tuple[int, int]]  # of n, T and d, or of the sizes of another kind


def draw_size(ranges: Ranges, rng: np.random.Generator) -> Size:
    """Draw n, T and d, or the sizes of another kind, from their ranges."""
    first, second, third = (int(rng.integers(low, high + 1)) for low, high in ranges.values())
    return first, second, third


VECTORS = ("p", "q", "start")  # options with a number for each dimension
MOVES = ("copy", "tie", "negate", "round", "between", "nudge", "clear", "choose")
DRAWN_LOSSES = ("logistic", "exponential", "correlation")
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class ProblemCandidate:
    """Tokens of every input, and either scores, scores and queries, or labels and a head.

    >>> import numpy as np
    >>> from hardmax.papers.hunting.candidates import ProblemCandidate
    >>> two = ProblemCandidate((np.array([[1.0], [0.0]]), np.array([[-1.0], [0.0]])), (np.eye(2)[0],) * 2)
    >>> two.size, two.subject().scores.tolist(), len(list(two.shrunk({"n": (1, 2)}))) > 4
    ((2, 4, 1), [1.0, 0.0, 1.0, 0.0], True)
    """

    orders: ClassVar[tuple[str, ...]] = ("inputs", "tokens", "coordinates")

    tokens: Arrays  # (T_i, d) each
    scores: Arrays | None = None  # (T_i,) each
    queries: np.ndarray | None = None  # (n, e)
    labels: np.ndarray | None = None  # (n,)
    head: np.ndarray | None = None  # (d,)
    loss: str = "logistic"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of inputs."""
        return len(self.tokens)

    @property
    def d(self) -> int:
        """Number of dimensions of a token."""
        return int(self.tokens[0].shape[1])

    @property
    def size(self) -> Size:
        """Inputs, tokens, dimensions."""
        return self.n, sum(map(len, self.tokens)), self.d

    @property
    def cost(self) -> float:
        """Numbers to write down, after inputs, tokens and dimensions."""
        n, T, d = self.size
        return 1000.0 * (n + T + d) + costs(self.vector())

    def subject(self) -> Problem:
        """The problem."""
        if self.head is not None:
            return Problem.from_tokens(list(self.tokens), self.labels, self.head, loss=self.loss)
        scores = list(self.scores or ())
        if self.queries is not None:
            return Problem.from_queries(list(self.tokens), self.queries, scores, loss=self.loss)
        return Problem(list(self.tokens), scores, self.loss)

    # continuous numbers, as one vector

    @property
    def _free(self) -> Arrays:
        """The scores that are numbers; those of the log loss are labels, and stay."""
        return () if self.scores is None or self.loss == "log" else self.scores

    def _parts(self) -> list[np.ndarray]:
        parts = [*self.tokens, *self._free]
        parts += [x for x in (self.queries, self.head) if x is not None]
        return parts + [np.asarray(self.options[name]) for name in VECTORS if name in self.options]

    def vector(self) -> np.ndarray:
        """Return tokens, scores, queries, head and vectors of the options."""
        return np.concatenate([part.ravel() for part in self._parts()])

    def at(self, vector: np.ndarray) -> ProblemCandidate:
        """Return the candidate with other numbers."""
        cuts = np.cumsum([part.size for part in self._parts()])[:-1]
        parts = zip(np.split(vector, cuts), self._parts(), strict=True)
        pieces = (piece.reshape(part.shape) for piece, part in parts)
        tokens = tuple(next(pieces) for _ in self.tokens)
        scores = tuple(next(pieces) for _ in self._free) or self.scores
        queries = None if self.queries is None else next(pieces)
        head = None if self.head is None else next(pieces)
        options = dict(self.options)
        options |= {name: next(pieces) for name in VECTORS if name in options}
        return replace(self, tokens=tokens, scores=scores, queries=queries, head=head, options=options)

    # discrete moves

    def moved(self, rng: np.random.Generator, ranges: Ranges) -> ProblemCandidate:
        """Return a neighbor by one move."""
        smaller = list(self._dropped(ranges))
        if smaller and rng.random() < 0.2:
            return smaller[int(rng.integers(len(smaller)))]
        move = MOVES[int(rng.integers(len(MOVES)))]
        chosen = [name for name in (*VECTORS, "selection") if name in self.options]
        if move == "choose" and chosen:
            return self._with_choice(chosen[int(rng.integers(len(chosen)))], rng)
        if move == "round":
            scale = (1.0, 2.0, 0.5)[int(rng.integers(3))]
            return self.at(rounded(scale * self.vector(), int(rng.choice((1, 1, 2)))))
        if move in ("nudge", "choose"):
            x = self.vector()
            x[int(rng.integers(len(x)))] += float(rng.choice((-1.0, 1.0, -0.5, 0.5, -3.0, 3.0)))
            return self.at(x)
        i, t = self._place(rng)
        if move == "clear":
            return self._with_token(i, t, np.zeros(self.d))
        if move == "copy":
            j, s = self._place(rng)
            return self._with_token(i, t, self.tokens[j][s])
        if move == "between":  # half way between two others of its input, or as far beyond one of them
            a, b = self.tokens[i][rng.integers(len(self.tokens[i]), size=2)]
            return self._with_token(i, t, 0.5 * (a + b) if rng.random() < 0.6 else 2 * a - b)
        if move == "tie" and self.scores is not None:
            j, s = self._place(rng)
            scores = [part.copy() for part in self.scores]
            scores[i][t] = scores[j][s]
            if self.loss == "log":  # another token is the label
                scores[i] = np.eye(len(scores[i]))[t]
            return replace(self, scores=tuple(scores))
        kind = int(rng.integers(3))  # another sign
        if kind == 0 and self.labels is not None:
            return replace(self, labels=self.labels * np.where(np.arange(self.n) == i, -1, 1))
        if kind == 1:
            x = self.vector()
            x[int(rng.integers(len(x)))] *= -1
            return self.at(x)
        return self._with_token(i, t, float(rng.choice((-1.0, -1.0, 2.0, 4.0, 0.25))) * self.tokens[i][t])

    def _place(self, rng: np.random.Generator) -> tuple[int, int]:
        i = int(rng.integers(self.n))
        return i, int(rng.integers(len(self.tokens[i])))

    def _with_token(self, i: int, t: int, row: np.ndarray) -> ProblemCandidate:
        tokens = [part.copy() for part in self.tokens]
        tokens[i][t] = row
        return replace(self, tokens=tuple(tokens))

    def _with_choice(self, name: str, rng: np.random.Generator) -> ProblemCandidate:
        """Return the candidate with another selection, or another vector, among the options."""
        if name == "selection":
            i, t = self._place(rng)
            choice: Any = tuple(t if j == i else s for j, s in enumerate(self.options["selection"]))
        else:
            is_normal = rng.random() < 0.5
            choice = rng.normal(size=self.d) if is_normal else rng.integers(-2, 3, self.d).astype(float)
        return self.told({**self.options, name: choice})

    # smaller ones

    def _dropped(self, ranges: Ranges) -> Iterator[ProblemCandidate]:
        """Yield candidates with one input, token or dimension less, within the ranges."""
        least = {name: low for name, (low, _) in ranges.items()}
        if self.n > least.get("n", 1):
            for i in range(self.n):
                yield self._picked([j for j in range(self.n) if j != i])
        for i, part in enumerate(self.tokens):
            if len(part) > least.get("T", 1):
                for t in range(len(part)):
                    label = self.loss == "log" and self.scores is not None and self.scores[i][t]
                    if self.options.get("selection", (None,) * self.n)[i] != t and not label:
                        yield self._picked(orders={i: [s for s in range(len(part)) if s != t]})
        if self.d > least.get("d", 1):
            for k in range(self.d):
                yield self._picked(axes=[j for j in range(self.d) if j != k])

    def _picked(
        self,
        inputs: Sequence[int] | None = None,
        orders: Mapping[int, Sequence[int]] | None = None,
        axes: Any = None,
        signs: Any = 1.0,
    ) -> ProblemCandidate:
        """Return the inputs, tokens (``orders`` of some inputs) and coordinates at places, times signs."""
        inputs = range(self.n) if inputs is None else inputs
        axes = np.arange(self.d) if axes is None else axes
        order = {i: list((orders or {}).get(i, range(len(self.tokens[i])))) for i in inputs}
        options = {
            name: np.asarray(value)[axes] * signs if name in VECTORS else value
            for name, value in self.options.items()
        }
        if "selection" in options:
            options["selection"] = tuple(order[i].index(options["selection"][i]) for i in inputs)
        rows = list(inputs)
        return replace(
            self,
            tokens=tuple(self.tokens[i][order[i]][:, axes] * signs for i in inputs),
            scores=None if self.scores is None else tuple(self.scores[i][order[i]] for i in inputs),
            options=options,
            queries=None if self.queries is None else self.queries[rows],
            labels=None if self.labels is None else self.labels[rows],
            head=None if self.head is None else self.head[axes] * signs,
        )

    def shrunk(self, ranges: Ranges) -> Iterator[ProblemCandidate]:
        """Yield smaller ones; then numbers rounded, keys moved to the origin, and single numbers simpler."""
        yield from self._dropped(ranges)
        x = self.vector()
        for q in DENOMINATORS:
            for factor in (1.0, 2.0, 4.0):
                yield self.at(rounded(factor * x, q))
        for i in range(self.n):  # a shift of an input's keys, or scores, does not change most claims
            for t in range(len(self.tokens[i])):
                yield replace(self, tokens=_shifted(self.tokens, i, t))
                if self._free:
                    yield replace(self, scores=_shifted(self._free, i, t))
        yield from map(self.at, with_simpler_number(x))

    def shuffled(self, rng: np.random.Generator, only: str | None = None) -> ProblemCandidate:
        """Shuffle inputs, tokens and coordinates, these with other signs; or ``only`` one of the three."""
        inputs, axes = rng.permutation(self.n), rng.permutation(self.d)
        signs = rng.choice([-1.0, 1.0], self.d)
        orders = {i: rng.permutation(len(part)).tolist() for i, part in enumerate(self.tokens)}
        choices = {
            "inputs": {"inputs": inputs.tolist()},
            "tokens": {"orders": orders},
            "coordinates": {"axes": axes, "signs": signs},
        }
        places: dict[str, Any] = {}
        for name in self.orders if only is None else (only,):
            places |= choices[name]
        return self._picked(**places)

    def told(self, options: dict[str, Any]) -> ProblemCandidate:
        """Return the candidate with other options."""
        return replace(self, options=options)

    def to_dict(self) -> dict[str, Any]:
        """Return the candidate as JSON can hold it."""
        parts: dict[str, Any] = {"kind": "problem", "tokens": [x.tolist() for x in self.tokens]}
        parts["loss"] = self.loss
        if self.scores is not None:
            parts["scores"] = [x.tolist() for x in self.scores]
        arrays = {name: getattr(self, name) for name in ("queries", "labels", "head")}
        parts |= {name: value.tolist() for name, value in arrays.items() if value is not None}
        return parts | {"options": as_lists(self.options)}

    @classmethod
    def of_dict(cls, parts: dict[str, Any]) -> ProblemCandidate:
        """Read the output of `to_dict`."""
        d = len(parts["tokens"][0][0])
        tokens = tuple(np.array(part, dtype=float).reshape(-1, d) for part in parts["tokens"])
        scores = parts.get("scores")
        options = dict(parts["options"])
        options |= {name: np.array(options[name], dtype=float) for name in VECTORS if name in options}
        if "selection" in options:
            options["selection"] = tuple(options["selection"])
        arrays: dict[str, Any] = {
            k: np.array(parts[k]) for k in ("queries", "labels", "head") if parts.get(k) is not None
        }
        if scores is not None:
            arrays["scores"] = tuple(np.array(part, dtype=float) for part in scores)
        return cls(tokens, loss=parts["loss"], options=options, **arrays)


def _shifted(parts: Arrays, i: int, t: int) -> Arrays:
    """Return the keys, or the scores, with those of input i counted from its token t."""
    return tuple(part - (part[t] if j == i else 0) for j, part in enumerate(parts))


def draw_problem(kind: str, ranges: Ranges, rng: np.random.Generator) -> ProblemCandidate:
    """Draw a problem of a kind: Gaussian, of small integers, with equal losers, or nearly degenerate."""
    n, T, d = draw_size(ranges, rng)
    style = int(rng.integers(5))
    keys = rng.normal(size=(n, T, d))
    scores = rng.normal(size=(n, T))
    if style in (1, 3):
        keys = rng.integers(-2, 3, size=(n, T, d)).astype(float)
        scores = rng.integers(-1, 3, size=(n, T)).astype(float)
    if style == 2 or (style == 1 and rng.random() < 0.3):  # one best token, equal others: Assumption B
        scores = np.zeros((n, T))
        scores[:, 0] = rng.integers(1, 3, size=n) if rng.random() < 0.5 else 1.0
    if style == 3:  # close to a degenerate one
        size = 10.0 ** rng.uniform(-6, -2)
        keys += size * rng.normal(size=keys.shape)
        scores += size * rng.normal(size=scores.shape)
    loss = DRAWN_LOSSES[int(rng.integers(3))]
    if kind == "tokens":
        head = rng.normal(size=d) if style != 1 else rng.integers(-1, 2, size=d).astype(float)
        return ProblemCandidate(tuple(keys), labels=rng.choice([-1, 1], size=n), head=head, loss=loss)
    if kind == "queries":
        queries = rng.normal(size=(n, max(2, d)))
        return ProblemCandidate(tuple(keys), tuple(scores), queries=queries, loss=loss)
    if kind == "labels":  # one right token for each input, and few directions
        keys = rng.integers(-1, 2, size=(n, T, d)).astype(float)
        return ProblemCandidate(tuple(keys), tuple(np.eye(T)[rng.integers(T, size=n)]), loss="log")
    return ProblemCandidate(tuple(keys), tuple(scores), loss=loss)


VALUES = "values"  # option: a value for each word, of which statements about values make E = [I | values]
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class WordsCandidate:
    """Sequences of whole numbers; with ``labels`` a corpus, without them sentences.

    >>> from hardmax.papers.hunting.candidates import WordsCandidate
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
        return 1000.0 * sum(self.size) + sum(map(sum, self.rows)) + selected + costs(self.vector())

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
            return self.at(rounded(x, 1) if rng.random() < 0.3 else x)
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
            yield self.at(rounded(x, 1))
            yield from map(self.at, with_simpler_number(x))
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
        options = as_lists(self.options)
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
    n, T, V = draw_size(ranges, rng)
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
    n, T, V = draw_size(ranges, rng)
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
    >>> from hardmax.papers.hunting.candidates import Space, read_ranges
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

    >>> from hardmax.papers.hunting.candidates import read_ranges
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
