"""The public names of this package: read by type checkers, and by `lazy_loader` at run time."""

from .decomposition import Decomposition as Decomposition
from .decomposition import Survivors as Survivors
from .decomposition import survivors as survivors
from .late import LateComparison as LateComparison
from .late import LateResidual as LateResidual
from .late import late_residual as late_residual
from .late import path_offset as path_offset
from .laws import Forecast as Forecast
from .laws import RateWarning as RateWarning
from .laws import adam_growth as adam_growth
from .laws import adam_limit as adam_limit
from .laws import adam_waiting as adam_waiting
from .laws import critical_rate as critical_rate
from .laws import forecast as forecast
from .laws import freezing_rate as freezing_rate
from .laws import mirror_onset as mirror_onset
from .laws import runaway_rate as runaway_rate
from .paths import JointPath as JointPath
from .paths import LocalPath as LocalPath
from .paths import RegularizationPath as RegularizationPath
from .paths import joint_path as joint_path
from .paths import local_path as local_path
from .paths import regularization_path as regularization_path
from .stationary import basin_boundary as basin_boundary
