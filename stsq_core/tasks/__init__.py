"""The arithmetic of the tasks: samples, targets and losses, one `Examples` a module."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
