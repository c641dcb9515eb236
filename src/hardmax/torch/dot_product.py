"""Scaled dot-product attention with an exact backward, in the place of PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

from hardmax.torch import operator


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    sink: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute `torch.nn.functional.scaled_dot_product_attention` with a backward that is right at any gap.

    The outputs agree with PyTorch's to rounding, and so do gradients as long as attention is soft. Where it
    is hard, PyTorch's gradient is rounding noise and this one is not (see docs/explanation). Half precisions
    are computed in float32 inside; autocast is followed. Queries are processed in chunks whose logits are
    computed again in the backward pass, so no array of queries times tokens is formed. The function can be
    differentiated twice and compiled.

    Args:
        query: Tensor (..., heads, queries, width), as in PyTorch.
        key: Tensor (..., heads, tokens, width).
        value: Tensor (..., heads, tokens, width of the output).
        attn_mask: True where a token takes part, or numbers to add to the logits. A query that sees no token
            has the output zero.
        dropout_p: Dropout of the weights; as in PyTorch it is applied whether a module is training or not.
        is_causal: Let query i see tokens up to i only.
        scale: Factor of the logits, 1/sqrt(width) by default.
        enable_gqa: Allow keys and values to have fewer heads, each shared by several heads of the query.
        sink: One logit per head of an additional token whose value is zero, as in gpt-oss.

    Raises:
        TypeError: If an argument is not of the stated type.
        ValueError: If shapes do not fit together.

    See also:
        hm.torch.exact_attention: Use it in an existing model.
        hm.torch.audit: Measure how accurate an attention function is.

    >>> import torch, hardmax as hm
    >>> q, k, v = torch.randn(3, 2, 4, 5, 8, dtype=torch.float64)
    >>> theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    >>> ours = hm.torch.scaled_dot_product_attention(q, k, v, is_causal=True)
    >>> torch.allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    True
    """
    inputs = (query, key, value, attn_mask)
    options: dict[str, Any] = {
        "dropout_p": dropout_p,
        "is_causal": is_causal,
        "scale": scale,
        "enable_gqa": enable_gqa,
    }
    if has_torch_function(inputs):
        return handle_torch_function(scaled_dot_product_attention, inputs, *inputs, **options, sink=sink)
    _check(query, key, value, attn_mask, **options)
    device = query.device.type
    if torch.is_autocast_enabled(device):
        query, key, value = (x.to(torch.get_autocast_dtype(device)) for x in (query, key, value))
    shape, four = _four(query, key, value, attn_mask, enable_gqa)
    seed = torch.randint(2**62, ()) if dropout_p > 0 else None
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    four_sink = _sink(sink, four[0])
    # Transforms of torch.func cannot enter an operator with a registered backward.
    transformed = not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()
    attend = operator.dense if transformed else operator.attention
    out = attend(*four, four_sink, seed, is_causal, scale, float(dropout_p))
    return out.reshape(shape)


def attention_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    sink: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute the weights of attention, (..., heads, queries, tokens), in float32 or wider.

    Args:
        query: Tensor (..., heads, queries, width).
        key: Tensor (..., heads, tokens, width).
        attn_mask: True where a token takes part, or numbers to add to the logits.
        is_causal: Let query i see tokens up to i only.
        scale: Factor of the logits, 1/sqrt(width) by default.
        enable_gqa: Allow keys to have fewer heads, each shared by several heads of the query.
        sink: One logit per head of an additional token. Its weight is left out, so rows sum to less than one.

    >>> import torch, hardmax as hm
    >>> hm.torch.attention_weights(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), is_causal=True)[0].tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    _check(query, key, key, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
    shape, (query, key, _, mask) = _four(query, key, key, attn_mask, enable_gqa)
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    weights = operator.dense_weights(query, key, mask, _sink(sink, query), is_causal, scale)
    return weights.reshape(*shape[:-1], key.shape[-2])


def attention_logits(
    query: torch.Tensor,
    key: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return logits (batch, heads, queries, tokens), in float32 or wider; -inf where a token is hidden."""
    _, (query, key, _, mask) = _four(query, key, key, attn_mask, enable_gqa)
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    logits, bias = operator.dense_logits(query, key, mask, is_causal, scale)
    return logits if bias is None else logits + bias


def _four(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, enable_gqa: bool
) -> tuple[tuple[int, ...], tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    """The shape of the output, and the inputs with four dimensions: batch, heads, tokens, width."""
    shared: tuple[tuple[int, ...], ...] = (key.shape[:-2], value.shape[:-2])
    if enable_gqa:
        shared = ((*shared[0][:-1], 1), (*shared[1][:-1], 1))
    masked = () if mask is None else mask.shape[:-2]
    ahead = torch.broadcast_shapes(query.shape[:-2], *shared, masked)
    batch, heads = ahead[:-1], ahead[-1] if ahead else 1
    count = math.prod(batch)
    q = query.expand(*batch, heads, *query.shape[-2:]).reshape(count, heads, *query.shape[-2:])
    k, v = (
        x.expand(*batch, *x.shape[-3:]).reshape(count, x.shape[-3] if x.dim() > 2 else 1, *x.shape[-2:])
        for x in (key, value)
    )
    if mask is not None:
        mask = mask.reshape(*(1,) * (len(batch) + 3 - mask.dim()), *mask.shape)
        if any(side != 1 for side in mask.shape[:-3]):
            mask = mask.expand(*batch, *mask.shape[-3:]).reshape(count, *mask.shape[-3:])
        else:
            mask = mask.reshape(1, *mask.shape[-3:])
    return (*ahead, query.shape[-2], value.shape[-1]), (q, k, v, mask)


def _sink(sink: torch.Tensor | None, query: torch.Tensor) -> torch.Tensor | None:
    if sink is None:
        return None
    if not isinstance(sink, torch.Tensor) or not sink.is_floating_point():
        raise TypeError(f"sink must be a tensor of logits or None, got {type(sink).__name__}; convert it")
    if sink.shape != query.shape[1:2]:
        raise ValueError(
            f"sink must hold one logit for each of {query.shape[1]} heads, got the shape {tuple(sink.shape)}"
        )
    return sink.reshape(1, -1, 1, 1)


def _check(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    is_causal: Any,
    scale: Any,
    enable_gqa: Any,
    dropout_p: Any = 0.0,
) -> None:
    """Refuse arguments of wrong types, and shapes that do not fit together."""
    if scale is not None and not isinstance(scale, int | float | torch.SymFloat):
        raise TypeError(f"scale must be a number or None, got {type(scale).__name__}")
    if isinstance(scale, int) and abs(scale) > 2**63:
        raise ValueError("scale must be a number below 2**63, got a larger integer")
    if not isinstance(dropout_p, int | float) or dropout_p > 2**63:
        raise TypeError(f"dropout_p must be a number, got {type(dropout_p).__name__}")
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, got {type(flag).__name__}")
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
    _check_heads(query, key, value, enable_gqa)


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
