"""Replays the ledger and the journals of a run directory into W&B: idempotent, and outside of the training's way.

Offline, a run is written when it has ended, as one complete file. Online, it is streamed while its trial trains, and counts as
published when the server says that it holds it. What was published is noted in `RUN/wandb/published.jsonl`; publishing again
writes only what is missing or has changed. A server that fails is asked again later; in the meantime runs are written offline,
and once it answers they are published from the journals.

A sweep with more trials than `wandb.max_trial_runs` has one run a cell instead of one a trial.
"""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from dashboards.publishing.cell_runs import CellRuns
from dashboards.publishing.connection import FIRST_PAUSE_S, Connection
from dashboards.publishing.destination import NOTHING_ASKED, Asked, choose_destination
from dashboards.publishing.files import Target
from dashboards.publishing.mode import Decision, Mode, Request, decide_mode
from dashboards.publishing.projection import RunProjection
from dashboards.publishing.published import Publication, Published, directory_id
from dashboards.publishing.service import server_url
from dashboards.publishing.shards import WHOLE, Shard, sole_publisher
from dashboards.publishing.trial_runs import TrialRuns
from stsq_core import UserError
from sweeps.files import write_atomically
from sweeps.plan import expand
from sweeps.run_directory import RunDirectory, open_run
from sweeps.spec import SweepSpec

LOG = logging.getLogger(__name__)

POLL_S = 2.0
LOCK_PATIENCE_S = 60.0
BATCH = 256
"""Runs projected, and written or sent, before they are noted as published."""

MAX_LOSSES = 2
"""Attempts in a row that a server may fail at the end, before the rest is left offline."""


@dataclass(frozen=True)
class PublishReport:
    """What one publication did: the mode it ended in and why; runs published now, up to date before, missing still.

    `num_missing` runs are neither online nor offline.
    """

    mode: Mode
    reason: str
    num_published: int
    num_up_to_date: int
    num_missing: int


