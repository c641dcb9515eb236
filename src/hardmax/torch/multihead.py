"""`nn.MultiheadAttention` with the exact backward: the same parameters, the same calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from hardmax.torch.dot_product import attention_weights


class ExactAttention(nn.MultiheadAttention):  # type: ignore[misc]
    """`torch.nn.MultiheadAttention` through `hm.torch.attention`: gradients are right however hard heads are.

    It is made with the same arguments and has the same parameters, so a state dict of either loads into the
    other. Different is what PyTorch leaves undefined: a query whose keys are all hidden has the output of no
    token at all (the bias of the last projection), never NaN.

    >>> import torch, hardmax as hm
    >>> theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> ours = hm.torch.ExactAttention(8, 2, batch_first=True)
    >>> ours.load_state_dict(theirs.state_dict())
    <All keys matched successfully>
    >>> x = torch.randn(3, 5, 8)
    >>> all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours(x, x, x), theirs(x, x, x)))
    True
    """

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The output, and the weights if they are wanted; as in PyTorch, True in a mask hides."""
        if is_causal and attn_mask is None:
            raise ValueError("attn_mask must be given with is_causal, got None; the latter is a hint only")
        single = query.dim() == 2
        if single:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = self._projected(query, key, value)  # (batch, heads, tokens, width)
        mask = self._mask(q, k, key_padding_mask, attn_mask)
        with torch.autocast(q.device.type, enabled=False):
            weights = attention_weights(q, k, mask)
            dropped = F.dropout(weights, self.dropout, self.training)
            mixed = (dropped @ v.to(dropped.dtype)).to(q.dtype)
        out = self.out_proj(mixed.transpose(1, 2).flatten(-2))
        shown = (weights.mean(dim=1) if average_attn_weights else weights).to(q.dtype)
        if single:
            return out.squeeze(0), shown.squeeze(0) if need_weights else None
        return out if self.batch_first else out.transpose(0, 1), shown if need_weights else None

    def _projected(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases: Any = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, W, b) for x, W, b in zip(inputs, weights, biases, strict=True))
        batch = len(q)
        if self.bias_k is not None:
            k, v = _with_bias(k, self.bias_k), _with_bias(v, self.bias_v)
        if self.add_zero_attn:
            k, v = (torch.cat([x, x.new_zeros(batch, 1, x.shape[-1])], dim=1) for x in (k, v))
        return [x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v)]

    def _mask(
        self, q: torch.Tensor, k: torch.Tensor, padding: torch.Tensor | None, mask: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Both masks as numbers to add, (batch, heads or 1, queries, keys), zero at the module's own keys."""
        if mask is not None and mask.dim() == 3:
            mask = mask.unflatten(0, (len(q), -1))
        made = None if mask is None else _numbers(mask, q)
        if padding is not None:
            hidden = _numbers(padding, q)[:, None, None, :]
            made = hidden if made is None else made + hidden
        own = 0 if made is None else k.shape[-2] - made.shape[-1]
        return made if made is None or not own else F.pad(made, (0, own))


def _with_bias(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Append the bias token to every input in float32 or wider: its gradient is a sum, rounded once."""
    kind = torch.promote_types(x.dtype, torch.float32)
    return torch.cat([x.to(kind), bias.to(kind).expand(len(x), 1, -1)], dim=1)


def _numbers(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if mask.dtype != torch.bool:
        return mask
    kind = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros(mask.shape, dtype=kind, device=mask.device).masked_fill(mask, -torch.inf)
