"""Shows what stsq ran: tables, figures, one self-contained page, Weights & Biases and other viewers, and notebooks.

Everything here is computed from a run directory and changes no number in it. plotly, matplotlib and wandb load when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
