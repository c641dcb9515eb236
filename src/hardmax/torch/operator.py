"""Exact attention as operators of PyTorch's library: ``hardmax::attention`` and its backward.

All tensors have four dimensions: queries (B, H, Tq, E), keys (B, Hk, T, E) and values (B, Hv, T, Ev), where
Hk and Hv divide H; a mask whose dimensions are 1 or those of the logits (B, H, Tq, T); a sink (1 or B, H, 1,
1), the logit of one more token whose value is zero. Queries are processed in chunks. The logits of a chunk
are computed in the forward pass and again in the backward pass, so the memory is that of the inputs and of
one chunk. `torch.compile` sees single nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hardmax.torch.zero_sum import softmax, softmax_backward, softmax_forward

CHUNK = 2**19  # logits computed at a time: 2 MB in float32, which stay in the cache of a processor


@torch.library.custom_op("hardmax::attention", mutates_args=())
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    sink: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> Tensor:
    """Compute attention (B, H, Tq, Ev); ``seed`` decides which weights are dropped."""
    inside = precision(query)
    keys, values = key.to(inside), value.to(inside)
    out = query.new_zeros((*query.shape[:-1], value.shape[-1]))
    with torch.autocast(query.device.type, enabled=False):
        for part in _parts(query, key, causal):
            weights = part.weights(part.queries(query, scale), part.shared(keys), mask, sink)
            remaining = part.dropped(weights[..., : part.tokens], seed, dropout)
            out[part.rows] = (remaining @ part.shared(values)).to(out.dtype)
    return out


@torch.library.custom_op("hardmax::attention_backward", mutates_args=())
def attention_backward(
    by_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    sink: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
    learned: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Compute gradients of query, key, value, of the mask if it is ``learned``, and of a sink."""
    inside = precision(query)
    keys, values = key.to(inside), value.to(inside)
    by_query = query.new_zeros(query.shape)
    by_key, by_value = (torch.zeros(x.shape, dtype=inside, device=x.device) for x in (key, value))
    by_mask, by_sink = _absent(query, mask, learned, inside), _absent(query, sink, True, inside)
    with torch.autocast(query.device.type, enabled=False):
        for part in _parts(query, key, causal):
            q, k, v = part.queries(query, scale), part.shared(keys), part.shared(values)
            g = by_out[part.rows].to(inside)
            weights = part.weights(q, k, mask, sink)
            remaining = part.dropped(weights[..., : part.tokens], seed, dropout)
            part.add(by_value, remaining.transpose(-2, -1) @ g)
            by_weights = part.dropped(g @ v.transpose(-2, -1), seed, dropout)
            if sink is not None:  # the value of the sink is zero
                by_weights = torch.nn.functional.pad(by_weights, (0, 1))
            by_logits = softmax_backward(weights, by_weights, in_place=True)
            if sink is not None:
                part.add_to_bias(by_sink, by_logits[..., part.tokens :])
                by_logits = by_logits[..., : part.tokens]
            if mask is not None and learned:
                part.add_to_bias(by_mask, by_logits)
            by_query[part.rows] = (by_logits @ k * scale).to(by_query.dtype)
            part.add(by_key, by_logits.transpose(-2, -1) @ q)
    by_mask = by_mask if mask is None else by_mask.to(mask.dtype)
    by_sink = by_sink if sink is None else by_sink.to(sink.dtype)
    return by_query, by_key.to(key.dtype), by_value.to(value.dtype), by_mask, by_sink


def dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    sink: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> Tensor:
    """Compute `attention` from all weights at once, by functions that can be differentiated twice."""
    weights = dense_weights(query, key, mask, sink, causal, scale)
    if seed is not None:
        factors = torch.zeros_like(weights)
        for part in _parts(query, key, causal):
            chunk = factors[part.rows][..., : part.tokens]
            chunk.copy_(part.dropped(torch.ones_like(chunk), seed, dropout))
        weights = weights * factors
    return (weights @ _repeated(value.to(weights.dtype), query)).to(query.dtype)


