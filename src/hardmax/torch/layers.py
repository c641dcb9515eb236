"""Attention layers of a PyTorch model: where its queries and keys are projected, head by head.

`attention_layers` finds `nn.MultiheadAttention` and every module whose projections have one of the usual
names, such as those of transformers, timm and fairseq. Describe a layer with other names as an
`AttentionLayer` of `Projection`s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import torch
from torch import nn

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments

# Names of separate projections, in the order query, key, value.
SEPARATE = (
    ("query", "key", "value"),
    ("q_proj", "k_proj", "v_proj"),
    ("query_proj", "key_proj", "value_proj"),
    ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"),
    ("wq", "wk", "wv"),
    ("Wq", "Wk", "Wv"),
    ("w_q", "w_k", "w_v"),
    ("linear_q", "linear_k", "linear_v"),
    ("q", "k", "v"),
)
# Names of one projection that holds all three, one after the other; of the last, head by head.
PACKED = ("c_attn", "qkv", "qkv_proj", "in_proj", "Wqkv", "to_qkv", "attn_qkv")
INTERLEAVED = ("query_key_value",)

HEADS = ("num_attention_heads", "num_heads", "n_heads", "n_head", "heads", "nhead")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head")
WIDTHS = ("head_dim", "attention_head_size", "key_value_proj_dim", "d_head", "dim_head")
SCALES = ("scaling", "scale", "softmax_scale", "scale_attn")
NORMS = ("q_norm", "query_norm", "q_layernorm", "q_layer_norm", "norm_q", "query_layernorm")


@dataclass(frozen=True)
class Projection:
    """Rows of a parameter, read each time: a layer in training shows its present weights.

    Args:
        owner: The module with the parameter; its input is projected.
        heads: Number of heads in the rows, one after the other.
        rows: The rows of this projection; all if None.
        weight, bias: Names of the parameters in the owner.
        transposed: Whether the parameter is (inputs, outputs), as in GPT-2.

    >>> import torch
    >>> from hardmax.torch import Projection
    >>> Projection(torch.nn.Linear(6, 8), heads=2).weights().shape
    torch.Size([2, 4, 6])
    """

    owner: nn.Module
    heads: int
    rows: slice | tuple[int, ...] | None = None
    weight: str = "weight"
    bias: str | None = "bias"
    transposed: bool = False

    def weights(self) -> torch.Tensor:
        """Return the weights (heads, head dimension, inputs), without a gradient."""
        whole = getattr(self.owner, self.weight).detach()
        return self._split(whole.T if self.transposed else whole)

    def biases(self) -> torch.Tensor | None:
        """Return the biases (heads, head dimension), or None."""
        whole = None if self.bias is None else getattr(self.owner, self.bias, None)
        return None if whole is None else self._split(whole.detach())

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs (..., inputs) to (..., heads, head dimension)."""
        weights, biases = self.weights(), self.biases()
        out = (x.detach().to(weights.dtype) @ weights.flatten(0, 1).T).unflatten(-1, weights.shape[:2])
        return out if biases is None else out + biases

    def _split(self, whole: torch.Tensor) -> torch.Tensor:
        wanted = self.rows if self.rows is None or isinstance(self.rows, slice) else [*self.rows]
        rows = whole if wanted is None else whole[wanted]
        if rows.shape[0] % self.heads:
            raise ValueError(f"heads={self.heads} does not divide the {rows.shape[0]} rows of the projection")
        return rows.unflatten(0, (self.heads, -1))


