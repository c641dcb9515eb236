"""Readouts, as `hm.readouts`: the names of `hardmax.problem.readouts`."""

from hardmax.problem.readouts import *  # noqa: F403  # the list of names is in that file, once
from hardmax.problem.readouts import __all__ as __all__
