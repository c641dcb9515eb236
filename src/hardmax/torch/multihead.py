"""Multi-head attention with the exact backward: PyTorch's function and module, with the same arguments."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from hardmax.torch.dot_product import attention_weights, scaled_dot_product_attention


class MultiheadAttention(nn.MultiheadAttention):  # type: ignore[misc]
    """Replace `torch.nn.MultiheadAttention` by exact attention: gradients are right however hard heads are.

    It takes the same arguments and has the same parameters, so a state dict of either loads into the other.
    It differs only where PyTorch's result is undefined: a query whose keys are all hidden has the output of
    no token at all (the bias of the last projection), never NaN.

    >>> import torch, hardmax as hm
    >>> theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> ours = hm.torch.MultiheadAttention(8, 2, batch_first=True)
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
        """Return the output, and the weights if they are needed; as in PyTorch, True in a mask hides."""
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        out, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return out.transpose(0, 1) if turned else out, weights


def multi_head_attention_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: torch.Tensor | None,
    in_proj_bias: torch.Tensor | None,
    bias_k: torch.Tensor | None,
    bias_v: torch.Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: torch.Tensor,
    out_proj_bias: torch.Tensor | None,
    training: bool = True,
    key_padding_mask: torch.Tensor | None = None,
    need_weights: bool = True,
    attn_mask: torch.Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: torch.Tensor | None = None,
    k_proj_weight: torch.Tensor | None = None,
    v_proj_weight: torch.Tensor | None = None,
    static_k: torch.Tensor | None = None,
    static_v: torch.Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Compute `torch.nn.functional.multi_head_attention_forward` with exact attention.

    Tokens come first, (tokens, batch, width), as there.
    """
    if is_causal and attn_mask is None:
        raise ValueError("is_causal requires attn_mask; it is only a hint about that mask")
    q, k, v, mask = projected(
        query,
        key,
        value,
        num_heads,
        in_proj_weight,
        in_proj_bias,
        bias_k,
        bias_v,
        add_zero_attn,
        key_padding_mask,
        attn_mask,
        use_separate_proj_weight,
        q_proj_weight,
        k_proj_weight,
        v_proj_weight,
        static_k,
        static_v,
    )
    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        with torch.autocast(q.device.type, enabled=False):
            weights = attention_weights(q, k, mask)
            dropped = F.dropout(weights, dropout_p)
            mixed = (dropped @ v.to(dropped.dtype)).to(q.dtype)
        weights = (weights.mean(dim=1) if average_attn_weights else weights).to(q.dtype)
    else:
        mixed = scaled_dot_product_attention(q, k, v, mask, dropout_p)
    out = F.linear(mixed.transpose(1, 2).flatten(-2), out_proj_weight, out_proj_bias)
    if query.dim() == 2:
        return out.squeeze(0), None if weights is None else weights.squeeze(0)
    return out.transpose(0, 1), weights


def projected(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    num_heads: int,
    in_proj_weight: torch.Tensor | None,
    in_proj_bias: torch.Tensor | None,
    bias_k: torch.Tensor | None,
    bias_v: torch.Tensor | None,
    add_zero_attn: bool,
    key_padding_mask: torch.Tensor | None,
    attn_mask: torch.Tensor | None,
    use_separate_proj_weight: bool,
    q_proj_weight: torch.Tensor | None,
    k_proj_weight: torch.Tensor | None,
    v_proj_weight: torch.Tensor | None,
    static_k: torch.Tensor | None,
    static_v: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Queries, keys and values (batch, heads, tokens, width) of multi-head attention, and a mask to add."""
    single = query.dim() == 2
    q, k, v = (x.unsqueeze(0) if single else x.transpose(0, 1) for x in (query, key, value))
    matrices = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight and in_proj_weight is not None:
        matrices = in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (F.linear(x, W, b) for x, W, b in zip((q, k, v), matrices, biases, strict=True))
    if bias_k is not None and bias_v is not None:
        k, v = _with_token(k, bias_k), _with_token(v, bias_v)
    if add_zero_attn:
        k, v = (torch.cat([x, x.new_zeros(len(x), 1, x.shape[-1])], dim=1) for x in (k, v))
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    if static_k is not None:
        k = static_k.unflatten(0, (-1, num_heads))
    if static_v is not None:
        v = static_v.unflatten(0, (-1, num_heads))
    if key_padding_mask is not None and single:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    return q, k, v, _mask(q, k, key_padding_mask, attn_mask)


def _mask(
    q: torch.Tensor, k: torch.Tensor, padding: torch.Tensor | None, mask: torch.Tensor | None
) -> torch.Tensor | None:
    """Both masks as numbers to add, (batch, heads or 1, queries, keys), zero at the module's own keys."""
    if mask is not None and mask.dim() == 3:
        mask = mask.unflatten(0, (len(q), -1))
    bias = None if mask is None else _numbers(mask, q)
    if padding is not None:
        hidden = _numbers(padding, q)[:, None, None, :]
        bias = hidden if bias is None else bias + hidden
    own = 0 if bias is None else k.shape[-2] - bias.shape[-1]
    return F.pad(bias, (0, own)) if bias is not None and own else bias


def _with_token(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Append the bias token to every input in float32 or wider: its gradient is a sum, rounded once."""
    kind = torch.promote_types(x.dtype, torch.float32)
    return torch.cat([x.to(kind), bias.to(kind).expand(len(x), 1, -1)], dim=1)


def _numbers(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if mask.dtype != torch.bool:
        return mask
    kind = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros(mask.shape, dtype=kind, device=mask.device).masked_fill(mask, -torch.inf)
