"""Step rules, as `hm.steps`: the names of `hardmax.dynamics.steps`."""

from hardmax.dynamics.steps import *  # noqa: F403  # the list of names stands there, once
from hardmax.dynamics.steps import __all__ as __all__
