"""One run through the wandb client: opened, told its rows, ended. Everything is off that costs time or tells of the machine."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import wandb

from dashboards.publishing.files import Target, delete_local, local_files
from dashboards.publishing.projection import Outcome, Row, RunProjection, Table
from dashboards.publishing.service import restart_service, server_url
from stsq_core.configs import UserError
from sweeps.store import disk_errors

INIT_TIMEOUT_S = 10.0
FINISH_TIMEOUT_S = 20.0
INTERRUPTED = 130


def open_run(projection: RunProjection, target: Target, mode: Literal["online", "offline"]) -> Any:
    """Open a run; one that exists on the server is continued.

    Raises:
        OSError: the client made no file for it.
        Exception: whatever the client raises, after `INIT_TIMEOUT_S` at most.
    """
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
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
            **({"base_url": server_url()} if mode == "online" else {}),
        ),
    )
    if not Path(run.settings.sync_file).exists():
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
    """Tell the summary and the tables and end the run; without an outcome it is interrupted, and can be continued.

    Raises:
        Exception: whatever the client raises, after `FINISH_TIMEOUT_S` at most.
    """
    if outcome is None:
        run.finish(exit_code=INTERRUPTED)
        return
    run.summary.update(dict(outcome.summary))
    for name, table in outcome.tables.items():
        run.summary[name] = _saved(run, name, table)
    run.finish(exit_code=outcome.exit_code)


def _saved(run: Any, name: str, table: Table) -> dict[str, Any]:
    """Save a table among the run's files; returns the summary's value that shows it.

    `wandb.Table` would make an artifact of it, and asks the server about that without a bound in time.
    """
    data = json.dumps({"columns": table.columns, "data": table.rows}).encode()
    digest = hashlib.sha256(data).hexdigest()
    path = f"media/table/{name}_{digest[:20]}.table.json"
    local = Path(run.dir) / path
    local.parent.mkdir(parents=True, exist_ok=True)
    local.write_bytes(data)
    run.save(str(local), base_path=run.dir, policy="now")
    told = {"_type": "table-file", "path": path, "sha256": digest, "size": len(data)}
    return told | {"ncols": len(table.columns), "nrows": len(table.rows)}


def write_offline_runs(projections: Sequence[RunProjection], target: Target) -> Mapping[str, Path]:
    """Write runs that have ended with the client, each as one offline file that replaces every local file of that run.

    Returns:
        The files by key; a run that is cut off is in none, and is written anew by the next publication.

    Raises:
        UserError: the disk is full or may not be written, or the client fails.
    """
    delete_local(target, [projection.run_id for projection in projections])
    with disk_errors(target.files):
        for projection in projections:
            try:
                run = open_run(projection, target, "offline")
                log_rows(run, projection.rows)
                end_run(run, projection.outcome)
            except wandb.Error as error:
                restart_service(0.0)
                raise UserError(f"W&B's client wrote no file of {projection.name}: {error}; publish again") from error
    if projections:
        restart_service()  # a file is complete only when the service has ended
    return {one.key: path for one in projections for path in local_files(target, one.run_id)}
