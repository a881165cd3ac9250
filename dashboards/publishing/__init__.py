"""Publishing to Weights & Biases: journals and ledger replayed as W&B runs, beside the training and not in its way.

`publisher` drives, `process` runs it beside a sweep; `projection` has a trial's W&B run as plain values, `stream` sends runs to
a server and `files` writes them offline. `wandb_border` has every use of W&B's private names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
