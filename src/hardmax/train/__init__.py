"""Training: the log-domain softmax and its gradient, descent, flow, and where they went."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {
    "FactorRun": "factored.training",
    "Forecast": "forecasting",
    "Gradient": "gradient",
    "RateWarning": "forecasting",
    "RunDisplay": "display",
    "SignedLog": "measures",
    "Smoothness": "measures",
    "WeightRun": "vector",
    "adam_growth": "thresholds",
    "adam_limit": "thresholds",
    "adam_waiting": "thresholds",
    "critical_rate": "thresholds",
    "forecast": "forecasting",
    "freezing_rate": "thresholds",
    "mirror_onset": "thresholds",
    "runaway_rate": "thresholds",
    "smoothness": "measures",
    "soft_sparsity": "measures",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
