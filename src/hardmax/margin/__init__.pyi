"""The public names of this package: read by type checkers, and by `lazy_loader` at run time."""

from .att_svm import SetMaxMargin as SetMaxMargin
from .att_svm import set_max_margin as set_max_margin
from .certificates import Ball as Ball
from .label_svm import InterpolatedMaxMargin as InterpolatedMaxMargin
from .mirrors import MirrorMap as MirrorMap
from .norms import Norm as Norm
from .norms import norm as norm
from .norms import register as register
from .norms.factored import FactoredPoint as FactoredPoint
from .norms.factored import factored_point as factored_point
from .norms.polyhedral import Face as Face
from .norms.solving import enclose_by as enclose_by
from .norms.solving import solve_by as solve_by
