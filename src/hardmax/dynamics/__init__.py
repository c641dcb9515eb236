"""Training: models, optimizers, gradient flow, and the runs they give."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
