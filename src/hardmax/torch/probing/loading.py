"""Models from files, as plain tensors: a folder of `transformers` (safetensors), or a GGUF file of a Llama.

Nothing that could hold code is read: no pickles, no code of a repository, no network.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from hardmax._lib.reading import LARGEST_JSON, NotJson, parse_json, read_bytes
from hardmax.torch.probing import checkpoint
from hardmax.torch.probing.gguf_header import check_header

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
    """The model and its tokenizer; a ValueError says what a folder or file lacks."""
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(2, "No such file or directory", str(place))
    if place.is_dir():
        return _folder(place)
    with place.open("rb") as file:
        begins = file.read(4)
    if begins != b"GGUF":
        raise ValueError(
            f"{place} must be a GGUF file or a folder with config.json and *.safetensors, got neither; "
            "pickled weights (.bin, .pt) are never opened, save them as safetensors"
        )
    return _gguf(place)


def _folder(place: Path) -> tuple[nn.Module, Any]:
    if not (place / "config.json").is_file():
        raise ValueError(
            f"{place} must hold config.json, as save_pretrained writes it, got none; add the file"
        )
    files = checkpoint.weight_files(place)
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    weights = checkpoint.read_weights(files)
    with checkpoint.offline():
        model, config = checkpoint.build(place, checkpoint.read_config(place, len(weights)), weights)
        return model.eval(), _folder_tokenizer(place, config)


def _folder_tokenizer(place: Path, config: Any) -> Any:
    """The tokenizer of a folder, or None if it has none."""
    for name in (*TOKENIZERS, "tokenizer_config.json"):
        if (place / name).is_symlink() or (place / name).exists():
            checkpoint.inside(place, name, Path(name).suffix)
    if not any((place / name).is_file() for name in TOKENIZERS):
        return None
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            place, config=config, local_files_only=True, trust_remote_code=False
        )
        tokenizer("a text")
    except Exception as error:  # a damaged file leads transformers into any error there is
        raise ValueError(
            f"{place} must hold a tokenizer that transformers reads, got: {checkpoint.brief(error)}; "
            "save it with save_pretrained, or fetch it again"
        ) from error
    return tokenizer


def _gguf(place: Path) -> tuple[nn.Module, Any]:
    """A Llama: dequantized tensors in the places where transformers has them."""
    from gguf import GGUFReader

    try:
        check_header(place)
        reader = GGUFReader(place)
        of = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # a damaged file leads the reader into any error there is
        raise ValueError(
            f"{place} must be a whole GGUF file, got: {checkpoint.brief(error)}; fetch it again"
        ) from error
    kind = of.get("general.architecture")
    if kind != "llama":
        raise ValueError(
            f"{place} must be a GGUF file of the architecture llama, got {kind!r:.60}; "
            "convert it to safetensors"
        )
    try:
        return _llama(place, of, reader.tensors)
    except (Unfit, ModuleNotFoundError):
        raise
    except Exception as error:  # as above
        what = f"no {error}" if isinstance(error, KeyError) else checkpoint.brief(error)
        raise ValueError(
            f"{place} must be a whole GGUF file of a Llama, got: {what}; fetch it again"
        ) from error


class Unfit(ValueError):
    """A GGUF file whose settings and tensors do not make a Llama; the sentence is for the user."""


def _llama(place: Path, of: dict[str, Any], tensors: Any) -> tuple[nn.Module, Any]:
    from gguf import dequantize
    from transformers import LlamaConfig, LlamaModel

    if sum(tensor.n_bytes for tensor in tensors) > place.stat().st_size:
        raise Unfit(f"{place} must hold its tensors one after the other, got some that share; fetch it again")
    weights = {
        tensor.name: torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
        for tensor in tensors
    }
    words = of["tokenizer.ggml.tokens"]
    first = weights["token_embd.weight"]
    heads = _whole(place, of, "llama.attention.head_count", first.shape[1])
    keys = _whole(place, of, "llama.attention.head_count_kv", heads, heads)
    layers = _whole(place, of, "llama.block_count", len(weights))
    wide = weights["blk.0.ffn_gate.weight"].shape[0]
    _same(place, of, "llama.embedding_length", first.shape[1])
    _same(place, of, "llama.feed_forward_length", wide)
    if len(words) != first.shape[0]:
        raise Unfit(
            f"{place} must have a token for each of its {first.shape[0]} embeddings, got {len(words)}; "
            "fetch it again"
        )
    used = {f"blk.{n}.{ours}.weight" for n in range(layers) for ours in LAYERS}
    other = sorted(set(weights) - used - {"token_embd.weight", "output_norm.weight", "output.weight"})
    scaling = of.get("llama.rope.scaling.type", "none")
    if other or scaling != "none":
        what = f"the tensor {other[0]!r:.60}" if other else f"rotary positions scaled by {scaling!r:.60}"
        raise Unfit(f"{place} must be a plain Llama, got {what}; convert it to safetensors")
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=first.shape[1],
        intermediate_size=wide,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        max_position_embeddings=_whole(place, of, "llama.context_length", 2**31, 2048),
        rms_norm_eps=_positive(place, of, "llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={
            "rope_type": "default",
            "rope_theta": _positive(place, of, "llama.rope.freq_base", 10000.0),
        },
        attn_implementation="eager",
        bos_token_id=None,
        eos_token_id=None,
    )
    state = {"embed_tokens.weight": first, "norm.weight": weights["output_norm.weight"]}
    for n in range(layers):
        for ours, theirs in LAYERS.items():
            tensor = weights[f"blk.{n}.{ours}.weight"]
            if ours in ("attn_q", "attn_k"):
                tensor = unpaired(tensor, heads if ours == "attn_q" else keys)
            state[f"layers.{n}.{theirs}.weight"] = tensor
    model = LlamaModel(config)
    model.load_state_dict(state, strict=True)
    checkpoint.check_finite(place, model)
    return model.eval(), _tokenizer(of, words)


def _whole(place: Path, of: dict[str, Any], name: str, most: int, default: Any = None) -> int:
    value = of.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise Unfit(
            f"{place} must have {name} as an integer from 1 to {most}, got {value!r:.60}; fetch it again"
        )
    return value


def _same(place: Path, of: dict[str, Any], name: str, size: int) -> None:
    if of.get(name) != size:
        raise Unfit(
            f"{place} must have {name} = {size}, as its tensors, got {of.get(name)!r:.60}; fetch it again"
        )


def _positive(place: Path, of: dict[str, Any], name: str, default: Any = None) -> float:
    value = of.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise Unfit(f"{place} must have {name} as a positive number, got {value!r:.60}; fetch it again")
    return float(value)


def unpaired(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of queries or keys from adjacent pairs, as GGUF rotates, to halves, as transformers does."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2).contiguous()


class Spelled:
    """A tokenizer of the library `tokenizers`, called as those of transformers are."""

    def __init__(self, inner: Any, first: int | None) -> None:
        self.inner, self.first = inner, first

    def __call__(self, text: str) -> dict[str, list[int]]:
        ids = self.inner.encode(text).ids
        return {"input_ids": ids if self.first is None else [self.first, *ids]}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """The tokens as they are spelled."""
        return [self.inner.id_to_token(each) for each in ids]


def _tokenizer(of: dict[str, Any], words: list[str]) -> Any:
    """Byte-level pairs, as GGUF keeps them; None for other kinds, whose texts must come as numbers."""
    if of.get("tokenizer.ggml.model") != "gpt2":
        return None
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pairs = [tuple(each.split(" ", 1)) for each in of["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE({word: n for n, word in enumerate(words)}, pairs))
    digits = (
        [pre_tokenizers.Digits(individual_digits=True)] if of.get("tokenizer.ggml.pre") == "smollm" else []
    )
    inner.pre_tokenizer = pre_tokenizers.Sequence([*digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    inner.decoder = decoders.ByteLevel()
    first = of.get("tokenizer.ggml.bos_token_id") if of.get("tokenizer.ggml.add_bos_token") else None
    return Spelled(inner, first)


def read_texts(path: str | os.PathLike[str]) -> list[str]:
    """Texts of a file: a JSON list of strings, or one text per line."""

    try:
        whole = read_bytes(path, LARGEST_JSON).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be a text in UTF-8, got something else") from None
    if whole.lstrip().startswith("["):
        try:
            listed = parse_json(whole)
        except NotJson as error:
            raise ValueError(f"{path} is not valid JSON: {error}; give a list of strings") from None
        if not isinstance(listed, list) or not listed or not all(isinstance(each, str) for each in listed):
            raise ValueError(
                f"{path} must be a JSON list of strings, got {listed!r:.60}; or give one text per line"
            )
        return listed
    found = [line for line in whole.splitlines() if line.strip()]
    if not found:
        raise ValueError(f"{path} must hold texts, one per line, got none")
    return found
