"""Optimizers, as `hm.optim`: the names of `hardmax.dynamics.optim`."""

from hardmax.dynamics.optim import *  # noqa: F403  # the list of names is in that file, once
from hardmax.dynamics.optim import __all__ as __all__
