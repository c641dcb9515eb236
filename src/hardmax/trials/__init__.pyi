"""The public names of this package: read by type checkers, and by `attach_stub` at run time."""

from ..app.results.sweep import sweep_file as sweep_file
from .results import PhaseDisplay as PhaseDisplay
from .results import run_one as run_one
