"""Types of the public names: the same as the table in __init__.py."""

from .display import RunDisplay as RunDisplay
from .factored.training import FactorRun as FactorRun
from .forecasting import Forecast as Forecast
from .forecasting import RateWarning as RateWarning
from .forecasting import forecast as forecast
from .gradient import Gradient as Gradient
from .measures import SignedLog as SignedLog
from .measures import Smoothness as Smoothness
from .measures import smoothness as smoothness
from .measures import soft_sparsity as soft_sparsity
from .thresholds import adam_growth as adam_growth
from .thresholds import adam_limit as adam_limit
from .thresholds import adam_waiting as adam_waiting
from .thresholds import critical_rate as critical_rate
from .thresholds import freezing_rate as freezing_rate
from .thresholds import mirror_onset as mirror_onset
from .thresholds import runaway_rate as runaway_rate
from .vector import WeightRun as WeightRun
