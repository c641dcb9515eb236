"""The direction of the stage-2 gradient and steps along it: edge fluxes where they are exact, else signs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.nexttoken.edges import Edges, Scratch, descend_edges, edges_of, fill_log_fluxes, gather
from hardmax.nexttoken.pairs import Floats, Pairs
from hardmax.nexttoken.signed import Columns, Room, Sentences, descend_signed, signed_gradient
from hardmax.problem.output_value import OutputValue


@dataclass(frozen=True, eq=False)
class PairGradient:
    """The gradient (6) in the pairs: a unit vector, the log of the norm, and the method that gave it.

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.direction import StageTwo
    >>> from hardmax.nexttoken.pairs import Pairs
    >>> from hardmax.nexttoken.stage1 import stage_1
    >>> pairs = Pairs.of(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]))
    >>> stage = StageTwo(pairs, stage_1(pairs.collocation, 20, 0.1))
    >>> found = stage.direction(np.zeros(pairs.P))
    >>> found.method, round(float(np.exp(found.log_norm)), 9)
    ('structured', 0.11042311)
    """

    unit: Floats
    log_norm: float
    method: str

    @property
    def gradient(self) -> Floats:
        """The gradient itself, which underflows where the norm does."""
        return self.unit * math.exp(self.log_norm)


class StationaryPoint(ValueError):
    """The gradient is exactly zero, so it has no direction."""


class StageTwo:
    """Stage 2 on one dataset with one W_ov: the gradient at any point, and normalised steps from it.

    The edge form is tried first. It does not apply if W_ov is no multiple of W_ov*, if a sentence has no
    token with n(x) = next token, or several, or where a flux changes sign (Assumption 3 violated).

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.direction import StageTwo
    >>> from hardmax.nexttoken.pairs import Pairs
    >>> from hardmax.nexttoken.stage1 import stage_1
    >>> pairs = Pairs.of(Samples.from_sentences(["a b b", "b a"]))
    >>> a = np.zeros(pairs.P)
    >>> StageTwo(pairs, stage_1(pairs.collocation, 10, 0.1)).descend(a, rate=1.0, steps=2)
    0
    >>> a.round(6).tolist()
    [1.414214, -1.414214]
    """

    def __init__(self, pairs: Pairs, W_ov: OutputValue) -> None:
        if W_ov.V != pairs.samples.V:
            raise ValueError(f"W_ov must have {pairs.samples.V} tokens as the samples, got {W_ov.V}")
        if not pairs.n:
            raise ValueError(
                "samples: they teach attention nothing: no sentence has two distinct tokens before its next "
                "one, so the stage-2 gradient is 0; give longer ones, or train W_ov alone (--steps 0)"
            )
        if not W_ov.norm > 0.0:
            raise ValueError("W_ov is 0 and so is the stage-2 gradient; train stage 1 for one step or more")
        self.pairs, self.W_ov = pairs, W_ov
        self._G = np.empty(pairs.P)

    @cached_property
    def edges(self) -> Edges | None:
        """The edges of the structured form; None if it does not apply to this dataset and W_ov."""
        return edges_of(self.pairs) if self.W_ov.margin is not None else None

    @cached_property
    def _room(self) -> Scratch:
        assert self.edges is not None
        return Scratch.of(self.edges)

    @cached_property
    def _signed(self) -> tuple[Sentences, Columns, Room]:
        sentences = Sentences.of(self.pairs)
        return sentences, Columns.of(self.W_ov), Room.of(sentences, self.W_ov.V)

    def direction(self, a: Floats, *, method: str | None = None) -> PairGradient:
        """The gradient at the pairs' values a; ``method`` "structured" or "signed" insists on one form."""
        if method not in (None, "structured", "signed"):
            raise ValueError(f'method must be "structured", "signed" or None, got {method!r}')
        a = np.ascontiguousarray(a, dtype=np.float64)
        G = np.empty(self.pairs.P)
        margin = self.W_ov.margin
        applies = method != "signed" and self.edges is not None and margin is not None
        if applies and fill_log_fluxes(self.edges, a, margin, self._room):
            assert margin is not None
            log_scale, length = gather(self.edges, self._room.log_flux, G)
            return _finish(G, log_scale + math.log(margin) - margin, length, "structured")
        if method == "structured":
            raise ValueError('method: the structured form is not exact here; use "signed" or leave it out')
        sentences, columns, room = self._signed
        log_scale, length = signed_gradient(sentences, columns, a, room, G)
        return _finish(G, log_scale, length, "signed")

    def gradient(self, a: Floats) -> Floats:
        """The gradient as plain numbers; zero where it is."""
        try:
            return self.direction(a).gradient
        except StationaryPoint:
            return np.zeros(self.pairs.P)

    def descend(self, a: Floats, rate: float, steps: int) -> int:
        """Take normalised steps in place, switching form by itself; return how many of them were signed.

        The form depends on the point alone, so a run in pieces gives the same bits as one in one go.
        """
        left, signed, margin = steps, 0, self.W_ov.margin
        while left:
            if self.edges is not None and margin is not None:
                left -= descend_edges(self.edges, a, margin, rate, left, self._room, self._G)
            if left:
                wanted = left if self.edges is None else 1
                sentences, columns, room = self._signed
                taken = descend_signed(sentences, columns, a, rate, wanted, room, self._G)
                left, signed = left - taken, signed + taken
                if taken < wanted:
                    raise StationaryPoint(
                        f"samples: the stage-2 gradient is exactly 0 after {steps - left} steps: the "
                        "sentences' pulls cancel, so there is no direction to take"
                    )
        return signed


def _finish(G: Floats, log_scale: float, length: float, method: str) -> PairGradient:
    if not length > 0.0:
        raise StationaryPoint("samples: the stage-2 gradient is exactly 0 here, so it has no direction")
    return PairGradient(G / length, log_scale + math.log(length), method)
