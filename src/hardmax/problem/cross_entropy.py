"""Cross-entropy of a next token (paper C, stage 2): logistic loss of the lead u of its output over the rest.

With the outputs z = sum_t s_t B[:, x_t] and the next token y, the cross-entropy is log(1 + e^-u), where

    u = z_y - log sum_{v != y} e^{z_v},    h_t = du/ds_t = B[y, x_t] - sum_{v != y} r_v B[v, x_t],

r the softmax of the outputs other than y. The scores h are returned as differences to the top token, each
summed before it is rounded. With B = margin W_ov* only the next tokens of an input's own tokens are looked
at, so the cost does not grow with the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardmax.problem.heads import Attention, Head
from hardmax.problem.losses import LOSSES, Loss
from hardmax.problem.output_value import OutputValue


@dataclass(frozen=True, eq=False)
class CrossEntropy(Head):
    """W_ov, the vocabulary's token of every row of the key table, and the next token of every input.

    >>> import numpy as np
    >>> from hardmax.nexttoken import Samples
    >>> problem = Samples.from_sentences(["a b b", "b a"]).problem(np.eye(2))
    >>> problem.head.vertex_predictions(problem.tokens, problem.offsets).tolist()
    [-1.0, -1.0, 1.0, -1.0]
    """

    W_ov: OutputValue
    words: np.ndarray  # (N,)
    targets: np.ndarray  # (n,)
    queries: np.ndarray | None = None  # (N,) where keys are one-hot pairs (token, query)
    loss: Loss = LOSSES["logistic"]

    @property
    def cross_entropy(self) -> CrossEntropy:
        """This one."""
        return self

    def attend(self, at: Attention) -> tuple[np.ndarray, np.ndarray]:
        """h - h_top of every slot, and u."""
        if at.slots is not None:  # tokens with one key may have several outputs: each has its share
            apart = Attention(
                at.tokens, self._own(at), at.slots.spread(at.shares), at.slots.leaders[at.tops]
            )  # fmt: skip
            h, u = self.attend(apart)
            return at.slots.merge(h), u
        from hardmax.problem.kernels import attend_aligned, attend_table

        h, u = np.empty(len(at.tokens)), np.empty(len(self.targets))
        layout = (at.offsets, at.shares, at.tops, self.targets)
        words = self.words[at.tokens]
        if self.W_ov.margin is None:
            attend_table(words, *layout, self._columns, h, u)
        else:
            attend_aligned(self.W_ov.collocation[words], *layout, self.W_ov.V, self.W_ov.margin, h, u)
        return h, u

    def _own(self, at: Attention) -> np.ndarray:
        """Offsets of the slots of the problem, from those of the merged ones."""
        assert at.slots is not None
        assert at.slots.group is not None
        row = np.repeat(np.arange(len(at.offsets) - 1), np.diff(at.offsets))[at.slots.group]
        return np.searchsorted(row, np.arange(len(at.offsets)))

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.W_ov.table.T)

    def marks(self, tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The number of the column of B: tokens with equal keys and columns are one token."""
        if self.W_ov.margin is not None:
            return self.W_ov.collocation[self.words[tokens]][:, None].astype(float)
        column = np.unique(self._columns, axis=0, return_inverse=True)[1].reshape(-1)
        return column[self.words[tokens]][:, None].astype(float)

    def arrays(self) -> dict[str, Any]:
        """W_ov, words and targets."""
        W_ov = self.W_ov
        kept = {"entries": W_ov.entries} if W_ov.margin is None else {"margin": np.array(W_ov.margin)}
        return (
            kept
            | {"collocation": W_ov.collocation, "words": self.words, "targets": self.targets}
            | ({} if self.queries is None else {"queries": self.queries})
        )
