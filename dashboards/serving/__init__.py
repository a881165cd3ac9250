"""The live page: a light server in front, and behind it a process of low priority that draws.

The renderer writes what is to be seen into a folder of its own, and the server hands out that folder and the page's own scripts
and nothing else: no request reaches a run directory, and looking at a run changes nothing in it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
