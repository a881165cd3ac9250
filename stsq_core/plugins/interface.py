"""What a plugin imports from stsq: the bases of tasks and models, and the arithmetic that keeps the law of the pack."""

from stsq_core.configs import Architecture, PositiveInt, TokenTask
from stsq_core.networks import Network
from stsq_core.numerics import dot, placeless, product
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Examples, Source, selected

__all__ = [
    "Architecture", "Batch", "Examples", "Network", "PositiveInt", "Source", "Tensors", "TokenTask",
    "dot", "placeless", "product", "selected",
]  # fmt: skip
