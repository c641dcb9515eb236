"""Types of the public names: the same as the table in __init__.py."""

from ..app.results.sweep import sweep_file as sweep_file
from .display import PhaseDisplay as PhaseDisplay
from .results import run_one as run_one
