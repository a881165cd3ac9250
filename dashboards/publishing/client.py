"""W&B's client: the service process that it talks to, and a run opened, logged and finished with every costly extra off.

One service serves all runs of a Python process. Short of file descriptors it loses runs without a word, so the runs that are
open at once are capped, and the service is restarted before what ended runs leave open uses its descriptors up.
"""

import contextlib
import hashlib
import json
import logging
import os
import resource
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import wandb

from dashboards.publishing.files import Target, delete_local, write_quick_files
from dashboards.publishing.projection import Outcome, Row, RunProjection, Table
from dashboards.publishing.wandb_border import SERVICE_VARIABLE, has_quick_files, quiet_settings, service_process
from stsq_core.configs import UserError
from sweeps.store import disk_errors

LOG = logging.getLogger(__name__)

INIT_TIMEOUT_S = 10.0
FINISH_TIMEOUT_S = 20.0
TEARDOWN_PATIENCE_S = 10.0
INTERRUPTED = 130

MAX_OPEN_RUNS = 256
"""Upper limit on open runs per publisher; each takes a fifth of a megabyte in the service."""

MAX_RUNS = 2000
"""Upper limit on runs per service before it is restarted, because it keeps some memory of each."""

OPEN_DESCRIPTORS = 5
KEPT_DESCRIPTORS = 3
SPARE_DESCRIPTORS = 64
"""File descriptors of wandb's service (measured, wandb 0.31): per open online run, per ended one, for the service itself."""


def server_url() -> str:
    """The W&B server that this machine is set up for."""
    _report_nothing()
    return os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


