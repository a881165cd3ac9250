"""What trains next: the queue of packs, and the strategy that fills it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