class Runs(Protocol):
    """The W&B runs of a sweep and a shard: one a trial, or one a cell."""

    @property
    def ended_keys(self) -> Collection[str]:
        """The runs that have ended."""

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Take what came since; returns the ended runs that changed. `closing`: nothing more is to come."""

    def ended(self, keys: Collection[str]) -> Sequence[RunProjection]:
        """Ended runs as they are now."""

    def live(self) -> Sequence[RunProjection]:
        """Runs that go on."""

    def write_offline(self, projections: Sequence[RunProjection], target: Target) -> Mapping[str, Path]:
        """Write ended runs as offline files; returns these by key."""


def publish(
    run_path: Path,
    *,
    mode: Request | None = None,
    asked: Asked = NOTHING_ASKED,
    shard: Shard = WHOLE,
    stop: Callable[[], bool] = lambda: True,
    poll_s: float = POLL_S,
    pause_s: float = FIRST_PAUSE_S,
) -> PublishReport:
    """Publish a run directory until `stop()` is true, then once more for what has come in the meantime.

    Args:
        run_path: the run directory.
        mode: overrides `WANDB_MODE` and the sweep file.
        asked: project, entity and tags that override the environment and the sweep file.
        shard: the share of the runs that this publisher owns.
        stop: true once the sweep has ended; the default makes one pass.
        poll_s: seconds between two looks at the directory, at least.
        pause_s: seconds until a server that failed is asked again, at first.

    Raises:
        UserError: no run directory, a mode that does not exist, or another publisher that does not end.
    """
    run = open_run(run_path)
    spec = run.read_spec()
    decision = decide_mode(mode, spec.wandb.mode, server=server_url)
    if decision.mode == "disabled":
        return PublishReport("disabled", decision.reason, 0, 0, 0)
    destination = choose_destination(asked, spec.wandb, run.wandb)
    target = Target(run.path, destination.project, destination.entity)
    with sole_publisher(run.wandb, shard, may_wait=_patience(stop)):
        runs = runs_of(run, spec, shard, tags=destination.tags)
        publisher = Publisher(runs, target, decision, shard, pause_s=pause_s)
        while not stop():
            began = time.monotonic()
            publisher.round()
            # reading a large directory takes long: spend at most a fifth of the time on it, the rest is the training's
            _sleep(max(poll_s, 4 * (time.monotonic() - began)), stop)
        report = publisher.finish()
    write_atomically(run.wandb / "report.json", json.dumps(asdict(report)).encode())
    return report


def sync(run_path: Path, *, asked: Asked = NOTHING_ASKED, shard: Shard = WHOLE) -> PublishReport:
    """Publish a run directory online now, from its journals; what is online already is left alone.

    Raises:
        UserError: there is no key, the server does not answer, or it refused some runs.
    """
    decision = decide_mode("online", "online", server=server_url)
    if decision.mode != "online":
        raise UserError(f"cannot publish {run_path} online: {decision.reason}")
    report = publish(run_path, mode="online", asked=asked, shard=shard)
    if report.num_missing or report.mode != "online":
        raise UserError(
            f"the W&B server did not take every run of {run_path}: {report.reason}."
            " What is missing is kept; run the same command again"
        )
    return report


def runs_of(run: RunDirectory, spec: SweepSpec, shard: Shard, *, tags: tuple[str, ...]) -> Runs:
    """The form in which W&B shows a sweep: one run a trial, above `wandb.max_trial_runs` trials one run a cell."""
    cells = expand(spec)
    num_trials = sum(len(cell.trials) for cell in cells)
    if num_trials <= spec.wandb.max_trial_runs:
        return TrialRuns(run, spec, cells, shard, identity=directory_id(run.wandb), tags=tags)
    LOG.info("%d trials are more than wandb.max_trial_runs=%d: one run a cell", num_trials, spec.wandb.max_trial_runs)
    return CellRuns(run, spec, cells, shard, identity=directory_id(run.wandb), tags=tags)


class Publisher:
    """The life of one publication: what is not out as yet, what is, and the connection."""

    def __init__(self, runs: Runs, target: Target, decision: Decision, shard: Shard, *, pause_s: float) -> None:
        self._runs = runs
        self._target = target
        self._published = Published(target.files, shard)
        self._connection = Connection(decision, target, pause_s=pause_s)
        self._pending: set[str] = set()
        self._done: set[str] = set()
        self._up_to_date: set[str] = set()

    def round(self) -> None:
        """Publish what is new."""
        self._pending |= self._runs.read_on()
        if self._connection.heal():
            self._take_up_offline_runs()
        self._send(live=True)
        self._write_files()

    def finish(self) -> PublishReport:
        """Publish the rest, as long as that makes headway, and close everything."""
        self._pending |= self._runs.read_on(closing=True)
        if self._is_online():
            self._take_up_offline_runs()
        last, headway = self._connection.num_losses + MAX_LOSSES, True
        while self._pending and headway and self._connection.num_losses < last and self._is_online():
            left = len(self._pending)
            self._send(live=False)
            headway = len(self._pending) < left or self._connection.stream is None
        self._write_files()
        self._connection.close()
        owed = self._published.offline(self._runs.ended_keys) if self._connection.mode == "online" else set()
        mode: Mode = "offline" if owed else self._connection.mode
        return PublishReport(
            mode, self._connection.reason, len(self._done), len(self._up_to_date - self._done), len(self._pending)
        )

    def _is_online(self) -> bool:
        return self._connection.stream is not None or self._connection.heal(now=True)

    def _take_up_offline_runs(self) -> None:
        """What was written offline while the server was away is to be published."""
        self._pending |= self._published.offline(self._runs.ended_keys)

    def _send(self, *, live: bool) -> None:
        stream = self._connection.stream
        if stream is None:
            return
        try:
            for keys in _batches(self._pending):
                if projections := self._changed(keys):
                    stream.deliver(projections, lambda held: self._note(held, {}))
            if live:
                stream.stream(self._runs.live())
            self._connection.took()
        except ConnectionError as error:
            self._connection.lose(error)

    def _write_files(self) -> None:
        if self._connection.stream is not None:
            return
        for keys in _batches(self._pending):
            projections = self._changed(keys)
            try:
                self._note(projections, self._runs.write_offline(projections, self._target))
            except UserError as error:  # a full disk: the next round tries again
                LOG.warning("%s", error)
                return

    def _note(self, projections: Sequence[RunProjection], files: Mapping[str, Path]) -> None:
        names = {key: str(path.relative_to(self._target.files)) for key, path in files.items()}
        mode, at = self._connection.mode, time.time()
        self._published.add(
            Publication(one.key, one.run_id, mode, self._digest(one), names.get(one.key), at) for one in projections
        )
        keys = {projection.key for projection in projections}
        self._pending -= keys
        self._done |= keys

    def _changed(self, keys: Collection[str]) -> list[RunProjection]:
        """Those of these ended runs that are not out as they are now; the others are settled."""
        changed = []
        for projection in self._runs.ended(keys):
            if self._published.holds(projection.key, self._digest(projection), self._connection.mode):
                self._pending.discard(projection.key)
                self._up_to_date.add(projection.key)
            else:
                changed.append(projection)
        return changed

    def _digest(self, projection: RunProjection) -> str:
        """What is published, and where: another project is another publication."""
        return f"{projection.digest} {self._target.entity or ''}/{self._target.project}"


def _batches(keys: Collection[str]) -> list[list[str]]:
    ordered = sorted(keys)
    return [ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH)]


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
