"""The names under which W&B holds what is published of a trial: written by the publisher, read by the panels of the boards.

The config is nested as in a sweep file: W&B shows the field `T` of `task` as `task.T` and finds it under that name, while a key
with a dot of its own can be neither grouped by nor plotted.
"""

from typing import Any

from stsq_core import TrialConfig
from sweeps.trials import cell_of

RELATIVE_LOSS = "relative_loss"
"""In the history that of the training batch, in the summary that of the final evaluation."""

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


def run_config(config: TrialConfig, *, cell: str, directory_id: str) -> dict[str, Any]:
    """The config of a trial's run: every field, the width m, and where the trial belongs."""
    return config.model_dump(mode="json") | {
        "trial_id": config.trial_id,
        WIDTH: config.width,
        CELL: cell,
        CELL_ID: cell_of(config),
        RUN_DIRECTORY: directory_id,
    }
