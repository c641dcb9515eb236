"""One forward pass of a text with an eye on every attention layer: its inputs, its weights, its rotation."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from hardmax.torch.layers import AttentionLayer

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Sight:
    """What one layer did with one text: inputs of the key and query projections, (T, d) and (T, e).

    ``weights`` (H, T, T) is its attention, None if the layer keeps it to itself; ``turns`` the cosines and
    sines (T, r) that rotate queries and keys, if they were passed to it.
    """

    x: Array
    z: Array
    weights: Array | None
    turns: tuple[Array, Array] | None


def see(model: nn.Module, layers: Sequence[AttentionLayer], items: Sequence[Any]) -> list[list[Sight | None]]:
    """For each item, what each layer saw; None where a layer was not called, or looks at another sequence.

    Items go through the model one by one, so that nothing is padded. It runs without gradients, in evaluation
    mode and with plain attention, and is left as it was.
    """
    found = []
    with _plain_attention(model), torch.no_grad():
        for item in items:
            with _HeadHooks(layers) as watch:
                if isinstance(item, Mapping):
                    model(**item)
                else:
                    model(item)
            found.append([watch.sight(k) for k in range(len(layers))])
    return found


@contextlib.contextmanager
def _plain_attention(model: nn.Module) -> Iterator[None]:
    """No dropout, no fused path of nn.TransformerEncoder, and eager attention in models of transformers."""
    training = [module for module in model.modules() if module.training]
    fast = torch.backends.mha.get_fastpath_enabled()
    changed = []
    model.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        for module in model.modules():
            config = getattr(module, "config", None)
            before = getattr(config, "_attn_implementation", None)
            if hasattr(module, "set_attn_implementation") and before not in (None, "eager"):
                module.set_attn_implementation("eager")
                changed.append((module, before))
        yield
    finally:
        for module, before in changed:
            module.set_attn_implementation(before)
        torch.backends.mha.set_fastpath_enabled(fast)
        for module in training:
            module.training = True


class _HeadHooks:
    """Hooks on the layers and on their projections, for one pass."""

    def __init__(self, layers: Sequence[AttentionLayer]) -> None:
        self.layers = layers
        self.inputs: dict[tuple[int, str], torch.Tensor] = {}
        self.weights: dict[int, torch.Tensor] = {}
        self.turns: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.hooks: list[Any] = []

    def __enter__(self) -> _HeadHooks:
        for k, layer in enumerate(self.layers):
            self.hooks.append(layer.module.register_forward_pre_hook(self._before(k), with_kwargs=True))
            self.hooks.append(layer.module.register_forward_hook(self._after(k)))
            for side, projection in (("z", layer.query), ("x", layer.key)):
                if projection.owner is not layer.module:
                    self.hooks.append(projection.owner.register_forward_pre_hook(self._input(k, side)))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def _before(self, k: int) -> Any:
        def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            for each in (*args, *kwargs.values()):
                pair = isinstance(each, tuple) and len(each) == 2
                if pair and all(isinstance(t, torch.Tensor) for t in each):
                    self.turns[k] = each
            if not isinstance(module, nn.MultiheadAttention):
                return None
            named = {**dict(zip(inspect.signature(module.forward).parameters, args, strict=False)), **kwargs}
            for side, name in (("z", "query"), ("x", "key")):
                given, first = named[name], module.batch_first
                self.inputs[k, side] = given if first or given.dim() == 2 else given.transpose(0, 1)
            return (), {**named, "need_weights": True, "average_attn_weights": False}

        return note

    def _after(self, k: int) -> Any:
        heads = self.layers[k].heads

        def note(_: nn.Module, __: Any, out: Any) -> None:
            for each in out if isinstance(out, tuple | list) else ():
                if isinstance(each, torch.Tensor) and each.dim() == 4 and each.shape[:2] == (1, heads):
                    total = each.detach().float().sum(dim=-1)
                    if torch.allclose(total, torch.ones_like(total), atol=2e-2):
                        self.weights[k] = each.detach()

        return note

    def _input(self, k: int, side: str) -> Any:
        def note(_: nn.Module, args: tuple[Any, ...]) -> None:
            self.inputs[k, side] = args[0]

        return note

    def sight(self, k: int) -> Sight | None:
        x, z = self.inputs.get((k, "x")), self.inputs.get((k, "z"))
        if x is None or z is None or x.shape[:-1] != z.shape[:-1]:
            return None
        weights, turns = self.weights.get(k), self.turns.get(k)
        tokens = _plain(x)
        return Sight(
            tokens,
            tokens if z is x else _plain(z),
            None if weights is None else _plain(weights),
            None if turns is None else (_plain(turns[0]), _plain(turns[1])),
        )


def _plain(tensor: torch.Tensor) -> Array:
    """The only item of a batch, in float64."""
    one = tensor.detach().double().cpu().numpy()
    return one[0] if one.ndim > 2 else one
