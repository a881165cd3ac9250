"""What Tune's users look for in `RUN/ray/SESSION`: a row and a TensorBoard file of every pack, and Tune's table of progress."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.logger import JsonLoggerCallback, LoggerCallback

from cluster.tune.ray_private import progress_table

MOST_RECORDS = 20_000
"""Rows of packs that Tune's files keep of a session, some kilobyte each; the ledger and `dashboards.load` have them all."""

MOST_EVENT_FILES = 2000
"""Packs of a session that have a file for TensorBoard, which shows no more at once."""

TABLE_EVERY_S = 10.0
MOST_TABLE_ROWS = 50

SETTINGS = ("cell", "T", "q", "d", "m", "code", "optimizer", "trials")
NUMBERS = ("finished", "diverged", "failed", "least_loss", "median_loss", "largest_loss")
"""Of the row of a pack, what it was given and what came of it."""


class Rows(JsonLoggerCallback):
    """Keeps the rows of packs: `result.json` in a folder a trial."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._num = 0

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        self._num += 1
        if self._num <= MOST_RECORDS:
            super().log_trial_result(iteration, trial, result)


class EventFiles(LoggerCallback):
    """Writes for TensorBoard what a pack was given, as hyperparameters, and what came of it, as scalars.

    Tune's own callback keeps a file and a thread open for every worker, and starts a queue between processes for each.
    """

    def __init__(self) -> None:
        self._num = 0

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        if "pack" not in result or self._num >= MOST_EVENT_FILES:
            return
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import hparams, scalar

        self._num += 1
        numbers = {f"pack/{name}": result[name] for name in NUMBERS if name in result}
        summaries = [scalar(name, number) for name, number in numbers.items()]
        summaries += hparams({name: result[name] for name in SETTINGS}, numbers)
        with suppress(OSError):  # whoever looks on ends no run
            trial.init_local_path()
            file = EventsWriter(f"{trial.local_path}/events")
            for summary in summaries:
                file.write_event(Event(wall_time=time.time(), step=result["training_iteration"], summary=summary))
            file.close()


class ProgressTable(tune.Callback):
    """Keeps Tune's own table of progress in `progress.txt`, since the terminal shows the sweep's."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "progress.txt"
        self._due_at = 0.0

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + TABLE_EVERY_S
            self._write(trials)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        self._write(trials)

    def _write(self, trials: list[Any]) -> None:
        table = progress_table(trials, SETTINGS, NUMBERS, max_rows=MOST_TABLE_ROWS)
        with suppress(OSError):  # the folder comes with the first result, and a full disk is the ledger's to tell of
            self._path.write_text(table + "\n", encoding="utf-8")
