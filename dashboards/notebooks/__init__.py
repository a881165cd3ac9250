"""A run in a notebook: tidy tables, and figures that display themselves; `dashboards.load(RUN)` is the way in."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
