"""AdamW and SGD with momentum, in the order of operations of torch.optim (A-TRAIN-1).

An optimiser turns the step number and the learning rate into a few scalars; the update itself is a compiled
loop in kernels.py over any stretch of parameters, so that p, v and the rows of E go through the same code.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class AdamW:
    """Decoupled weight decay, then a step along the corrected first moment over the root of the second.

    >>> from hardmax.embeddings.minibatch import AdamW
    >>> AdamW(weight_decay=0.1).scalars(step=1, rate=0.01).round(4).tolist()
    [0.999, 0.1, 0.999, 0.001, 0.1, 31.6228, 0.0]
    """

    weight_decay: float = 1e-2
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    name = "adamw"
    adaptive = True

    def scalars(self, step: int, rate: float) -> np.ndarray:
        """What the loop needs at step 1, 2, ...: decay, weights of the moments, step size, 1/root, eps."""
        first, second = 1.0 - self.beta1**step, 1.0 - self.beta2**step
        keep = 1.0 - rate * self.weight_decay
        weights = [1.0 - self.beta1, self.beta2, 1.0 - self.beta2]
        return np.array([keep, *weights, rate / first, 1.0 / math.sqrt(second), self.eps])

    def settings(self) -> dict[str, Any]:
        """Name and constants, as a checkpoint keeps them."""
        return {"optimiser": self.name, **asdict(self)}


@dataclass(frozen=True)
class SGD:
    """Weight decay added to the gradient, then a heavy ball; momentum 0 is plain gradient descent.

    >>> from hardmax.embeddings.minibatch import SGD
    >>> SGD(weight_decay=0.1, momentum=0.9).scalars(step=1, rate=0.5).tolist()
    [0.1, 0.9, 0.5]
    """

    weight_decay: float = 0.0
    momentum: float = 0.0
    name = "sgd"
    adaptive = False

    def scalars(self, step: int, rate: float) -> np.ndarray:
        """What the loop needs: decay, momentum, rate; the same at every step."""
        return np.array([self.weight_decay, self.momentum, rate])

    def settings(self) -> dict[str, Any]:
        """Name and constants, as a checkpoint keeps them."""
        return {"optimiser": self.name, **asdict(self)}
