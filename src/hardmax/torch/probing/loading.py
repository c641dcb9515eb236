"""Models from files, as plain tensors: a folder of `transformers` (safetensors), or a GGUF file of a Llama.

Nothing that could hold code is read: no pickles, no code of a repository, no network. Configs and indices are
not trusted. Weights are read from safetensors files inside the folder only, a config may declare no more than
these files contain, and settings that choose code are dropped. The header of a GGUF file is walked once so
that no count in it leads beyond the end of the file.
"""

from __future__ import annotations

import math
import operator
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as hooks

from hardmax._lib.reading import LARGEST_JSON, NotJson, parse_json, read_bytes, read_json

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model")
LAYERS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def load(path: str | Path) -> tuple[nn.Module, Any]:
    """Load a model and its tokenizer; a ValueError names the missing part of a folder or file."""
    place = Path(path)
    if place.is_dir():
        return _folder(place)
    with place.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise ValueError(
            f"{place} must be a GGUF file or a folder with config.json and *.safetensors, got neither; "
            "pickled weights (.bin, .pt) are never opened, save them as safetensors"
        )
    with reading(f"{place} must be a whole GGUF file of a Llama", passed=ModuleNotFoundError):
        check_header(place)
        return _llama(place)


def _folder(place: Path) -> tuple[nn.Module, Any]:
    if not (place / "config.json").is_file():
        raise ValueError(
            f"{place} must hold config.json, as save_pretrained writes it, got none; add the file"
        )
    files = weight_files(place)
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    weights = read_weights(files)
    with offline():
        model, config = build(place, read_config(place, len(weights)), weights)
        return model.eval(), _folder_tokenizer(place, config)


def _folder_tokenizer(place: Path, config: Any) -> Any:
    """The tokenizer of a folder, or None if it has none."""
    for name in (*TOKENIZERS, "tokenizer_config.json"):
        if (place / name).is_symlink() or (place / name).exists():
            inside(place, name, Path(name).suffix)
    if not any((place / name).is_file() for name in TOKENIZERS):
        return None
    from transformers import AutoTokenizer

    with reading(f"{place} must hold a tokenizer that transformers reads", SAVED):
        tokenizer = AutoTokenizer.from_pretrained(
            place, config=config, local_files_only=True, trust_remote_code=False
        )
        tokenizer("a text")
    return tokenizer


class Unfit(ValueError):
    """Settings of a file that do not fit its tensors; the message is for the user as it is."""


def _llama(place: Path) -> tuple[nn.Module, Any]:
    """A Llama: dequantized tensors in the places where transformers has them."""
    from gguf import GGUFReader, dequantize
    from transformers import LlamaModel

    reader = GGUFReader(place)
    settings = {name: field.contents() for name, field in reader.fields.items()}
    kind = settings.get("general.architecture")
    if kind != "llama":
        raise Unfit(
            f"{place} must be a GGUF file of the architecture llama, got {kind!r:.60}; "
            "convert it to safetensors"
        )
    if sum(tensor.n_bytes for tensor in reader.tensors) > place.stat().st_size:
        raise Unfit(f"{place} must hold its tensors one after the other, got some that share; fetch it again")
    weights = {
        tensor.name: torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
        for tensor in reader.tensors
    }
    config = _llama_config(place, settings, weights)
    state = {
        "embed_tokens.weight": weights["token_embd.weight"],
        "norm.weight": weights["output_norm.weight"],
    }
    paired = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for n in range(config.num_hidden_layers):
        for ours, theirs in LAYERS.items():
            tensor = weights[f"blk.{n}.{ours}.weight"]
            state[f"layers.{n}.{theirs}.weight"] = (
                unpaired(tensor, paired[ours]) if ours in paired else tensor
            )
    model = LlamaModel(config)
    model.load_state_dict(state, strict=True)
    check_finite(place, model)
    return model.eval(), _gguf_tokenizer(settings, settings["tokenizer.ggml.tokens"])


