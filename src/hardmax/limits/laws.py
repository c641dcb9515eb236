"""Laws of learning rates, as `hm.limits` has them: thresholds, and what theory expects of an optimizer."""

from hardmax.dynamics.laws import (
    Forecast,
    RateWarning,
    adam_growth,
    adam_limit,
    adam_waiting,
    critical_rate,
    forecast,
    freezing_rate,
    mirror_onset,
    runaway_rate,
)

__all__ = [
    "Forecast",
    "RateWarning",
    "adam_growth",
    "adam_limit",
    "adam_waiting",
    "critical_rate",
    "forecast",
    "freezing_rate",
    "mirror_onset",
    "runaway_rate",
]
