"""Types of the public names: the same as the table in __init__.py."""

from .claims import Claim as Claim
from .figure import Figure as Figure