@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer: the logit of head h is ``scale * (W_Q z + b_Q)_h . (W_K x + b_K)_h``.

    Args:
        name: The dotted name of the module in the model, or any title.
        module: The module whose call is the layer's attention.
        query, key: The projections; `key.heads` may be fewer than `query.heads` (grouped keys).
        value: The projection of the values, or None if a model hides it.
        scale: Factor of the logits.
        rotary: Whether positions rotate queries and keys, so that no single matrix makes the logits.
        normalized: Whether queries and keys are normalized after the projection.

    >>> import torch
    >>> from hardmax.torch import attention_layers
    >>> [layer] = attention_layers(torch.nn.MultiheadAttention(8, 2))
    >>> layer.heads, layer.key_heads, layer.head_dim, layer.scale == 4**-0.5
    (2, 2, 4, True)
    """

    name: str
    module: nn.Module
    query: Projection
    key: Projection
    value: Projection | None
    scale: float
    rotary: bool = False
    normalized: bool = False

    @property
    def heads(self) -> int:
        """Number of queries of a token."""
        return self.query.heads

    @property
    def key_heads(self) -> int:
        """Number of keys of a token; each is shared by `heads / key_heads` queries."""
        return self.key.heads

    @property
    def head_dim(self) -> int:
        """The length of one query."""
        return self.query.weights().shape[1]

    @property
    def bilinear(self) -> bool:
        """Whether one matrix W for each head makes its logits: x' W z."""
        return not (self.rotary or self.normalized)

    def query_weights(self) -> torch.Tensor:
        """Return W_Q of every head, (heads, head dimension, inputs)."""
        return self.query.weights()

    def key_weights(self) -> torch.Tensor:
        """Return W_K of every head, (heads, head dimension, inputs), repeated where heads share keys."""
        return self.key.weights().repeat_interleave(self.heads // self.key_heads, dim=0)


@check_arguments
def attention_layers(
    model: nn.Module, layers: Iterable[AttentionLayer | str] | None = None, *, heads: int | None = None
) -> list[AttentionLayer]:
    """Find the attention layers of a model, in the order of its modules.

    Args:
        model: The model to search.
        layers: Names of the layers, or descriptions where projections have unusual names.
        heads: Number of query heads of a layer whose module does not declare it. By default such a layer is
            skipped, and a model without other layers is an error.

    >>> import torch
    >>> from hardmax.torch import attention_layers
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True)
    >>> [layer.name for layer in attention_layers(torch.nn.TransformerEncoder(layer, 2))]
    ['layers.0.self_attn', 'layers.1.self_attn']
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}; pass the model")
    model = getattr(model, "_orig_mod", model)  # the model inside one that torch.compile made
    if heads is not None:
        expect.whole("heads", heads, 1)
    rotary = _is_rotary(model)
    if layers is not None:
        selected = [x if isinstance(x, AttentionLayer) else _named(model, x, rotary, heads) for x in layers]
    else:
        candidates = (_layer(name, module, rotary, heads) for name, module in model.named_modules())
        selected = [layer for layer in candidates if layer is not None]
    if not selected:
        for name, module in model.named_modules():
            _refuse_uncounted(name or type(module).__name__, module, heads)
        names = ", ".join([*map("/".join, SEPARATE), *PACKED, *INTERLEAVED])
        raise ValueError(
            f"model must be one with attention layers, got {type(model).__name__} without any that is known: "
            f"no nn.MultiheadAttention, and no module with projections named {names}; describe its "
            "layers as hm.torch.AttentionLayer where layers= is an option"
        )
    return selected


def refuse_compiled(model: nn.Module, remedy: str) -> None:
    """Raise if the model or a module inside it is compiled: hooks do not run in a compiled graph."""
    for name, module in model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            raise ValueError(
                f"model must not be compiled, but {name or 'the model'} is: hooks do not run inside a "
                f"compiled graph; {remedy}"
            )


def add_hooks(hooks: ExitStack, module: nn.Module, before: Any, after: Any) -> None:
    """Call ``before`` and ``after`` around each call of a module, even one that fails, until hooks close."""
    hooks.callback(module.register_forward_pre_hook(before).remove)
    hooks.callback(module.register_forward_hook(after, always_call=True).remove)


def _named(model: nn.Module, name: str, rotary: bool, heads: int | None) -> AttentionLayer:
    try:
        module = model.get_submodule(name)
    except AttributeError as missing:
        raise ValueError(
            f"layers must be names of modules, got {name!r}; see model.named_modules()"
        ) from missing
    layer = _layer(name, module, rotary, heads)
    if layer is None:
        _refuse_uncounted(name, module, heads)
        raise ValueError(
            f"layers must be names of attention layers, got {name!r}; describe it as hm.torch.AttentionLayer"
        )
    return layer


def _refuse_uncounted(name: str, module: nn.Module, heads: int | None) -> None:
    """Raise if a module has the projections of an attention layer but its heads cannot be counted."""
    projections = _projections(module)
    if not projections:
        return
    rows = _outputs(getattr(module, projections[0]))
    what = "query rows" if len(projections) == 3 else "rows of queries, keys and values"
    declared = _number(module, HEADS) or _number(module, WIDTHS) or heads
    if declared is None:
        raise ValueError(
            f"layer {name} must declare its heads as num_heads, n_head or head_dim, got none of them; "
            f"set one on the module, or pass heads= (it has {rows} {what})"
        )
    raise ValueError(
        f"heads of layer {name} must divide its {rows} {what} and fit its keys, got {declared}; "
        "correct num_heads, n_head or head_dim of the module, or heads="
    )


def _is_rotary(model: nn.Module) -> bool:
    """Return whether positions are rotations: such models have a module or a setting for them."""
    if any("rotary" in type(module).__name__.lower() for module in model.modules()):
        return True
    return getattr(getattr(model, "config", None), "position_embedding_type", None) == "rotary"


def _projections(module: nn.Module) -> tuple[str, ...]:
    """The names of the projections of query, key and value, or of the one that holds all three."""
    for names in (*SEPARATE, *((name,) for name in PACKED + INTERLEAVED)):
        if all(_is_projection(getattr(module, name, None)) for name in names[:2]):
            return names
    return ()


def _is_projection(thing: Any) -> bool:
    weight = getattr(thing, "weight", None)
    return isinstance(thing, nn.Module) and isinstance(weight, torch.Tensor) and weight.dim() == 2


def _layer(name: str, module: nn.Module, rotary: bool, heads: int | None) -> AttentionLayer | None:
    """The layer that a module is, or None; the model itself goes by the name of its class."""
    name = name or type(module).__name__
    if isinstance(module, nn.MultiheadAttention):
        return _multihead(name, module)
    projections = _projections(module)
    split = _separate if len(projections) == 3 else _unpacked
    three = split(module, projections, heads) if projections else None
    if three is None:
        return None
    width = three[0].weights().shape[1]
    normalized = any(isinstance(getattr(module, norm, None), nn.Module) for norm in NORMS)
    normalized = normalized and not isinstance(getattr(module, "q_norm", None), nn.Identity)
    return AttentionLayer(name, module, *three, _scale(module, width), rotary, normalized)


def _multihead(name: str, module: nn.MultiheadAttention) -> AttentionLayer:
    heads, d = module.num_heads, module.embed_dim

    def part(k: int, weight: str) -> Projection:
        rows = slice(k * d, (k + 1) * d)
        if module.in_proj_weight is not None:
            return Projection(module, heads, rows, "in_proj_weight", "in_proj_bias")
        # Inputs of different sizes have separate weights, and one packed bias.
        return _SeparateWeight(module, heads, rows, weight, "in_proj_bias")

    query, key, value = (part(k, f"{c}_proj_weight") for k, c in enumerate("qkv"))
    return AttentionLayer(name, module, query, key, value, (d // heads) ** -0.5)


class _SeparateWeight(Projection):
    """A projection whose rows are those of the bias alone."""

    def weights(self) -> torch.Tensor:
        return getattr(self.owner, self.weight).detach().unflatten(0, (self.heads, -1))


Three = tuple[Projection, Projection, Projection | None]


def _separate(module: nn.Module, names: tuple[str, ...], default: int | None) -> Three | None:
    """Three projections; heads are counted by the module, the sizes of its weights, or ``default``."""
    parts = [getattr(module, name, None) for name in names]
    outputs, key_outputs = map(_outputs, parts[:2])
    heads, width = _number(module, HEADS), _number(module, WIDTHS)
    heads = default if heads is None and width is None else heads
    if heads and outputs % heads == 0:
        width = outputs // heads
    elif width and outputs % width == 0:
        heads = outputs // width
    else:
        return None
    if key_outputs % width:
        return None
    counts = (heads, key_outputs // width, key_outputs // width)
    query, key, value = (
        Projection(part, count, transposed=_transposed(part)) if _is_projection(part) else None
        for part, count in zip(parts, counts, strict=True)
    )
    return cast("Three", (query, key, value))


def _unpacked(module: nn.Module, names: tuple[str, ...], default: int | None) -> Three | None:
    """The parts of one projection: one after the other, or head by head."""
    packed = getattr(module, names[0])
    total = _outputs(packed)
    heads, width = _number(module, HEADS), _number(module, WIDTHS)
    if heads is None and width and total % (3 * width) == 0 and not _number(module, KEY_HEADS):
        heads = total // (3 * width)
    elif heads is None and width is None:
        heads = default
    key_heads = _number(module, KEY_HEADS) or heads
    if not heads or not key_heads or total % (heads + 2 * key_heads):
        return None
    width = total // (heads + 2 * key_heads)
    counts = (heads, key_heads, key_heads)
    rows: list[Any]
    if names[0] in INTERLEAVED:
        if key_heads != heads:
            return None
        rows = [
            tuple(part.flatten().tolist()) for part in torch.arange(total).reshape(heads, 3, -1).unbind(1)
        ]
    else:
        ends = [0, heads * width, (heads + key_heads) * width, total]
        rows = [slice(*pair) for pair in pairwise(ends)]
    query, key, value = (
        Projection(packed, count, part, transposed=_transposed(packed))
        for count, part in zip(counts, rows, strict=True)
    )
    return query, key, value


def _number(module: nn.Module, names: Iterable[str]) -> int | None:
    """The first of some attributes of a module, or of its configuration."""
    for place in (module, getattr(module, "config", None)):
        for name in names:
            value = getattr(place, name, None)
            if isinstance(value, int) and value > 0:
                return value
    return None


def _scale(module: nn.Module, width: int) -> float:
    for name in SCALES:
        value = getattr(module, name, None)
        if isinstance(value, float) and value > 0:
            return value
    unscaled = type(module).__name__.startswith(("T5", "MT5", "UMT5", "LongT5"))
    return 1.0 if unscaled else 1.0 / math.sqrt(width)


def _transposed(module: nn.Module) -> bool:
    """GPT-2's Conv1D keeps (inputs, outputs)."""
    return type(module).__name__ == "Conv1D"


def _outputs(module: nn.Module) -> int:
    return int(module.weight.shape[1 if _transposed(module) else 0])
