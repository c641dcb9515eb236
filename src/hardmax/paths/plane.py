"""The plane: nested grids find the global minimum over all angles, whatever the number of basins."""

from __future__ import annotations

import numpy as np

from hardmax.paths.landscape import Landscape

POINTS, LEVELS = 2001, 7


def scan_circle(landscape: Landscape, radius: float) -> np.ndarray:
    """The point of least excess risk on a circle: 2001 angles, then seven times as many around the best."""
    middle, half = 0.0, np.pi
    for _ in range(LEVELS):
        angles = middle + np.linspace(-half, half, POINTS)
        circle = radius * np.column_stack([np.cos(angles), np.sin(angles)])
        best = int(np.argmin(landscape.excess(circle)[1]))
        middle, half = float(angles[best]), 3.0 * half / (POINTS - 1)
    return circle[best]
