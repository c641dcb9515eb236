"""Optimizer rules: how an optimiser turns minus the gradient into a move. Public as `hm.optim`.

A rule sees minus the gradient as ``direction`` times exp(``exponents``), coordinate by coordinate, because at
large norms the gradient itself is no float64. It may keep numbers between steps in ``state``. A rule of your
own is one class with `update` in plain Python (docs/dynamics.md); one that comes with hardmax also has a
``kernel``, the same in a compiled function (dynamics/updates.py), so that no loop has to know it.
"""

from hardmax.dynamics.optim.adaptive import Adam, AdamW, RMSprop
from hardmax.dynamics.optim.base import Optimizer
from hardmax.dynamics.optim.momentum import SGD, Momentum, Muon, Signum
from hardmax.dynamics.optim.steepest import GD, Coordinate, Mirror, Normalized, Sign, Spectral

__all__ = [
    "GD",
    "SGD",
    "Adam",
    "AdamW",
    "Coordinate",
    "Mirror",
    "Momentum",
    "Muon",
    "Normalized",
    "Optimizer",
    "RMSprop",
    "Sign",
    "Signum",
    "Spectral",
]
