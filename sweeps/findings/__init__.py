"""What a run shows, as plain data: verdicts on claims, progress, how intervals narrowed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
