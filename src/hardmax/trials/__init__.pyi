"""Types of the public names: the same as the table in __init__.py."""

from .display import PhaseDisplay as PhaseDisplay
from .results import run_one as run_one
