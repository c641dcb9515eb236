"""The learning rate: multiplied by 0.1 at each milestone, as torch's MultiStepLR does (A-TRAIN-1)."""

from __future__ import annotations

from collections.abc import Sequence

FACTOR = 0.1


def rate_at(rate: float, milestones: Sequence[int], epoch: int) -> float:
    """Learning rate of an epoch, counted from 0; a milestone m acts from the epoch m on.

    >>> from hardmax.embeddings.trainer import rate_at
    >>> [round(rate_at(0.01, (100, 200), epoch), 6) for epoch in (99, 100, 200)]
    [0.01, 0.001, 0.0001]
    """
    for milestone in milestones:
        if epoch >= milestone:
            rate *= FACTOR
    return rate
