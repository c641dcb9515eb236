"""Multi-head attention with the exact backward: PyTorch's function and module, with the same arguments."""

from __future__ import annotations

from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from hardmax.torch.dot_product import attention_weights, scaled_dot_product_attention


class MultiheadCall(NamedTuple):
    """The arguments of `torch.nn.functional.multi_head_attention_forward`, in its order."""

    query: Tensor
    key: Tensor
    value: Tensor
    embed_dim_to_check: int
    num_heads: int
    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None
    add_zero_attn: bool
    dropout_p: float
    out_proj_weight: Tensor
    out_proj_bias: Tensor | None
    training: bool = True
    key_padding_mask: Tensor | None = None
    need_weights: bool = True
    attn_mask: Tensor | None = None
    use_separate_proj_weight: bool = False
    q_proj_weight: Tensor | None = None
    k_proj_weight: Tensor | None = None
    v_proj_weight: Tensor | None = None
    static_k: Tensor | None = None
    static_v: Tensor | None = None
    average_attn_weights: bool = True
    is_causal: bool = False

    def projected(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return queries, keys and values (batch, heads, tokens, width), and a mask to add."""
        single = self.query.dim() == 2
        tensors = (self.query, self.key, self.value)
        q, k, v = (x.unsqueeze(0) if single else x.transpose(0, 1) for x in tensors)
        matrices = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        if not self.use_separate_proj_weight and self.in_proj_weight is not None:
            matrices = self.in_proj_weight.chunk(3)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, W, b) for x, W, b in zip((q, k, v), matrices, biases, strict=True))
        if self.bias_k is not None and self.bias_v is not None:
            k, v = _with_token(k, self.bias_k), _with_token(v, self.bias_v)
        if self.add_zero_attn:
            k, v = (torch.cat([x, x.new_zeros(len(x), 1, x.shape[-1])], dim=1) for x in (k, v))
        q, k, v = (x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in (q, k, v))
        if self.static_k is not None:
            k = self.static_k.unflatten(0, (-1, self.num_heads))
        if self.static_v is not None:
            v = self.static_v.unflatten(0, (-1, self.num_heads))
        padding = self.key_padding_mask
        if padding is not None and single:
            padding = padding.unsqueeze(0)
        return q, k, v, _mask(q, k, padding, self.attn_mask)


def multi_head_attention_forward(*args: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
    """Compute `torch.nn.functional.multi_head_attention_forward` with exact attention.

    Tokens come first, (tokens, batch, width), as there.
    """
    call = MultiheadCall(*args, **options)
    if call.is_causal and call.attn_mask is None:
        raise ValueError("is_causal requires attn_mask; it is only a hint about that mask")
    q, k, v, mask = call.projected()
    dropout_p = call.dropout_p if call.training else 0.0
    weights = None
    if call.need_weights:
        with torch.autocast(q.device.type, enabled=False):
            weights = attention_weights(q, k, mask)
            dropped = F.dropout(weights, dropout_p)
            mixed = (dropped @ v.to(dropped.dtype)).to(q.dtype)
        weights = (weights.mean(dim=1) if call.average_attn_weights else weights).to(q.dtype)
    else:
        mixed = scaled_dot_product_attention(q, k, v, mask, dropout_p)
    out = F.linear(mixed.transpose(1, 2).flatten(-2), call.out_proj_weight, call.out_proj_bias)
    if call.query.dim() == 2:
        return out.squeeze(0), None if weights is None else weights.squeeze(0)
    return out.transpose(0, 1), weights


REPLACEMENTS = {
    F.scaled_dot_product_attention: scaled_dot_product_attention,
    F.multi_head_attention_forward: multi_head_attention_forward,
}


class ExactMode(TorchFunctionMode):  # type: ignore[misc]
    """Replaces PyTorch's two attention functions while it is active, in one thread."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Nested tensors have their own kernels.
        if func in REPLACEMENTS and not any(isinstance(x, Tensor) and x.is_nested for x in args):
            self.calls += 1
            func = REPLACEMENTS[func]
        elif func is scaled_dot_product_attention:
            self.calls += 1
        return func(*args, **(kwargs or {}))


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

    @wraps(nn.MultiheadAttention.forward)
    def forward(self, *args: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        """Compute output and weights with the arguments of `torch.nn.MultiheadAttention`."""
        with ExactMode():
            return super().forward(*args, **options)


def _mask(q: Tensor, k: Tensor, padding: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Add both masks as numbers, (batch, heads or 1, queries, keys), zero at the module's own keys."""
    if mask is not None and mask.dim() == 3:
        mask = mask.unflatten(0, (len(q), -1))
    bias = None if mask is None else _numbers(mask, q)
    if padding is not None:
        hidden = _numbers(padding, q)[:, None, None, :]
        bias = hidden if bias is None else bias + hidden
    extra = 0 if bias is None else k.shape[-2] - bias.shape[-1]
    return F.pad(bias, (0, extra)) if bias is not None and extra else bias


def _with_token(x: Tensor, bias: Tensor) -> Tensor:
    """Append the bias token to every input in float32 or wider: its gradient is a sum, rounded once."""
    kind = torch.promote_types(x.dtype, torch.float32)
    return torch.cat([x.to(kind), bias.to(kind).expand(len(x), 1, -1)], dim=1)


def _numbers(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask
    kind = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros(mask.shape, dtype=kind, device=mask.device).masked_fill(mask, -torch.inf)
