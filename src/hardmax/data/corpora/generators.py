"""Synthetic corpora: Assumption 4 by construction (A-ALG-A4) and the K-level model (A-DATA-3, A-DATA-7)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax.data.corpora.corpus import Corpus

# Tokens per level and sign; the printed ones do not add up to the printed vocabulary of 2048 (A-ERR-1).
CORRECTED_SIZES = tuple(4 + 2**k for k in range(1, 9))
PRINTED_SIZES = tuple(4 + 2 ** (k - 1) for k in range(1, 9))
PAPER_DELTAS = tuple(Fraction(x, 100) for x in (45, 35, 30, 25, 20, 10, 5, 2))


@check_arguments
def assumption_4_corpus(
    n: int,
    T: int,
    *,
    important: tuple[int, int] | None = None,
    irrelevant: int | None = None,
    rng: int | np.random.Generator,
) -> Corpus:
    """Draw a random corpus that satisfies Assumption 4 and uses every token of its vocabulary.

    ``important`` are the numbers of completely positive and completely negative tokens (at most n/2 each,
    which is the default), ``irrelevant`` the number of the others (by default T, or fewer where they do not
    fit). Positive and negative sequences hold the same irrelevant tokens, shuffled.

    >>> import hardmax as hm
    >>> corpus = hm.embeddings.assumption_4_corpus(6, 4, important=(2, 3), irrelevant=5, rng=0)
    >>> hm.embeddings.assumption_4(corpus).holds, corpus.S, corpus.important.tolist()
    (True, 10, [0, 1, 2, 3, 4])
    """
    half, odd = divmod(expect.whole("n", n, 2), 2)
    if odd:
        raise ValueError(
            f"n must be even: Assumption 4 needs as many positive sequences as negative, got {n}"
        )
    places = half * (expect.whole("T", T, 1) - 1)
    stars = (half, half) if important is None else important
    if not isinstance(stars, (tuple, list)) or len(stars) != 2:
        raise ValueError(f"important must be two numbers, of positive and of negative tokens, got {stars!r}")
    P, N = (expect.whole("important", x, 1) for x in stars)
    R = min(T, places) if irrelevant is None else expect.whole("irrelevant", irrelevant, min(places, 1))
    if max(P, N) > half:
        raise ValueError(f"important must be at most n/2 = {half} for each sign, got {(P, N)}")
    if places < R:
        raise ValueError(f"irrelevant must be at most (n/2)(T-1) = {places}, got {R}")
    rng = expect.generator(rng)
    fill = _covering(R, places, rng)
    rows = [
        np.column_stack(
            [first + _covering(count, half, rng), P + N + rng.permutation(fill).reshape(half, T - 1)]
        )
        for first, count in ((0, P), (P, N))
    ]
    words = [f"{kind}{j}" for kind, count in (("+", P), ("-", N), ("j", R)) for j in range(count)]
    order = rng.permutation(n)
    labels = np.repeat([1, -1], half)
    return Corpus.from_sequences(np.vstack(rows)[order], labels[order], words)


def _covering(count: int, places: int, rng: np.random.Generator) -> np.ndarray:
    """``places`` tokens out of ``count``, each at least once, in random order."""
    more = rng.integers(count, size=places - count) if places > count else np.empty(0, dtype=np.intp)
    return rng.permutation(np.concatenate([np.arange(count), more]))


@dataclass(frozen=True)
class KLevel:
    """The K-level generative model, equations (33) to (35), in exact fractions; the paper's by default.

    ``sizes`` are the numbers of tokens per level and sign, ``irrelevant`` is the number of the others,
    ``delta_tilde`` the share of relevant tokens, and a token of level k has the posterior 1 - delta_k for its
    own sign. Tokens are numbered: irrelevant first, then the levels of sign +1, then those of sign -1.

    >>> from hardmax.embeddings import KLevel
    >>> model = KLevel()
    >>> model.S, model.N, str(model.own[0]), str(model.levels[-1])
    (2048, 542, '11/216800', '24/25')
    >>> corpus = model.draw(64, rng=0)
    >>> corpus.n, corpus.T, int(corpus.labels.sum())
    (64, 256, 0)
    """

    sizes: tuple[int, ...] = CORRECTED_SIZES
    irrelevant: int = 964
    delta_tilde: Fraction = Fraction(1, 20)
    deltas: tuple[Fraction, ...] = PAPER_DELTAS
    T: int = 256

    def __post_init__(self) -> None:
        for name, levels in [("sizes", self.sizes), ("deltas", self.deltas)]:
            if not isinstance(levels, (tuple, list)):
                raise ValueError(f"{name} must be a tuple, one number per level, got {levels!r}")
        if not self.sizes or len(self.sizes) != len(self.deltas):
            raise ValueError(f"deltas must be one per level, {len(self.sizes)}, got {len(self.deltas)}")
        sizes = [("sizes", size) for size in self.sizes]
        for name, x in [("irrelevant", self.irrelevant), ("T", self.T), *sizes]:
            expect.whole(name, x, 1)
        for name, delta in [("delta_tilde", self.delta_tilde), *(("deltas", x) for x in self.deltas)]:
            if not isinstance(delta, (int, Fraction)) or not 0 <= delta <= 1:
                raise ValueError(
                    f"{name} must be a Fraction from 0 to 1, such as Fraction('0.05'), got {delta!r}"
                )

    @classmethod
    def as_printed(cls) -> KLevel:
        """Make the paper's model with its printed sizes 4 + 2^(k-1), which give 1538 tokens (A-ERR-1).

        >>> from hardmax.embeddings import KLevel
        >>> KLevel.as_printed().S
        1538
        """
        return cls(sizes=PRINTED_SIZES)

    @classmethod
    def surrogate(cls) -> KLevel:
        """Make a small model that replaces real text (A-DATA-7), for n = 512 and d = 64.

        >>> from hardmax.embeddings import KLevel
        >>> KLevel.surrogate().S, KLevel.surrogate().T
        (192, 24)
        """
        deltas = tuple(Fraction(x, 100) for x in (35, 20, 10, 2))
        return cls((6, 8, 12, 20), 100, Fraction(3, 10), deltas, 24)

    # -- exact expectations -------------------------------------------------------------------------------

    @property
    def N(self) -> int:
        """Relevant tokens of one sign."""
        return sum(self.sizes)

    @property
    def S(self) -> int:
        """Size of the vocabulary."""
        return self.irrelevant + 2 * self.N

    @property
    def own(self) -> tuple[Fraction, ...]:
        """P(s | y) of a token of level k whose sign is y."""
        return tuple(self.delta_tilde * (1 - delta) / self.N for delta in self.deltas)

    @property
    def other(self) -> tuple[Fraction, ...]:
        """P(s | y) of a token of level k whose sign is -y; the paper prints another letter (A-ERR-2)."""
        return tuple(self.delta_tilde * delta / self.N for delta in self.deltas)

    @property
    def irrelevant_probability(self) -> Fraction:
        """P(s | y) of an irrelevant token."""
        return (1 - self.delta_tilde) / self.irrelevant

    @property
    def relevant_probability(self) -> Fraction:
        """P(s) of a relevant token under balanced labels, the same at every level."""
        return self.delta_tilde / (2 * self.N)

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """Expected posterior difference 1 - 2 delta_k of a positive token of level k."""
        return tuple(1 - 2 * delta for delta in self.deltas)

    @property
    def alphas(self) -> tuple[Fraction, ...]:
        """Expected alpha of a positive token of level k."""
        return tuple(self.relevant_probability * level for level in self.levels)

    @property
    def equal_frequency_delta_tilde(self) -> Fraction:
        """The delta_tilde that would make all tokens equally frequent, as the paper states (A-ERR-3)."""
        return Fraction(2 * self.N, self.S)

    # -- tokens -------------------------------------------------------------------------------------------

    @cached_property
    def level(self) -> np.ndarray:
        """Level 1..K of every token, 0 for an irrelevant one."""
        one_sign = np.repeat(np.arange(1, len(self.sizes) + 1), self.sizes)
        return np.concatenate([np.zeros(self.irrelevant, dtype=np.intp), one_sign, one_sign])

    @cached_property
    def sign(self) -> np.ndarray:
        """Sign of every token, 0 for an irrelevant one."""
        return np.repeat([0, 1, -1], [self.irrelevant, self.N, self.N])

    def probabilities(self, y: int) -> tuple[Fraction, ...]:
        """Return P(s | y) of every token.

        >>> from hardmax.embeddings import KLevel
        >>> str(sum(KLevel().probabilities(1)))
        '1'
        """
        if y not in (-1, 1):
            raise ValueError(f"y must be +1 or -1, got {y!r}")
        kinds = {0: (self.irrelevant_probability,) * len(self.sizes), y: self.own, -y: self.other}
        pairs = zip(self.sign.tolist(), self.level.tolist(), strict=True)
        return tuple(kinds[sign][level - 1] for sign, level in pairs)

    def draw(self, n: int = 4096, *, rng: int | np.random.Generator) -> Corpus:
        """Draw n sequences of T independent tokens, exactly n/2 of each label, in random order.

        >>> from hardmax.embeddings import KLevel
        >>> KLevel.surrogate().draw(512, rng=0).matrix.shape
        (512, 192)
        """
        half, odd = divmod(expect.whole("n", n, 2), 2)
        if odd:
            raise ValueError(f"n must be even, so that labels balance, got {n}")
        rng = expect.generator(rng)
        chances = [np.array([float(x) for x in self.probabilities(y)]) for y in (1, -1)]
        tokens = np.vstack([rng.choice(self.S, size=(half, self.T), p=p / p.sum()) for p in chances])
        order = rng.permutation(n)
        kinds = {0: "j", 1: "+", -1: "-"}
        levels, signs = self.level.tolist(), self.sign.tolist()
        words = [f"{kinds[signs[s]]}{levels[s] or ''}.{s}" for s in range(self.S)]
        return Corpus.from_sequences(tokens[order], np.repeat([1, -1], half)[order], words)