def dense_weights(
    query: Tensor, key: Tensor, mask: Tensor | None, sink: Tensor | None, causal: bool, scale: float
) -> Tensor:
    """Compute all weights (B, H, Tq, T), in float32 or wider, without those of the sink."""
    logits, bias = dense_logits(query, key, mask, causal, scale)
    return _weights(softmax, logits, bias, sink)[..., : key.shape[-2]]


def dense_logits(
    query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor | None]:
    """Compute all logits (B, H, Tq, T), in float32 or wider, and the mask as numbers to add."""
    wide = query.to(precision(query)) * scale
    logits = wide @ _repeated(key.to(wide.dtype), query).transpose(-2, -1)
    return logits, _bias(mask, logits, slice(0, query.shape[-2]), causal)


def precision(query: Tensor) -> torch.dtype:
    """Return the precision of logits and weights: half precisions are computed in float32."""
    return torch.promote_types(query.dtype, torch.float32)


@dataclass(frozen=True)
class _OperatorPart:
    """A chunk of the logits: some batches, heads and queries, and their visible tokens."""

    number: int
    rows: tuple[slice, slice, slice]  # batches, heads and queries
    tokens: int
    total: int  # heads of the query
    causal: bool

    def queries(self, query: Tensor, scale: float) -> Tensor:
        return query[self.rows].to(precision(query)) * scale

    def shared(self, key: Tensor) -> Tensor:
        """Return keys or values of the chunk's heads, repeated where heads share them."""
        return key[self.rows[0], :, : self.tokens][:, self._heads(key)]

    def add(self, total: Tensor, part: Tensor) -> None:
        """Add gradients of keys or values to those of other chunks."""
        visible, heads = total[self.rows[0], :, : self.tokens], self._heads(total)
        if isinstance(heads, slice):
            visible[:, heads] += part
        else:
            visible.index_add_(1, heads, part)

    def _heads(self, key: Tensor) -> slice | Tensor:
        heads = self.rows[1]
        if key.shape[1] == self.total:
            return heads
        heads = torch.arange(heads.start, heads.stop, device=key.device)
        return heads // (self.total // key.shape[1])

    def weights(self, q: Tensor, k: Tensor, mask: Tensor | None, sink: Tensor | None) -> Tensor:
        logits = q @ k.transpose(-2, -1)
        bias = _bias(None if mask is None else self._cut(mask), logits, self.rows[2], self.causal)
        return _weights(softmax_forward, logits, bias, None if sink is None else self._cut(sink))

    def add_to_bias(self, total: Tensor, part: Tensor) -> None:
        """Add gradients of a mask or a sink to those of other chunks."""
        cut = self._cut(total)
        cut += part.sum_to_size(cut.shape)

    def _cut(self, mask: Tensor) -> Tensor:
        places = (*self.rows, slice(self.tokens))
        sides = zip(mask.shape, places, strict=True)
        return mask[tuple(slice(None) if size == 1 else place for size, place in sides)]

    def dropped(self, weights: Tensor, seed: Tensor | None, dropout: float) -> Tensor:
        """Drop some weights and enlarge the others; the same ones at every call."""
        if seed is None:
            return weights
        chance = torch.Generator(weights.device).manual_seed(int(seed) + self.number)
        remaining = torch.rand(weights.shape, generator=chance, device=weights.device) >= dropout
        return weights * remaining / (1 - dropout)


