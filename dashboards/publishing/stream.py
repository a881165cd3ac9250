"""Streams projected trials to a server with the wandb client.

Every call into wandb is bounded in time by the settings below. What wandb raises is caught here, told once in the log, and
answered by "not written"; the caller decides whether to try again.
"""

import contextlib
import logging
import os
import resource
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import wandb

from dashboards.publishing.files import Target, delete_local, local_files
from dashboards.publishing.projection import Outcome, Row, RunProjection

LOG = logging.getLogger(__name__)

MAX_OPEN_RUNS = 256
"""The most runs one publisher keeps open; each costs its wandb service three file descriptors."""

INIT_TIMEOUT_S = 10.0
FINISH_TIMEOUT_S = 20.0
INTERRUPTED = 130


def server_url() -> str:
    """The W&B server this machine is set up for."""
    return os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


def open_run_limit() -> int:
    """How many runs may be open at once: short of file descriptors, wandb loses files without a word."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN_RUNS if soft == resource.RLIM_INFINITY else max(1, min(MAX_OPEN_RUNS, (soft - 64) // 3))


def restart_service() -> None:
    """End wandb's service process; the next run starts a fresh one."""
    for _ in range(2):  # tearing down a service that has died raises once
        with contextlib.suppress(Exception):
            wandb.teardown()
    os.environ.pop("WANDB_SERVICE", None)  # left behind by a service that has died, it would send the next one to a dead socket


class OnlineStream:
    """Runs held open on a server: new rows are sent as they come, and a run is finished when its trial has ended.

    A run that exists on the server is continued behind its last row, so that nothing is ever sent twice.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._open: dict[str, Any] = {}
        self._next_step: dict[str, int] = {}
        self._capacity = open_run_limit()

    def advance(self, projections: Sequence[RunProjection]) -> set[str]:
        """Send what is new of these trials; returns those that have ended and are whole on the server.

        Raises:
            ConnectionError: the service died, or nothing could be opened or finished; a later call replays every run.
        """
        self._open_missing(projections)
        at_hand = [projection for projection in projections if projection.trial_id in self._open]
        try:
            for projection in at_hand:
                self._send(projection)
        except Exception as error:  # a dead service raises from every call, so all runs are opened again
            self.reset()
            raise ConnectionError(f"W&B's service was lost: {error}") from error
        ended = [projection for projection in at_hand if projection.outcome is not None]
        finished = set(_in_threads(self._finish, ended))
        if projections and (not at_hand or (ended and not finished)):
            self.reset()
            raise ConnectionError(f"W&B took none of {len(projections)} runs")
        return finished

    def reset(self) -> None:
        """Forget every open run and end wandb's service."""
        self._open.clear()
        restart_service()

    def let_go(self, keep: Collection[str] = ()) -> None:
        """Finish the runs of trials that have not ended, as interrupted; a later stream continues them."""
        for trial_id in set(self._open) - set(keep):
            with contextlib.suppress(Exception):
                self._open.pop(trial_id).finish(exit_code=INTERRUPTED)

    def _open_missing(self, projections: Iterable[RunProjection]) -> None:
        try:
            wandb.setup()  # once, before the threads: set up by several at a time it can lose the server's address
        except Exception as error:
            self.reset()
            raise ConnectionError(f"W&B's service does not start: {error}") from error
        missing = [projection for projection in projections if projection.trial_id not in self._open]
        _in_threads(self._start, missing[: max(0, self._capacity - len(self._open))])

    def _start(self, projection: RunProjection) -> str:
        delete_local(self._target, [projection.run_id])
        run = _open(projection, self._target)
        self._open[projection.trial_id] = run
        self._next_step[projection.trial_id] = run.starting_step
        return projection.trial_id

    def _send(self, projection: RunProjection) -> None:
        rows = [row for row in projection.rows if row.step >= self._next_step[projection.trial_id]]
        if rows:
            _log(self._open[projection.trial_id], rows)
            self._next_step[projection.trial_id] = rows[-1].step + 1

    def _finish(self, projection: RunProjection) -> str:
        _close(self._open.pop(projection.trial_id), projection.outcome)
        for path in local_files(self._target, projection.run_id):
            path.with_name(path.name + ".synced").touch()  # wandb's own mark, so that `wandb sync` does not append it again
        return projection.trial_id


def _in_threads(act: Callable[[RunProjection], str], projections: Sequence[RunProjection]) -> list[str]:
    """Do something to every run at once, as each waits for the server; returns the trials for which it succeeded."""
    if not projections:
        return []
    with ThreadPoolExecutor(max_workers=min(32, len(projections))) as pool:
        futures = [pool.submit(act, projection) for projection in projections]
    done = []
    for projection, future in zip(projections, futures, strict=True):
        error = future.exception()
        if error is None:
            done.append(future.result())
        else:
            LOG.warning("W&B refused trial %s: %s", projection.trial_id, error)
    return done


def _open(projection: RunProjection, target: Target) -> Any:
    """Open one run with everything switched off that costs time or tells the server about the machine."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    run = wandb.init(
        project=target.project,
        entity=target.entity,
        dir=str(target.directory),
        id=projection.run_id,
        name=projection.name,
        group=projection.group,
        job_type=projection.job_type,
        tags=list(projection.tags),
        config=dict(projection.config),
        mode="online",
        resume="allow",
        reinit="create_new",
        settings=wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            finish_timeout=FINISH_TIMEOUT_S,
            finish_timeout_raises=True,
            init_timeout=INIT_TIMEOUT_S,
            silent=True,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
            base_url=server_url(),
        ),
    )
    if not Path(run.settings.sync_file).exists():
        raise OSError(f"W&B made no file for run {projection.run_id}: is the disk full, or are file descriptors short?")
    return run


def _log(run: Any, rows: Iterable[Row]) -> None:
    for row in rows:
        # commit: otherwise wandb holds the row back until the next one comes
        run.log(row.told(), step=row.step, commit=True)


def _close(run: Any, outcome: Outcome | None) -> None:
    if outcome is not None:
        run.summary.update(dict(outcome.summary))
    run.finish(exit_code=0 if outcome is None else outcome.exit_code)
