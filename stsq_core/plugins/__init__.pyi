from .loading import (
    kinds_of as kinds_of,
    load as load,
    load_installed as load_installed,
    loaded_plugins as loaded_plugins,
    used_plugins as used_plugins,
)
from .text import Plugin as Plugin, read_plugin as read_plugin
from .trying import try_pairs as try_pairs
