"""The heads of a model through its training: how hard they attend, how large their logits and their W are."""

from __future__ import annotations

import csv
import inspect
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
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
from hardmax.torch.dot_product import attention_logits, scaled_dot_product_attention
from hardmax.torch.layers import AttentionLayer, add_hooks, attention_layers, refuse_compiled
from hardmax.torch.replacement import MultiheadCall

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


SOFTMAX = (F.softmax, torch.softmax, torch.Tensor.softmax)
PRODUCT = (F.scaled_dot_product_attention, scaled_dot_product_attention)
CALL = inspect.signature(scaled_dot_product_attention)


@dataclass(frozen=True, eq=False)
class ShownLogits:
    """Logits of one call of an attention layer, -inf where a token is hidden, and those of a learned sink."""

    logits: torch.Tensor  # (inputs, heads, queries, tokens)
    sink: torch.Tensor | None = None  # (heads,)


class _Watcher(TorchFunctionMode):  # type: ignore[misc]
    """Records the first attention of every call of a layer, or None, by functions that run inside it."""

    def __init__(self, note: Callable[[ShownLogits | None], None], max_inputs: int) -> None:
        super().__init__()
        self.note, self.max_inputs, self.inside = note, max_inputs, False
        self.logits: ShownLogits | None = None

    def before(self, module: Any, inputs: Any) -> None:
        # Nested tensors go through a fused kernel, which cannot be recorded.
        self.inside = not any(isinstance(x, torch.Tensor) and x.is_nested for x in inputs)
        if self.inside:
            self.__enter__()

    def after(self, module: Any, inputs: Any, output: Any) -> None:
        if self.inside:
            self.__exit__(None, None, None)
        self.note(self.logits)
        self.logits, self.inside = None, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.logits is None:
            with torch.no_grad():
                if func in PRODUCT:
                    self.logits = _of_product(self.max_inputs, *args, **kwargs)
                elif func is F.multi_head_attention_forward:
                    self.logits = _of_product(self.max_inputs, *MultiheadCall(*args, **kwargs).projected())
                elif func in SOFTMAX and args[0].dim() >= 3:
                    logits = args[0]
                    while logits.dim() < 4:
                        logits = logits.unsqueeze(0)
                    self.logits = ShownLogits(logits[: self.max_inputs])
        return func(*args, **kwargs)


def _of_product(most: int, *args: Any, **options: Any) -> ShownLogits:
    """The logits of a call of `scaled_dot_product_attention`, of its first inputs."""
    call = CALL.bind(*args, **options).arguments
    if call["query"].dim() == 4:
        few = {name: x[:most] for name, x in call.items() if isinstance(x, torch.Tensor) and x.dim() == 4}
        call |= few
    shown = {name: x for name, x in call.items() if name not in ("value", "dropout_p", "sink")}
    return ShownLogits(attention_logits(**shown), call.get("sink"))


ATTENTION = ("tokens", "sparsity", "top", "entropy", "max_logit", "gap", "sink")
WEIGHTS = ("frobenius", "nuclear", "spectral", "rank")
COLUMNS = ("step", "layer", "head", *ATTENTION, *WEIGHTS)

# What `plot` draws, a panel for each.
PANELS = {
    "max_logit": "largest logit",
    "gap": "gap of the top two logits",
    "entropy": "entropy (nats)",
    "sink": "weight of the first token",
    "top": "weight of the top token",
    "frobenius": "norm of W",
}


@check_arguments
def watch(
    model: nn.Module,
    *,
    every: int = 50,
    layers: Iterable[AttentionLayer | str] | None = None,
    max_inputs: int = 32,
    heads: int | None = None,
) -> Watch:
    """Record every head of a model while it is trained by your own loop.

    Call `step()` after every step of the optimizer. Steps 0, ``every``, 2 ``every``, ... are recorded from
    the loop's own forward pass; between them the model has no hooks.

    Args:
        model: A module with attention layers that `hm.torch.attention_layers` finds.
        every: Number of steps between two records.
        layers: Names or descriptions of the layers to record; all layers that are found by default.
        max_inputs: Largest number of inputs of a batch to record.
        heads: Number of query heads of a layer whose module declares neither `num_heads`, `n_head` nor
            `head_dim` (or another of their usual names).

    Raises:
        ValueError: If the model has no attention layer that is known, or if it is compiled.

    >>> import torch, hardmax as hm
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with hm.torch.watch(model, every=2) as monitor:
    ...     for _ in range(4):
    ...         model(torch.randn(3, 5, 8)).square().mean().backward()
    ...         optimizer.step()
    ...         monitor.step()
    >>> monitor
    Watch(2 records of 1 layer, 2 heads)
    >>> monitor.table["step"].tolist(), monitor.table["head"].tolist()
    ([0, 0, 2, 2], [0, 1, 0, 1])
    """
    chosen = attention_layers(model, layers, heads=heads)
    refuse_compiled(model, "watch and train the model itself, and compile it afterwards")
    return Watch(chosen, expect.whole("every", every, 1), expect.whole("max_inputs", max_inputs, 1))


