"""Types of the public names: the same as the table in __init__.py."""

from .label_svm import InterpolatedMaxMargin as InterpolatedMaxMargin
from .sets import SetMaxMargin as SetMaxMargin
from .sets import set_max_margin as set_max_margin
