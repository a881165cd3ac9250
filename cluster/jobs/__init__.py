"""Ray jobs: send a sweep to a cluster, follow it, stop it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