class Watch:
    """The records of `hm.torch.watch`: a tidy table with a row for each step, layer and head.

    | column | meaning |
    |---|---|
    | tokens | soft sparsity 1 / sum s^2, the mean over queries: 1 is hard |
    | sparsity | soft sparsity over the number of visible tokens: 1 is uniform |
    | top, entropy | weight of the top token; entropy of the weights in nats; means over queries |
    | max_logit | largest logit of any query |
    | gap | largest logit of a query minus its second largest, the mean over queries with two visible tokens |
    | sink | weight of the first token, and of a learned sink, the mean over queries with two visible tokens |
    | frobenius, nuclear, spectral | norms of W = scale W_K' W_Q, whose logits are x' W z |
    | rank | effective rank: exp of the entropy of its singular values over their sum |

    >>> import torch, hardmax as hm
    >>> model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> with hm.torch.watch(model) as monitor:
    ...     _ = model(torch.zeros(1, 4, 8), torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))
    ...     monitor.step()
    >>> monitor.table["sparsity"].tolist(), monitor.table["sink"].tolist()
    ([1.0, 1.0], [0.25, 0.25])
    """

    def __init__(self, layers: list[AttentionLayer], every: int, max_inputs: int) -> None:
        self.layers, self.every, self.max_inputs, self.steps = layers, every, max_inputs, 0
        self._rows: list[tuple[Any, ...]] = []
        self._writers: list[Any] = []
        self._warned: set[str] = set()
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
        return notebook.table(repr(self), list(COLUMNS), shown)

    def step(self) -> None:
        """Count a step of the optimizer, and keep its record if it is one to be recorded."""
        if self.steps % self.every == 0:
            self._record()
        self.steps += 1
        if self.steps % self.every == 0:
            self._look()

    def close(self) -> None:
        """Remove all hooks from the model; the table stays."""
        self._hooks.close()

    def _look(self) -> None:
        self._attention = {}
        for layer in self.layers:
            watcher = _Watcher(partial(self._note, layer), self.max_inputs)
            add_hooks(self._hooks, layer.module, watcher.before, watcher.after)
        # W is read before the step changes it: it is the one that the attention was made with.
        self._weights = {layer.name: weight_measures(layer) for layer in self.layers}

    def _note(self, layer: AttentionLayer, logits: ShownLogits | None) -> None:
        if layer.name in self._attention:
            return  # the first forward pass of a step counts
        if logits is not None:
            self._attention[layer.name] = attention_measures(logits)
            return
        self._warn(
            layer,
            f"layer {layer.name} hides its attention weights in a fused kernel: only its norms are "
            "recorded; PyTorch's attention shows them (in transformers attn_implementation='sdpa')",
        )

    def _record(self) -> None:
        self._hooks.close()
        for layer in self.layers:
            absent = np.full((layer.heads, len(ATTENTION)), np.nan)
            attention, W = self._attention.get(layer.name, absent), self._weights[layer.name]
            if len(attention) != layer.heads:
                attention = absent
            if np.isnan(W).any():
                what = f"layer {layer.name} has weights that are not finite at step {self.steps}"
                self._warn(layer, f"{what}: its norms are nan; a smaller rate may help")
            for head in range(layer.heads):
                numbers = [*attention[head].tolist(), *W[head].tolist()]
                self._rows.append((self.steps, layer.name, head, *numbers))
                for writer in self._writers:
                    _write(writer, self._rows[-1])

    def _warn(self, layer: AttentionLayer, what: str) -> None:
        """Warn once for each layer: training continues."""
        if layer.name not in self._warned:
            self._warned.add(layer.name)
            warnings.warn(what, stacklevel=4)

    def callback(self) -> Any:
        """Make a callback for the Trainer of transformers that calls `step()` after every optimizer step.

        Returns:
            A `transformers.TrainerCallback`. The hooks are removed when training ends.

        >>> import torch, hardmax as hm
        >>> monitor = hm.torch.watch(torch.nn.MultiheadAttention(8, 2))
        >>> type(monitor.callback()).__mro__[1].__name__  # for Trainer(..., callbacks=[monitor.callback()])
        'TrainerCallback'
        """
        from transformers import TrainerCallback

        watch = self

        class Callback(TrainerCallback):  # type: ignore[misc]
            def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                watch.step()

            def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                watch.close()

        return Callback()

    def log(self, writer: Any) -> None:
        """Send the records, those so far and all that follow, to a logger.

        Args:
            writer: An object with ``add_scalar(tag, value, step)``, as TensorBoard's SummaryWriter, or with
                ``log(values, step=)``, as a run of Weights & Biases.

        >>> import torch, hardmax as hm
        >>> model, x = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(1, 2, 4)
        >>> class Writer:
        ...     def add_scalar(self, tag, value, step):
        ...         if tag.endswith("sink"):
        ...             print(tag, value, step)
        >>> with hm.torch.watch(model) as monitor:
        ...     monitor.log(Writer())
        ...     _ = model(x, x, x)
        ...     monitor.step()
        MultiheadAttention/head 0/sink 0.5 0
        """
        if not hasattr(writer, "add_scalar") and not hasattr(writer, "log"):
            raise TypeError(f"writer must have add_scalar or log, got {type(writer).__name__}")
        for row in self._rows:
            _write(writer, row)
        self._writers.append(writer)

    @property
    def table(self) -> dict[str, np.ndarray]:
        """Columns of equal length; nan where nothing was recorded."""
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(COLUMNS)
        return {name: np.array(column) for name, column in zip(COLUMNS, columns, strict=True)}

    def save(self, path: str | Path) -> None:
        """Write the table as CSV.

        >>> import pathlib, tempfile, torch, hardmax as hm
        >>> model, x = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(1, 2, 4)
        >>> with hm.torch.watch(model) as monitor:
        ...     _ = model(x, x, x)
        ...     monitor.step()
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "heads.csv"
        >>> monitor.save(file)
        >>> file.read_text().splitlines()[0]
        'step,layer,head,tokens,sparsity,top,entropy,max_logit,gap,sink,frobenius,nuclear,spectral,rank'
        """
        with whole_text(Path(path)) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(self._rows)

    def plot(self) -> Canvas:
        """Draw six panels over the steps, a line for each layer: the mean over its heads, and their range.

        >>> import torch, hardmax as hm
        >>> model, x = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(1, 2, 4)
        >>> with hm.torch.watch(model, every=1) as monitor:
        ...     for _ in range(2):
        ...         _ = model(x, x, x)
        ...         monitor.step()
        >>> [axes.get_ylabel() for axes in monitor.plot().axes][:2]
        ['largest logit', 'gap of the top two logits']
        """
        if not self._rows:
            raise ValueError("nothing is recorded yet; call step() after each step of the optimizer")
        canvas = notebook.picture((9.0, 4.8))
        table = self.table
        for place, (name, label) in enumerate(PANELS.items()):
            axes = canvas.add_subplot(2, 3, place + 1)
            for layer in self.layers:
                rows = table["layer"] == layer.name
                values = table[name][rows].reshape(-1, layer.heads)
                steps = table["step"][rows].reshape(-1, layer.heads)[:, 0]
                (line,) = axes.plot(steps, values.mean(axis=1), label=layer.name, marker=".", lw=1)
                low, high = values.min(axis=1), values.max(axis=1)
                axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.15, lw=0)
            axes.set(xlabel="step", ylabel=label)
        if len(self.layers) <= 12:
            canvas.axes[0].legend(fontsize=6)
        return canvas


