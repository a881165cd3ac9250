"""Models whose gradients autograd finds: one `Network` (stsq_core.networks.network) a module.

Their configs stand in `stsq_core.configs.architecture`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