def _parts(query: Tensor, key: Tensor, causal: bool) -> Iterator[_OperatorPart]:
    """Chunks of at most `CHUNK` logits: several batches, else several heads, else several queries of one."""
    batch, heads, queries = query.shape[:3]
    tokens = key.shape[-2]
    if 0 in (batch, heads, queries, tokens):
        return
    rows = max(CHUNK // tokens, 1)
    number = 0
    for b in _slices(batch, rows // (heads * queries)):
        for h in _slices(heads, rows // queries):
            for q in _slices(queries, rows):
                visible = min(tokens, q.stop) if causal else tokens
                yield _OperatorPart(number, (b, h, q), visible, heads, causal)
                number += 1


def _slices(total: int, size: int) -> Iterator[slice]:
    size = max(size, 1)
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def _weights(
    function: Callable[..., Tensor], logits: Tensor, bias: Tensor | None, sink: Tensor | None
) -> Tensor:
    """Weights by one of the two softmax functions, with a last column for the sink."""
    if sink is None:
        return function(logits, bias=bias)
    column = sink.to(logits.dtype).expand(*logits.shape[:-1], 1)
    return function(torch.cat([logits if bias is None else logits + bias, column], dim=-1), bias=None)


def _bias(mask: Tensor | None, logits: Tensor, queries: slice, causal: bool) -> Tensor | None:
    """A mask as numbers to add, in its own shape: it is often smaller than the logits."""
    if causal:
        places = torch.arange(queries.start, queries.stop, device=logits.device)
        mask = places[:, None] >= torch.arange(logits.shape[-1], device=logits.device)
    if mask is None or mask.dtype != torch.bool:
        return None if mask is None else mask.to(logits.dtype)
    return torch.zeros(mask.shape, dtype=logits.dtype, device=logits.device).masked_fill(~mask, -torch.inf)


def _repeated(shared: Tensor, query: Tensor) -> Tensor:
    """Repeat each head of keys or values once per query head that shares it.

    Pass ``shared`` in the precision inside: the backward adds the gradients of a group in that precision, and
    they are rounded to a half precision once, as a sum.
    """
    group = query.shape[1] // shared.shape[1]
    return shared if group == 1 else shared.repeat_interleave(group, dim=1)


def _absent(query: Tensor, like: Tensor | None, wanted: bool, kind: torch.dtype) -> Tensor:
    """Zeros for a gradient; without entries if it is not needed."""
    shape = like.shape if like is not None and wanted else (0,)
    return torch.zeros(shape, dtype=kind, device=query.device)


@attention.register_fake
def _attention_shape(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tensor:
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


@attention_backward.register_fake
def _backward_shapes(
    by_out: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Any, sink: Any, *options: Any
) -> tuple[Tensor, ...]:
    inside = precision(query)
    by_mask = _absent(query, mask, options[-1], inside if mask is None else mask.dtype)
    by_sink = _absent(query, sink, True, inside if sink is None else sink.dtype)
    return (*(x.new_empty(x.shape) for x in (query, key, value)), by_mask, by_sink)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.options = [x for x in inputs if isinstance(x, bool | float | torch.SymFloat)]
    ctx.save_for_backward(*inputs[: len(inputs) - len(ctx.options)])


def _differentiate(ctx: Any, by_out: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, mask, sink, seed = ctx.saved_tensors
    learned = mask is not None and ctx.needs_input_grad[3]
    gradients = attention_backward(by_out, query, key, value, mask, sink, seed, *ctx.options, learned)
    by_mask, by_sink = gradients[3] if learned else None, None if sink is None else gradients[4]
    return (*gradients[:3], by_mask, by_sink, None, None, None, None)


def _differentiate_twice(ctx: Any, *by_gradients: Tensor) -> tuple[Tensor | None, ...]:
    by_out, query, key, value, mask, sink, seed = ctx.saved_tensors
    *options, learned = ctx.options
    places = [0, 1, 2, *([3] if learned else []), *([] if sink is None else [4])]

    def forward(*inputs: Tensor) -> Tensor:
        arguments = [query, key, value, mask, sink]
        for place, x in zip(places, inputs, strict=True):
            arguments[place] = x
        q, k, v, bias, logit = arguments
        return dense(q, k, v, bias, logit, seed, *options)

    def backward(by_out: Tensor, *inputs: Tensor) -> Any:
        return torch.func.vjp(forward, *inputs)[1](by_out)

    inputs = [(query, key, value, mask, sink)[place] for place in places]
    _, pull = torch.func.vjp(backward, by_out, *inputs)
    gradients = pull(tuple(by_gradients[place] for place in places))
    by = dict(zip([0, *(place + 1 for place in places)], gradients, strict=True))
    return tuple(by.get(place) for place in range(11))


attention.register_autograd(_differentiate, setup_context=_keep)
attention_backward.register_autograd(_differentiate_twice, setup_context=_keep)
