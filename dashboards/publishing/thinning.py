"""Which logged steps of a trial W&B is sent: at most a thousand, by a rule of the step alone, and always the last.

A trial reports at the multiples of `training.report_steps`, at those of `evaluation.every`, and after its last step. Where
that is more than a thousand, of each kind the multiples of a coarser stride are kept, so that the answer for a step never
depends on what came before: a stream, its continuation after a crash and a later replay keep the same rows. A trial that ended
early keeps the row that it ended with.
"""

import math
from collections.abc import Iterable, Iterator

from dashboards.publishing.projection import Row
from stsq_core.configs import TrialConfig

MAX_ROWS = 1000


class Thinning:
    """The rule for the trials of one config."""

    def __init__(self, config: TrialConfig) -> None:
        steps, every = config.training.steps, config.evaluation.every
        kinds = [config.training.report_steps, *([every] if every else [])]
        room = MAX_ROWS // len(kinds) - 2  # multiples from 0, and the last step
        self._keeps_all = _num_multiples(steps, kinds) < MAX_ROWS
        self._steps = steps
        self._strides = tuple(stride * math.ceil(steps / stride / room) for stride in kinds)

    def keeps(self, step: int) -> bool:
        """Whether the row of a step is sent while the trial trains."""
        return self._keeps_all or step >= self._steps or any(step % stride == 0 for stride in self._strides)

    def kept(self, rows: Iterable[Row], *, ended: bool) -> Iterator[Row]:
        """The rows that are sent; of a trial that has `ended` also the last."""
        last = None
        for row in rows:
            last = None if self.keeps(row.step) else row
            if last is None:
                yield row
        if ended and last is not None:
            yield last


def _num_multiples(steps: int, strides: list[int]) -> int:
    """Steps from 0 to `steps` that are multiples of one of one or two strides."""
    both = steps // math.lcm(*strides) + 1 if len(strides) > 1 else 0
    return sum(steps // stride + 1 for stride in strides) - both
