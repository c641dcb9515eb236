"""One look for all figures: colors by name and a style to draw under."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from threading import RLock

# Okabe and Ito's colors, which stay apart for color-blind readers; TEAL is their sky blue.
INK = "#1A1A1A"
GRAY = "#999999"
RED = "#D55E00"
BLUE = "#0072B2"
GREEN = "#009E73"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
TEAL = "#56B4E9"

_TURN = RLock()  # matplotlib has one table of settings for all threads


@contextmanager
def style() -> Iterator[None]:
    """Draw in the project's style, whatever the reader's own settings are; they are restored afterwards."""
    import matplotlib.style

    sheet = files("hardmax._lib") / "hardmax.mplstyle"
    with _TURN, as_file(sheet) as path, matplotlib.style.context(path, after_reset=True):
        yield
