"""A user's own tasks and models: files that the user names, and installed entry points of the group `stsq.plugins`.

A plugin is one Python file that defines `TokenTask`s and `Architecture`s with kinds of their own, and all that they need.
Loading it runs its code and opens `TASKS` and `MODELS` to its kinds; nothing here looks for plugins by itself. The digest of a
plugin's text enters the `trial_id` of a trial of its kinds: an edited plugin gives other numbers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
