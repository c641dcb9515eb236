"""Models from files, as plain tensors: a folder of `transformers` (safetensors), or a GGUF file of a Llama.

Nothing that could hold code is read: no pickles, no code of a repository, no network.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

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
        raise ValueError(f"{place} must hold config.json, as save_pretrained writes it, got none")
    if not any(place.glob("*.safetensors")):
        raise ValueError(
            f"{place} must hold weights as *.safetensors, got none; pickled weights (.bin) are never opened, "
            "save them with save_pretrained(..., safe_serialization=True)"
        )
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        model = AutoModel.from_pretrained(
            place,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="eager",
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{place} must be a model that transformers reads, got: {_first(error)}") from error
    if not any((place / name).is_file() for name in TOKENIZERS):
        return model.eval(), None
    return model.eval(), AutoTokenizer.from_pretrained(place, local_files_only=True, trust_remote_code=False)


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _gguf(place: Path) -> tuple[nn.Module, Any]:
    """A Llama: dequantized tensors in the places where transformers has them."""
    from gguf import GGUFReader, dequantize
    from transformers import LlamaConfig, LlamaModel

    try:
        reader = GGUFReader(place)
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(
            f"{place} must be a whole GGUF file, got: {_first(error)}; fetch it again"
        ) from error
    of = {name: field.contents() for name, field in reader.fields.items()}
    kind = of.get("general.architecture")
    if kind != "llama":
        raise ValueError(
            f"{place} must be a GGUF file of the architecture llama, got {kind!r}; convert it to safetensors"
        )
    heads = of["llama.attention.head_count"]
    keys = of.get("llama.attention.head_count_kv", heads)
    weights = {
        tensor.name: torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
        for tensor in reader.tensors
    }
    words = of["tokenizer.ggml.tokens"]
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=of["llama.embedding_length"],
        intermediate_size=of["llama.feed_forward_length"],
        num_hidden_layers=of["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=keys,
        max_position_embeddings=of.get("llama.context_length", 2048),
        rms_norm_eps=of["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": of.get("llama.rope.freq_base", 10000.0)},
        attn_implementation="eager",
        bos_token_id=None,
        eos_token_id=None,
    )
    state = {
        "embed_tokens.weight": weights["token_embd.weight"],
        "norm.weight": weights["output_norm.weight"],
    }
    for n in range(config.num_hidden_layers):
        for ours, theirs in LAYERS.items():
            tensor = weights[f"blk.{n}.{ours}.weight"]
            if ours in ("attn_q", "attn_k"):
                tensor = unpaired(tensor, heads if ours == "attn_q" else keys)
            state[f"layers.{n}.{theirs}.weight"] = tensor
    model = LlamaModel(config)
    model.load_state_dict(state, strict=True)
    return model.eval(), _tokenizer(of, words)


def unpaired(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of queries or keys from adjacent pairs, which GGUF rotates, to halves, which transformers rotates.

    >>> import torch
    >>> unpaired(torch.arange(8.0)[:, None], 2)[:, 0].tolist()
    [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]
    """
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
    from hardmax._lib.reading import LARGEST_JSON, read_bytes

    try:
        whole = read_bytes(path, LARGEST_JSON).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be a text in UTF-8, got something else") from None
    if whole.lstrip().startswith("["):
        listed = json.loads(whole)
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise ValueError(f"{path} must be a JSON list of strings, or one text per line")
        return listed
    found = [line for line in whole.splitlines() if line.strip()]
    if not found:
        raise ValueError(f"{path} must hold texts, one per line, got none")
    return found
