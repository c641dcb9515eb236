"""How far a model was trained, and on what: what is needed to go on with it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

import numpy as np

from hardmax.nexttoken.pairs import Pairs
from hardmax.nexttoken.training import Training


@dataclass(frozen=True)
class Reached:
    """``steps`` of stage 2 with the step ``rate``, ``signed_steps`` of them signed; W_ov = ``margin`` W_ov*.

    ``data`` is a digest of the samples, their frequencies and the collocation.

    >>> from hardmax.nexttoken import Samples, train
    >>> from hardmax.nexttoken.reached import Reached
    >>> samples = Samples.from_sentences(["a b b", "b a"])
    >>> half = Reached.by(train(samples, steps=450))
    >>> half.steps, half.differs_from(Reached.by(train(samples, steps=900)))
    (450, [])
    >>> half.differs_from(Reached.by(train(samples, rate=0.1)))
    ['the step of stage 2']
    """

    steps: int
    signed_steps: int
    rate: float
    margin: float | None
    data: str

    @classmethod
    def by(cls, run: Training, *, before: int = 0) -> Reached:
        """What a run reached; ``before`` signed steps were taken before it."""
        return cls(run.steps, before + run.signed_steps, run.rate, run.W_ov.margin, digest(run.pairs))

    def differs_from(self, other: Reached) -> list[str]:
        """What the two do not share, in words; nothing if one may go on where the other stopped."""
        mine, theirs = asdict(self), asdict(other)
        return [words for name, words in _SHARED.items() if mine[name] != theirs[name]]


_SHARED = {"data": "the sentences", "margin": "stage 1", "rate": "the step of stage 2"}


def digest(pairs: Pairs) -> str:
    """A digest of all that stage 2 sees of a dataset.

    >>> from hardmax.nexttoken import Pairs, Samples
    >>> from hardmax.nexttoken.reached import digest
    >>> once, twice = (Pairs.of(Samples.from_sentences(raw)) for raw in (["a b b"], ["a b b", "a b b"]))
    >>> digest(once) == digest(twice)
    True
    """
    seen = hashlib.sha256("\n".join(pairs.samples.vocabulary).encode())
    for column in (
        pairs.collocation, pairs.token, pairs.query, pairs.offsets, pairs.pair, pairs.count, pairs.target,
        pairs.log_weight, pairs.samples.weight,
    ):  # fmt: skip
        seen.update(np.ascontiguousarray(column).tobytes())
    return seen.hexdigest()
