"""Publishing to Weights & Biases: journals and ledger replayed as W&B runs, outside of the training's way.

`publisher` drives, `process` runs it beside a sweep; `projection` says what W&B shows of a trial, `stream` sends it to a server
and `files` writes it offline.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
