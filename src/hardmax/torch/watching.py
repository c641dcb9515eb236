"""The heads of a model through its training: how hard they attend, how large their W is, its rank."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from hardmax._lib import expect, notebook
from hardmax._lib.arguments import check_arguments
from hardmax._lib.files import whole_text
from hardmax.torch.dot_product import attention_weights
from hardmax.torch.layers import AttentionLayer, attention_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


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
    >>> from hardmax.torch.watching import captured
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


ATTENTION = ("tokens", "sparsity", "top", "entropy")
WEIGHTS = ("frobenius", "nuclear", "spectral", "rank")


@check_arguments
def watch(
    model: nn.Module,
    *,
    every: int = 50,
    given: Iterable[AttentionLayer | str] | None = None,
    most: int = 32,
    heads: int | None = None,
) -> Watch:
    """Record every head of a model while it is trained by your own loop.

    Say `step()` after every step of the optimiser. Steps 0, ``every``, 2 ``every``, ... are recorded from the
    loop's own forward pass; nothing is touched in between.

    Args:
        model: any module with attention layers that `hm.torch.attention_layers` finds.
        every: how many steps lie between two records.
        given: names or descriptions of the layers, where not all are wanted or some are not found.
        most: Number of inputs of a batch to record, at most.
        heads: Number of query heads of a layer whose module declares neither `num_heads`, `n_head` nor
            `head_dim` (or another of their usual names).

    >>> import torch, hardmax as hm
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with hm.torch.watch(model, every=2) as seen:
    ...     for _ in range(4):
    ...         model(torch.randn(3, 5, 8)).square().mean().backward()
    ...         optimizer.step()
    ...         seen.step()
    >>> seen
    Watch(2 records of 1 layer, 2 heads)
    >>> seen.table["step"].tolist(), seen.table["head"].tolist()
    ([0, 0, 2, 2], [0, 1, 0, 1])
    """
    layers = attention_layers(model, given, heads=heads)
    return Watch(layers, expect.whole("every", every, 1), expect.whole("most", most, 1))


class Watch:
    """What `hm.torch.watch` saw: a tidy table, a row for each step, layer and head.

    | column | what it is |
    |---|---|
    | tokens | soft sparsity 1 / sum s^2 (B-DEF-8), the mean over queries: 1 is hard |
    | sparsity | the same over the number of tokens that the query sees: 1 is uniform |
    | top, entropy | weight of the top token; entropy of the weights in nats |
    | frobenius, nuclear, spectral | norms of W = scale W_K' W_Q, whose logits are x' W z |
    | rank | effective rank: exp of the entropy of its singular values over their sum |

    >>> import torch, hardmax as hm
    >>> model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> with hm.torch.watch(model) as seen:
    ...     _ = model(torch.zeros(1, 4, 8), torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))
    ...     seen.step()
    >>> seen.table["sparsity"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, layers: list[AttentionLayer], every: int, most: int) -> None:
        self.layers, self.every, self.most, self.steps = layers, every, most, 0
        self._rows: list[tuple[Any, ...]] = []
        self._told: set[str] = set()
        self._attention: dict[str, np.ndarray] = {}
        self._hooks = ExitStack()
        self._look()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        heads = sum(layer.heads for layer in self.layers)
        records, layers = len(self._rows) // heads, len(self.layers)
        plural = "s" if layers > 1 else ""
        return f"Watch({records} records of {layers} layer{plural}, {heads} heads)"

    def _repr_html_(self) -> str:
        last = self._rows[-sum(layer.heads for layer in self.layers) :]
        shown = [[f"{x:.4g}" if isinstance(x, float) else x for x in row] for row in last]
        return notebook.table(repr(self), ["step", "layer", "head", *ATTENTION, *WEIGHTS], shown)

    def step(self) -> None:
        """A step was made: keep what was seen in it, if it was one to be recorded."""
        if self.steps % self.every == 0:
            self._record()
        self.steps += 1
        if self.steps % self.every == 0:
            self._look()

    def close(self) -> None:
        """Look no more; the table stays."""
        self._hooks.close()

    def _look(self) -> None:
        self._attention = {}
        self._hooks.enter_context(captured(self.layers, self._note))
        # W is read before the step changes it: it is the one that the attention was made with.
        self._weights = {layer.name: weight_measures(layer) for layer in self.layers}

    def _note(self, layer: AttentionLayer, seen: Seen | None) -> None:
        if layer.name in self._attention:
            return  # the first forward pass of a step counts
        if seen is None:
            self._tell(
                layer,
                f"layer {layer.name} hides its attention weights in a kernel of its own: only its norms are "
                "recorded; PyTorch's attention shows them (in transformers attn_implementation='sdpa')",
            )
            return
        self._attention[layer.name] = attention_measures(seen, self.most)

    def _record(self) -> None:
        self._hooks.close()
        for layer in self.layers:
            absent = np.full((layer.heads, len(ATTENTION)), np.nan)
            seen, W = self._attention.get(layer.name, absent), self._weights[layer.name]
            if len(seen) != layer.heads:
                seen = absent
            if np.isnan(W).any():
                what = f"layer {layer.name} has weights that are not finite at step {self.steps}"
                self._tell(layer, f"{what}: its norms are nan; a smaller rate may help")
            for head in range(layer.heads):
                numbers = [*seen[head].tolist(), *W[head].tolist()]
                self._rows.append((self.steps, layer.name, head, *numbers))

    def _tell(self, layer: AttentionLayer, what: str) -> None:
        """Once for each layer: training goes on."""
        if layer.name not in self._told:
            self._told.add(layer.name)
            warnings.warn(what, stacklevel=4)

    @property
    def table(self) -> dict[str, np.ndarray]:
        """Columns of equal length; what was not seen is nan."""
        names = ("step", "layer", "head", *ATTENTION, *WEIGHTS)
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(names)
        return {name: np.array(column) for name, column in zip(names, columns, strict=True)}

    def save(self, path: str | Path) -> None:
        """Write the table as CSV.

        >>> import pathlib, tempfile, torch, hardmax as hm
        >>> model, x = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(1, 2, 4)
        >>> with hm.torch.watch(model) as seen:
        ...     _ = model(x, x, x)
        ...     seen.step()
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "heads.csv"
        >>> seen.save(file)
        >>> file.read_text().splitlines()[0]
        'step,layer,head,tokens,sparsity,top,entropy,frobenius,nuclear,spectral,rank'
        """
        with whole_text(Path(path)) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("step", "layer", "head", *ATTENTION, *WEIGHTS))
            writer.writerows(self._rows)

    def plot(self) -> Canvas:
        """Four panels over the steps, a line for each layer: the mean over its heads, in a band to extremes.

        >>> import torch, hardmax as hm
        >>> model, x = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(1, 2, 4)
        >>> with hm.torch.watch(model, every=1) as seen:
        ...     for _ in range(2):
        ...         _ = model(x, x, x)
        ...         seen.step()
        >>> len(seen.plot().axes)
        4
        """
        if not self._rows:
            raise ValueError("a watch must have a record to be drawn, got none; say step() after a step")
        canvas = notebook.picture((7.0, 4.2))
        panels = {
            "sparsity": "soft sparsity / tokens",
            "top": "top weight",
            "frobenius": "|W|",
            "rank": "effective rank of W",
        }
        table = self.table
        for place, (name, label) in enumerate(panels.items()):
            axes = canvas.add_subplot(2, 2, place + 1)
            for layer in self.layers:
                own = table["layer"] == layer.name
                values = table[name][own].reshape(-1, layer.heads)
                steps = table["step"][own].reshape(-1, layer.heads)[:, 0]
                (line,) = axes.plot(steps, values.mean(axis=1), label=layer.name, marker=".", lw=1)
                low, high = values.min(axis=1), values.max(axis=1)
                axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.15, lw=0)
            axes.set(xlabel="step", ylabel=label)
        if len(self.layers) <= 12:
            canvas.axes[0].legend(fontsize=6)
        return canvas


