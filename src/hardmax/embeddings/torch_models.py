"""The models of paper A as PyTorch modules (extra ``torch``), for autograd and for training by any optimiser.

A batch is a pair of arrays from `padded`: distinct tokens (B, U) and their counts, zero where there is none.
Modules return the predictions f; the loss is softplus(-y f).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from hardmax.data.corpora.corpus import Corpus


def padded(
    corpus: Corpus, rows: Sequence[int] | np.ndarray | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct tokens (B, U) and counts (B, U) of some sequences, or of all; empty places have the count 0.

    >>> import hardmax as hm
    >>> from hardmax.embeddings.torch_models import padded
    >>> tokens, counts = padded(hm.Corpus.from_sequences([[3], [0, 1, 1]], [1, -1]))
    >>> tokens.tolist(), counts.tolist()
    ([[3, 0], [0, 1]], [[1.0, 0.0], [1.0, 2.0]])
    """
    chosen = np.arange(corpus.n) if rows is None else np.asarray(rows, dtype=np.intp)
    first, sizes = corpus.offsets[chosen], np.diff(corpus.offsets)[chosen]
    places = np.arange(sizes.max())
    there = places < sizes[:, None]
    slots = np.where(there, first[:, None] + places, 0)
    tokens = np.where(there, corpus.tokens[slots], 0)
    return torch.from_numpy(tokens), torch.from_numpy(np.where(there, corpus.weights[slots], 0.0))


class OneLayer(nn.Module):  # type: ignore[misc]
    """softmax(p' E_X') E_X v (A-DEF-1): only E p and E v are formed, never a (B, U, d) array.

    >>> import torch, hardmax as hm
    >>> from hardmax.embeddings.torch_models import OneLayer, padded
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = OneLayer(torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0]))
    >>> model(*padded(corpus)).tolist()
    [0.5, -0.5]
    """

    def __init__(self, E: Any, p: Any, v: Any) -> None:
        super().__init__()
        self.E, self.p, self.v = _parameter(E), _parameter(p), _parameter(v)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Predictions f (B,)."""
        a, c = (self.E @ torch.stack([self.query(), self.v], dim=1)).unbind(dim=1)
        return _attend(a[tokens], c[tokens], counts)

    def query(self) -> torch.Tensor:
        """The vector that meets the embeddings in the softmax."""
        return self.p


class KeyQuery(OneLayer):
    """softmax(p' W E_X') E_X v (A-DEF-2).

    >>> import torch, hardmax as hm
    >>> from hardmax.embeddings.torch_models import KeyQuery, padded
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = KeyQuery(torch.eye(3), torch.ones(3), torch.zeros(3, 3), torch.tensor([1.0, 0.0, -1.0]))
    >>> model(*padded(corpus)).tolist()
    [0.5, -0.5]
    """

    def __init__(self, E: Any, p: Any, W: Any, v: Any) -> None:
        super().__init__(E, p, v)
        self.W = _parameter(W)

    def query(self) -> torch.Tensor:
        """u = W' p."""
        return self.W.T @ self.p


class TwoLayer(nn.Module):  # type: ignore[misc]
    """The two-layer model (36); with ``affine`` its LayerNorm learns a gain and a bias, as PyTorch's does.

    >>> import torch, hardmax as hm
    >>> from hardmax.embeddings.torch_models import TwoLayer, padded
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = TwoLayer(torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0]))
    >>> [round(f, 4) for f in model(*padded(corpus)).tolist()]
    [1.3147, -1.3147]
    """

    def __init__(self, E: Any, p: Any, v: Any, *, epsilon: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        self.E, self.p, self.v = _parameter(E), _parameter(p), _parameter(v)
        d = self.E.shape[1]
        self.norm = nn.LayerNorm(d, eps=epsilon, elementwise_affine=affine, dtype=self.E.dtype)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Predictions f (B,)."""
        rows = self.E[tokens]  # (B, U, d)
        logits = rows @ rows.transpose(1, 2) + counts.to(rows).log()[:, None, :]
        output = self.norm(rows + logits.softmax(dim=-1) @ rows)
        return _attend(output @ self.p, output @ self.v, counts)


def _parameter(x: Any) -> nn.Parameter:
    """A trainable copy; numpy arrays keep their precision."""
    return nn.Parameter(x.detach().clone() if isinstance(x, torch.Tensor) else torch.tensor(x))


def _attend(a: torch.Tensor, c: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Softmax over the tokens with their counts; the log of a zero count leaves a place out."""
    return ((a + counts.to(a).log()).softmax(dim=-1) * c).sum(dim=-1)
