"""The models of paper A as PyTorch modules, for autograd and for training by any optimiser.

A batch is a pair of arrays from `padded`: distinct tokens (B, U) and their counts, zero where there is none.
Modules return the predictions f; `loss` takes a corpus and is the mean of softplus(-y f).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from hardmax.data.corpora.corpus import Corpus
from hardmax.data.sentences.samples import Samples
from hardmax.torch.zero_sum import softmax


def padded(
    data: Corpus | Samples, rows: Sequence[int] | np.ndarray | None = None
) -> tuple[torch.Tensor, ...]:
    """Distinct tokens (B, U) and counts (B, U) of some sequences, or of all; empty places have the count 0.

    Of `Samples` a third array has the last token of each sentence, the query.

    >>> import hardmax as hm
    >>> tokens, counts = hm.torch.padded(hm.Corpus.from_sequences([[3], [0, 1, 1]], [1, -1]))
    >>> tokens.tolist(), counts.tolist()
    ([[3, 0], [0, 1]], [[1.0, 0.0], [1.0, 2.0]])
    """
    chosen = np.arange(data.n) if rows is None else np.asarray(rows, dtype=np.intp)
    first, sizes = data.offsets[chosen], np.diff(data.offsets)[chosen]
    places = np.arange(sizes.max())
    there = places < sizes[:, None]
    slots = np.where(there, first[:, None] + places, 0)
    tokens = torch.from_numpy(np.where(there, data.tokens[slots], 0))
    times = data.counts if isinstance(data, Samples) else data.weights
    counts = torch.from_numpy(np.where(there, times[slots], 0.0))
    if isinstance(data, Samples):
        return tokens, counts, torch.tensor(data.query[chosen])
    return tokens, counts


class _OfCorpus(nn.Module):  # type: ignore[misc]
    """What the three models share."""

    def loss(self, corpus: Corpus) -> torch.Tensor:
        """The mean logistic loss over all sequences."""
        predictions = self(*padded(corpus))
        return nn.functional.softplus(-torch.tensor(corpus.signs).to(predictions) * predictions).mean()


class OneLayer(_OfCorpus):
    """softmax(p' E_X') E_X v (A-DEF-1): only E p and E v are formed, never a (B, U, d) array.

    >>> import torch, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = hm.torch.OneLayer(torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0]))
    >>> model(*hm.torch.padded(corpus)).tolist()
    [0.5, -0.5]
    """

    def __init__(self, E: Any, p: Any, v: Any) -> None:
        super().__init__()
        self.E, self.p, self.v = as_parameter(E), as_parameter(p), as_parameter(v)

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
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = hm.torch.KeyQuery(torch.eye(3), torch.ones(3), torch.zeros(3, 3), [1.0, 0.0, -1.0])
    >>> model(*hm.torch.padded(corpus)).tolist()
    [0.5, -0.5]
    """

    def __init__(self, E: Any, p: Any, W: Any, v: Any) -> None:
        super().__init__(E, p, v)
        self.W = as_parameter(W)

    def query(self) -> torch.Tensor:
        """u = W' p."""
        return self.W.T @ self.p


class TwoLayer(_OfCorpus):
    """The two-layer model (36); with ``affine`` its LayerNorm learns a gain and a bias, as PyTorch's does.

    >>> import torch, hardmax as hm
    >>> corpus = hm.Corpus.from_sequences([[0, 1], [1, 2]], [1, -1])
    >>> model = hm.torch.TwoLayer(torch.eye(3), torch.zeros(3), torch.tensor([1.0, 0.0, -1.0]))
    >>> [round(f, 4) for f in model(*hm.torch.padded(corpus)).tolist()]
    [1.3147, -1.3147]
    """

    def __init__(self, E: Any, p: Any, v: Any, *, epsilon: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        self.E, self.p, self.v = as_parameter(E), as_parameter(p), as_parameter(v)
        d = self.E.shape[1]
        self.norm = nn.LayerNorm(d, eps=epsilon, elementwise_affine=affine, dtype=self.E.dtype)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Predictions f (B,)."""
        output = self.outputs(tokens, counts)
        return _attend(output @ self.p, output @ self.v, counts)

    def outputs(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """E', what the first layer makes of the tokens, (B, U, d)."""
        rows = self.E[tokens]
        weights = softmax(rows @ rows.transpose(1, 2), bias=counts.to(rows).log()[:, None, :])
        return self.norm(rows + weights @ rows)


def as_parameter(x: Any) -> nn.Parameter:
    """A trainable copy; numpy arrays keep their precision."""
    return nn.Parameter(x.detach().clone() if isinstance(x, torch.Tensor) else torch.tensor(x))


def _attend(a: torch.Tensor, c: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Softmax over the tokens with their counts; the log of a zero count leaves a place out."""
    return (softmax(a, bias=counts.to(a).log()) * c).sum(dim=-1)
