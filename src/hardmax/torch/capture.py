"""What a layer attends to, seen while the model runs, whichever of PyTorch's ways its attention takes.

A layer's call is watched for `scaled_dot_product_attention`, for a softmax, and for the function behind
`nn.MultiheadAttention`. The model's own outputs are not touched. A kernel of another library shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from hardmax.torch.dot_product import attention_weights
from hardmax.torch.layers import AttentionLayer

SOFTMAX = (F.softmax, torch.softmax, torch.Tensor.softmax)


@dataclass(frozen=True, eq=False)
class Seen:
    """One call of an attention layer.

    ``query`` and ``key`` are as they meet in the product, turned and normalised where the model does that;
    None where the layer shows its weights only.
    """

    weights: torch.Tensor  # (batch, heads, queries, tokens)
    visible: torch.Tensor  # how many tokens a query sees, broadcast against (batch, heads, queries)
    query: torch.Tensor | None = None  # (batch, heads, queries, width)
    key: torch.Tensor | None = None  # (batch, key heads, tokens, width)
    scale: float | None = None


@contextmanager
def captured(
    layers: Iterable[AttentionLayer], note: Callable[[AttentionLayer, Seen | None], None]
) -> Iterator[None]:
    """Tell ``note`` of every call of the layers inside the block; None where a layer shows no weights.

    >>> import torch
    >>> from hardmax.torch import attention_layers
    >>> from hardmax.torch.capture import captured
    >>> model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> with captured(attention_layers(model), lambda layer, seen: print(seen.weights.shape)):
    ...     _ = model(x, x, x)
    torch.Size([3, 2, 5, 5])
    """
    with ExitStack() as stack:
        for layer in layers:
            watcher = _Watcher(partial(note, layer))
            before = layer.module.register_forward_pre_hook(watcher.before)
            stack.callback(before.remove)
            after = layer.module.register_forward_hook(watcher.after, always_call=True)
            stack.callback(after.remove)
        yield


class _Watcher(TorchFunctionMode):  # type: ignore[misc]
    """Looks at functions while one layer runs, and reports the first attention."""

    def __init__(self, note: Callable[[Seen | None], None]) -> None:
        super().__init__()
        self.note, self.inside = note, False
        self.seen: Seen | None = None

    def before(self, module: Any, inputs: Any) -> None:
        # Nested tensors go through a fused kernel alone, which refuses to be looked at.
        self.inside = not any(isinstance(x, torch.Tensor) and x.is_nested for x in inputs)
        if self.inside:
            self.__enter__()

    def after(self, module: Any, inputs: Any, output: Any) -> None:
        if self.inside:
            self.__exit__(None, None, None)
        self.note(self.seen)
        self.seen, self.inside = None, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.seen is None and func is F.scaled_dot_product_attention:
            with torch.no_grad():
                self.seen = _of_product(*args, **kwargs)
        elif self.seen is None and func is F.multi_head_attention_forward:
            with torch.no_grad():
                self.seen = _of_module(args, kwargs)
        elif self.seen is None and func in SOFTMAX:
            out = func(*args, **kwargs)
            with torch.no_grad():
                self.seen = _of_softmax(args[0], out)
            return out
        return func(*args, **kwargs)


def _of_product(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Seen:
    query, key = query.detach(), key.detach()
    mask = None if attn_mask is None else attn_mask.detach()
    weights = attention_weights(query, key, mask, is_causal, scale, enable_gqa)
    tokens = key.shape[-2]
    visible = torch.tensor(tokens, device=query.device)
    if is_causal:
        visible = torch.arange(1, query.shape[-2] + 1, device=query.device).clamp(max=tokens)
    elif mask is not None:
        visible = _shown(mask).sum(dim=-1)
    return Seen(weights, visible, query, key, query.shape[-1] ** -0.5 if scale is None else scale)


def _of_module(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Seen:
    """Once more with its weights: the layer's own call may have been fused."""
    again = {**kwargs, "need_weights": True, "average_attn_weights": False, "training": False}
    weights: Any = F.multi_head_attention_forward(*args[:13], **again)[1]
    weights = weights if weights.dim() == 4 else weights.unsqueeze(0)
    return Seen(weights, (weights > 0).sum(dim=-1))


def _of_softmax(logits: torch.Tensor, weights: torch.Tensor) -> Seen | None:
    if weights.dim() < 3:
        return None
    while weights.dim() < 4:
        logits, weights = logits.unsqueeze(0), weights.unsqueeze(0)
    return Seen(weights.detach(), _shown(logits.detach()).sum(dim=-1))


def _shown(mask: torch.Tensor) -> torch.Tensor:
    """Where a token takes part; hidden are -inf and the least numbers that stand for it."""
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
