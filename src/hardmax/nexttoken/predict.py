"""A trained model: the next token of any sentence, by its weights and by the orders, and its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from hardmax._lib import expect
from hardmax._lib.archive import Arrays, decoded, demand, encoded, read_arrays, refused, write_arrays
from hardmax._lib.arguments import check_arguments
from hardmax.nexttoken.relations import MISSING, Orders
from hardmax.nexttoken.stages import Floats, Ints
from hardmax.problem.readouts import OutputValue


@dataclass(frozen=True)
class Regenerated:
    """The prescribed ``next`` token, or None if the rule is ``ambiguous``.

    ``candidates`` are the tokens of the sentence that may decide, ``reason`` gives the reason.
    """

    next: int | None
    rule: str
    candidates: tuple[int, ...]
    reason: str


@check_arguments
def regenerate(n: NDArray[np.int64], orders: Orders, sentence: Sequence[int]) -> Regenerated:
    """Return the next token of any sentence, seen or not: n of the token that decides under its last token.

    Tokens that are maximal in the sentence may decide. An optimal one goes first, then one about which
    nothing is known under this query (Theorem 3). If those left lead to different tokens, the rule is
    ``ambiguous``.

    >>> from hardmax.nexttoken import analyze, regenerate
    >>> analysis = analyze(["S V O P", "V O P", "O P P", "P S V"])
    >>> regenerate(analysis.n, analysis.orders, [2, 0, 3]).next  # O S P is followed by P
    3
    """
    tokens = list(dict.fromkeys(int(x) for x in sentence))
    if not tokens or not all(0 <= x < orders.V for x in tokens):
        raise ValueError(f"sentence must have one token or more, each in 0..{orders.V - 1}, got {sentence!r}")
    if np.shape(n) != (orders.V,):
        raise ValueError(f"n must be {orders.V} tokens, one per word, got shape {np.shape(n)}")
    if len(tokens) == 1:
        return _decided(n, tokens, "the sentence holds one kind of token")
    query = int(sentence[-1])
    low, high = np.searchsorted(orders.query, [query, query + 1])
    pairs = zip(orders.above[low:high].tolist(), orders.below[low:high].tolist(), strict=True)
    beaten = {x for o, x in pairs if o in tokens}
    maximal = [x for x in tokens if x not in beaten]
    types = orders.types(query)
    for name, reason in _REASONS.items():
        some = [x for x in maximal if types[x] == name]
        if some:
            return _decided(n, some, reason)
    return Regenerated(None, "ambiguous", (), "every token stands below another one: the order has a cycle")


_REASONS = {
    "optimal": "optimal under the last token",
    "non_comparable": "never compared under the last token, and no optimal token is here",
    "confused": "confused under the last token, but nothing here stands above it",
    "non_optimal": "only non-optimal tokens are here",
}


def _decided(n: NDArray[np.int64], some: list[int], reason: str) -> Regenerated:
    following = {int(n[x]) for x in some}
    if MISSING in following:
        return Regenerated(None, "ambiguous", tuple(some), f"{reason}, but it has no known next token")
    if len(following) > 1:
        return Regenerated(None, "ambiguous", tuple(some), f"{reason}, and there are {len(some)} of them")
    return Regenerated(following.pop(), "unique", tuple(some), reason)


# Logits this close, relative to their size, are a tie: exact ones differ by rounding only.
TIE = 1e-12


@dataclass(frozen=True)
class AttendedToken:
    """A token of the sentence, the attention on all its positions, and its type under the query."""

    token: int
    word: str
    weight: float
    type: str


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction of a model for a sentence.

    ``probabilities`` has one entry per token, ``attended`` the sentence's tokens by falling weight. ``rule``
    is "tie" if several next tokens are equally probable, "ambiguous" if the orders do not decide and only
    weights do, else "unique"; ``reason`` gives the reason.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.training import train
    >>> prediction = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).predict("O S P")
    >>> prediction.rule, prediction.reason
    ('unique', 'O: optimal under the last token')
    """

    probabilities: Floats
    attended: tuple[AttendedToken, ...]
    rule: str
    reason: str
    vocabulary: tuple[str, ...]

    def __repr__(self) -> str:
        word, probability = self.next(1)[0]
        return f"Prediction({word!r} with probability {probability:.6g}, {self.rule})"

    def next(self, most: int | None = None) -> list[tuple[str, float]]:
        """The words and their probabilities, most probable first."""
        order = np.argsort(-self.probabilities, kind="stable")[:most]
        return [(self.vocabulary[v], float(self.probabilities[v])) for v in order]


@dataclass(frozen=True)
class Reached:
    """``steps`` of stage 2 with the step ``rate``, ``signed_steps`` of them signed; W_ov = ``margin`` W_ov*.

    ``data`` is a digest of the samples, their frequencies and the collocation.
    """

    steps: int
    signed_steps: int
    rate: float
    margin: float | None
    data: str

    def differs_from(self, other: Reached) -> list[str]:
        """Name the differences between two trainings; none if one can resume where the other stopped."""
        words = {"data": "the sentences", "margin": "stage 1", "rate": "the step of stage 2"}
        return [what for name, what in words.items() if getattr(self, name) != getattr(other, name)]


