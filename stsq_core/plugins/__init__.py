"""A user's own tasks and models: files that the user names, and installed entry points of the group `stsq.plugins`.

A plugin is one Python file that defines `TokenTask`s and `Architecture`s with kinds of their own, and all that they need.
Loading it runs its code and opens `TASKS` and `MODELS` to its kinds; nothing here looks for plugins by itself. The digest of a
plugin's text enters the `trial_id` of a trial of its kinds: an edited plugin gives other numbers.
"""

from stsq_core.plugins.loading import load, load_installed, loaded_plugins, unload, unload_all, used_plugins
from stsq_core.plugins.text import Plugin, read_plugin

__all__ = ["Plugin", "load", "load_installed", "loaded_plugins", "read_plugin", "unload", "unload_all", "used_plugins"]
