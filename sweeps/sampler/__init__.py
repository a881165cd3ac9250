"""An Optuna sampler that looks for a threshold, its posterior, when to stop: numpy, scipy and optuna are all it needs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
