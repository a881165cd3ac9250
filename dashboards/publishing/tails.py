"""Follows the journals of packs that are training: each is read from where the last look ended, and every step counts once."""

from collections.abc import Callable, Iterable
from pathlib import Path

from dashboards.publishing.projection import Row, trial_row
from stsq_core.configs import Measurement
from sweeps.store import follow, trials_of_journal


class JournalTails:
    """What the journals of a run have told of trials that have not ended.

    A step that is told again (its pack resumed from a checkpoint, or was packed anew) has the numbers that it had: trials
    depend on their config alone. It is taken once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[str, int] = {}
        self._over: set[str] = set()
        self._rows: dict[str, list[Row]] = {}

    def read_on(self, wanted: Callable[[str], bool]) -> None:
        """Take what was written since; journals of which no trial is wanted any longer are not opened again."""
        for path in sorted(self._folder.glob("*.jsonl")):
            if path.name in self._over:
                continue
            trial_ids = trials_of_journal(path)
            if trial_ids and not any(map(wanted, trial_ids)):
                self._over.add(path.name)
                continue
            measurements, self._offsets[path.name] = follow(path, self._offsets.get(path.name, 0))
            for measurement in measurements:
                self._take(measurement, wanted)

    def rows(self, trial_id: str) -> tuple[Row, ...]:
        """The rows of a trial so far, in order."""
        return tuple(self._rows.get(trial_id, ()))

    @property
    def trial_ids(self) -> tuple[str, ...]:
        """The trials of which something is known."""
        return tuple(self._rows)

    def forget(self, trial_ids: Iterable[str]) -> None:
        """Drop trials that have ended: their rows are read from their last pack's journal."""
        for trial_id in trial_ids:
            self._rows.pop(trial_id, None)

    def _take(self, measurement: Measurement, wanted: Callable[[str], bool]) -> None:
        for place, trial_id in enumerate(measurement.trial_ids):
            if not wanted(trial_id):
                continue
            rows = self._rows.setdefault(trial_id, [])
            if not rows or measurement.step > rows[-1].step:
                metrics = {name: values[place] for name, values in measurement.metrics.items()}
                rows.append(trial_row(measurement.step, measurement.relative_loss[place], metrics))
