"""Types of the public names: the same as the table in __init__.py."""

from .display import RunDisplay as RunDisplay
from .factors import FactorRun as FactorRun
from .gradient import Gradient as Gradient
from .laws.forecasting import Forecast as Forecast
from .laws.forecasting import RateWarning as RateWarning
from .laws.forecasting import forecast as forecast
from .laws.thresholds import adam_growth as adam_growth
from .laws.thresholds import adam_limit as adam_limit
from .laws.thresholds import adam_waiting as adam_waiting
from .laws.thresholds import critical_rate as critical_rate
from .laws.thresholds import freezing_rate as freezing_rate
from .laws.thresholds import mirror_onset as mirror_onset
from .laws.thresholds import runaway_rate as runaway_rate
from .measures import SignedLog as SignedLog
from .measures import Smoothness as Smoothness
from .measures import smoothness as smoothness
from .measures import soft_sparsity as soft_sparsity
from .vector import WeightRun as WeightRun
