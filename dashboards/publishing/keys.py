"""The keys of a published run's config, history and summary: written by the publisher, read by the panels of the boards.

The config is nested as in a sweep file: W&B shows the field `T` of `task` as `task.T` and finds it under that name, while a
flat key with a dot can be neither grouped by nor plotted.
"""

from typing import Any

from stsq_core.configs import SAMPLES, Size, TrialConfig, size as sizes
from sweeps.cells import Cell
from sweeps.schema import free_fields, without_field

RELATIVE_LOSS = "relative_loss"
"""Of the training batch in the history, of the final evaluation in the summary."""

STATUS = "status"
REASON = "reason"
STEP = "step"
WIDTH = "m"
SEED = "seed"
CELL = "cell"
"""The cell in words."""

CELL_ID = "cell_id"
RUN_DIRECTORY = "run_directory"
"""The id that the runs of one run directory share."""


def size_key(size: Size) -> str:
    """The config key of the size that thresholds are about: its letter.

    Samples are counted, so they are in the summary; then it is the key of the width.
    """
    return WIDTH if size == SAMPLES else size.letter


def run_config(config: TrialConfig, *, cell: str, cell_id: str, directory_id: str, size: Size = sizes.WIDTH) -> dict[str, Any]:
    """The config of a trial's run: every field, the width m, the size of thresholds, and where the trial belongs."""
    return config.model_dump(mode="json") | {
        "trial_id": config.trial_id,
        WIDTH: config.width,
        **({} if size == SAMPLES else {size_key(size): size.of(config)}),
        CELL: cell,
        CELL_ID: cell_id,
        RUN_DIRECTORY: directory_id,
    }


def cell_config(cell: Cell, *, directory_id: str) -> dict[str, Any]:
    """The config of a run that shows a whole cell: the fields that its trials share, and the values of those that vary."""
    shared, size = cell.trials[0].model_dump(mode="json"), cell.trials.families[0].size
    for name in free_fields(size):
        shared = without_field(shared, name)
    return shared | {
        CELL: cell.label,
        CELL_ID: cell.cell_id,
        RUN_DIRECTORY: directory_id,
        size.nouns.replace(" ", "_"): list(cell.widths),
        "rates": list(cell.rates),
        "num_seeds": cell.num_seeds,
    }