def _write(writer: Any, row: tuple[Any, ...]) -> None:
    step, layer, head, *numbers = row
    values = {
        f"{layer}/head {head}/{name}": value
        for name, value in zip(COLUMNS[3:], numbers, strict=True)
        if np.isfinite(value)
    }
    if hasattr(writer, "add_scalar"):
        for tag, value in values.items():
            writer.add_scalar(tag, value, step)
    else:
        writer.log(values, step=step)


def attention_measures(shown: ShownLogits) -> np.ndarray:
    """Return (heads, 7), the columns of ATTENTION: means over the queries with enough visible tokens."""
    logits = shown.logits.detach()
    # Masks hide a token by -inf or by the least number of the dtype.
    logits = logits.masked_fill(logits <= torch.finfo(logits.dtype).min / 2, -torch.inf).float()
    tokens = logits.shape[-1]
    visible = torch.isfinite(logits).sum(dim=-1)  # (inputs, heads, queries)
    highest = logits.topk(min(2, tokens), dim=-1).values
    if shown.sink is not None:
        column = shown.sink.detach().float()[:, None, None].expand(*logits.shape[:-1], 1)
        logits = torch.cat([logits, column], dim=-1)
    s = logits.softmax(dim=-1)
    sink = s[..., 0] + s[..., tokens:].sum(dim=-1)
    s = s[..., :tokens]
    square = s.square().sum(dim=-1)
    entropy = -torch.special.xlogy(s, s).sum(dim=-1)
    gap = highest[..., 0] - highest[..., -1]
    some, several = (visible > 0) & (square > 0), visible > 1

    def mean(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.where(rows, x, torch.nan).double().nanmean(dim=(0, 2))

    columns = [mean(x, some) for x in (1 / square, 1 / square / visible, s.amax(dim=-1), entropy)]
    largest = torch.where(visible > 0, highest[..., 0], -torch.inf).amax(dim=(0, 2)).double()
    columns += [largest, mean(gap, several), mean(sink, several)]
    return torch.stack(columns, dim=1).cpu().numpy()


def weight_measures(layer: AttentionLayer) -> np.ndarray:
    """Return (heads, 4), the columns of WEIGHTS, by QR of the factors; W itself is never formed."""
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
