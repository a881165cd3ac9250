"""The science of stsq: tasks, codes, models, optimizers, the one training loop, and the oracles it is tested against.

Names load on first use, so that reading a config does not wait for torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
