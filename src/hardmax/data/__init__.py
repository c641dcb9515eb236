"""Data: generators, the data sets of the figures, readers of files."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in.
_NAMES = {
    "Labelled": "reviews",
    "Review": "reviews",
    "example": "small",
    "examples": "small",
    "fig9_oracle": "generators",
    "find_reviews": "reviews",
    "gaussian": "generators",
    "read_labelled": "reviews",
    "read_reviews": "reviews",
    "sphere": "generators",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
