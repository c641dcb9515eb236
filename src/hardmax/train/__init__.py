"""Training: the log-domain softmax and its gradient, descent, flow, and where they went."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {
    "Gradient": "gradient",
    "RunDisplay": "display",
    "SignedLog": "measures",
    "Smoothness": "measures",
    "WeightRun": "vector",
    "smoothness": "measures",
    "soft_sparsity": "measures",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
