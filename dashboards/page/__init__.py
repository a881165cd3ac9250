"""The page of a run: its sections, its interactive figures, and the files beside it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
