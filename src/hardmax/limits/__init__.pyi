"""Types of the public names: the same as the table in __init__.py."""

from .cone import LocalPath as LocalPath
from .cone import local_path as local_path
from .decomposition import Decomposition as Decomposition
from .decomposition import decompose as decompose
from .global_path import RegularizationPath as RegularizationPath
from .global_path import regularization_path as regularization_path
from .head_path import JointPath as JointPath
from .head_path import joint_path as joint_path
from .late import LateComparison as LateComparison
from .late import LateResidual as LateResidual
from .late import late_residual as late_residual
from .late import path_offset as path_offset
from .stationary import basin_boundary as basin_boundary
from .surviving import Survivors as Survivors
from .surviving import survivors as survivors
