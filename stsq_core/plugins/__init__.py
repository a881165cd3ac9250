"""A user's own tasks, models, codes and optimizers: files that the user names, and entry points of the group `stsq.plugins`.

A plugin is one Python file that defines `TokenTask`s, `Architecture`s, `PositionalCode`s and `Optimizer`s with kinds of their
own, and all that they need. Loading it runs its code and opens `UNIONS` to its kinds; nothing here looks for plugins by itself.
The digest of a plugin's text enters the `trial_id` of a trial of its kinds: an edited plugin gives other numbers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