def _report_nothing() -> None:
    """Keep the client from measuring itself for its makers; before its service starts, which has the environment from then."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")


def restart_service(patience_s: float = TEARDOWN_PATIENCE_S) -> None:
    """End wandb's service process, by force after `patience_s`; the next run starts a new one.

    A service that is asked to end first uploads everything it holds, however long that takes.
    """
    process = service_process()
    ending = threading.Thread(target=_tear_down, daemon=True)
    ending.start()
    ending.join(patience_s)
    if ending.is_alive():
        if process is not None:
            process.kill()
        ending.join(TEARDOWN_PATIENCE_S)
    os.environ.pop(SERVICE_VARIABLE, None)  # left behind by a dead service, it would send the next one to a dead socket


def _tear_down() -> None:
    for _ in range(2):  # tearing down a service that has died raises once
        with contextlib.suppress(Exception, SystemExit):
            wandb.teardown()


class Service:
    """How many more runs the service of this process can take."""

    def __init__(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # the service raises its own limit to the hard one; this process has one descriptor for each open run
        own = MAX_OPEN_RUNS if soft == resource.RLIM_INFINITY else soft - SPARE_DESCRIPTORS
        limit = None if hard == resource.RLIM_INFINITY else hard - SPARE_DESCRIPTORS
        theirs = MAX_OPEN_RUNS if limit is None else limit // (OPEN_DESCRIPTORS + KEPT_DESCRIPTORS)
        self.capacity = max(1, min(MAX_OPEN_RUNS, own, theirs))
        """Runs that may be open at once."""
        kept = MAX_RUNS if limit is None else (limit - OPEN_DESCRIPTORS * self.capacity) // KEPT_DESCRIPTORS
        self._max_ended = max(1, min(MAX_RUNS, kept))
        self._num_ended = 0

    @property
    def is_worn(self) -> bool:
        """Whether the service must be restarted before another run is opened."""
        return self._num_ended >= self._max_ended

    def start(self) -> None:
        """Start the service, from one thread only: started from several, the server's address would be lost.

        Raises:
            ConnectionError: it does not start.
        """
        _report_nothing()
        try:
            wandb.setup()
        except Exception as error:
            raise ConnectionError(f"W&B's service does not start: {error}") from error

    def ended(self, num_runs: int = 1) -> None:
        """Count finished runs."""
        self._num_ended += num_runs

    def restart(self, *, at_once: bool = False) -> None:
        """End the service; `at_once` also drops the runs that it still holds."""
        restart_service(0.0 if at_once else TEARDOWN_PATIENCE_S)
        self._num_ended = 0


def open_run(projection: RunProjection, target: Target, mode: Literal["online", "offline"]) -> Any:
    """Open a run; one that exists on the server is continued.

    Raises:
        OSError: the client made no file for it.
        Exception: any error of the client, after at most `INIT_TIMEOUT_S`.
    """
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
        mode=mode,
        resume="allow" if mode == "online" else None,
        reinit="create_new",
        settings=wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            finish_timeout=FINISH_TIMEOUT_S,
            finish_timeout_raises=True,
            init_timeout=INIT_TIMEOUT_S,
            silent=True,
            **quiet_settings(),
            **({"base_url": server_url()} if mode == "online" else {}),
        ),
    )
    if not _file_of(run).exists():
        raise OSError(f"W&B made no file for run {projection.run_id}: is the disk full, or are file descriptors short?")
    for pattern, axis in projection.axes.items():
        run.define_metric(pattern, step_metric=axis)
    return run


def log_rows(run: Any, rows: Iterable[Row]) -> None:
    """Send rows to the service, which takes them without waiting for a server."""
    for row in rows:
        # commit: otherwise wandb holds the row back until the next one comes
        run.log(dict(row.values), step=row.step, commit=True)


def end_run(run: Any, outcome: Outcome | None) -> None:
    """Log the summary and the tables and finish the run; without an outcome it is interrupted, and can be continued.

    Raises:
        Exception: any error of the client, after at most `FINISH_TIMEOUT_S`.
    """
    if outcome is None:
        run.finish(exit_code=INTERRUPTED)
        return
    run.summary.update(dict(outcome.summary))
    for name, table in outcome.tables.items():
        run.summary[name] = _save_table(run, name, table)
    run.finish(exit_code=outcome.exit_code)


def _save_table(run: Any, name: str, table: Table) -> dict[str, Any]:
    """Save a table among the run's files; returns the summary's value that shows it.

    `wandb.Table` would make an artifact of it, which waits for the server without a limit in time.
    """
    data = json.dumps({"columns": table.columns, "data": table.rows}).encode()
    digest = hashlib.sha256(data).hexdigest()
    path = f"media/table/{name}_{digest[:20]}.table.json"
    local = Path(run.dir) / path
    local.parent.mkdir(parents=True, exist_ok=True)
    local.write_bytes(data)
    run.save(str(local), base_path=run.dir, policy="now")
    counts = {"ncols": len(table.columns), "nrows": len(table.rows)}
    return {"_type": "table-file", "path": path, "sha256": digest, "size": len(data), **counts}


def _file_of(run: Any) -> Path:
    """The `.wandb` file that the client writes for an open run."""
    return Path(run.sync_dir) / f"run-{run.id}.wandb"


OfflineWriter = Callable[[Sequence[RunProjection], Target], Mapping[str, Path]]


def trial_writer() -> OfflineWriter:
    """The writer of trials' offline files: the quick one where it is tried with the installed wandb, else wandb's client."""
    if has_quick_files():
        return write_quick_files
    LOG.info("wandb %s writes its offline files itself: the quick writer is not tried with it", wandb.__version__)
    return write_client_files


def write_client_files(projections: Sequence[RunProjection], target: Target) -> Mapping[str, Path]:
    """Write runs that have ended with the client, each as one offline file that replaces every local file of that run.

    Returns:
        The files by key; an interrupted run has none, and is written by the next publication.

    Raises:
        UserError: the disk is full or may not be written, or the client fails.
    """
    delete_local(target, [projection.run_id for projection in projections])
    files = {}
    with disk_errors(target.files):
        for projection in projections:
            try:
                run = open_run(projection, target, "offline")
                file = _file_of(run)  # absolute, where the target may be relative
                files[projection.key] = target.files / file.parent.name / file.name
                log_rows(run, projection.rows)
                end_run(run, projection.outcome)
            except wandb.Error as error:
                restart_service(0.0)
                raise UserError(f"W&B's client wrote no file of {projection.name}: {error}; publish again") from error
    if files:
        restart_service()  # a file is complete only when the service has ended
    return files
