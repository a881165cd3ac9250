"""The range of sizes in which a cell's threshold is searched: as its group gives it, or from the law of the threshold.

An end that is left out lies at a multiple of the width that theory leads one to expect on sparse token selection: `0.25` and
`8` times the length `d_e = 2.5 q ln T` of the code of a transformer, `0.5` and `4` times the exact lower bound
`T d (1 - r (T-1)/(T-q))` of a fully connected net, r the target loss. The ranges are generous: a search finds a threshold in
a range far too wide.
"""

import math

from stsq_core.configs import WIDTH, Stsq, TrialConfig
from stsq_core.oracles import theory
from sweeps.cells.cell import describe
from sweeps.schema import Criterion, Path, PlacedError, WidthRange

FACTOR = 2.5
"""Of `q ln T`, about the code length at which the relative loss reaches 0.1 (docs/thresholds.md)."""
TIMES = {"attention": (0.25, 8.0), "td_power": (0.5, 4.0)}
"""The ends of a derived range as multiples of the expected size."""


def range_of(widths: WidthRange, config: TrialConfig, criterion: Criterion, path: Path) -> tuple[int, int]:
    """The least and the largest size of the cell of `config`, widths as widths m; `path` is that of the range, for errors.

    Raises:
        PlacedError: an end is left out where no law gives it, or what the law gives does not go with the other end.
    """
    offset = config.model.offset(config.task) if criterion.size == WIDTH else 0
    given = offset if widths.of == "d_e" else 0
    low, high = (None if end is None else end + given for end in (widths.low, widths.high))
    if low is not None and high is not None:
        return low, high
    least, most = _derived(widths, config, criterion, path)
    ends = least + offset if low is None else low, most + offset if high is None else high
    if ends[1] <= ends[0]:
        own, other, side = ("high", "low", "above") if low is not None else ("low", "high", "below")
        values = {"low": ends[0] - given, "high": ends[1] - given}
        raise PlacedError(
            (*path, own),
            f"the law of the threshold puts {own} at {values[own]} for {describe(config)}, and it must lie {side} {other}; "
            f"got {other}={values[other]}: give {own} as well, or leave {other} out",
        )
    return ends


def _derived(widths: WidthRange, config: TrialConfig, criterion: Criterion, path: Path) -> tuple[int, int]:
    """Both ends of the number that is searched: of d_e, or of the units of a net."""
    task, law = config.task, config.model.width_law
    if criterion.size != WIDTH or law is None or type(task) is not Stsq:
        raise PlacedError(
            (*path, "low" if widths.low is None else "high"),
            "a range is derived for the width of the transformer and of the fcn on the task stsq only; got the "
            f"{criterion.size.noun} of model.kind={config.model.kind} on task.kind={task.kind}: give low and high",
        )
    if law == "attention":
        expected = FACTOR * task.q * math.log(task.T)
    else:
        expected = theory.fcn_width_bound(criterion.target_loss, T=task.T, d=task.d, q=task.q)
    least, most = (times * expected for times in TIMES[law])
    low = max(1, math.floor(least))
    return low, max(low + 1, math.ceil(most))
