"""Three attention paths of PyTorch, for an audit: hardmax audit examples/attention_paths.py:flash."""

from types import SimpleNamespace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def math(*inputs, **options):
    """PyTorch's reference implementation."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(*inputs, **options)


def flash(*inputs, **options):
    """PyTorch's fused kernel."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(*inputs, **options)


def eager(query, key, value, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """The eager path of Llama in transformers."""
    from transformers.models.llama.modeling_llama import eager_attention_forward

    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:  # masks are added there
        hidden = torch.finfo(query.dtype).min
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, hidden)
    module = SimpleNamespace(num_key_value_groups=query.shape[1] // key.shape[1], training=False)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return eager_attention_forward(module, query, key, value, attn_mask, scale)[0].transpose(1, 2)
