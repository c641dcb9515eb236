"""The models of paper C as `hm.train` and `hm.flow` take them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardmax.data.sentences.samples import Samples
from hardmax.dynamics.models import Model
from hardmax.dynamics.optim import Normalized, Optimizer
from hardmax.dynamics.optim.base import need_optimizer
from hardmax.nexttoken.flow import train_by_flow
from hardmax.nexttoken.pairs import Pairs
from hardmax.nexttoken.stages import descend_stage_1
from hardmax.nexttoken.training import FIRST_RATE, RATE, Training, train
from hardmax.nexttoken.unmerged import Unmerged, train_jointly, train_unmerged

BLOCKS = ("W_ov", "W_kq")


@dataclass(frozen=True, eq=False)
class NextTokenModel(Model):
    """Output-value matrix W_ov and key-query matrix W_kq of one layer; `Samples.model` makes it.

    W_ov is trained first and then W_kq, by normalized gradient descent (Algorithm 1 of paper C); or both
    together (``joint``), or the four factors of ``weights`` together, by any optimizer.

    >>> import hardmax as hm
    >>> samples = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> samples.model()
    NextTokenModel(n=9, V=4, blocks=('W_ov', 'W_kq'))
    >>> run = hm.train(samples.model(), hm.optim.Normalized(lr=0.1), steps=1000)
    >>> run.predictor.predict("O S P").next(1)[0][0]
    'P'
    """

    samples: Samples
    blocks: tuple[str, ...] = BLOCKS
    joint: bool = False
    E: Any = None
    weights: Unmerged | None = None

    def __post_init__(self) -> None:
        if self.blocks not in (BLOCKS, BLOCKS[:1]):
            raise ValueError(f'blocks must be ("W_ov", "W_kq") or ("W_ov",), got {self.blocks!r}')
        if self.E is not None and not self.joint:
            raise ValueError("E requires joint=True; without it the embedding is orthonormal")

    def __repr__(self) -> str:
        how = ", joint=True" if self.joint else ""
        return f"NextTokenModel(n={self.samples.n}, V={self.samples.V}, blocks={self.blocks}{how})"

    @property
    def optimizers(self) -> dict[str, Normalized]:
        """The optimizers of the paper's experiment, their learning rates scaled to the vocabulary.

        >>> import hardmax as hm
        >>> samples = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
        >>> samples.model().optimizers["W_kq"].constant_rate
        0.025
        """
        root = math.sqrt(self.samples.V)
        return {"W_ov": Normalized(FIRST_RATE / root), "W_kq": Normalized(RATE / root)}

    def _train(self, optimizer: Any, *, steps: int = 900, output_steps: int = 900, **options: Any) -> Any:
        """Train; ``output_steps`` of W_ov come before the ``steps`` of W_kq."""
        if self.blocks == BLOCKS[:1]:
            return descend_stage_1(Pairs.of(self.samples).collocation, steps, self._one(optimizer), **options)
        if self.weights is not None:
            return train_unmerged(self.weights, steps, self._one(optimizer), **options)
        if self.joint:
            return train_jointly(self.samples, steps, self._one(optimizer), E=self.E, **options)
        rates = self._rates(optimizer)
        return train(
            self.samples,
            steps=steps,
            stage1=output_steps,
            rate=rates["W_kq"],
            first_rate=rates["W_ov"],
            **options,
        )

    def _flow(  # type: ignore[override]
        self, *, until: float, optimizer: Any = None, output_steps: int = 900, **options: Any
    ) -> Training:
        """Follow the flow of W_kq to the time ``until``, counted in steps of the optimizer of W_kq."""
        if self.joint or self.weights is not None or self.blocks != BLOCKS:
            raise TypeError(
                "hm.flow follows W_kq after W_ov is trained; take samples.model() without options"
            )
        rates = self._rates(self.optimizers if optimizer is None else optimizer)
        return train_by_flow(
            self.samples, until, stage1=output_steps, rate=rates["W_kq"], first_rate=rates["W_ov"], **options
        )

    def _rates(self, optimizer: Any) -> dict[str, float]:
        each = optimizer if isinstance(optimizer, Mapping) else dict.fromkeys(BLOCKS, optimizer)
        if set(each) != set(BLOCKS):
            raise ValueError(f"optimizer must have the blocks {BLOCKS}, got {tuple(each)}")
        for name, one in each.items():
            if not isinstance(one, Normalized) or one.norm != "l2" or math.isnan(one.constant_rate):
                raise TypeError(
                    f"optimizer of {name} must be Normalized with one learning rate, got {one!r}; W_ov is "
                    "known in closed form for no other: take samples.model(joint=True)"
                )
        return {name: one.constant_rate for name, one in each.items()}

    def _one(self, optimizer: Any) -> Optimizer:
        """The optimizer of all blocks together."""
        each = optimizer if isinstance(optimizer, Mapping) else {"all": optimizer}
        first = need_optimizer(next(iter(each.values()), None))
        if any(other != first for other in each.values()):
            raise ValueError(f"optimizer must be one where blocks move together, got {dict(each)}")
        return first
