"""A model folder of `transformers`, checked before anything is built from it.

A config and an index come from strangers. Weights are read from safetensors files inside the folder only, a
config may declare no more than these files contain, and settings that choose code are dropped.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

from hardmax._lib.reading import read_json

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SAVED = "save it with save_pretrained, or fetch it again"
# Settings that choose code, kernels, files or devices instead of describing the architecture; so do all whose
# name begins with an underscore. Labels belong to classifiers, whose last layer is never built.
DROPPED = {
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
QUANTIZED = ("quantization_config", "compression_config")
# Names of settings that count modules, as num_hidden_layers, n_layer, encoder_layers, depths.
COUNTS = re.compile(r"(?!max_)(.*_)?(n?layers?|blocks|depths?|stages|experts)$")
SLACK = 2**20  # numbers that a model may have beyond twice those of the files, as a new pooler of BERT
BUFFERS = 2**24  # numbers in buffers that no file contains, as causal masks and rotations


def inside(place: Path, name: Any, suffix: str, owner: str = "") -> Path:
    """Return the path of a file of the folder, links resolved; refuse every other."""
    whose = f"{owner} must name" if owner else f"{place} must hold"
    if not isinstance(name, str) or not name.endswith(suffix):
        raise ValueError(
            f"{whose} *{suffix} files of the folder, got {name!r:.80}; save the model as safetensors"
        )
    try:
        found = (place / name).resolve(strict=True)
        fits = found.is_file() and (
            (found.name.endswith(suffix) and found.is_relative_to(place.resolve()))
            or _is_cached(place, found)
        )
    except (OSError, ValueError, RuntimeError):  # not there, not a name, or a link to itself
        raise ValueError(f"{whose} {name!r:.80}, got no such file; fetch the folder again") from None
    if not fits:
        raise ValueError(
            f"{whose} {name!r:.80} as a file inside the folder, got {found}; copy the file into the folder"
        )
    return found


def _is_cached(place: Path, found: Path) -> bool:
    """Whether a link of a snapshot in the hub's cache leads to the blobs of the same model."""
    home = place.resolve()
    return home.parent.name == "snapshots" and found.parent == home.parent.parent / "blobs"


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
    each = list(names.values())
    unique = dict.fromkeys(name if isinstance(name, str) else repr(name) for name in each)
    return [inside(place, name, ".safetensors", str(path)) for name in unique]


def read_weights(files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Read all tensors of safetensors files, whose format rules out more than the files' own size."""
    from safetensors import safe_open

    tensors = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 (it is not a dictionary)
                    tensors[name] = file.get_tensor(name)
        except Exception as error:  # a damaged file leads the reader into any error there is
            raise ValueError(
                f"{path} must be a whole safetensors file, got: {brief(error)}; fetch it again"
            ) from error
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
        return {name: _architecture(path, name, value, tensors) for name, value in _kept(config)}
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply; {SAVED}") from None


def _kept(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    banned = (*DROPPED, *QUANTIZED)
    return ((name, value) for name, value in config.items() if name[:1] != "_" and name not in banned)


def _architecture(path: Path, name: str, value: Any, tensors: int) -> Any:
    """A setting without what is dropped inside it; a count of layers is bounded by the weights."""
    if isinstance(value, dict):
        return {each: _architecture(path, each, inner, tensors) for each, inner in _kept(value)}
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
    try:
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
    except TooLarge:
        raise
    except Exception as error:  # wrong settings lead transformers into any error there is
        raise ValueError(
            f"{place} must be a model that transformers reads, got: {brief(error)}; {SAVED}"
        ) from error
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


class TooLarge(ValueError):
    """A model that would be larger than its files."""


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
            for each in names:
                count[each] += 1 if each == "parameters" else tensor.numel()
                if count[each] > most[each]:
                    raise TooLarge(
                        f"{place} must declare a model as large as its weights, {sum(sizes):,} numbers in "
                        f"{len(sizes)} tensors, got a larger one in config.json; {SAVED}"
                    )

        return hook

    with ExitStack() as stack:
        parameters = hooks.register_module_parameter_registration_hook(counted("parameters", "numbers"))
        stack.callback(parameters.remove)
        buffers = hooks.register_module_buffer_registration_hook(counted("buffers"))
        stack.callback(buffers.remove)
        yield


def brief(error: BaseException) -> str:
    """An error of another library in one line."""
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= 160 else line[:157] + "..."


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
