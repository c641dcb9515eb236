"""Inputs on which attention kernels differ: hard attention, ties, sinks, masks, unusual shapes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional as F

DRAWS = 16  # inputs of a regime: keys and values are shared, queries and output gradients are drawn


@dataclass(frozen=True)
class Regime:
    """Recipe for inputs: random, except for the fields.

    Args:
        name: Name in tables.
        gap: Distance of the top logit of each query from the others; None leaves logits random.
        ties: Number of tokens at the top, which have the same key.
        near: Relative perturbation that turns exact ties into near ones.
        sink: All queries have the first token at their top, and its value is small.
        spread: Standard deviation of the logits.
        mask: "causal", "boolean", "additive" (both with a row that is all hidden), or "none".
        heads: Number of heads of queries, and of keys and values.
        lengths: Number of queries and of tokens.
        width: Width of a head.
        transposed: Tensors are views of (batch, tokens, heads, width), as models make them.
        scale: The argument of that name.
    """

    name: str
    gap: float | None = None
    ties: int = 1
    near: float = 0.0
    sink: bool = False
    spread: float = 1.0
    mask: str = "none"
    heads: tuple[int, int] = (2, 2)
    lengths: tuple[int, int] = (16, 80)
    width: int = 64
    transposed: bool = False
    scale: float | None = None


@dataclass(frozen=True, eq=False)
class RegimeInputs:
    """Query, key, value and the gradient of the output, and the options of the call."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    by_out: torch.Tensor
    options: dict[str, Any]

    def to(self, device: str) -> RegimeInputs:
        """Move all tensors to a device."""
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, torch.Tensor)}
        masks = {name: x.to(device) for name, x in self.options.items() if isinstance(x, torch.Tensor)}
        return replace(self, **moved, options=self.options | masks)


BASE = Regime("base")
CONTENTS = (
    *(replace(BASE, name=f"gap {g}", gap=float(g)) for g in (0, 2, 4, 8, 12, 16, 20, 30, 40, 60, 80)),
    *(replace(BASE, name=f"{n} ties", gap=20.0, ties=n) for n in (2, 4, 16, 64)),
    *(replace(BASE, name=f"{n} near ties", gap=20.0, ties=n, near=0.02) for n in (2, 4, 16, 64)),
    *(replace(BASE, name=f"sink {g}", gap=float(g), sink=True) for g in (2, 4, 8, 16, 32)),
    *(replace(BASE, name=f"scale {s}", spread=float(s)) for s in (2, 5, 10, 20, 50)),
)
MASKS = (
    replace(BASE, name="causal", mask="causal", lengths=(48, 48)),
    replace(BASE, name="causal, fewer queries", mask="causal"),
    replace(BASE, name="boolean mask", mask="boolean"),
    replace(BASE, name="additive mask", mask="additive"),
)
SHAPES = (
    replace(BASE, name="grouped 4/2", heads=(4, 2)),
    replace(BASE, name="grouped 4/1", heads=(4, 1)),
    *(replace(BASE, name=f"length {t}", lengths=(t, t)) for t in (1, 7, 33, 129)),
    replace(BASE, name="length 1 x 65", lengths=(1, 65)),
    *(replace(BASE, name=f"width {w}", width=w) for w in (16, 32, 80, 96, 128)),
    replace(BASE, name="transposed", transposed=True),
    replace(BASE, name="scale argument", scale=0.3),
)


def regimes(full: bool) -> Iterator[Regime]:
    """Yield the regimes: one factor at a time from a base case, or the product of all factors."""
    if not full:
        yield from (BASE, *CONTENTS, *MASKS, *SHAPES)
        return
    changes = ("mask", "heads", "lengths", "width", "transposed", "scale")
    for content, mask, shape in itertools.product((BASE, *CONTENTS), (BASE, *MASKS), (BASE, *SHAPES)):
        pairs = ((name, getattr(part, name)) for part in (mask, shape) for name in changes)
        changed = {name: value for name, value in pairs if value != getattr(BASE, name)}
        names = [part.name for part in (content, mask, shape) if part is not BASE]
        yield replace(content, **changed, name=", ".join(names) or BASE.name)


