"""Training: the log-domain softmax and its gradient, descent, flow, and where they went."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. What most people need is at the top level of hardmax.
_NAMES = {
    "FactorRun": "factors",
    "Forecast": "laws.forecasting",
    "Gradient": "gradient",
    "RateWarning": "laws.forecasting",
    "RunDisplay": "display",
    "SignedLog": "measures",
    "Smoothness": "measures",
    "WeightRun": "vector",
    "adam_growth": "laws.thresholds",
    "adam_limit": "laws.thresholds",
    "adam_waiting": "laws.thresholds",
    "critical_rate": "laws.thresholds",
    "forecast": "laws.forecasting",
    "freezing_rate": "laws.thresholds",
    "mirror_onset": "laws.thresholds",
    "runaway_rate": "laws.thresholds",
    "smoothness": "measures",
    "soft_sparsity": "measures",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
