"""The public names of this package: read by type checkers, and by `lazy_loader` at run time."""

from . import assumptions as assumptions
from . import direction as direction
from . import position as position
from .critical import CriticalDirection as CriticalDirection
from .critical import CriticalDirections as CriticalDirections
from .direction import Direction as Direction
from .direction import directional_margin as directional_margin
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
