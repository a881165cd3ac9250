"""A trial as data: tasks, models, codes, optimizers, and which of them fit together; no arithmetic, no torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
