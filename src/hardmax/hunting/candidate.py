"""Candidate: data that a claim may fail on, with what the claim is told about it; it moves and shrinks.

A candidate is data alone: lists and arrays that a move can change, not the subject made of them. Problems,
corpora and sentences share the protocol below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self

import numpy as np

Size = tuple[int, int, int]
Ranges = Mapping[str, tuple[int, int]]  # of n, T and d, or of what another kind counts


class Candidate(Protocol):
    """What the search, the shrinker and the answer need of a kind of data."""

    @property
    def options(self) -> dict[str, Any]:
        """What the claim is told besides the data."""

    @property
    def size(self) -> Size:
        """Inputs, tokens of all inputs, dimensions (or words)."""

    @property
    def cost(self) -> float:
        """How much there is to write down: the shrinker makes it fall."""

    def subject(self) -> Any:
        """What the claim is about: a problem, a corpus or sentences."""

    def moved(self, rng: np.random.Generator, ranges: Ranges) -> Self:
        """A neighbour by one discrete move: copy, tie, drop, negate, round."""

    def shrunk(self, ranges: Ranges) -> Iterator[Self]:
        """Simpler ones, the most drastic first."""

    def shuffled(self, rng: np.random.Generator) -> Self:
        """The same in another order of inputs, tokens and coordinates: what is true stays true."""

    def vector(self) -> np.ndarray:
        """Its continuous numbers; empty where there are none."""

    def at(self, vector: np.ndarray) -> Self:
        """The same with other continuous numbers."""

    def told(self, options: dict[str, Any]) -> Self:
        """The same with other options."""

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON can hold it; ``kind`` says which one it is."""
