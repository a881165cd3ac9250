"""Which trials may train as one stack: equal static shape, widths padded to the next rung of a fixed ladder.

The padded width is a function of the trial alone, so a trial computes with the same shapes whoever shares its stack.
"""

from typing import assert_never

from stsq_core.configs.architecture import Fcn, Transformer
from stsq_core.configs.positions import OneHot
from stsq_core.configs.trial import TrialConfig

FINE = 16
"""Up to this width the rungs are multiples of 8; beyond it, quarters of a power of two: padding adds at most a quarter."""

LANES = 32
"""Axes over tokens are padded with zeros to a multiple of this many."""


def rung(width: int) -> int:
    """The least padded width of the ladder that is at least `width`: 8, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, ..."""
    if width <= FINE:
        return -(-width // 8) * 8
    top = FINE
    while 2 * top < width:
        top *= 2
    return next(step for step in (top * 5 // 4, top * 3 // 2, top * 7 // 4, 2 * top) if step >= width)


def padded_width(config: TrialConfig) -> int:
    """The rung on which a trial trains: of its code's length d_e, or of its first layer's width."""
    match config.model:
        case Transformer(positions=OneHot(d_e=d_e)):
            return d_e
        case Transformer(positions=positions):
            return rung(positions.d_e)
        case Fcn(width=width):
            return rung(width)
    return config.width


def padded_tokens(T: int) -> int:
    """Tp: T rounded up to a multiple of `LANES`."""
    return -(-T // LANES) * LANES


def stack_key(config: TrialConfig) -> tuple[object, ...]:
    """Equal for trials that can train as one stack: all but seed, optimizer, rate and, where gradients are derived by hand, the
    width within its rung.
    """
    match model := config.derived_model:
        case None:
            return (config.task, config.model, config.training, config.evaluation)
        case Transformer(positions=positions):
            codes = tuple(getattr(positions, name) for name in type(positions).model_fields if name != "d_e")
            shape: tuple[object, ...] = (*codes, model.init, model.init_scale, model.x_query, model.attend_query)
        case Fcn():
            shape = (model.depth, model.tail_width, model.y_enters, model.activation)
        case _:
            assert_never(model)
    return (config.task, model.kind, padded_width(config), *shape, config.training, config.evaluation)
