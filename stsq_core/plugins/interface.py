"""What a plugin imports from stsq: the bases of what it may define, and the arithmetic that keeps the law of the pack."""

from stsq_core.configs import Architecture, Optimizer, PositionalCode, PositiveInt, TokenTask
from stsq_core.kernels import StreamKeys
from stsq_core.networks import Network
from stsq_core.numerics import dot, placeless, product
from stsq_core.programs import Codes, Tensors
from stsq_core.tasks import Batch, Examples, Source, selected
from stsq_core.training import UpdateRule

__all__ = [
    "Architecture", "Batch", "Codes", "Examples", "Network", "Optimizer", "PositionalCode", "PositiveInt", "Source",
    "StreamKeys", "Tensors", "TokenTask", "UpdateRule", "dot", "placeless", "product", "selected",
]  # fmt: skip
