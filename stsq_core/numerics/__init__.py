"""Arithmetic that gives the same bits in any pack: random streams, matrix products, activations, devices, saved states."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
