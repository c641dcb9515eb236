"""Laws of learning rates, as `hm.limits` has them: thresholds, and the expected limit of an optimizer."""

from hardmax.dynamics.laws import Forecast as Forecast
from hardmax.dynamics.laws import RateWarning as RateWarning
from hardmax.dynamics.laws import adam_growth as adam_growth
from hardmax.dynamics.laws import adam_limit as adam_limit
from hardmax.dynamics.laws import adam_waiting as adam_waiting
from hardmax.dynamics.laws import critical_rate as critical_rate
from hardmax.dynamics.laws import forecast as forecast
from hardmax.dynamics.laws import freezing_rate as freezing_rate
from hardmax.dynamics.laws import mirror_onset as mirror_onset
from hardmax.dynamics.laws import runaway_rate as runaway_rate
