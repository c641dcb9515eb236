"""The engine of `hm.probe`: the tokens that each head selects, its hardness, and a comparison with chance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources
from typing import Any

import numpy as np
import torch
from torch import nn

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.parallel import cores, in_order, serial_blas
from hardmax._lib.progress import Progress
from hardmax.torch.layers import AttentionLayer, attention_layers
from hardmax.torch.probing.heads import (
    NULL,
    Heads,
    ProbedHead,
    ProbeSettings,
    corrected,
    null_notes,
    probe_head,
)
from hardmax.torch.probing.inputs import QUERIES
from hardmax.torch.probing.seeing import Sight, finite, heads_of, see

Records = list[tuple[AttentionLayer, list[Sight]]]

LENGTH = 12  # tokens of a text: rows are 64 queries times their visible tokens
TWICE = 24  # texts that are repeated, for induction
ROTARY = ("rotated", "lift")


@check_arguments
def probe(
    model: nn.Module,
    texts: Any = None,
    tokenizer: Any = None,
    *,
    queries: int = QUERIES,
    null: int = NULL,
    length: int = LENGTH,
    rotary: str = "rotated",
    causal: bool | None = None,
    layers: Sequence[AttentionLayer | str] | None = None,
    heads: int | None = None,
    workers: int | None = None,
    rng: int = 0,
    progress: Progress | None = None,
) -> Heads:
    """Probe every head: hardness, selection, and its distance to the max margin, compared with random heads.

    Args:
        model: a model with attention layers, of PyTorch or `transformers`; it is left as it was.
        texts: Sentences (with a tokenizer), or a batch for the model: a tensor or a dictionary of tensors,
            inputs along the first axis. Sixty-four English sentences by default.
        tokenizer: Tokenizer of the model, as in `transformers`: it turns a text into ``input_ids``.
        queries: Number of a head's hardest queries in its max-margin problem.
        null: Number of random heads that each head is compared with. Fewer than 19 cannot reach p = 0.05, and
            a warning states that.
        length: Truncate each text to this number of tokens.
        rotary: For rotary positions, "rotated" takes queries and keys after the rotation, and "lift" the
            relaxation in which every distance has its own matrix.
        causal: Whether tokens look back only; required if a layer hides its attention.
        layers: Names of layers, or descriptions; all layers by default.
        heads: Number of query heads of a layer whose module declares neither `num_heads`, `n_head` nor
            `head_dim`.
        workers: Number of threads; the number of cores by default.
        rng: Seed of the random heads.
        progress: Called as ``progress(done, total)`` with numbers of heads.
    """
    settings = ProbeSettings(
        expect.whole("queries", queries, 1), expect.whole("null", null, 1), seed=expect.whole("rng", rng)
    )
    for note in null_notes(settings.null):
        warnings.warn(note, stacklevel=2)
    expect.one_of("rotary", rotary, ROTARY)
    expect.whole("length", length, 2)
    count = cores() if workers is None else expect.whole("workers", workers, 1)
    chosen = attention_layers(model, layers, heads=heads)
    for layer in chosen:
        finite(layer)
    items, words, ids = _items(model, texts, tokenizer, length)
    records = _records(chosen, see(model, chosen, items), causal)
    repeated, periods = _repeated(model, records, ids)
    padded = None
    if ids is not None:  # every pad has its own number, so that it equals nothing
        padded = -1 - np.arange(len(ids) * max(map(len, ids))).reshape(len(ids), -1)
        for row, numbers in zip(padded, ids, strict=True):
            row[: len(numbers)] = numbers
    # The place of a layer in the whole model seeds its random heads, whichever layers are probed.
    try:
        names = [layer.name for layer in attention_layers(model, heads=heads)]
    except ValueError:  # all are described by hand
        names = []
    is_known = all(layer.name in names for layer in chosen)
    places = {id(x): names.index(x.name) if is_known else k for k, x in enumerate(chosen)}

    def jobs() -> Iterator[Callable[[], ProbedHead]]:
        for (layer, sights), again in zip(records, repeated, strict=True):
            copies = list(heads_of(layer, again, rotary, True)) if again else [None] * layer.heads
            for h, head in enumerate(heads_of(layer, sights, rotary, causal)):
                copy = copies[h]
                induction = None if copy is None else (copy.logits, copy.inputs.visible, periods)
                yield partial(
                    probe_head, head, settings, (places[id(layer)], h), layer.name, padded, induction
                )

    total = sum(layer.heads for layer, _ in records)
    probed: list[ProbedHead] = []
    with serial_blas(), ThreadPoolExecutor(count) as pool:
        for head in in_order(pool.submit, jobs(), 2 * count):  # few at a time: each has its own tables
            probed.append(head)
            if progress is not None:
                progress(len(probed), total)
    return Heads(corrected(probed), words, settings.queries, settings.null, settings.seed, rotary)


ONE_TOKEN = "texts must have two tokens or more, got one each: there is nothing to select; give longer ones"


def _records(layers: list[AttentionLayer], sights: list[list[Sight | None]], causal: bool | None) -> Records:
    """The layers that were called, with a sight for each text."""
    if not sights:
        raise ValueError(ONE_TOKEN)
    records: Records = []
    for layer, of_texts in zip(layers, zip(*sights, strict=True), strict=True):
        complete = [sight for sight in of_texts if sight is not None]
        if len(complete) == len(of_texts):
            records.append((layer, complete))
    if not records:
        raise ValueError(
            "model must call the projections of its attention layers, got no call of "
            f"{layers[0].name or 'its layer'}: a fused kernel hides them; switch it off, or describe "
            "the layers by hand as hm.torch.AttentionLayer"
        )
    if all(len(sight.x) < 2 for _, of_texts in records for sight in of_texts):
        raise ValueError(ONE_TOKEN)
    hidden = [layer.name for layer, of_texts in records if any(sight.weights is None for sight in of_texts)]
    if hidden and causal is None:
        raise ValueError(
            f"model must show its attention weights, got none from {hidden[0] or 'its layer'}: "
            "a fused kernel hides them; choose eager attention, or pass causal=True or causal=False to trust "
            "the projections"
        )
    return records


def default_texts() -> list[str]:
    """Return sixty-four English sentences of a dozen words or more."""
    return resources.files("hardmax.torch.probing").joinpath("texts.txt").read_text("utf-8").splitlines()


def _items(
    model: nn.Module, texts: Any, tokenizer: Any, length: int
) -> tuple[list[Any], list[list[str]], list[Any] | None]:
    """Return the inputs of the model one by one, their tokens as words, and token numbers if any."""
    inputs = default_texts() if texts is None else texts
    if isinstance(inputs, str):
        inputs = [inputs]
    if isinstance(inputs, Mapping | torch.Tensor):
        items = _of_batch(model, inputs, length)
    else:
        items = _of_texts(model, inputs, tokenizer, length)
    tokens = [
        item["input_ids"] if isinstance(item, Mapping) and "input_ids" in item else item for item in items
    ]
    if not all(isinstance(x, torch.Tensor) and not x.is_floating_point() for x in tokens):
        return items, [[] for _ in items], None
    ids = [x[0].cpu().numpy() for x in tokens]
    spelled = [x.tolist() if tokenizer is None else tokenizer.convert_ids_to_tokens(x.tolist()) for x in ids]
    return items, [[str(word) for word in words] for words in spelled], ids


def _of_texts(model: nn.Module, texts: Any, tokenizer: Any, length: int) -> list[Any]:
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"texts must be sentences or a batch of tensors, got {type(texts).__name__}; give a list of str"
        )
    if tokenizer is None:
        raise ValueError(
            "tokenizer must be given with texts, got none; pass the model's own, or a batch of tensors"
        )
    device = next(model.parameters()).device
    markers = set(tokenizer("")["input_ids"])
    items = []
    for text in texts:
        numbers = list(tokenizer(text)["input_ids"])
        if len(numbers) > length:  # an end marker belongs to the model's training data, and stays
            numbers = [*numbers[: length - 1], numbers[-1]] if numbers[-1] in markers else numbers[:length]
        if len(numbers) >= 2:
            items.append({"input_ids": torch.tensor(numbers, device=device)[None]})
    if not items:
        raise ValueError(ONE_TOKEN)
    return items


def _of_batch(model: nn.Module, batch: Any, length: int) -> list[Any]:
    first = [m.batch_first for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    if isinstance(batch, torch.Tensor) and batch.dim() == 3 and first and not all(first):
        raise ValueError(
            "texts must have inputs along the first axis, got a model with batch_first=False; "
            "make it with batch_first=True (the weights are the same)"
        )
    tensors = dict(batch) if isinstance(batch, Mapping) else {"": batch}
    lead = next((x for name, x in tensors.items() if name in ("input_ids", "")), None)
    lead = next(iter(tensors.values()), None) if lead is None else lead
    if not isinstance(lead, torch.Tensor) or lead.dim() < 2:
        raise ValueError(
            f"texts must be a batch of tensors, inputs along the first axis, got {type(lead).__name__}"
        )
    mask = tensors.pop("attention_mask", None)
    items: list[Any] = []
    for b in range(len(lead)):
        item = {}
        for name, value in tensors.items():
            part = value[b : b + 1]
            if mask is not None and part.dim() > 1 and part.shape[1] == mask.shape[1]:
                part = part[:, mask[b].bool()]
            tokens = not lead.is_floating_point() or name in ("", "inputs_embeds")
            if tokens and part.dim() <= 3 and part.shape[1] > length:
                part = part[:, :length]
            item[name] = part
        items.append(item if isinstance(batch, Mapping) else item[""])
    return items


def _repeated(model: nn.Module, records: Records, ids: list[Any] | None) -> tuple[list[Any], Any]:
    """The sights of texts that are repeated once, for each layer, and their periods.

    There are none unless tokens have numbers and no layer looks ahead.
    """
    few = [numbers for numbers in (ids or ())[:TWICE] if len(numbers) > 3]
    weights = [sight.weights for _, sights in records for sight in sights]
    if not few or any(w is None or np.triu(w.max(axis=0), 1).any() for w in weights):
        return [None] * len(records), None
    device = next(model.parameters()).device
    items = [{"input_ids": torch.tensor(np.tile(x, 2), device=device)[None]} for x in few]
    sights = see(model, [layer for layer, _ in records], items)
    return list(zip(*sights, strict=True)), np.array([len(x) for x in few])
