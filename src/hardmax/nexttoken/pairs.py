"""The (token, query) pairs that stage 2 can move, and the sentences as lists of them.

G[x, q] is zero unless x and q occur together in a sentence with query q and another token next to x
(C-DEF-INDEX), so W_kq is stored as one number per such pair: nothing here grows with |V|^2 or d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardmax._lib import archive
from hardmax.data.sentences.samples import Samples
from hardmax.nexttoken.relations import collocation

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs (``token[p]``, ``query[p]``), sorted by query, and the sentences with two tokens or more.

    Sentence k holds the entries ``offsets[k]:offsets[k+1]``: pair ``pair[e]`` with multiplicity ``count[e]``,
    those with n(x) = next token first, then by n(x). ``sample`` is its number among the merged ``samples``.
    """

    samples: Samples
    collocation: Ints
    token: Ints
    query: Ints
    sample: Ints
    offsets: Ints
    pair: Ints
    count: Floats
    log_weight: Floats
    target: Ints

    @classmethod
    def of(cls, samples: Samples, n: Ints | None = None) -> Pairs:
        """Merge equal sentences, drop the constant ones, and number the others.

        `n` replaces the collocation of the data, for example by a completed one.
        """
        _need_samples(samples)
        n = collocation(samples) if n is None else n
        if np.shape(n) != (samples.V,):
            raise ValueError(f"n must be {samples.V} tokens, one per word, got shape {np.shape(n)}")
        samples = samples.merged()
        sizes = np.diff(samples.offsets)
        sample = np.flatnonzero(sizes > 1)
        sample = sample[np.argsort(samples.query[sample], kind="stable")]
        size = sizes[sample]
        offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        row = np.repeat(np.arange(len(sample)), size)
        entry = np.arange(offsets[-1]) - offsets[row] + samples.offsets[sample][row]
        output = n[samples.tokens[entry]]
        is_wrong = output != samples.target[sample][row]
        order = np.lexsort((samples.tokens[entry], output, is_wrong, row))
        entry = entry[order]
        key = samples.query[sample][row] * samples.V + samples.tokens[entry]
        keys, pair = np.unique(key, return_inverse=True)
        return cls(
            samples,
            n,
            keys % samples.V,
            keys // samples.V,
            sample,
            offsets,
            pair.astype(np.int64),
            samples.counts[entry].astype(np.float64),
            np.log(samples.weight[sample]),
            samples.target[sample],
        )

    @property
    def P(self) -> int:
        """The number of pairs."""
        return len(self.token)

    @property
    def n(self) -> int:
        """The number of merged sentences with two tokens or more."""
        return len(self.sample)

    @cached_property
    def row(self) -> Ints:
        """The sentence of every entry."""
        return np.repeat(np.arange(self.n), np.diff(self.offsets))

    @cached_property
    def is_optimal(self) -> NDArray[np.bool_]:
        """Whether an entry's token is continued by the sentence's next token."""
        return self.collocation[self.token[self.pair]] == self.target[self.row]

    @cached_property
    def is_reachable(self) -> bool:
        """Every token of these sentences has an n(x), and each sentence a token with n(x) = next token."""
        has_next = self.collocation[self.token] >= 0
        return bool(has_next.all() and self.is_optimal[self.offsets[:-1]].all())

    @cached_property
    def position(self) -> dict[tuple[int, int], int]:
        """Number of the pair (token, query)."""
        return {pair: p for p, pair in enumerate(zip(self.token.tolist(), self.query.tolist(), strict=True))}

    @property
    def digest(self) -> str:
        """A digest of all that stage 2 sees of the dataset."""
        return archive.digest(
            "\n".join(self.samples.vocabulary),
            self.collocation,
            self.token,
            self.query,
            self.offsets,
            self.pair,
            self.count,
            self.target,
            self.log_weight,
            self.samples.weight,
        )

    def table(self, values: Floats) -> Floats:
        """Values of the pairs as the V x V table A[x, q]."""
        A = np.zeros((self.samples.V, self.samples.V))
        A[self.token, self.query] = values
        return A

    def values(self, table: Floats) -> Floats:
        """The pairs' entries of a V x V table A[x, q]."""
        return np.ascontiguousarray(np.asarray(table, dtype=np.float64)[self.token, self.query])


@lru_cache(maxsize=4)
def pairs_of(samples: Samples) -> Pairs:
    """Return the pairs of a dataset, cached for the next gradient on the same samples."""
    return Pairs.of(samples)


def _need_samples(samples: Any) -> None:
    if not isinstance(samples, Samples):
        kind = type(samples).__name__
        raise ValueError(f"samples must be Samples, got {kind}; make them with Samples.from_sentences")
