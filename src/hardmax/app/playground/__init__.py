"""The playground: one page, drawn in a browser or in a notebook, on the engine of this package."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
