"""Paper C's model as a PyTorch module, in token-index space (C-DEF-INDEX)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hardmax.data.sentences.samples import Samples
from hardmax.torch.embedding_models import as_parameter, padded
from hardmax.torch.zero_sum import softmax


class NextToken(nn.Module):  # type: ignore[misc]
    """W_ov X' softmax(X W_kq q), the logits of the next token, with q the last one (C-DEF-MODEL).

    Args:
        W_kq: A[x, q] = x' W_kq q over the vocabulary, (V, V).
        W_ov: B[v, x] = (W_ov x)_v, (V, V).

    >>> import torch, hardmax as hm
    >>> samples = hm.nexttoken.Samples.from_sentences(["a b b", "b a"])
    >>> model = hm.torch.NextToken(torch.zeros(2, 2), 1.5 * torch.tensor([[-1.0, 1.0], [1.0, -1.0]]))
    >>> round(model.loss(samples).item(), 6)
    0.263441
    """

    def __init__(self, W_kq: Any, W_ov: Any) -> None:
        super().__init__()
        self.W_kq, self.W_ov = as_parameter(W_kq), as_parameter(W_ov)

    def forward(self, tokens: torch.Tensor, counts: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """Logits (n, V) of distinct tokens (n, U), their counts, zero where none is, and last tokens."""
        masses = softmax(self.W_kq[tokens, query[:, None]], bias=counts.to(self.W_kq).log())
        return torch.einsum("nu,vnu->nv", masses, self.W_ov[:, tokens])

    def loss(self, samples: Samples) -> torch.Tensor:
        """Cross-entropy (1), with the samples' frequencies."""
        logits = self(*padded(samples))
        losses = nn.functional.cross_entropy(logits, torch.tensor(samples.target), reduction="none")
        return losses @ torch.tensor(samples.weight).to(losses)