def inputs(regime: Regime, kind: torch.dtype, rng: int) -> RegimeInputs:
    """Draw the inputs of a regime in float64 and round them to a dtype."""
    chance = torch.Generator().manual_seed(rng)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=chance, dtype=torch.float64)

    (heads, shared), (queries, tokens), width = regime.heads, regime.lengths, regime.width
    by = width**-0.5 if regime.scale is None else regime.scale
    # Keys of one length, so that each token is at the top of some query.
    key = F.normalize(draw(shared, tokens, width), dim=-1) * width**0.5
    value = draw(shared, tokens, width) + draw(shared, 1, width)
    ties = min(regime.ties, tokens)
    key[:, :ties] = key[:, :1] * (1 + regime.near * draw(shared, ties, width))
    if regime.sink:
        value[:, 0] *= 0.01
    query = draw(DRAWS, heads, queries, width) * (regime.spread / (by * width**0.5))
    options, bias, tops = _mask(regime, draw, ties)
    if regime.gap is not None:
        query = _with_gap(query, key, bias, tops, regime, by)
    by_out = draw(DRAWS, heads, queries, width) + draw(1, heads, 1, width)
    if regime.scale is not None:
        options["scale"] = regime.scale
    if heads != shared:
        options["enable_gqa"] = True
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options["attn_mask"] = mask.to(kind)
    q, k, v, g = (
        _laid_out(x.expand(DRAWS, *x.shape[-3:]).to(kind), regime.transposed)
        for x in (query, key, value, by_out)
    )
    return RegimeInputs(q, k, v, g, options)


def _mask(regime: Regime, draw: Any, ties: int) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
    """Options of the call, the mask as numbers to add, and the token that each query has at its top."""
    queries, tokens = regime.lengths
    places = torch.arange(queries)
    tops = torch.zeros_like(places) if regime.sink or ties > 1 else (7 * places) % tokens
    if regime.mask == "causal":
        tops = torch.minimum(tops, places % tokens)
        visible = places[:, None] >= torch.arange(tokens)
        return {"is_causal": True}, _hidden(~visible), tops
    if regime.mask == "none":
        return {}, torch.zeros(queries, tokens, dtype=torch.float64), tops
    visible = draw(queries, tokens) > -0.5
    visible[places, tops] = True
    visible[queries // 2] = False
    if regime.mask == "boolean":
        return {"attn_mask": visible}, _hidden(~visible), tops
    added = draw(queries, tokens) + _hidden(~visible)
    return {"attn_mask": added}, added, tops


def _hidden(hidden: torch.Tensor) -> torch.Tensor:
    return torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, -torch.inf)


def _with_gap(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor, tops: torch.Tensor, regime: Regime, by: float
) -> torch.Tensor:
    """Move each query along the key of its top token until the others are ``gap`` below."""
    wide = key.repeat_interleave(query.shape[1] // len(key), dim=0)
    chosen = wide[:, tops]  # (heads, queries, width)
    step = chosen / (chosen.square().sum(dim=-1, keepdim=True) * by)  # raises the top logit by one
    rivals = torch.zeros(bias.shape, dtype=torch.float64)
    rivals[torch.arange(len(tops)), tops] = -torch.inf
    if regime.ties > 1:
        rivals[:, : regime.ties] = -torch.inf
    for _ in range(30):  # a contraction: a step along the key raises the others by less
        logits = query @ wide.transpose(-2, -1) * by + bias
        top = logits.gather(-1, tops.expand(*logits.shape[:2], -1)[..., None])
        gap = top - (logits + rivals).amax(dim=-1, keepdim=True)
        query = query + torch.where(torch.isfinite(gap), regime.gap - gap, 0.0) * step
    return query


def _laid_out(x: torch.Tensor, transposed: bool) -> torch.Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2) if transposed else x.contiguous()
