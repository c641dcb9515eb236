"""Stage 2 in the pairs of a dataset: the gradient, and steps along it, of the problem that it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.nexttoken.pairs import Floats, Pairs
from hardmax.problem.output_value import OutputValue
from hardmax.train.edges.steps import EdgeSteps


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
        """The gradient itself, which underflows where the norm does; zero at a stationary point."""
        return self.unit * math.exp(self.log_norm)


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
    (2, 0)
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
        self.problem = pairs.samples.problem(W_ov)
        if (self.problem.log_weights[pairs.sample] != pairs.log_weight).any():
            # A frequency of e^-100,000,000 (C-ERR-06) is no float; its logarithm takes its place.
            log_weights = self.problem.log_weights.copy()
            log_weights[pairs.sample] = pairs.log_weight
            vars(self.problem)["log_weights"] = log_weights
        self._p = np.zeros(self.problem.d)  # the pairs' values, then those that nothing moves

    @cached_property
    def steps(self) -> EdgeSteps:
        """Gradients and steps of the problem."""
        return EdgeSteps(self.problem)

    def direction(self, a: Floats, *, method: str | None = None) -> PairGradient:
        """The gradient at the pairs' values a; ``method`` "structured" or "signed" insists on one form."""
        if method not in (None, "structured", "signed"):
            raise ValueError(f'method must be "structured", "signed" or None, got {method!r}')
        p = np.zeros(self.problem.d)
        p[: self.pairs.P] = a
        found = None if method == "signed" else self.steps.along_edges(p)
        if method == "structured" and found is None:
            raise ValueError('method: the structured form is not exact here; use "signed" or leave it out')
        name = "signed" if found is None else "structured"
        found = self.steps.plain(p) if found is None else found
        return PairGradient(-found.direction[: self.pairs.P], found.log_norm, name)

    def gradient(self, a: Floats) -> Floats:
        """The gradient as plain numbers; zero where it is."""
        return self.direction(a).gradient

    def descend(self, a: Floats, rate: float, steps: int) -> tuple[int, int]:
        """Take normalised steps in place, switching form by itself: how many, and how many of them signed.

        They are fewer than asked for at a gradient of exactly zero only.
        """
        self._p[: self.pairs.P] = a
        taken, signed = self.steps.descend(self._p, rate, steps)
        a[:] = self._p[: self.pairs.P]
        return taken, signed
