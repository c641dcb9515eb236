"""Step rules, as `hm.steps`: those of `hardmax.train.steps`, so that `from hardmax.steps import GD` works."""

from hardmax.train.steps import *  # noqa: F403  # the list of names stands there, once
from hardmax.train.steps import __all__ as __all__