def attention_measures(seen: Seen, most: int) -> np.ndarray:
    """(heads, 4): the columns of ATTENTION, means over the queries of some inputs that see any token."""
    s = seen.weights[:most].float()
    square = s.square().sum(dim=-1)  # (batch, heads, queries)
    visible = seen.visible.to(s)
    if visible.dim() == 3:  # for each input, unless it is the same for all
        visible = visible[:most]
    visible = visible.expand(square.shape)
    there = (visible > 0) & torch.isfinite(square) & (square > 0)
    entropy = -torch.special.xlogy(s, s).sum(dim=-1)
    tokens = torch.where(there, 1 / square, torch.nan)
    columns = [tokens, tokens / visible, s.amax(dim=-1), entropy]
    kept = [torch.where(there, x, torch.nan).double().nanmean(dim=(0, 2)) for x in columns]
    return torch.stack(kept, dim=1).cpu().numpy()


def weight_measures(layer: AttentionLayer) -> np.ndarray:
    """(heads, 4): the columns of WEIGHTS, by QR of the factors; W itself is never formed."""
    keys, queries = (
        W.double().transpose(1, 2) for W in (layer.key_weights(), layer.query_weights())
    )  # (heads, inputs, width)
    if not (torch.isfinite(keys).all() and torch.isfinite(queries).all()):
        return np.full((layer.heads, len(WEIGHTS)), np.nan)
    small = torch.linalg.qr(keys).R @ torch.linalg.qr(queries).R.transpose(1, 2)
    sigma = layer.scale * torch.linalg.svdvals(small)
    total = sigma.sum(dim=1)
    share = sigma / torch.where(total > 0, total, 1.0)[:, None]
    rank = torch.where(total > 0, torch.exp(-torch.special.xlogy(share, share).sum(dim=1)), 0.0)
    return torch.stack([sigma.norm(dim=1), total, sigma[:, 0], rank], dim=1).cpu().numpy()
