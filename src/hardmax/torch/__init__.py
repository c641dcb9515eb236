"""PyTorch (extra ``torch``): attention with an exact backward, the papers' models, the heads of real ones."""

from typing import Any

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. Nothing imports PyTorch before it is asked for.
_NAMES = {
    "AttentionLayer": "layers",
    "Projection": "layers",
    "attention_layers": "layers",
}

_get, __dir__, __all__ = lazy(__name__, _NAMES)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        from hardmax._lib.extras import install

        raise ImportError(f"hm.torch.{name} needs PyTorch ({missing}): {install('torch')}") from missing