def _llama_config(place: Path, settings: dict[str, Any], weights: dict[str, torch.Tensor]) -> Any:
    """Return the configuration of a plain Llama whose settings fit its tensors."""
    from transformers import LlamaConfig

    def number(name: str, what: str, fits: Callable[[Any], bool], default: Any = None) -> Any:
        value = settings.get(f"llama.{name}", default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not fits(value):
            raise Unfit(f"{place} must have llama.{name} {what}, got {value!r:.60}; fetch it again")
        return value

    def whole(name: str, most: int, default: Any = None) -> int:
        what = f"as an integer from 1 to {most}"
        return number(name, what, lambda x: isinstance(x, int) and 1 <= x <= most, default)

    def positive(name: str, default: Any = None) -> float:
        return float(number(name, "as a positive number", lambda x: 0 < x < float("inf"), default))

    words = settings["tokenizer.ggml.tokens"]
    embeddings = weights["token_embd.weight"]
    width, inner_width = embeddings.shape[1], weights["blk.0.ffn_gate.weight"].shape[0]
    heads = whole("attention.head_count", width)
    key_heads = whole("attention.head_count_kv", heads, heads)
    layers = whole("block_count", len(weights))
    for name, size in (("embedding_length", width), ("feed_forward_length", inner_width)):
        number(name, f"= {size}, as its tensors", partial(operator.eq, size))
    if len(words) != len(embeddings):
        raise Unfit(
            f"{place} must have a token for each of its {len(embeddings)} embeddings, got {len(words)}; "
            "fetch it again"
        )
    used = {f"blk.{n}.{ours}.weight" for n in range(layers) for ours in LAYERS}
    other = sorted(set(weights) - used - {"token_embd.weight", "output_norm.weight", "output.weight"})
    scaling = settings.get("llama.rope.scaling.type", "none")
    if other or scaling != "none":
        what = f"the tensor {other[0]!r:.60}" if other else f"rotary positions scaled by {scaling!r:.60}"
        raise Unfit(f"{place} must be a plain Llama, got {what}; convert it to safetensors")
    return LlamaConfig(
        vocab_size=len(words),
        hidden_size=width,
        intermediate_size=inner_width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        max_position_embeddings=whole("context_length", 2**31, 2048),
        rms_norm_eps=positive("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": positive("rope.freq_base", 10000.0)},
        attn_implementation="eager",
        bos_token_id=None,
        eos_token_id=None,
    )


def unpaired(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder rows of queries or keys from adjacent pairs (GGUF) to halves (transformers)."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2).contiguous()


def _gguf_tokenizer(settings: dict[str, Any], words: list[str]) -> Any:
    """Byte-level pairs, as GGUF keeps them; None for other kinds, whose texts must come as numbers."""
    if settings.get("tokenizer.ggml.model") != "gpt2":
        return None
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pairs = [tuple(merge.split(" ", 1)) for merge in settings["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE({word: n for n, word in enumerate(words)}, pairs))
    smollm = settings.get("tokenizer.ggml.pre") == "smollm"
    digits = [pre_tokenizers.Digits(individual_digits=True)] if smollm else []
    inner.pre_tokenizer = pre_tokenizers.Sequence([*digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    inner.decoder = decoders.ByteLevel()
    first = settings.get("tokenizer.ggml.bos_token_id")
    if first is not None and settings.get("tokenizer.ggml.add_bos_token"):
        marker = {"id": "first", "ids": [first], "tokens": ["first"]}
        inner.post_processor = processors.TemplateProcessing(["first", "$A"], special_tokens=[marker])
    return PreTrainedTokenizerFast(tokenizer_object=inner)


def read_texts(path: str | os.PathLike[str]) -> list[str]:
    """Read the texts of a file: a JSON list of strings, or one text per line."""
    try:
        whole = read_bytes(path, LARGEST_JSON).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be a text in UTF-8, got something else") from None
    if whole.lstrip().startswith("["):
        try:
            listed = parse_json(whole)
        except NotJson as error:
            raise ValueError(f"{path} is not valid JSON: {error}; give a list of strings") from None
        if not isinstance(listed, list) or not listed or not all(isinstance(text, str) for text in listed):
            raise ValueError(
                f"{path} must be a JSON list of strings, got {listed!r:.60}; or give one text per line"
            )
        return listed
    lines = [line for line in whole.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path} must hold texts, one per line, got none")
    return lines


WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SAVED = "save it with save_pretrained, or fetch it again"
QUANTIZED = ("quantization_config", "compression_config")
# Settings that choose code, kernels, files or devices instead of describing the architecture; so do all whose
# name begins with an underscore. Labels belong to classifiers, whose last layer is never built.
DROPPED = {
    *QUANTIZED,
    "adapter_kwargs",
    "attn_implementation",
    "auto_map",
    "backbone",
    "backbone_kwargs",
    "custom_pipelines",
    "device_map",
    "distributed_config",
    "dtype",
    "experts_implementation",
    "fusion_config",
    "gguf_file",
    "id2label",
    "kernel_config",
    "label2id",
    "name_or_path",
    "num_labels",
    "torch_dtype",
    "transformers_weights",
    "trust_remote_code",
    "use_kernels",
    "use_pretrained_backbone",
    "use_timm_backbone",
}
# Names of settings that count modules, as num_hidden_layers, n_layer, encoder_layers, depths.
COUNTS = re.compile(r"(?!max_)(.*_)?(n?layers?|blocks|depths?|stages|experts)$")
SLACK = 2**20  # numbers that a model may have beyond twice those of the files, as a new pooler of BERT
BUFFERS = 2**24  # numbers in buffers that no file contains, as causal masks and rotations


def inside(place: Path, name: Any, suffix: str, owner: str = "") -> Path:
    """Return the path of a file of the folder, links resolved; raise for every other."""
    whose = f"{owner} must name" if owner else f"{place} must hold"
    if not isinstance(name, str) or not name.endswith(suffix):
        raise ValueError(
            f"{whose} *{suffix} files of the folder, got {name!r:.80}; save the model as safetensors"
        )
    try:
        home = place.resolve()
        target = (place / name).resolve(strict=True)  # a link of the hub's cache leads to a blob of the model
        fits = target.is_file() and (
            (target.name.endswith(suffix) and target.is_relative_to(home))
            or (home.parent.name == "snapshots" and target.parent == home.parent.parent / "blobs")
        )
    except (OSError, ValueError, RuntimeError):  # not there, not a name, or a link to itself
        raise ValueError(f"{whose} {name!r:.80}, got no such file; fetch the folder again") from None
    if not fits:
        raise ValueError(
            f"{whose} {name!r:.80} as a file inside the folder, got {target}; copy the file into the folder"
        )
    return target


def weight_files(place: Path) -> list[Path]:
    """Return the safetensors files of a folder: model.safetensors, or those that its index names."""
    if (place / WEIGHTS).is_file():
        return [inside(place, WEIGHTS, ".safetensors")]
    if not (place / INDEX).is_file():
        raise ValueError(
            f"{place} must hold weights as {WEIGHTS} or {INDEX}, got neither; pickled weights (.bin) are "
            "never opened, save them with save_pretrained(..., safe_serialization=True)"
        )
    path = inside(place, INDEX, ".json")
    index = read_json(path, "the index that save_pretrained writes")
    names = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(names, dict) or not names:
        raise ValueError(f"{path} must have a weight_map from tensors to files, got none; {SAVED}")
    unique = dict.fromkeys(name if isinstance(name, str) else repr(name) for name in names.values())
    return [inside(place, name, ".safetensors", str(path)) for name in unique]


def read_weights(files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Read all tensors of safetensors files, whose format rules out more than the files' own size."""
    from safetensors import safe_open

    tensors = {}
    for path in files:
        with reading(f"{path} must be a whole safetensors file"), safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (it is not a dictionary)
                tensors[name] = file.get_tensor(name)
    if not tensors:
        raise ValueError(f"{files[0]} must hold tensors, got none; {SAVED}")
    return tensors


def read_config(place: Path, tensors: int) -> dict[str, Any]:
    """Return the settings of config.json that describe the architecture, with at most ``tensors`` layers."""
    path = inside(place, "config.json", ".json")
    config = read_json(path, "the config.json that save_pretrained writes")
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ValueError(f"{path} must be an object with a model_type, got none; {SAVED}")
    for name in QUANTIZED:
        if config.get(name) is not None:
            raise ValueError(
                f"{path} must describe weights that are not quantized, got {name}; dequantize the model and "
                "save it again, or use a GGUF file"
            )
    try:
        return _architecture(path, "", config, tensors)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply; {SAVED}") from None


def _architecture(path: Path, name: str, value: Any, tensors: int) -> Any:
    """A setting without the settings to drop inside it; the weights bound a count of layers."""
    if isinstance(value, dict):
        remaining = ((key, x) for key, x in value.items() if key[:1] != "_" and key not in DROPPED)
        return {key: _architecture(path, key, x, tensors) for key, x in remaining}
    counts = value if isinstance(value, list) else [value]
    if COUNTS.match(name) and any(isinstance(n, int | float) and not n <= tensors for n in counts):
        raise ValueError(
            f"{path} must declare as many layers as its weights have, got {name} = {value!r:.60} for "
            f"{tensors} tensors; {SAVED}"
        )
    return value


def build(place: Path, config: dict[str, Any], weights: dict[str, torch.Tensor]) -> tuple[nn.Module, Any]:
    """Build the model of a config with eager attention and given weights; return it and its configuration.

    transformers sees neither the folder nor its files: without a name there is nothing to look up.
    """
    from transformers import CONFIG_MAPPING, MODEL_MAPPING

    kind = config["model_type"]
    if kind not in CONFIG_MAPPING or CONFIG_MAPPING[kind] not in MODEL_MAPPING:
        raise ValueError(
            f"{place} must be of a model type that transformers has, got {kind!r:.60}; models with their own "
            "code are not loaded, install a transformers that has it"
        )
    with reading(f"{place} must be a model that transformers reads", SAVED):
        settings = CONFIG_MAPPING[kind].from_dict(config, attn_implementation="eager")
        model_class = MODEL_MAPPING[type(settings)]
        model_class = model_class[0] if isinstance(model_class, tuple) else model_class
        with bounded(place, weights.values()):
            model, loaded = model_class.from_pretrained(
                None,
                config=settings,
                state_dict=weights,
                dtype=torch.float32,
                attn_implementation="eager",
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    if model.main_input_name != "input_ids":
        raise ValueError(
            f"{place} must be a model of texts, got one of {model.main_input_name}; pass it with a batch to "
            "hm.probe"
        )
    if getattr(settings, "is_encoder_decoder", False):
        raise ValueError(
            f"{place} must be an encoder or a decoder, got both in one model; save model.get_encoder() alone"
        )
    missing = sorted(name for name in loaded["missing_keys"] if "pooler" not in name)
    if missing:
        raise ValueError(
            f"{place} must hold the weights of all layers that its config declares, got none for "
            f"{missing[0]} ({len(missing)} missing); {SAVED}"
        )
    check_finite(place, model)
    return model, settings


def check_finite(place: Path, model: nn.Module) -> None:
    """Refuse weights with nan or inf."""
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise ValueError(f"{place} must hold finite weights, got nan or inf in {name}; fetch it again")


@contextmanager
def bounded(place: Path, weights: Any) -> Iterator[None]:
    """Stop the construction of a model, on the device meta, once it outgrows the weights it is made for."""
    sizes = [tensor.numel() for tensor in weights]
    most = {"parameters": 4 * len(sizes) + 64, "numbers": 2 * sum(sizes) + SLACK, "buffers": BUFFERS}
    count = dict.fromkeys(most, 0)
    thread = threading.get_ident()

    def counted(*names: str) -> Callable[[Any, str, Any], None]:
        def hook(module: Any, name: str, tensor: Any) -> None:
            meta = isinstance(tensor, torch.Tensor) and tensor.device.type == "meta"
            if not meta or threading.get_ident() != thread:
                return
            for quantity in names:
                count[quantity] += 1 if quantity == "parameters" else tensor.numel()
                if count[quantity] > most[quantity]:
                    raise Unfit(
                        f"{place} must declare a model as large as its weights, {sum(sizes):,} numbers in "
                        f"{len(sizes)} tensors, got a larger one in config.json; {SAVED}"
                    )

        return hook

    handles = [
        hooks.register_module_parameter_registration_hook(counted("parameters", "numbers")),
        hooks.register_module_buffer_registration_hook(counted("buffers")),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def reading(what: str, remedy: str = "fetch it again", passed: type[Exception] = Unfit) -> Iterator[None]:
    """Turn an error of another library into one line: a damaged file leads its reader into any error.

    `Unfit` and errors of the class ``passed`` stay as they are.
    """
    try:
        yield
    except (Unfit, passed):
        raise
    except Exception as error:
        line = " ".join(str(error).split()) or type(error).__name__
        line = f"no {line}" if isinstance(error, KeyError) else line
        short = line if len(line) <= 160 else line[:157] + "..."
        raise ValueError(f"{what}, got: {short}; {remedy}") from error


@contextmanager
def offline() -> Iterator[None]:
    """Refuse every request to a hub, whatever a file leads transformers to."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


VERSIONS = (2, 3)
TENSORS = 2**17
SETTINGS = 2**16
DIMENSIONS = 4
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of each type of number
STRING, ARRAY = 8, 9


def check_header(path: Path) -> None:
    """Refuse a header with lengths that its file does not have; nothing is kept, so nothing grows."""
    end = path.stat().st_size
    with path.open("rb") as file:
        file.seek(4)

        def skip(size: int) -> None:
            if size > end - file.tell():
                raise ValueError("it ends within its header")
            file.seek(size, os.SEEK_CUR)

        def number(kind: str) -> int:
            content = file.read(struct.calcsize(kind))
            if len(content) < struct.calcsize(kind):
                raise ValueError("it ends within its header")
            value: int = struct.unpack(kind, content)[0]
            return value

        def skip_values(kind: int, count: int) -> None:
            if kind in SIZES:
                skip(SIZES[kind] * count)
            elif kind == STRING:
                for _ in range(count):  # each takes 8 bytes or more, so the end comes first
                    skip(number("<Q"))
            else:
                raise ValueError(f"a setting of the unknown type {kind}")

        version = number("<I")
        if version not in VERSIONS:
            raise ValueError(f"version {version} of the format, or another byte order")
        tensors, settings = number("<Q"), number("<Q")
        if tensors > TENSORS or settings > SETTINGS:
            raise ValueError(f"{tensors} tensors and {settings} settings")
        for _ in range(settings):
            skip_values(STRING, 1)
            kind = number("<I")
            if kind == ARRAY:
                skip_values(number("<I"), number("<Q"))
            else:
                skip_values(kind, 1)
        elements = 0
        for _ in range(tensors):
            skip_values(STRING, 1)
            count = number("<I")
            if count > DIMENSIONS:
                raise ValueError(f"a tensor of {count} dimensions")
            elements += math.prod(number("<Q") for _ in range(count))
            skip(4 + 8)  # its type and its place
        if elements > 8 * end:  # no format has less than a bit for each
            raise ValueError(f"tensors of {elements} numbers in {end} bytes")
