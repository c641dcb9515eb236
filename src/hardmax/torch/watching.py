"""The heads of a model through its training: how hard they attend, how large their W is, its rank."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hardmax._lib import expect, notebook
from hardmax._lib.files import whole_text
from hardmax.torch.capture import Seen, captured
from hardmax.torch.layers import AttentionLayer, attention_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

ATTENTION = ("tokens", "sparsity", "top", "entropy")
WEIGHTS = ("frobenius", "nuclear", "spectral", "rank")


def watch(
    model: nn.Module, *, every: int = 50, given: Iterable[AttentionLayer | str] | None = None, most: int = 32
) -> Watch:
    """Record every head of a model while it is trained by your own loop.

    Say `step()` after every step of the optimiser. Steps 0, ``every``, 2 ``every``, ... are recorded from the
    loop's own forward pass; nothing is touched in between.

    Args:
        model: any module with attention layers that `hm.torch.attention_layers` finds.
        every: how many steps lie between two records.
        given: names or descriptions of the layers, where not all are wanted or some are not found.
        most: at most so many inputs of a batch are looked at.

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
    return Watch(
        attention_layers(model, given), expect.whole("every", every, 1), expect.whole("most", most, 1)
    )


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
