"""Replays the ledger and the journals of a run directory into W&B: one run a trial, idempotent, outside of the training's way.

As a child process: `python -m dashboards.publishing.publisher RUN --follow`. It publishes while the sweep goes on and ends by
itself: when its standard input reaches end of file (the driver closes the pipe to say "finished", and the kernel closes it when
the driver dies), or when its parent process is gone, or on SIGTERM, it publishes what is left and exits. `process` starts
and ends it so. Without `--follow` it makes one pass.

Offline, a trial is written when it has ended, as one complete file. Online, it is streamed while it trains. What was published
is noted in `RUN/wandb/published.jsonl`; publishing again writes only what is missing or has changed. The exit code is 0 when
every ended trial is published, else 1; the driver need not look at it, since `sync` can publish the rest later.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dashboards.publishing.files import Target, write_offline
from dashboards.publishing.mode import REQUESTS, Decision, Mode, Request, decide_mode
from dashboards.publishing.process import watch_driver
from dashboards.publishing.projection import NO_CURVE, NO_METRICS, RunProjection, project_live, project_record
from dashboards.publishing.published import Publication, PublishedTrials, directory_id, sole_publisher
from dashboards.publishing.stream import OnlineStream, restart_service, server_url
from stsq_core import TrialConfig, UserError
from sweeps.journal import Curve, read_curves, read_metrics
from sweeps.ledger import Ledger, LedgerRecord
from sweeps.plan import cell_of, describe, expand
from sweeps.run_directory import RunDirectory, open_run
from sweeps.searched import searched_cells
from sweeps.spec import SweepSpec

LOG = logging.getLogger(__name__)

POLL_S = 2.0
LOCK_PATIENCE_S = 60.0
BATCH = 256
"""Offline files written before they are noted as published."""

MAX_REFUSALS = 2
"""Rounds in a row that a server may refuse before the rest is written offline."""


@dataclass(frozen=True)
class PublishReport:
    """What one publication did: the mode it ended in and why; trials published now, up to date before, missing still."""

    mode: Mode
    reason: str
    num_published: int
    num_up_to_date: int
    num_missing: int


def publish(
    run_path: Path, *, mode: Request | None = None, stop: Callable[[], bool] = lambda: True, poll_s: float = POLL_S
) -> PublishReport:
    """Publish a run directory's trials until `stop()` is true, then once more for what has come in the meantime.

    Args:
        run_path: the run directory.
        mode: overrides `WANDB_MODE` and the sweep file.
        stop: true once the sweep has ended; the default makes one pass.
        poll_s: seconds between two looks at the directory, at least.

    Raises:
        UserError: no run directory, a mode that does not exist, or another publisher that does not end.
    """
    run = open_run(run_path)
    spec = run.read_spec()
    decision = decide_mode(mode, spec.wandb.mode, server=server_url)
    if decision.mode == "disabled":
        return PublishReport("disabled", decision.reason, 0, 0, 0)
    with sole_publisher(run.wandb, may_wait=_patience(stop)):
        publisher = Publisher(run, spec, decision)
        while not stop():
            began = time.monotonic()
            publisher.round()
            # reading a large directory takes long: spend at most a fifth of the time on it, the rest is the training's
            _sleep(max(poll_s, 4 * (time.monotonic() - began)), stop)
        return publisher.finish()


def sync(run_path: Path) -> PublishReport:
    """Publish a run directory online now, from its journals; what is online already is left alone.

    Raises:
        UserError: there is no key, the server does not answer, or it refused the trials.
    """
    decision = decide_mode("online", "online", server=server_url)
    if decision.mode != "online":
        raise UserError(f"cannot publish {run_path} online: {decision.reason}")
    report = publish(run_path, mode="online")
    if report.num_missing or report.mode != "online":
        raise UserError(
            f"the W&B server did not take every trial of {run_path}: {report.reason}."
            " What is missing is kept; run the same command again"
        )
    return report


class Publisher:
    """The life of one publication: what has been seen, what is out, and the stream that is open."""

    def __init__(self, run: RunDirectory, spec: SweepSpec, decision: Decision) -> None:
        self._run = run
        self._tags = tuple(spec.wandb.tags)
        self._target = Target(run.path, spec.wandb.project or "stsq", spec.wandb.entity)
        self._mode: Mode = decision.mode
        self._reason = decision.reason
        self._id = directory_id(run.wandb)
        self._published = PublishedTrials(run.wandb)
        self._stream = OnlineStream(self._target) if decision.mode == "online" else None
        cells = expand(spec)
        self._labels = {cell.cell_id: cell.label for cell in cells} | {c.cell_id: c.label for c in searched_cells(spec)}
        self._planned = {trial_id: cell for cell in cells for trial_id in cell.trials.trial_ids}
        self._offset = 0
        self._pending: dict[str, LedgerRecord] = {}
        self._ended: set[str] = set()
        self._num_published = 0
        self._num_up_to_date = 0
        self._num_refusals = 0
        LOG.info("W&B %s: %s", self._mode, self._reason)

    def round(self) -> int:
        """Publish what is new; returns how many ended trials are not out yet."""
        self._read_on()
        return self._publish(live=self._live() if self._stream else [])

    def finish(self) -> PublishReport:
        """Publish the rest, as long as that makes headway, and close everything."""
        self._read_on()
        if self._stream is not None:
            self._stream.let_go(keep=self._pending)
        missing, before = self._publish(live=[]), None
        while missing and before != (missing, self._mode, self._num_refusals):
            before = (missing, self._mode, self._num_refusals)
            missing = self._publish(live=[])
        if self._stream is not None:
            self._stream.let_go()
        restart_service()
        return PublishReport(self._mode, self._reason, self._num_published, self._num_up_to_date, missing)

    def _read_on(self) -> None:
        """Take what the ledger has got since; of a trial that ended again, the newest line counts."""
        records, self._offset = Ledger(self._run.ledger).follow(self._offset)
        self._pending |= {record.trial_id: record for record in records}
        self._ended |= {record.trial_id for record in records}

    def _publish(self, *, live: list[RunProjection]) -> int:
        if self._stream is None:
            self._write_files()
        else:
            self._send(self._stream, live)
        return len(self._pending)

    def _send(self, stream: OnlineStream, live: list[RunProjection]) -> None:
        ended = self._projections(self._pending)
        try:
            done = stream.advance([*ended, *live])
            self._num_refusals = 0
        except ConnectionError as error:
            done = set()
            self._refused(str(error))
        self._note([projection for projection in ended if projection.trial_id in done], {})

    def _refused(self, reason: str) -> None:
        LOG.warning("%s", reason)
        self._num_refusals += 1
        if self._num_refusals >= MAX_REFUSALS:
            self._mode, self._stream, self._num_refusals = "offline", None, 0
            self._reason = f"the server stopped taking runs ({reason}); the rest was written offline"
            LOG.warning("W&B offline: %s", self._reason)

    def _write_files(self) -> None:
        waiting = list(self._pending)
        for start in range(0, len(waiting), BATCH):
            projections = self._projections(waiting[start : start + BATCH])
            try:
                self._note(projections, write_offline(projections, self._target))
            except UserError as error:  # a full disk: the next round tries again
                LOG.warning("%s", error)
                return

    def _note(self, projections: Sequence[RunProjection], files: Mapping[str, Path]) -> None:
        names = {trial_id: str(path.relative_to(self._target.files)) for trial_id, path in files.items()}
        self._published.add(
            Publication(one.trial_id, one.run_id, self._mode, one.digest, names.get(one.trial_id)) for one in projections
        )
        for projection in projections:
            del self._pending[projection.trial_id]
        self._num_published += len(projections)

    def _projections(self, trial_ids: Collection[str]) -> list[RunProjection]:
        """Those of these ended trials that are not out as they stand in the ledger; the others are settled."""
        records = [self._pending[trial_id] for trial_id in trial_ids]
        ended_in = {record.trial_id: record.pack_id for record in records}
        curves = read_curves(self._run, trial_ids, ended_in=ended_in)
        evaluated = [record.trial_id for record in records if record.trial_config.evaluation.has_metrics]
        metrics = read_metrics(self._run, evaluated, ended_in=ended_in) if evaluated else {}
        projections = []
        for record in records:
            curve, cell = curves.get(record.trial_id, NO_CURVE), self._cell(record.trial_config)
            own = metrics.get(record.trial_id, NO_METRICS)
            projection = project_record(record, curve, own, directory_id=self._id, cell=cell, tags=self._tags)
            if self._published.holds(record.trial_id, projection.digest, self._mode):
                del self._pending[record.trial_id]
                self._num_up_to_date += 1
            else:
                projections.append(projection)
        return projections

    def _live(self) -> list[RunProjection]:
        """Trials that are training now and whose config the sweep's plan knows; called after `_read_on`."""
        live = []
        curves = read_curves(self._run, self._planned.keys() - self._ended, ended_in={})
        metrics = self._live_metrics(curves)  # after the curves: a row is sent once, and must not come before its metrics
        for trial_id, curve in curves.items():
            cell = self._planned[trial_id]
            config = cell.trials[cell.trials.trial_ids.index(trial_id)]
            own = metrics.get(trial_id, NO_METRICS)
            live.append(project_live(config, curve, own, directory_id=self._id, cell=cell.label, tags=self._tags))
        return live

    def _live_metrics(self, trial_ids: Iterable[str]) -> dict[str, dict[str, Curve]]:
        """The metrics of those of these trials that are evaluated; journals are not read again for the others."""
        families = {trial_id: self._planned[trial_id].trials.families for trial_id in trial_ids}
        evaluated = [i for i, some in families.items() if any(family.sample.evaluation.has_metrics for family in some)]
        return read_metrics(self._run, evaluated, ended_in={}) if evaluated else {}

    def _cell(self, config: TrialConfig) -> str:
        return self._labels.get(cell_of(config)) or describe(config)


def _patience(stop: Callable[[], bool]) -> Callable[[], bool]:
    """Whether to keep waiting for another publisher: while the sweep goes on, and a minute more."""
    deadline: list[float] = []

    def may_wait() -> bool:
        if stop() and not deadline:
            deadline.append(time.monotonic() + LOCK_PATIENCE_S)
        return not deadline or time.monotonic() < deadline[0]

    return may_wait


def _sleep(seconds: float, stop: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not stop() and time.monotonic() < deadline:
        time.sleep(0.1)


def main(arguments: Sequence[str] | None = None) -> int:
    """The child process; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="dashboards.publishing.publisher", description="Publish a run directory.")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--follow", action="store_true", help="until standard input ends or the parent process is gone")
    parser.add_argument("--mode", choices=REQUESTS, default=None)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    os.nice(10)  # training goes first
    stop = watch_driver() if options.follow else lambda: True
    try:
        report = publish(options.run, mode=options.mode, stop=stop)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    LOG.info(
        "W&B %s: %d trials published, %d were up to date, %d missing",
        report.mode, report.num_published, report.num_up_to_date, report.num_missing,
    )  # fmt: skip
    return 1 if report.num_missing else 0


if __name__ == "__main__":
    sys.exit(main())
