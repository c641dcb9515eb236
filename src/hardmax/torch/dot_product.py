"""Scaled dot-product attention with an exact backward, in the place of PyTorch's."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from hardmax.torch.zero_sum import softmax


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`, with a backward that is right at any gap.

    The outputs agree with PyTorch's to rounding, and so do gradients as long as attention is soft. Where it
    is hard, PyTorch's gradient is rounding noise and this one is not (see docs/torch.md). Half precisions
    are computed in float32 inside; autocast is followed. It can be differentiated twice, and compiled.

    Args:
        query, key, value: (..., heads, tokens, width), as PyTorch has them.
        attn_mask: True where a token takes part, or a number to add to the logit. A query without any token
            has the output zero.
        dropout_p: dropout of the weights; as in PyTorch it is applied whether a module is training or not.
        is_causal: query i sees tokens up to i.
        scale: what logits are multiplied by, 1/sqrt(width) if None.
        enable_gqa: keys and values have fewer heads, each shared by several queries.

    >>> import torch, hardmax as hm
    >>> q, k, v = torch.randn(3, 2, 4, 5, 8, dtype=torch.float64)
    >>> theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    >>> torch.allclose(hm.torch.attention(q, k, v, is_causal=True), theirs, rtol=1e-12, atol=1e-14)
    True
    """
    _check_options(scale=scale, dropout_p=dropout_p, is_causal=is_causal, enable_gqa=enable_gqa)
    _check(query, key, value, attn_mask, is_causal, dropout_p)
    _check_heads(query, key, value, enable_gqa)
    device = query.device.type
    if torch.is_autocast_enabled(device):
        query, key, value = (x.to(torch.get_autocast_dtype(device)) for x in (query, key, value))
    with torch.autocast(device, enabled=False):
        weights, inside = _weights(query, key, attn_mask, is_causal, scale, enable_gqa)
        if dropout_p > 0:
            weights = F.dropout(weights, dropout_p)
        wide = value.to(inside)
        shared = _repeated(wide, query) if enable_gqa else wide
        return (weights @ shared).to(query.dtype)


def attention_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """The weights of `hm.torch.attention`, (..., heads, queries, tokens), float32 at least.

    Args:
        query, key: (..., heads, tokens, width).
        attn_mask, is_causal, scale, enable_gqa: as in `hm.torch.attention`.

    >>> import torch, hardmax as hm
    >>> hm.torch.attention_weights(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), is_causal=True)[0].tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    _check_options(scale=scale, dropout_p=0.0, is_causal=is_causal, enable_gqa=enable_gqa)
    _check(query, key, key, attn_mask, is_causal, 0.0)
    _check_heads(query, key, key, enable_gqa)
    return _weights(query, key, attn_mask, is_causal, scale, enable_gqa)[0]


def _weights(
    query: torch.Tensor,
    key: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> tuple[torch.Tensor, torch.dtype]:
    """Weights, and the precision inside."""
    inside = torch.promote_types(query.dtype, torch.float32)
    by = query.shape[-1] ** -0.5 if scale is None else scale
    wide = key.to(inside)
    shared = _repeated(wide, query) if enable_gqa else wide
    logits = (query.to(inside) * by) @ shared.transpose(-2, -1)
    return softmax(logits, bias=_bias(logits, mask, is_causal)), inside


def _bias(logits: torch.Tensor, mask: torch.Tensor | None, is_causal: bool) -> torch.Tensor | None:
    """A mask as numbers to add, in its own shape: it is often smaller than the logits."""
    if is_causal:
        mask = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=logits.dtype, device=logits.device).masked_fill(
            ~mask, -torch.inf
        )
    return mask.to(logits.dtype)


def _repeated(shared: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Repeat each head of keys or values once per query that shares it.

    Pass ``shared`` in the precision inside: the backward adds the gradients of a group in that precision, and
    they are rounded to a half precision once, as a sum.
    """
    return shared.repeat_interleave(query.shape[-3] // shared.shape[-3], dim=-3)


def _check_options(*, scale: object, dropout_p: object, is_causal: object, enable_gqa: object) -> None:
    if scale is not None and not isinstance(scale, int | float | torch.SymFloat | torch.Tensor):
        raise TypeError(f"scale must be a number or None, got {type(scale).__name__}")
    if isinstance(scale, int) and abs(scale) > 2**63:
        raise ValueError("scale must be a number below 2**63, got a larger integer")
    if not isinstance(dropout_p, int | float) or dropout_p > 2**63:
        raise TypeError(f"dropout_p must be a number, got {type(dropout_p).__name__}")
    for name, x in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(x, bool):
            raise TypeError(f"{name} must be True or False, got {type(x).__name__}")


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    dropout_p: float,
) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            kind = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor of floating-point numbers, got {kind}; convert it")
        if x.dim() < 2:
            shape = tuple(x.shape)
            raise ValueError(f"{name} must be (..., tokens, width), got the shape {shape}; add dimensions")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"key must be as wide as query, {query.shape[-1]}, got {key.shape[-1]}; check the projections"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"value must be of {key.shape[-2]} tokens as key is, got {value.shape[-2]}; check the inputs"
        )
    if mask is not None and not isinstance(mask, torch.Tensor):
        raise TypeError(f"attn_mask must be a tensor or None, got {type(mask).__name__}; convert it")
    if mask is not None and not _fits(mask, (query.shape[-2], key.shape[-2])):
        shape = (query.shape[-2], key.shape[-2])
        raise ValueError(
            f"attn_mask must end with the shape {shape}, got {tuple(mask.shape)}; check its sides"
        )
    if not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p must be in [0, 1), got {dropout_p}; 0 is none")
    if is_causal and mask is not None:
        raise ValueError("attn_mask must be None if is_causal is set, got a mask; put both into the mask")


def _fits(mask: torch.Tensor, shape: tuple[int, int]) -> bool:
    ends = zip(mask.shape[-2:][::-1], shape[::-1], strict=False)
    return all(has in (1, wanted) for has, wanted in ends)


def _check_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool) -> None:
    if min(query.dim(), key.dim(), value.dim()) < 3:
        return
    heads, shared = query.shape[-3], key.shape[-3]
    for name, x in (("key", key), ("value", value)):
        if enable_gqa and heads % max(x.shape[-3], 1):
            raise ValueError(
                f"{name} must have a number of heads that divides {heads}, got {x.shape[-3]}; "
                "check the projections"
            )
    if not enable_gqa and len({heads, shared, value.shape[-3]} - {1}) > 1:
        raise ValueError(f"enable_gqa must be set for {heads} queries of {shared} keys, got False; set it")
