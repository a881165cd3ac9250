"""What one step of one trial costs: operations counted from the formulas, for plans and time estimates.

Counts are per model-step (forward and gradient); an elementwise pass over an array counts one operation an element.
"""

from stsq_core.architecture import Fcn, Transformer
from stsq_core.stacking import padded_width
from stsq_core.trial import TrialConfig

SCORE_PASSES = 16
"""Elementwise passes over the batch x T scores in a step: softmax and its gradient, the residual, their sums."""

DRAW_OPERATIONS = 24
"""One normal draw costs about as much as this many elementwise operations."""

UPDATE_PASSES = 10
"""Elementwise passes over the parameters in an Adam step."""

CALL_OPERATIONS = 1e6
"""A model-step's share of the fixed cost of calling a step's many small operations, in operations of that time (measured)."""


def step_operations(config: TrialConfig) -> float:
    """Operations (multiply-adds and elementwise) of one model-step."""
    return CALL_OPERATIONS + _counted_operations(config)


def _counted_operations(config: TrialConfig) -> float:
    """The operations that the formulas name."""
    task, batch, width = config.task, config.batch, padded_width(config)
    match config.model:
        case Transformer(positions=positions):
            books = batch if positions.redraw == "per_sample" else 1
            products = 2 * batch * width * width + 2 * batch * task.T * width
            codes = books * task.T * width * 4
            tokens = 0
            if config.training.objective == "minibatch":
                tokens = batch * task.T * task.d * (DRAW_OPERATIONS + 8) + 2 * batch * task.T * width
            return products + codes + tokens + batch * task.T * SCORE_PASSES + _parameters(config) * UPDATE_PASSES
        case Fcn():
            draws = batch * task.T * task.d * DRAW_OPERATIONS
            return 3 * batch * _parameters(config) + draws + _parameters(config) * UPDATE_PASSES


def memory_bytes(config: TrialConfig) -> float:
    """Working memory of one trial in a stack: parameters, their moments and gradients, draws and activations."""
    task, batch, width = config.task, config.batch, padded_width(config)
    size = 8 if config.training.dtype == "float64" else 4
    match config.model:
        case Transformer(positions=positions):
            books = batch if positions.redraw == "per_sample" else 1
            numbers = batch * (6 * task.T + 6 * width) + 3 * books * task.T * width
            if config.training.objective == "minibatch":
                numbers += 2 * batch * task.T * task.d
        case Fcn() as model:
            layers = width + (model.depth - 1) * model.tail_width
            numbers = batch * (2 * task.T * (task.d + 1) + 3 * layers)
    return size * (numbers + 5 * _parameters(config))


def _parameters(config: TrialConfig) -> int:
    """Trained numbers of one padded trial."""
    task, width = config.task, padded_width(config)
    match config.model:
        case Transformer():
            if config.training.objective == "population":
                return width * width + 1
            return (task.d + width) * width + task.d * (task.d + width)
        case Fcn() as model:
            first = width * (task.T * (task.d + (model.y_enters != "second")) + 1)
            second = model.tail_width * (width + task.T * (model.y_enters != "first") + 1)
            rest = (model.depth - 2) * model.tail_width * (model.tail_width + 1)
            return first + second + rest + task.d * (model.tail_width + 1)
