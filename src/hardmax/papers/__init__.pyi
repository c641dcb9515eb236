"""The public names of this package: read by type checkers, and by `lazy_loader` at run time."""

from .checking.check import Check as Check
from .checking.check import Hypothesis as Hypothesis
from .checking.check import Outcome as Outcome
from .checking.check import Statement as Statement
from .checking.check import statement as statement
from .figures.claims import Claim as Claim
from .figures.figure import Figure as Figure
from .paper import Paper as Paper
