"""The live page: a server, and a renderer process of low priority behind it.

The renderer writes pages into a folder, and the server serves that folder and the page's own scripts. No request reaches a run
directory, and viewing a run changes nothing in it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
