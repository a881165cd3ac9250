"""The width threshold of a cell: crossings, intervals, the posterior of a search, statuses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
