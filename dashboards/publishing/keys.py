"""The keys of a published run's config, history and summary: written by the publisher, read by the panels of the boards.

The config is nested as in a sweep file: W&B shows the field `T` of `task` as `task.T` and finds it under that name, while a
flat key with a dot can be neither grouped by nor plotted.
"""

from typing import Any

from stsq_core.configs import SAMPLES, Size, TrialConfig, size as sizes
from sweeps.cells import Cell, SearchedCell
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

TRIAL_ID = "trial_id"
"""Only in the config of a trial's run."""

NUM_POINTS = "num_points"
"""Of a searched cell: the points that have ended, the x axis of its interval."""


def search_keys(size: Size, *, target: float | None = None) -> tuple[str, str, str]:
    """The keys of a search's rows: the threshold so far, and the ends of its interval.

    `target`: which of several targets it is of.
    """
    suffix = "" if target is None else f"@{target:g}"
    return f"search/{size.letter}_star{suffix}", f"search/low{suffix}", f"search/high{suffix}"


def size_key(size: Size) -> str:
    """The config key of the size that thresholds are about: its letter.

    Samples are counted, so they are in the summary; then it is the key of the width.
    """
    return WIDTH if size == SAMPLES else size.letter


def run_config(config: TrialConfig, *, cell: str, cell_id: str, directory_id: str, size: Size = sizes.WIDTH) -> dict[str, Any]:
    """The config of a trial's run: every field, the width m, the size of thresholds, and where the trial belongs."""
    return config.model_dump(mode="json") | {
        TRIAL_ID: config.trial_id,
        WIDTH: config.width,
        **({} if size == SAMPLES else {size_key(size): size.of(config)}),
        CELL: cell,
        CELL_ID: cell_id,
        RUN_DIRECTORY: directory_id,
    }


def cell_config(cell: Cell, *, directory_id: str) -> dict[str, Any]:
    """The config of a run that shows a whole cell: the fields that its trials share, and the values of those that vary."""
    size = cell.trials.families[0].size
    return _shared_config(cell.trials[0], cell, size, directory_id) | {
        size.nouns.replace(" ", "_"): list(cell.widths),
        "rates": list(cell.rates),
        "num_seeds": cell.num_seeds,
    }


def searched_config(cell: SearchedCell, *, directory_id: str) -> dict[str, Any]:
    """The config of a run that shows a searched cell: the fields that its trials share, its range, and its rates."""
    size = cell.family.size
    return _shared_config(cell.family.sample, cell, size, directory_id) | {
        "searched": {"low": cell.low, "high": cell.high},
        "rates": list(cell.rates),
    }


def _shared_config(sample: TrialConfig, cell: Cell | SearchedCell, size: Size, directory_id: str) -> dict[str, Any]:
    shared = sample.model_dump(mode="json")
    for name in free_fields(size):
        shared = without_field(shared, name)
    return shared | {CELL: cell.label, CELL_ID: cell.cell_id, RUN_DIRECTORY: directory_id}
