"""The models of paper B as PyTorch modules: a prompt p, or a matrix W that compares tokens with a query.

Modules return the predictions f; `loss` takes a batch with its labels and is the mean of softplus(-y f).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from hardmax.torch.embedding_models import as_parameter
from hardmax.torch.zero_sum import softmax


class TunedPrompt(nn.Module):  # type: ignore[misc]
    """v' X' softmax(X W' p) (B-DEF-1): a prompt p is tuned, and with it v and W if they require gradients.

    Args:
        p: the prompt, (d,).
        v: the head, (e,) for tokens of e numbers.
        W: keys are W x of the tokens x; the tokens themselves if None.

    >>> import torch, hardmax as hm
    >>> model = hm.torch.TunedPrompt(p=torch.tensor([9.0, 0.0]), v=torch.tensor([0.0, 1.0]))
    >>> model(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]])).tolist()
    [1.9998...]
    """

    def __init__(self, p: Any, v: Any, W: Any = None) -> None:
        super().__init__()
        self.p, self.v = as_parameter(p), as_parameter(v)
        self.W = None if W is None else as_parameter(W)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Predictions (n,) of tokens (n, T, e); ``mask`` is True where there is a token."""
        query = self.p if self.W is None else self.p @ self.W
        return _predictions(tokens @ query, tokens @ self.v, mask)

    def loss(
        self, tokens: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The mean logistic loss, with labels +1 and -1."""
        return logistic(self(tokens, mask), labels)


class QueryAttention(nn.Module):  # type: ignore[misc]
    """v' X' softmax(X W z) with a query z for each input: W is trained, or its factors, W = K' Q.

    Args:
        v: the head, (d_x,).
        W: the matrix, (d_x, d_z); or
        K, Q: factors (m, d_x) and (m, d_z).

    >>> import torch, hardmax as hm
    >>> model = hm.torch.QueryAttention(v=torch.tensor([0.0, 1.0]), W=torch.zeros(2, 3))
    >>> model(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]), torch.ones(1, 3)).tolist()
    [1.5]
    """

    def __init__(self, v: Any, W: Any = None, *, K: Any = None, Q: Any = None) -> None:
        super().__init__()
        if (W is None) == (K is None) or (K is None) != (Q is None):
            raise ValueError("W, or K and Q, must be given, got both or neither; give one of the two")
        self.v = as_parameter(v)
        self.W, self.K, self.Q = (None if x is None else as_parameter(x) for x in (W, K, Q))

    def matrix(self) -> torch.Tensor:
        """W, (d_x, d_z)."""
        if self.W is not None:
            return self.W
        assert self.K is not None
        return self.K.T @ self.Q

    def forward(
        self, tokens: torch.Tensor, queries: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Predictions (n,) of tokens (n, T, d_x) and queries (n, d_z); ``mask`` is True at tokens."""
        logits = torch.einsum("ntx,nx->nt", tokens, queries @ self.matrix().T)
        return _predictions(logits, tokens @ self.v, mask)

    def loss(
        self,
        tokens: torch.Tensor,
        queries: torch.Tensor,
        labels: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The mean logistic loss, with labels +1 and -1."""
        return logistic(self(tokens, queries, mask), labels)


def logistic(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean of log(1 + exp(-y f))."""
    return F.softplus(-labels.to(predictions) * predictions).mean()


def _predictions(logits: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    bias = None if mask is None else torch.zeros_like(logits).masked_fill(~mask, -torch.inf)
    return (softmax(logits, bias=bias) * values).sum(dim=-1)
