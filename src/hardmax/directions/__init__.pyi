"""The public names of this package: read by type checkers, and by `lazy_loader` at run time."""

from .assumptions import AssumptionB as AssumptionB
from .assumptions import AssumptionC as AssumptionC
from .assumptions import AssumptionD as AssumptionD
from .assumptions import assumption_b as assumption_b
from .assumptions import assumption_c as assumption_c
from .assumptions import assumption_d as assumption_d
from .basins import plot_basins as plot_basins
from .critical import CriticalDirection as CriticalDirection
from .critical import CriticalDirections as CriticalDirections
from .direction import Direction as Direction
from .direction import LocalConstants as LocalConstants
from .direction import directional_margin as directional_margin
from .direction import in_cone as in_cone
from .direction import local_constants as local_constants
from .display import PlaneDisplay as PlaneDisplay
from .enumerate import FeasibleSelection as FeasibleSelection
from .enumerate import SelectionList as SelectionList
from .joint_margins import interpolated_max_margin as interpolated_max_margin
from .joint_margins import label_max_margin as label_max_margin
from .joint_margins import relaxed_max_margin as relaxed_max_margin
from .neighbors import Attraction as Attraction
from .neighbors import Neighbors as Neighbors
from .neighbors import is_best as is_best
from .neighbors import score_gap as score_gap
from .position import GeneralPosition as GeneralPosition
from .position import general_position as general_position
