"""Whether Assumption 4 of paper A holds for a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hardmax._lib.arguments import check_arguments

if TYPE_CHECKING:
    from hardmax.data.corpora.corpus import Corpus


@dataclass(frozen=True)
class Assumption4Witness:
    """Why Assumption 4 fails: a sequence, its tokens that violate the assumption, and how.

    ``reason`` is "length" (sequences of different lengths), "none" (no completely positive or negative
    token), "several" (two of them), "repeated" (one, more than once) or "relevant" (a token with alpha != 0
    next to it).

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences(["good film film", "bad bad film"], [1, -1])
    >>> witness = hm.embeddings.assumption_4(corpus).witness
    >>> witness.reason, witness.sequence, witness.tokens
    ('relevant', 0, (1,))
    """

    reason: str
    sequence: int
    tokens: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Assumption4:
    """Whether Assumption 4 holds: if so with s*_X of every sequence in ``important``, else with a witness.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences(["good film", "bad film"], [1, -1])
    >>> assumption = hm.embeddings.assumption_4(corpus)
    >>> assumption.holds, assumption.important.tolist(), corpus.important.tolist()
    (True, [0, 2], [0, 2])
    """

    important: np.ndarray | None  # (n,) the token s*_X of every sequence
    witness: Assumption4Witness | None

    @property
    def holds(self) -> bool:
        """Whether every sequence satisfies Assumption 4."""
        return self.witness is None


@check_arguments
def assumption_4(corpus: Corpus) -> Assumption4:
    """Test Assumption 4 on integer counts: "single" means one occurrence of one token.

    >>> import hardmax as hm
    >>> corpus = hm.Corpus.from_sequences(["a b b", "c b b", "a c b"], [1, -1, 1])
    >>> str(hm.embeddings.assumption_4(corpus).witness)
    "sequence 0: 'b' is neither irrelevant nor in sequences of one label only (signed count 1 of 5)"
    """
    T = corpus.lengths
    if T.min() != T.max():
        k = int(np.argmax(T[0] != T))
        text = f"sequence {k} has {T[k]} tokens and sequence 0 has {T[0]}"
        return Assumption4(None, Assumption4Witness("length", k, (), text))
    decided = np.zeros(corpus.S, dtype=bool)
    decided[corpus.completely_positive] = decided[corpus.completely_negative] = True
    relevant = (corpus.signed != 0) & ~decided
    # One pass over the slots; the first sequence that violates the assumption gives the witness.
    stars, others = (
        np.add.reduceat(x[corpus.tokens] * corpus.counts, corpus.offsets[:-1]) for x in (decided, relevant)
    )
    violations = np.flatnonzero((stars != 1) | (others != 0))
    if violations.size:
        return Assumption4(None, _witness(corpus, int(violations[0]), decided, relevant))
    return Assumption4(corpus.tokens[decided[corpus.tokens]], None)


def _witness(corpus: Corpus, k: int, decided: np.ndarray, relevant: np.ndarray) -> Assumption4Witness:
    slots = slice(corpus.offsets[k], corpus.offsets[k + 1])
    tokens, counts = corpus.tokens[slots], corpus.counts[slots]
    mixed = tokens[relevant[tokens]]
    if mixed.size:
        s = int(mixed[0])
        signed, total = corpus.signed[s], corpus.total[s]
        share = f"signed count {signed} of {total}"
        text = f"{corpus.word(s)!r} is neither irrelevant nor in sequences of one label only ({share})"
        return Assumption4Witness("relevant", k, (s,), f"sequence {k}: {text}")
    stars = tokens[decided[tokens]]
    names = " and ".join(repr(corpus.word(s)) for s in stars.tolist())
    if len(stars) == 0:
        reason, text = "none", "no token occurs in sequences of one label only"
    elif len(stars) > 1:
        reason, text = "several", f"{names} occur in sequences of one label only, where one may"
    else:
        times = int(counts[tokens == stars[0]][0])
        reason, text = "repeated", f"{names} occurs {times} times, where it may once"
    return Assumption4Witness(reason, k, tuple(stars.tolist()), f"sequence {k}: {text}")
