"""What stsq runs, and what came of it: sweep files, plans, packs, the ledger, width thresholds and scaling laws."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
