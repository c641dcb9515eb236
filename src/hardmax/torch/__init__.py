"""PyTorch (extra ``torch``): attention with an exact backward, the papers' models, the heads of real ones."""

from typing import Any

from hardmax._lib.extras import install
from hardmax._lib.lazy import attach_stub

# Nothing imports PyTorch before it is asked for, and no file has the name of a public function: importing the
# file would rebind that name.
_get, __dir__, __all__ = attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise ImportError(f"hm.torch.{name} needs PyTorch ({missing}): {install('torch')}") from missing
