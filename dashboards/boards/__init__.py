"""Boards of other people's viewers, set up for a run: a W&B workspace and report, optuna-dashboard, W&B's terminal viewer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
