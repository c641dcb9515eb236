"""A softmax whose backward is right at any gap: the gradient is formed relative to the top token.

The usual backward is s_t (g_t - sum_j s_j g_j). When one token has nearly all the weight, its own entry is
the difference of two nearly equal numbers, and only rounding is left. With D_t = g_t - g_top the same
formula is s_t (D_t - sum_j s_j D_j), where the top token's D is exactly zero: nothing cancels, and entries
still sum to zero.
"""

from __future__ import annotations

from typing import Any

import torch

from hardmax._lib.expect import _short


def softmax(logits: torch.Tensor, dim: int = -1, *, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Compute `torch.softmax` with a backward whose direction is right however hard the attention is.

    Args:
        logits: Numbers of any shape.
        dim: Dimension over which the weights sum to one.
        bias: Numbers to add to the logits. A row that is all -inf leaves no token, and its weights are zero.

    >>> import torch, hardmax as hm
    >>> x = torch.tensor([20.0, 0.0, 0.0], requires_grad=True)
    >>> hm.torch.softmax(x) @ torch.tensor([1.0, 0.0, 0.0]) - 1
    tensor(0., grad_fn=<SubBackward0>)
    >>> torch.autograd.grad(hm.torch.softmax(x) @ torch.tensor([1.0, 0.0, 0.0]), x)[0]
    tensor([ 4.1223e-09, -2.0612e-09, -2.0612e-09])
    >>> torch.autograd.grad(torch.softmax(x, 0) @ torch.tensor([1.0, 0.0, 0.0]), x)[0]
    tensor([ 0.0000e+00, -2.0612e-09, -2.0612e-09])
    """
    for name, x in (("logits", logits), ("bias", bias)):
        if not isinstance(x, torch.Tensor) and (x is not None or name == "logits"):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}; convert it")
    if not isinstance(dim, int) or not -logits.dim() <= dim < logits.dim():
        raise ValueError(f"dim must be one of the {logits.dim()} dimensions of logits, got {_short(dim)}")
    if dim in (-1, logits.dim() - 1):
        return _Softmax.apply(logits, bias)
    moved = None if bias is None else bias.transpose(dim, -1)
    return _Softmax.apply(logits.transpose(dim, -1), moved).transpose(dim, -1)


def softmax_forward(logits: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute weights over the last dimension; zero in rows where the bias hides every token."""
    if bias is None:
        return logits.softmax(dim=-1)
    hidden = (bias == -torch.inf).all(dim=-1, keepdim=True)
    return (logits + bias).softmax(dim=-1).masked_fill(hidden, 0.0)


def softmax_backward(
    weights: torch.Tensor, by_weights: torch.Tensor, *, in_place: bool = False
) -> torch.Tensor:
    """Compute the gradient of the logits from that of the weights, relative to the top token."""
    top = weights.argmax(dim=-1, keepdim=True)
    # The kernel writes as if the tensor that it is given were contiguous, so it must be.
    relative = (by_weights - by_weights.gather(-1, top)).contiguous()
    into = {"grad_input": relative} if in_place else {}
    return torch._softmax_backward_data(relative, weights, -1, weights.dtype, **into)


class _Softmax(torch.autograd.Function):  # type: ignore[misc]
    """Softmax over the last dimension. Its backward needs the output alone, and is differentiable itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return softmax_forward(logits, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.shape = None if inputs[1] is None else inputs[1].shape

    @staticmethod
    def backward(ctx: Any, by_weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        (weights,) = ctx.saved_tensors
        # Weights are the largest tensor in memory: they are copied only for a second derivative.
        in_place = not (torch.is_grad_enabled() or torch.compiler.is_compiling())
        by_logits = softmax_backward(weights, by_weights, in_place=in_place)
        if ctx.shape is None or not ctx.needs_input_grad[1]:
            return by_logits, None
        return by_logits, by_logits.sum_to_size(ctx.shape)
