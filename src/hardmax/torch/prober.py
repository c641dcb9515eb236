"""The engine of `hm.probe`: what each head of a trained model selects, how hard, and compared with chance."""

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
from hardmax.torch.probing.heads import NULL, ProbedHead, ProbeSettings, probe_head
from hardmax.torch.probing.inputs import QUERIES
from hardmax.torch.probing.seeing import Sight, finite, heads_of, see
from hardmax.torch.probing.tables import Heads, corrected, null_notes

LENGTH = 12  # tokens of a text: rows are 64 queries times the tokens each can see
TWICE = 24  # texts that are said twice, for induction
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
        texts: sentences (with a tokenizer), or a batch: what the model takes, a tensor or a dictionary of
            tensors, inputs along the first axis. Sixty-four English sentences by default.
        tokenizer: of the model, as `transformers` has them; anything that turns a text into ``input_ids``.
        queries: how many of a head's hardest queries make its max-margin problem.
        null: Number of random heads that each head is compared with. Fewer than 19 cannot reach p = 0.05, and
            a warning states that.
        length: tokens of a text that are kept.
        rotary: where positions rotate, "rotated" takes queries and keys after the rotation, "lift" the
            relaxation in which every distance has its own matrix.
        causal: whether tokens look back only; asked for where a layer hides its attention.
        layers: names of layers, or layers described by hand; all that are found by default.
        heads: Number of query heads of a layer whose module declares neither `num_heads`, `n_head` nor
            `head_dim`.
        workers: threads; as many as there are cores by default.
        rng: seed of the random heads.
        progress: called as ``progress(done, total)`` with numbers of heads.
    """
    settings = ProbeSettings(
        expect.whole("queries", queries, 1), expect.whole("null", null, 1), seed=expect.whole("rng", rng)
    )
    for note in null_notes(settings.null):
        warnings.warn(note, stacklevel=2)
    expect.one_of("rotary", rotary, ROTARY)
    expect.whole("length", length, 2)
    try:
        chosen = attention_layers(model, layers, heads=heads)
    except AttributeError as error:
        raise ValueError(f"layers must be names of the model's modules, got {layers}: {error}") from error
    for layer in chosen:
        finite(layer)
    items, words, ids = _items(model, texts, tokenizer, length)
    sights: list[list[Any]] = _seen(model, chosen, items)
    usable = [k for k in range(len(chosen)) if all(of_text[k] is not None for of_text in sights)]
    _refuse(chosen, usable, sights, causal)
    twice = _said_twice(model, [chosen[k] for k in usable], ids, sights, usable)
    padded, numbers = _padded_ids(ids), _numbers(model, chosen, heads)

    def jobs() -> Iterator[Callable[[], ProbedHead]]:
        for n, k in enumerate(usable):
            in_texts = heads_of(chosen[k], [of_text[k] for of_text in sights], rotary, causal)
            second = [] if twice is None else list(heads_of(chosen[k], twice[0][n], rotary, True))
            for h, head in enumerate(in_texts):
                repeated = None
                if twice is not None:
                    repeated = second[h].logits, second[h].inputs.visible, twice[1]
                yield partial(probe_head, head, settings, (numbers[k], h), chosen[k].name, padded, repeated)

    probed = _run(jobs(), sum(chosen[k].heads for k in usable), workers, progress)
    return Heads(corrected(probed), words, settings.queries, settings.null, settings.seed, rotary)


def _numbers(model: nn.Module, found: list[AttentionLayer], heads: int | None) -> list[int]:
    """The place of each layer in the whole model, whichever are asked for: it seeds the random heads too."""
    try:
        every = [layer.name for layer in attention_layers(model, heads=heads)]
    except ValueError:  # all are described by hand
        every = []
    is_known = all(layer.name in every for layer in found)
    return [every.index(layer.name) if is_known else k for k, layer in enumerate(found)]


def _run(
    jobs: Iterator[Callable[[], ProbedHead]], total: int, workers: int | None, progress: Progress | None
) -> list[ProbedHead]:
    """Heads in order, whatever the number of threads; few are held at a time: each has its own tables."""
    count = cores() if workers is None else expect.whole("workers", workers, 1)
    done: list[ProbedHead] = []
    with serial_blas(), ThreadPoolExecutor(count) as pool:
        for head in in_order(pool.submit, jobs, 2 * count):
            done.append(head)
            if progress is not None:
                progress(len(done), total)
    return done


def _seen(model: nn.Module, layers: list[AttentionLayer], items: list[Any]) -> list[list[Any]]:
    """Record what each layer saw of each item; errors of the model and nan become a ValueError."""
    try:
        record: list[list[Any]] = see(model, layers, items)
    except Exception as error:  # the model's own code
        what = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        raise ValueError(
            f"model must run on the texts, got {what}; check that the tokenizer belongs to the model, that "
            "its positions are enough for the length, and that its config is undamaged"
        ) from error
    for sights in record:
        for layer, sight in zip(layers, sights, strict=True):
            if sight is None:
                continue
            arrays = (sight.x, sight.z) if sight.weights is None else (sight.x, sight.z, sight.weights)
            if not all(np.isfinite(array).all() for array in arrays):
                raise ValueError(
                    f"model must compute finite numbers, got nan or inf in layer {layer.name}; "
                    "its weights may be damaged, fetch them again"
                )
    return record


ONE_TOKEN = "texts must have two tokens or more, got one each: there is nothing to select; give longer ones"


def _refuse(
    found: list[AttentionLayer], usable: list[int], seen: list[list[Any]], causal: bool | None
) -> None:
    """Refuse what cannot be probed, with a clear message."""
    if not usable:
        raise ValueError(
            "model must call the projections of its attention layers, got no call of "
            f"{found[0].name or 'its layer'}: a fused kernel hides them; switch it off, or describe "
            "the layers by hand as hm.torch.AttentionLayer"
        )
    if all(len(of_text[k].x) < 2 for of_text in seen for k in usable):
        raise ValueError(ONE_TOKEN)
    hidden = [found[k].name for k in usable if any(of_text[k].weights is None for of_text in seen)]
    if hidden and causal is None:
        raise ValueError(
            f"model must show its attention weights, got none from {hidden[0] or 'its layer'}: "
            "a fused kernel hides them; choose eager attention, or say causal=True or causal=False to trust "
            "the projections"
        )


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
        return _batch(_inputs_first(model, inputs), tokenizer, length)
    if not isinstance(inputs, Sequence) or not inputs or not all(isinstance(text, str) for text in inputs):
        raise ValueError(
            f"texts must be sentences or a batch of tensors, got {type(inputs).__name__}; give a list of str"
        )
    if tokenizer is None:
        raise ValueError(
            "tokenizer must be given with texts, got none; pass the model's own, or a batch of tensors"
        )
    device = next(model.parameters()).device
    markers = set(tokenizer("")["input_ids"])
    ids, words = [], []
    for text in inputs:
        numbers = list(tokenizer(text)["input_ids"])
        if len(numbers) > length:  # an end marker belongs to what the model was trained on, and stays
            numbers = [*numbers[: length - 1], numbers[-1]] if numbers[-1] in markers else numbers[:length]
        if len(numbers) >= 2:
            ids.append(np.array(numbers))
            words.append([str(word) for word in tokenizer.convert_ids_to_tokens(numbers)])
    if not ids:
        raise ValueError(ONE_TOKEN)
    items = [{"input_ids": torch.tensor(numbers, device=device)[None]} for numbers in ids]
    return items, words, ids


def _inputs_first(model: nn.Module, given: Any) -> Any:
    """Refuse tensors with positions along the first axis, which is PyTorch's default."""
    first = [m.batch_first for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    if isinstance(given, torch.Tensor) and given.dim() == 3 and first and not all(first):
        raise ValueError(
            "texts must have inputs along the first axis, got a model with batch_first=False; "
            "make it with batch_first=True (the weights are the same)"
        )
    return given


def _batch(given: Any, tokenizer: Any, length: int) -> tuple[list[Any], list[list[str]], list[Any] | None]:
    named = dict(given) if isinstance(given, Mapping) else {"": given}
    lead = next((v for n, v in named.items() if n in ("input_ids", "")), next(iter(named.values()), None))
    if not isinstance(lead, torch.Tensor) or lead.dim() < 2:
        raise ValueError(
            f"texts must be a batch of tensors, inputs along the first axis, got {type(lead).__name__}"
        )
    mask = named.pop("attention_mask", None)
    items: list[Any] = []
    words: list[list[str]] = []
    ids: list[Any] = []
    whole = not torch.is_floating_point(lead)
    for b in range(len(lead)):
        keep = None if mask is None else mask[b].bool()
        one = {}
        for name, value in named.items():
            part = value[b : b + 1]
            if keep is not None and part.dim() > 1 and part.shape[1] == len(keep):
                part = part[:, keep]
            if (whole or name in ("", "inputs_embeds")) and part.dim() <= 3 and part.shape[1] > length:
                part = part[:, :length]
            one[name] = part
        if whole:
            numbers = one.get("input_ids", one.get("")).cpu().numpy()[0]  # type: ignore[union-attr]
            ids.append(numbers)
            named_words = None if tokenizer is None else tokenizer.convert_ids_to_tokens(numbers.tolist())
            words.append([str(w) for w in named_words or numbers.tolist()])
        else:
            words.append([])
        items.append(one if isinstance(given, Mapping) else one[""])
    return items, words, ids if whole else None


def _padded_ids(ids: list[Any] | None) -> Any:
    """(S, T), every pad its own number so that it equals nothing."""
    if ids is None:
        return None
    length = max(map(len, ids))
    whole = -1 - np.arange(len(ids) * length).reshape(len(ids), length)
    for s, numbers in enumerate(ids):
        whole[s, : len(numbers)] = numbers
    return whole


def _said_twice(
    model: nn.Module, layers: list[AttentionLayer], ids: list[Any] | None, seen: Any, usable: list[int]
) -> tuple[list[list[Sight]], Any] | None:
    """Run texts that are repeated once, where tokens have numbers and no layer looks ahead."""
    if ids is None or not layers:
        return None
    for of_text in seen:
        for k in usable:
            weights = of_text[k].weights
            if weights is None or np.triu(weights.max(axis=0), 1).any():
                return None
    few = [numbers for numbers in ids[:TWICE] if len(numbers) > 3]
    if not few:
        return None
    device = next(model.parameters()).device
    items = [
        {"input_ids": torch.tensor(np.concatenate([numbers, numbers]), device=device)[None]}
        for numbers in few
    ]
    again = _seen(model, layers, items)
    sights: list[list[Any]] = [[of_text[k] for of_text in again] for k in range(len(layers))]
    return sights, np.array([len(numbers) for numbers in few])
