"""PyTorch (extra ``torch``): attention with an exact backward, the papers' models, the heads of real ones."""

from typing import Any

from hardmax._lib.extras import install
from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. Nothing imports PyTorch before it is asked for, and no file has the
# name of a public function: importing the file would rebind that name.
_NAMES = {
    "AttentionLayer": "layers",
    "AuditCase": "auditing",
    "AuditResult": "auditing",
    "Heads": "probing.tables",
    "KeyQuery": "embedding_models",
    "MultiheadAttention": "multihead",
    "NextToken": "embedding_models",
    "OneLayer": "embedding_models",
    "ProbedHead": "probing.heads",
    "Projection": "layers",
    "QueryAttention": "embedding_models",
    "TunedPrompt": "embedding_models",
    "TwoLayer": "embedding_models",
    "VisionTransformer": "vision",
    "Watch": "watching",
    "assert_accurate": "auditing",
    "attention_layers": "layers",
    "attention_weights": "dot_product",
    "audit": "auditing",
    "exact_attention": "replacement",
    "padded": "embedding_models",
    "point_of": "problems",
    "problem_of": "problems",
    "register_with_transformers": "replacement",
    "scaled_dot_product_attention": "dot_product",
    "softmax": "zero_sum",
    "watch": "watching",
}

_get, __dir__, __all__ = lazy(__name__, _NAMES)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise ImportError(f"hm.torch.{name} needs PyTorch ({missing}): {install('torch')}") from missing
