"""Types of the public names: the same as the table in __init__.py."""

from .display import RunDisplay as RunDisplay
from .gradient import Gradient as Gradient
from .measures import SignedLog as SignedLog
from .measures import Smoothness as Smoothness
from .measures import smoothness as smoothness
from .measures import soft_sparsity as soft_sparsity
from .vector import WeightRun as WeightRun
