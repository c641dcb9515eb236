"""Problems as candidates: keys and scores, tokens with labels and a head, or tokens with queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from hardmax.papers.hunting import candidate
from hardmax.papers.hunting.candidate import Ranges, Size
from hardmax.problem import Problem

VECTORS = ("p", "q", "start")  # options with a number for each dimension
MOVES = ("copy", "tie", "negate", "round", "between", "nudge", "clear", "choose")
DRAWN_LOSSES = ("logistic", "exponential", "correlation")
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class ProblemCandidate:
    """Tokens of every input, and either scores, scores and queries, or labels and a head.

    >>> import numpy as np
    >>> from hardmax.papers.hunting.problems import ProblemCandidate
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
        return 1000.0 * (n + T + d) + candidate.costs(self.vector())

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
            return self.at(candidate.rounded(scale * self.vector(), int(rng.choice((1, 1, 2)))))
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
        for q in candidate.DENOMINATORS:
            for factor in (1.0, 2.0, 4.0):
                yield self.at(candidate.rounded(factor * x, q))
        for i in range(self.n):  # a shift of an input's keys, or scores, does not change most claims
            for t in range(len(self.tokens[i])):
                yield replace(self, tokens=_shifted(self.tokens, i, t))
                if self._free:
                    yield replace(self, scores=_shifted(self._free, i, t))
        yield from map(self.at, candidate.with_simpler_number(x))

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
        return parts | {"options": candidate.as_lists(self.options)}

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
    n, T, d = candidate.draw_size(ranges, rng)
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
