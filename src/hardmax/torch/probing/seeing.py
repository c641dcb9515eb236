"""From a model to its heads: a forward pass with an eye on every attention layer, then heads as problems.

Every head is checked against the model's own attention before anything is said about it: softmax of x.Wz,
of rotated queries and keys, or of x.Wz with fixed terms for positions. Any other head is not bilinear; its
logits are the logarithms of its attention.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from hardmax.torch.layers import AttentionLayer, Projection
from hardmax.torch.probing.inputs import Bools, Floats, HeadWeights, Inputs, softmax, turned


@dataclass(frozen=True, eq=False)
class Sight:
    """A record of one layer on one text: inputs of the key and query projections, (T, d) and (T, e).

    ``weights`` (H, T, T) is its attention, None if the layer keeps it to itself; ``turns`` the cosines and
    sines (T, r) that rotate queries and keys, if they were passed to it.
    """

    x: Floats
    z: Floats
    weights: Floats | None
    turns: tuple[Floats, Floats] | None


def see(model: nn.Module, layers: Sequence[AttentionLayer], items: Sequence[Any]) -> list[list[Sight | None]]:
    """Record the inputs and the attention of each layer on each item.

    The record is None if the layer was not called or attends to another sequence.

    Items go through the model one by one, so that nothing is padded. It runs without gradients, in evaluation
    mode and with plain attention, and is left as it was.
    """
    sights = []
    with _plain_attention(model), torch.no_grad():
        for item in items:
            with _HeadHooks(layers) as watch:
                try:
                    model(**item) if isinstance(item, Mapping) else model(item)
                except Exception as error:  # the model's own code
                    what = " ".join(f"{type(error).__name__}: {error}".split())[:160]
                    raise ValueError(
                        f"model must run on the texts, got {what}; check that the tokenizer belongs to the "
                        "model, that its positions are enough for the length, and that its config is "
                        "undamaged"
                    ) from error
            sights.append([watch.sight(k) for k in range(len(layers))])
    return sights


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


class _HeadHooks(contextlib.ExitStack):
    """Hooks on the layers and on their projections, for one pass."""

    def __init__(self, layers: Sequence[AttentionLayer]) -> None:
        super().__init__()
        self.layers = layers
        self.inputs: dict[tuple[int, str], torch.Tensor] = {}
        self.weights: dict[int, torch.Tensor] = {}
        self.turns: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for k, layer in enumerate(layers):
            before, after = partial(self._before, k), partial(self._after, k)
            self.callback(layer.module.register_forward_pre_hook(before, with_kwargs=True).remove)
            self.callback(layer.module.register_forward_hook(after).remove)
            for side, projection in (("z", layer.query), ("x", layer.key)):
                if projection.owner is not layer.module:
                    enter = partial(self._enter, k, side)
                    self.callback(projection.owner.register_forward_pre_hook(enter).remove)

    def _before(self, k: int, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for value in (*args, *kwargs.values()):
            pair = isinstance(value, tuple) and len(value) == 2
            if pair and all(isinstance(t, torch.Tensor) for t in value):
                self.turns[k] = value
        if not isinstance(module, nn.MultiheadAttention):
            return None
        names = inspect.signature(module.forward).parameters
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        for side, name in (("z", "query"), ("x", "key")):
            x = arguments[name]
            self.inputs[k, side] = x if module.batch_first or x.dim() == 2 else x.transpose(0, 1)
        return (), {**arguments, "need_weights": True, "average_attn_weights": False}

    def _after(self, k: int, module: nn.Module, args: Any, out: Any) -> None:
        shape = (1, self.layers[k].heads)
        for value in out if isinstance(out, tuple | list) else ():
            if isinstance(value, torch.Tensor) and value.dim() == 4 and value.shape[:2] == shape:
                total = value.detach().float().sum(dim=-1)
                if torch.allclose(total, torch.ones_like(total), atol=2e-2):
                    self.weights[k] = value.detach()

    def _enter(self, k: int, side: str, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.inputs[k, side] = args[0]

    def sight(self, k: int) -> Sight | None:
        x, z = self.inputs.get((k, "x")), self.inputs.get((k, "z"))
        if x is None or z is None or x.shape[:-1] != z.shape[:-1]:
            return None
        weights, turns = self.weights.get(k), self.turns.get(k)
        tokens = _plain(x)
        sight = Sight(
            tokens,
            tokens if z is x else _plain(z),
            None if weights is None else _plain(weights),
            None if turns is None else (_plain(turns[0]), _plain(turns[1])),
        )
        arrays = (sight.x, sight.z, np.zeros(0) if sight.weights is None else sight.weights)
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError(
                f"model must compute finite numbers, got nan or inf in layer {self.layers[k].name}; "
                "its weights may be damaged, fetch them again"
            )
        return sight


def _plain(tensor: torch.Tensor) -> Floats:
    """The only item of a batch, in float64."""
    one = tensor.detach().double().cpu().numpy()
    return one[0] if one.ndim > 2 else one


CLOSE = 2e-3  # between attention weights recomputed in float64 and those of a float32 model
COARSE = 5e-2  # of a model in half precision
ZERO = "its weights are zero: it looks at all tokens alike"
NORMALIZED = "queries and keys are normalized, so its logits are not bilinear"
OTHER = "its attention is not a softmax of x.Wz, of rotated queries and keys, or of x.Wz with position terms"


def heads_of(
    layer: AttentionLayer, sights: Sequence[Sight], rotary: str = "rotated", causal: bool | None = None
) -> Iterator[HeadWeights]:
    """Yield the heads of a layer as problems; ``causal`` is needed where weights are hidden."""
    x, z = _padded([s.x for s in sights]), _padded([s.z for s in sights])
    sizes = np.array([len(s.x) for s in sights])
    shown = [s.weights for s in sights if s.weights is not None]
    weights = _padded(shown) if len(shown) == len(sights) else None
    visible = _visible(sizes, weights, causal)
    W_K, b_K = _factors(layer, layer.key)
    W_Q, b_Q = _factors(layer, layer.query)
    there = (np.arange(x.shape[1]) < sizes[:, None])[..., None] * 1.0
    z_one, x_one = np.concatenate([z, there], axis=2), np.concatenate([x, there], axis=2)
    with_bias = np.concatenate([W_Q, b_Q[:, :, None]], axis=2) * layer.scale
    plain = Inputs(x, z_one, visible)
    close = COARSE if layer.query.weights().dtype in (torch.bfloat16, torch.float16) else CLOSE
    turns = _turns(sights) if layer.rotary else None
    lifted = Inputs(x_one, z_one, visible, turns[1]) if turns is not None and rotary == "lift" else None
    for h in range(layer.heads):
        attention = None if weights is None else weights[:, h]
        head = HeadWeights(plain, W_K[h], with_bias[h])
        if not W_K[h].any() or not with_bias[h].any():
            yield replace(head, why=ZERO)
            continue
        if layer.normalized:
            yield _read_off(head, attention, NORMALIZED)
            continue
        key = np.concatenate([W_K[h], b_K[h][:, None]], axis=1)
        if lifted is not None:
            head = HeadWeights(lifted, key, with_bias[h])
        elif turns is not None:
            k, q = turned(x_one @ key.T, turns[0]), turned(z_one @ with_bias[h].T, turns[0]) / layer.scale
            size = k.shape[2]
            # M = scale I; norms are those of W itself, without the rotation.
            turning = Inputs(k, q, visible)
            head = HeadWeights(
                turning, np.eye(size), layer.scale * np.eye(size), weights=(W_K[h], with_bias[h])
            )
        if attention is None or _agrees(head, attention, close):
            yield head
            continue
        offsets = _offsets(head, attention, close)
        if offsets is None:
            yield _read_off(head, attention, OTHER)
        else:
            yield replace(head, offsets=offsets)


def finite(layer: AttentionLayer) -> None:
    """Refuse weights that are not finite."""
    for name, projection in (("query", layer.query), ("key", layer.key)):
        if not bool(torch.isfinite(projection.weights()).all()):
            raise ValueError(
                f"model must have finite weights, got nan or inf in the {name} projection of "
                f"{layer.name or 'its layer'}; load a checkpoint from before it diverged"
            )


def _visible(sizes: Any, weights: Floats | None, causal: bool | None) -> Bools:
    """Return the tokens that some head of the layer gives weight to; by position if weights are hidden."""
    if weights is not None:
        return np.asarray((weights > 0).any(axis=1))
    place = np.arange(sizes.max())
    there = place < sizes[:, None]
    pairs = there[:, :, None] & there[:, None, :]
    return np.asarray(pairs & (place[None, :] <= place[:, None]) if causal else pairs)


def _turns(sights: Sequence[Sight]) -> tuple[Floats, Floats] | None:
    """Angles of every position (T, h/2), and of one step; None if they are hidden or start elsewhere."""
    longest = max(sights, key=lambda s: len(s.x))
    if longest.turns is None or len(longest.x) < 2:
        return None
    cos, sin = longest.turns
    half = cos.shape[1] // 2
    step = np.arctan2(sin[1, :half], cos[1, :half])
    position = np.arange(len(cos))[:, None] * step
    if not np.allclose(np.cos(position), cos[:, :half], atol=1e-4):
        return None
    return np.asarray(position, dtype=np.float64), np.asarray(step, dtype=np.float64)


def _agrees(head: HeadWeights, weights: Floats, close: float) -> bool:
    return bool(np.abs(softmax(head.logits) - weights).max() <= close)


def _offsets(head: HeadWeights, weights: Floats, close: float) -> Floats | None:
    """Fixed terms (S, T, T) that explain the attention, the same in every text; None if none do."""
    bilinear = head.bilinear(head.inputs.z @ head.query_factor.T)
    visible = head.inputs.visible & (weights > 1e-12)
    terms = np.where(visible, np.log(np.where(visible, weights, 1.0)) - bilinear, np.nan)
    terms -= terms[:, :, :1]  # of a query only differences matter
    with np.errstate(all="ignore"):
        low, high = np.fmin.reduce(terms, axis=0), np.fmax.reduce(terms, axis=0)
    if len(terms) < 2 or not np.nanmax(high - low, initial=0.0) <= 10 * close:
        return None
    fixed = np.broadcast_to(np.nan_to_num((low + high) / 2), terms.shape)
    candidate = replace(head, offsets=np.ascontiguousarray(fixed))
    return candidate.offsets if _agrees(candidate, weights, close) else None


def _read_off(head: HeadWeights, weights: Floats | None, why: str) -> HeadWeights:
    """A head whose logits are the logarithms of its attention."""
    if weights is None:
        raise ValueError(f"model must show the attention of a head like this ({why}), got a fused kernel")
    logits = np.log(np.where(weights > 0, weights, 1e-45))  # the smallest float32
    return replace(head, logits_of_weights=logits, why=why)


def _padded(arrays: Sequence[Floats]) -> Floats:
    """The arrays in one, zero in the padding."""
    whole = np.zeros((len(arrays), *np.max([array.shape for array in arrays], axis=0)))
    for s, array in enumerate(arrays):
        whole[s][tuple(map(slice, array.shape))] = array
    return whole


def _factors(layer: AttentionLayer, projection: Projection) -> tuple[Floats, Floats]:
    """Weights and biases of every head (zero where there are none), repeated where heads share them."""
    weights, biases = projection.weights(), projection.biases()
    if biases is None:
        biases = weights.new_zeros(weights.shape[:2])
    group = layer.heads // projection.heads
    parts = (part.repeat_interleave(group, dim=0).double().cpu().numpy() for part in (weights, biases))
    W, b = map(np.asarray, parts)
    return W, b
