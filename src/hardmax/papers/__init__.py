"""The papers: a folder for each with its statements and figures, and tools to check, draw and hunt them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
