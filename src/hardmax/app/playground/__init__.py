"""The playground: one page, drawn in a browser or in a notebook, on the engine of this package."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in; the verb `play` is at the top level of hardmax.
_NAMES = {"Serving": "server", "answer": "engine", "serve": "server"}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
