"""Exact attention inside models that were written without it, in plain PyTorch and in transformers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from hardmax._lib.extras import install
from hardmax.torch.dot_product import scaled_dot_product_attention
from hardmax.torch.layers import attention_layers, refuse_compiled
from hardmax.torch.multihead import ExactMode

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
    handles = []
    for module in dict.fromkeys([model, *switch.names]):
        handles.append(module.register_forward_pre_hook(switch.enter))
        handles.append(module.register_forward_hook(switch.leave, always_call=True))
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()
        switch.close()


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
