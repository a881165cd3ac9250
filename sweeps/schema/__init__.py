"""The sweep file: its schema, axes, claims, laws and overrides, and errors that name the line."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
