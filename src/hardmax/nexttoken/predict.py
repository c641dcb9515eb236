"""The next token of any sentence, by the trained model and by what collocation and orders prescribe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from hardmax._lib.arguments import check_arguments
from hardmax.nexttoken.pairs import Floats, Ints
from hardmax.nexttoken.relations import MISSING, Orders
from hardmax.problem.readouts import OutputValue


@dataclass(frozen=True)
class Regenerated:
    """The prescribed ``next`` token, or None if the rule is ``ambiguous``.

    ``candidates`` are the tokens of the sentence that may decide, ``reason`` says why these.
    """

    next: int | None
    rule: str
    candidates: tuple[int, ...]
    reason: str


@check_arguments
def regenerate(n: NDArray[np.int64], orders: Orders, sentence: Sequence[int]) -> Regenerated:
    """The next token of any sentence, seen or not: n of the token that decides under its last token.

    Tokens that are maximal in the sentence may decide. An optimal one goes first, then one about which
    nothing is known under this query (Theorem 3). If those left lead to different tokens, the rule is
    ``ambiguous``.
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
    >>> told = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).predict("O S P")
    >>> told.rule, told.reason
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


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model: W_ov, the values of W_kq on its pairs (sorted by query, then token), and the orders.

    ``star`` and ``residual`` are W_kq* and R_perp on the same pairs, None where they are not known; the
    limit of infinite training needs them.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.training import train
    >>> model = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).predictor
    >>> told = model.predict("O S P")
    >>> told.next(1)[0][0], told.attended[0].word, told.attended[0].type, told.rule
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
    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file, which `load` reads; the name may have any ending.

        >>> import pathlib, tempfile
        >>> from hardmax.nexttoken import Predictor, Samples
        >>> from hardmax.nexttoken.training import train
        >>> model = train(Samples.from_sentences(["a b b", "b a"])).predictor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.npz"))
        ...     Predictor.load(pathlib.Path(folder, "model.npz")).predict("a b").next(1)[0][0]
        'b'
        """
        from hardmax.nexttoken.model_file import save

        save(path, self)

    @classmethod
    @check_arguments
    def load(cls, path: str | PathLike[str]) -> Predictor:
        """Read a model that `save` or ``hardmax ntp train`` wrote.

        Raises:
            ValueError: if the file holds something else.
        """
        from hardmax.nexttoken.model_file import load_reached

        return load_reached(path)[0]

    def predict(self, sentence: str | Sequence[Any], *, limit: bool = False) -> Prediction:
        """The next token of a sentence, given as words in a string, a list of words, or a list of numbers of
        tokens in ``vocabulary``.

        With ``limit`` stage 2 has gone on forever: attention is on the tokens with the largest W_kq* only.

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.training import train
        >>> model = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).predictor
        >>> [each.weight for each in model.predict("S P", limit=True).attended]
        [1.0, 0.0]
        """
        ids = self._read(sentence)
        tokens, counts = np.array([*dict.fromkeys(ids)]), np.array([ids.count(x) for x in dict.fromkeys(ids)])
        mass = self._limit_masses(tokens, counts, ids[-1]) if limit else self._masses(tokens, counts, ids[-1])
        logits = self._logits(tokens, mass)
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
        found = []
        for word in words:
            is_number = isinstance(word, int | np.integer) and not isinstance(word, bool)
            x = int(word) if is_number else number.get(word)
            if x is None or not 0 <= x < len(self.vocabulary):
                few = ", ".join(map(repr, self.vocabulary[:8]))
                more = ", ..." if len(self.vocabulary) > 8 else ""
                raise ValueError(f"sentence: the model does not know {word!r}; it knows {few}{more}")
            found.append(x)
        return found

    def _lookup(self, column: Floats, tokens: Ints, query: int) -> Floats:
        """Values of the pairs (token, query); zero for those that training never met."""
        V = len(self.vocabulary)
        keys = self.query * V + self.token
        if not len(keys):
            return np.zeros(len(tokens))
        at = np.minimum(np.searchsorted(keys, query * V + tokens), len(keys) - 1)
        return np.where(keys[at] == query * V + tokens, column[at], 0.0)

    def _masses(self, tokens: Ints, counts: Ints, query: int) -> Floats:
        return softmax(self._lookup(self.values, tokens, query) + np.log(counts))

    def _limit_masses(self, tokens: Ints, counts: Ints, query: int) -> Floats:
        if self.star is None:
            raise ValueError("limit: there is no W_kq* for this dataset, so the limit is not known")
        star = self._lookup(self.star, tokens, query)
        top = star >= star.max() - 1e-9
        beside = np.zeros(len(tokens))
        if top.sum() > 1 and self.residual is not None:
            beside = self._lookup(self.residual, tokens, query)
        elif top.sum() > 1 and star.max() != 0.0:
            raise ValueError("`limit=True` is undefined here: tokens tie under W_kq*; predict without it")
        return softmax(np.where(top, np.log(counts) + beside, -np.inf))

    def _logits(self, tokens: Ints, mass: Floats) -> Floats:
        if self.W_ov.margin is None:
            return self.W_ov.table[:, tokens] @ mass
        n, logits = self.W_ov.collocation[tokens], np.zeros(len(self.vocabulary))
        np.add.at(logits, n[n >= 0], self.W_ov.margin * mass[n >= 0])
        return logits

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
