"""Results in words: settings, laws, thresholds, progress; names, colours and ticks of figures; HTML-safe text."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
