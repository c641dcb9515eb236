"""Exact attention inside models that were written without it, in plain PyTorch and in transformers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from hardmax._lib.extras import install
from hardmax.torch.dot_product import attention_weights, scaled_dot_product_attention
from hardmax.torch.layers import add_hooks, attention_layers, refuse_compiled

NAME = "hardmax"  # of the attention in transformers


@contextmanager
def exact_attention(model: nn.Module) -> Iterator[nn.Module]:
    """Use exact attention inside a model, without changing the model.

    Inside the block, each call of `scaled_dot_product_attention` and of `multi_head_attention_forward` that
    the model makes is computed by hardmax, under whatever name the model's code imported it. Other models and
    other threads are not affected. The backward pass may run inside or outside the block.

    Args:
        model: A module with attention layers that `hm.torch.attention_layers` finds.

    Yields:
        The model.

    Raises:
        ValueError: If the model has no attention layer that is known, or if it is compiled.

    See also:
        hm.torch.register_with_transformers: The same for models of transformers, which may be compiled.

    >>> import torch, hardmax as hm
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> with hm.torch.exact_attention(model):
    ...     exact = model(x)
    >>> torch.allclose(exact, model(x), atol=1e-5)
    True
    """
    layers = attention_layers(model)
    refuse_compiled(
        model,
        "pass the model before torch.compile, or call hm.torch.scaled_dot_product_attention in its code, "
        "which can be compiled",
    )
    switch = _Switch({layer.module: layer.name for layer in layers})
    with ExitStack() as hooks:
        hooks.callback(switch.close)
        for module in dict.fromkeys([model, *switch.names]):
            add_hooks(hooks, module, switch.enter, switch.leave)
        yield model


class _Switch(threading.local):
    """Turns the mode on when the outermost hooked module of a thread starts, and off when it ends."""

    def __init__(self, names: dict[nn.Module, str]) -> None:
        self.names = names  # of the attention layers
        self.mode: ExactMode | None = None
        self.running: list[tuple[nn.Module, int]] = []  # with the calls that were replaced before
        self.warned = False

    def enter(self, module: nn.Module, inputs: Any) -> None:
        if self.mode is None:
            self.mode = ExactMode()
            self.mode.__enter__()
        self.running.append((module, self.mode.calls))

    def leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        # PyTorch calls this hook after every error, even after one that was raised before `enter`.
        if self.mode is None or not self.running or self.running[-1][0] is not module:
            return
        _, before = self.running.pop()
        unchanged = self.mode.calls == before and output is not None
        if not self.running:
            self.close()
        if unchanged and module in self.names and not self.warned:
            self.warned = True
            warnings.warn(
                f"layer {self.names[module]} computes its attention without scaled_dot_product_attention, so "
                "it is not replaced; in transformers, choose attn_implementation='sdpa' or 'hardmax'",
                stacklevel=3,
            )

    def close(self) -> None:
        """Turn the mode off; after Ctrl-C in a forward pass no hook has done so."""
        mode, self.mode = self.mode, None
        self.running.clear()
        if mode is not None:
            mode.__exit__(None, None, None)


def register_with_transformers() -> str:
    """Make exact attention available to transformers as ``attn_implementation="hardmax"``.

    The attention is registered together with its masks; it supports grouped queries, caches, sliding windows
    and the sinks of gpt-oss. Models that use it can be compiled and saved as usual.

    Returns:
        The name "hardmax", to be passed as ``attn_implementation``.

    Raises:
        ImportError: If transformers is not installed.

    >>> import transformers, hardmax as hm
    >>> config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    >>> model = transformers.BertModel(config)
    >>> model.set_attn_implementation(hm.torch.register_with_transformers())
    >>> model.config._attn_implementation
    'hardmax'
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as missing:
        raise ImportError(
            f"attn_implementation='hardmax' needs transformers: {install('probe')}"
        ) from missing
    AttentionInterface.register(NAME, _attention_forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME


def _attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    s_aux: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it, (batch, heads, tokens, width) to (batch, tokens, heads, width)."""
    if others.get("softcap") is not None:
        raise ValueError("attn_implementation='hardmax' does not support softcap; choose 'eager'")
    queries, tokens = query.shape[-2], key.shape[-2]
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    # A single query is the last one, which sees every token; a mask contains causality.
    causal = bool(queries > 1 and attention_mask is None and causal)
    if position_bias is not None:
        if causal:
            attention_mask = torch.ones(queries, tokens, dtype=torch.bool, device=query.device).tril()
            causal = False
        if attention_mask is None:
            attention_mask = position_bias
        elif attention_mask.dtype == torch.bool:
            attention_mask = position_bias.masked_fill(~attention_mask, -torch.inf)
        else:
            attention_mask = position_bias + attention_mask
    sink = None if s_aux is None else s_aux.to(query.dtype)
    grouped = query.shape[1] != key.shape[1]
    out = scaled_dot_product_attention(
        query, key, value, attention_mask, dropout, causal, scaling, grouped, sink=sink
    )
    return out.transpose(1, 2).contiguous(), None


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
