"""Heads, as `hm.heads`: those of `hardmax.problem.heads`, so that `from hardmax.heads import Head` works."""

from hardmax.problem.heads import *  # noqa: F403  # the list of names stands there, once
from hardmax.problem.heads import __all__ as __all__
