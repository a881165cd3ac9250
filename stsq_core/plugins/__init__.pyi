from .interface import (
    Architecture as Architecture,
    Batch as Batch,
    Codes as Codes,
    Examples as Examples,
    Network as Network,
    Optimizer as Optimizer,
    PositionalCode as PositionalCode,
    PositiveInt as PositiveInt,
    Source as Source,
    StreamKeys as StreamKeys,
    Tensors as Tensors,
    TokenTask as TokenTask,
    UpdateRule as UpdateRule,
    dot as dot,
    placeless as placeless,
    product as product,
    selected as selected,
)
from .loading import (
    kinds_of as kinds_of,
    load as load,
    load_installed as load_installed,
    loaded_plugins as loaded_plugins,
    used_plugins as used_plugins,
)
from .plugin import Plugin as Plugin, read_plugin as read_plugin
from .preflight import try_pairs as try_pairs