FORMAT = "hardmax.ntp-model/1"
LARGEST_VALUE = 1e100  # of W_kq, whose square is a number too; no training gets there


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model: W_ov, the values of W_kq on its pairs (sorted by query, then token), and the orders.

    ``star`` and ``residual`` are W_kq* and R_perp on the same pairs, None where they are not known; the
    limit of infinite training needs them.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.training import train
    >>> model = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).predictor
    >>> best = model.predict("O S P")
    >>> best.next(1)[0][0], best.attended[0].word, best.attended[0].type, best.rule
    ('P', 'O', 'optimal', 'unique')
    >>> model.predict("S V P").rule
    'tie'
    """

    vocabulary: tuple[str, ...]
    W_ov: OutputValue
    token: Ints
    query: Ints
    values: Floats
    orders: Orders
    star: Floats | None = None
    residual: Floats | None = None

    def __repr__(self) -> str:
        return f"Predictor(V={len(self.vocabulary)}, pairs={len(self.values)})"

    @check_arguments
    def save(self, path: str | PathLike[str], *, reached: Reached | None = None) -> None:
        """Write the model to one file, which `load` reads; the name may have any ending.

        With ``reached``, ``hardmax ntp train`` can resume training from the file.

        >>> import pathlib, tempfile
        >>> from hardmax.nexttoken import Predictor, Samples
        >>> from hardmax.nexttoken.training import train
        >>> model = train(Samples.from_sentences(["a b b", "b a"])).predictor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.npz"))
        ...     Predictor.load(pathlib.Path(folder, "model.npz")).predict("a b").next(1)[0][0]
        'b'
        """
        head: dict[str, Any] = {"format": FORMAT, "vocabulary": self.vocabulary, "margin": self.W_ov.margin}
        if reached is not None:
            head["reached"] = asdict(reached)
        arrays: dict[str, Any] = {
            "head": encoded(head),
            "collocation": self.W_ov.collocation,
            "token": self.token,
            "query": self.query,
            "values": self.values,
            "orders": np.stack([self.orders.query, self.orders.above, self.orders.below]),
        }
        optional = {"W_ov": self.W_ov.entries, "star": self.star, "residual": self.residual}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        write_arrays(path, arrays, packed=True)

    @classmethod
    @check_arguments
    def load(cls, path: str | PathLike[str]) -> Predictor:
        """Read a model that `save` or ``hardmax ntp train`` wrote.

        Raises:
            ValueError: if the file holds something else.
        """
        return load_reached(path)[0]

    def predict(self, sentence: str | Sequence[Any], *, limit: bool = False) -> Prediction:
        """Predict the next token of a sentence.

        The sentence is a string of words, a list of words, or a list of numbers of tokens in ``vocabulary``.
        With ``limit`` stage 2 has gone on forever: attention is on the tokens with the largest W_kq* only.

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.training import train
        >>> model = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).predictor
        >>> [token.weight for token in model.predict("S P", limit=True).attended]
        [1.0, 0.0]
        """
        ids = self._read(sentence)
        tokens, counts = np.array([*dict.fromkeys(ids)]), np.array([ids.count(x) for x in dict.fromkeys(ids)])
        if limit:
            mass = self._limit_masses(tokens, counts, ids[-1])
        else:
            mass = softmax(self._lookup(self.values, tokens, ids[-1]) + np.log(counts))
        if self.W_ov.margin is None:
            logits = self.W_ov.table[:, tokens] @ mass
        else:
            n, logits = self.W_ov.collocation[tokens], np.zeros(len(self.vocabulary))
            np.add.at(logits, n[n >= 0], self.W_ov.margin * mass[n >= 0])
        types = self.orders.types(ids[-1])
        order = np.argsort(-mass, kind="stable")
        attended = tuple(
            AttendedToken(int(tokens[i]), self.vocabulary[tokens[i]], float(mass[i]), types[tokens[i]])
            for i in order
        )
        decided = regenerate(self.W_ov.collocation, self.orders, ids)
        best = np.flatnonzero(logits >= logits.max() - TIE * np.abs(logits).max())
        rule = "tie" if len(best) > 1 else decided.rule
        return Prediction(
            softmax(logits), attended, rule, self._reason(decided, best.tolist()), self.vocabulary
        )

    def _read(self, sentence: str | Sequence[Any]) -> list[int]:
        words = sentence.split() if isinstance(sentence, str) else list(sentence)
        if not words:
            raise ValueError("sentence must have at least one token, got none")
        number: dict[Any, int] = {word: x for x, word in enumerate(self.vocabulary)}
        numbers = []
        for word in words:
            is_number = isinstance(word, int | np.integer) and not isinstance(word, bool)
            x = int(word) if is_number else number.get(word)
            if x is None or not 0 <= x < len(self.vocabulary):
                few = ", ".join(map(repr, self.vocabulary[:8]))
                more = ", ..." if len(self.vocabulary) > 8 else ""
                raise ValueError(f"sentence: the model does not know {word!r}; it knows {few}{more}")
            numbers.append(x)
        return numbers

    def _lookup(self, column: Floats, tokens: Ints, query: int) -> Floats:
        """Values of the pairs (token, query); zero for pairs that did not occur in training."""
        V = len(self.vocabulary)
        keys = self.query * V + self.token
        if not len(keys):
            return np.zeros(len(tokens))
        at = np.minimum(np.searchsorted(keys, query * V + tokens), len(keys) - 1)
        return np.where(keys[at] == query * V + tokens, column[at], 0.0)

    def _limit_masses(self, tokens: Ints, counts: Ints, query: int) -> Floats:
        if self.star is None:
            raise ValueError("limit: there is no W_kq* for this dataset, so the limit is not known")
        star = self._lookup(self.star, tokens, query)
        top = star >= star.max() - 1e-9
        residual = np.zeros(len(tokens))
        if top.sum() > 1 and self.residual is not None:
            residual = self._lookup(self.residual, tokens, query)
        elif top.sum() > 1 and star.max() != 0.0:
            raise ValueError("`limit=True` is undefined here: tokens tie under W_kq*; predict without it")
        return softmax(np.where(top, np.log(counts) + residual, -np.inf))

    def _reason(self, decided: Regenerated, best: list[int]) -> str:
        names = " and ".join(self.vocabulary[x] for x in decided.candidates)
        why = f"{names}: {decided.reason}" if names else decided.reason
        outputs = " and ".join(self.vocabulary[v] for v in best[:8])
        if len(best) > 1:
            return f"{why}; {outputs} are equally probable" if len(best) <= 8 else f"{why}; an exact tie"
        if decided.next is not None and decided.next != best[0]:
            due = self.vocabulary[decided.next]
            return f"{why}, which leads to {due}; so far the weights prefer {outputs}"
        return why if decided.next is not None else f"{why}; the weights prefer {outputs}"


def load_reached(path: str | PathLike[str]) -> tuple[Predictor, Reached | None]:
    """Return the model of a file and how far it was trained, None if the file does not record it."""
    with refused(f"{path} must be a model written by hardmax ntp train, got another file"):
        arrays = read_arrays(path)
        return _model(arrays, decoded(arrays["head"]))


def _model(arrays: Arrays, head: Any) -> tuple[Predictor, Reached | None]:
    """Return the model of arrays that may have been tampered with: each is checked before it is used."""
    words, margin = head["vocabulary"], head["margin"]
    demand(head["format"] == FORMAT and isinstance(words, list) and len(words) > 1)
    demand(all(isinstance(word, str) for word in words) and len(set(words)) == len(words))
    V = len(words)
    token, query = (_numbers(arrays[name], V) for name in ("token", "query"))
    related = _numbers(arrays["orders"], V, ndim=2)
    demand(len(token) == len(query) and len(related) == 3)
    # pairs are looked up, and relations, by bisection
    demand(_rises(query * V + token) and _rises((related[0] * V + related[1]) * V + related[2]))
    entries = None
    if margin is None:
        entries = expect.finite_array("W_ov", arrays["W_ov"], (V, V))
    else:
        demand("W_ov" not in arrays and expect.nonnegative("margin", margin) is not None)
    values = {
        name: expect.finite_array(name, arrays[name], (len(token),))
        for name in ("values", "star", "residual")
        if name == "values" or name in arrays
    }
    demand(all(np.abs(column).max(initial=0.0) < LARGEST_VALUE for column in values.values()))
    model = Predictor(
        tuple(words),
        OutputValue(_numbers(arrays["collocation"], V, least=-1, size=V), margin, entries),
        token,
        query,
        values["values"],
        Orders(V, related[0], related[1], related[2], np.full(related.shape[1], -1)),
        values.get("star"),
        values.get("residual"),
    )
    if "reached" not in head:
        return model, None
    reached = Reached(**head["reached"])
    expect.whole("steps", reached.steps)
    expect.whole("signed_steps", reached.signed_steps)
    expect.positive("rate", reached.rate)
    demand(isinstance(reached.data, str) and isinstance(reached.margin, float | int | None))
    return model, reached


def _numbers(array: np.ndarray, V: int, *, least: int = 0, ndim: int = 1, size: int | None = None) -> Ints:
    """Numbers of tokens, from ``least`` to V - 1."""
    demand(array.ndim == ndim and array.dtype.kind in "iu" and (size is None or len(array) == size))
    numbers = array.astype(np.int64)
    demand(not numbers.size or least <= numbers.min() <= numbers.max() < V)
    return numbers


def _rises(keys: Ints) -> bool:
    return bool((np.diff(keys) > 0).all())
