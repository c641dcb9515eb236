"""Legal datasets: their structure (C-THM-STRUCT), random ones with options, and examples by name."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardmax._lib.arguments import check_arguments
from hardmax._lib.expect import whole
from hardmax.data.sentences.sentences import LARGEST_VOCABULARY, Sentences
from hardmax.nexttoken.analysis import Analysis
from hardmax.nexttoken.realizable import Legality
from hardmax.nexttoken.relations import MISSING

Ints = NDArray[np.int64]
NO_LAG = -1


@dataclass(frozen=True, eq=False)
class Structure:
    """All that a legal dataset is: ``n``, ``lag`` (-1 if the query has only its own sentence), ``length``.

    ``length[s]`` is that of the longest raw sentence that begins with s, 0 if none does.
    """

    n: Ints
    lag: Ints
    length: Ints

    @property
    def optimal(self) -> Ints:
        """The token o_q = n^(-lag)(q) that decides under each query, -1 where there is none."""
        return best_tokens(self.n, self.lag)

    def sentences(self) -> list[list[int]]:
        """The longest raw sentence of every start, regenerated; the samples are those of the dataset."""
        n, optimal = self.n.tolist(), self.optimal.tolist()
        return [chain(n, optimal, s, most) for s, most in enumerate(self.length.tolist()) if most]


@check_arguments
def structure(analysis: Analysis) -> Structure:
    """Return permutation, lags and lengths of a legal dataset."""
    if not analysis.legal:
        kinds = ", ".join(one.kind for one in analysis.violations if one.kind != "assumption3")
        raise ValueError(f"analysis must be of a legal dataset, got one with violations: {kinds}")
    trie, n = analysis.trie, analysis.n.tolist()
    lag = np.full(trie.V, NO_LAG, dtype=np.int64)
    for q, o in zip(*(column.tolist() for column in analysis.orders.of_type("optimal")), strict=True):
        lag[q] = 0
        while o != q:
            o, lag[q] = n[o], lag[q] + 1
    length, starts = np.zeros(trie.V, dtype=np.int64), trie.sentences.offsets[:-1]
    np.maximum.at(length, trie.sentences.tokens[starts], np.diff(trie.sentences.offsets))
    return Structure(analysis.n, lag, length)


def chain(n: list[int], optimal: list[int], start: int, length: int, *, balanced: bool = False) -> list[int]:
    """Return the sentence of at most `length` tokens that begins with `start`: x_2 = n(x_1), then n(o_q).

    It ends early when o_q is not in it, and if `balanced` before a token outnumbers the deciding one
    (Assumption 3).
    """
    sentence, counts = [start], {start: 1}
    while len(sentence) < length:
        decides = start if len(counts) == 1 else optimal[sentence[-1]]
        if decides not in counts or (balanced and max(counts.values()) > counts[decides]):
            break
        sentence.append(n[decides])
        counts[n[decides]] = counts.get(n[decides], 0) + 1
    return sentence


def best_tokens(n: Ints, lag: Ints) -> Ints:
    """Return o_q = n^(-lag[q])(q) for a permutation n; -1 where lag is -1."""
    back = np.empty_like(n)
    back[n] = np.arange(len(n))
    tokens = np.arange(len(n))
    for step in range(int(lag.max(initial=0))):
        tokens = np.where(lag > step, back[tokens], tokens)
    return np.where(lag == NO_LAG, MISSING, tokens)


MOST_TOKENS = 20_000_000  # drawn at once, in lists that take some ten bytes for each
PERMUTATIONS = ("cycle", "derangement", "uniform")


@dataclass(frozen=True, eq=False)
class Generated:
    """Raw ``sentences`` of token numbers, the permutation ``n`` and the ``lag`` of each query behind them.

    >>> from hardmax.nexttoken import generate
    >>> made = generate(3, rng=0)
    >>> made.sentences, made.n.tolist(), made.lag.tolist()
    ([[0, 2, 1, 2, 1], [1, 0, 2, 1], [2, 1]], [2, 0, 1], [0, 2, 0])
    """

    sentences: list[list[int]]
    n: Ints
    lag: Ints

    def __repr__(self) -> str:
        return f"Generated({len(self.sentences)} sentences, V={len(self.n)})"

    @property
    def text(self) -> Sentences:
        """The sentences with the vocabulary 0, 1, 2, ... whether or not each token occurs."""
        words = [str(x) for x in range(len(self.n))]
        return Sentences.from_lists(self.sentences, words, max(map(len, self.sentences)))


@check_arguments
def generate(
    vocabulary: int = 20,
    *,
    permutation: str = "cycle",
    lag0: float = 0.5,
    max_lag: int = 3,
    max_length: int = 8,
    truncate: bool = False,
    assumption3: bool = True,
    multiplicity: int = 1,
    rng: int | np.random.Generator,
) -> Generated:
    """Draw a random realizable dataset with one chain for each first token.

    `permutation` is ``cycle`` (one of all tokens), ``derangement`` (no token follows itself) or ``uniform``.
    The lag of a query is 0 with probability `lag0`, otherwise uniform on 1..`max_lag`. Chains have at most
    `max_length` tokens; `truncate` cuts each at a uniform length; `assumption3` ends them before it breaks;
    each is given a uniform number of times in 1..`multiplicity`.

    >>> from hardmax.nexttoken import analyze, generate
    >>> made = generate(4, rng=1)
    >>> made.sentences
    [[0, 2, 1, 3, 3], [1, 3, 3], [2, 1, 3, 3], [3, 0, 2, 1, 3]]
    >>> analyze(made.text).realizable
    True
    """
    V = whole("vocabulary", vocabulary, least=1)
    if permutation not in PERMUTATIONS:
        raise ValueError(f"permutation must be one of {', '.join(PERMUTATIONS)}, got {permutation!r}")
    if permutation == "derangement" and V == 1:
        raise ValueError("permutation: a vocabulary of one token has no derangement; choose uniform")
    if not 0 <= lag0 <= 1:
        raise ValueError(f"lag0 must be a probability between 0 and 1, got {lag0}")
    whole("max_lag", max_lag, least=1)
    whole("max_length", max_length, least=2)
    whole("multiplicity", multiplicity, least=1)
    most = V * max_length * multiplicity
    if V > LARGEST_VOCABULARY or most > MOST_TOKENS:
        raise ValueError(
            f"vocabulary must be at most {LARGEST_VOCABULARY:,}, and times max_length and multiplicity at "
            f"most {MOST_TOKENS:,} tokens, got {V:,} and {most:,}; choose smaller ones"
        )
    draw = _source(rng)
    n = _permutation(V, permutation, draw)
    lag = np.array([0 if draw.random() < lag0 else draw.randint(1, max_lag) for _ in range(V)])
    following, optimal = n.tolist(), best_tokens(n, lag).tolist()
    sentences = []
    for start in range(V):
        sentence = chain(following, optimal, start, max_length, balanced=assumption3)
        if truncate:
            sentence = sentence[: draw.randint(2, len(sentence))]
        times = draw.randint(1, multiplicity) if multiplicity > 1 else 1
        sentences += [sentence] * times
    return Generated(sentences, n, lag)


@check_arguments
def generate_by_rejection(
    vocabulary: int, *, steps: int = 100, max_length: int = 8, rng: int | np.random.Generator
) -> list[list[int]]:
    """Draw a random legal dataset without chains and lags, to test C-THM-STRUCT.

    Over a random permutation n, `steps` times a random sentence is offered n(x) of one of its tokens; it
    takes it if no token becomes confused. Assumption 3 may fail.
    """
    draw = _source(rng)
    n = _permutation(whole("vocabulary", vocabulary, least=1), "uniform", draw).tolist()
    law = Legality({y: x for x, y in enumerate(n)})
    sentences = [[s, n[s]] for s in range(vocabulary)]
    for _ in range(whole("steps", steps)):
        sentence = draw.choice(sentences)
        target = n[draw.choice(sentence)]
        counts = {x: sentence.count(x) for x in sentence}
        if len(sentence) < max_length and law.join(counts, sentence[-1], target):
            sentence.append(target)
    return sentences


_NAMED = {
    "C-EX-1": ("SVOP", ["SVOP", "VOP", "OPP", "PSV"]),
    "C-CEX-P2": ("abyzq", ["aqq", "byzqy", "yz", "zq", "qa"]),
    "C-ERR-02": ("ABC", ["ABA", "BC", "CA"]),
    "C-ERR-06": ("abcd", ["abb", "ba", "cdd", "dc"]),
    "C-EXT-1": ("rpq", ["pqq", "rpqp", "qr"]),
    "C-EXT-2": ("bya", ["byayay", "ya", "ay"]),
    "C-EXT-3": ("hos", ["ho" + 20 * "sh" + "s", "oshs", "sh"]),
}


@check_arguments
def named_sentences(name: str) -> Sentences:
    """Return the raw sentences of an example: C-EX-1, C-CEX-P2, C-ERR-02, C-ERR-06, C-EXT-1 to 3, C-FIG-2.

    C-EX-1 is the paper's Example 1; C-FIG-2 the data of figure 2, `generate(rng=0)`. The others each
    break one assumption, except C-ERR-06, which is realizable.

    >>> from hardmax.nexttoken import named_sentences
    >>> named_sentences("C-ERR-02").words(0)
    ['A', 'B', 'A']
    """
    if name == "C-FIG-2":
        return generate(rng=0).text
    if name not in _NAMED:
        raise ValueError(f"name must be one of {', '.join([*_NAMED, 'C-FIG-2'])}, got {name!r}")
    vocabulary, raw = _NAMED[name]
    return Sentences.from_lists([list(sentence) for sentence in raw], list(vocabulary))


def _source(rng: int | np.random.Generator) -> random.Random:
    # The specification's seeds are those of Python's own generator, so that its tables can be compared.
    if isinstance(rng, np.random.Generator):
        return random.Random(int(rng.integers(2**63)))
    return random.Random(whole("rng", rng))


def _permutation(V: int, kind: str, draw: random.Random) -> Ints:
    while True:
        order = list(range(V))
        draw.shuffle(order)
        if kind != "derangement" or all(x != y for x, y in enumerate(order)):
            break
    n = np.array(order, dtype=np.int64)
    if kind == "cycle":
        n[order] = np.roll(order, -1)
    return n
