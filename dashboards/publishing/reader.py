"""Reads a `.wandb` offline file back, so that what was published can be compared with the ledger number by number.

`log` takes the file apart; each record is a protobuf `Record` of the wandb package. A file that was cut off is read up to
the cut.

Source: `wandb/proto/wandb_internal.proto` of the installed wandb.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

from dashboards.publishing.log import unpack


@dataclass(frozen=True)
class OfflineRun:
    """What one `.wandb` file holds: `history` row by row, the last `summary`, `exit_code` (None while it is incomplete)."""

    run_id: str
    project: str
    name: str
    group: str
    job_type: str
    tags: tuple[str, ...]
    config: dict[str, Any]
    history: tuple[dict[str, Any], ...]
    summary: dict[str, Any]
    exit_code: int | None


def read_run(path: Path) -> OfflineRun:
    """Read one `.wandb` file.

    Raises:
        ValueError: the file is no W&B file, or a chunk other than a cut-off last one is damaged.
    """
    run_id = project = name = group = job_type = ""
    tags: tuple[str, ...] = ()
    config: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    exit_code: int | None = None
    for record in _records(path):
        match record.WhichOneof("record_type"):
            case "run":
                run_id, project, name = record.run.run_id, record.run.project, record.run.display_name
                group, job_type = record.run.run_group, record.run.job_type
                tags = tuple(record.run.tags)
                config |= _items(record.run.config.update)
            case "config":
                config |= _items(record.config.update)
            case "history":
                history.append(_items(record.history.item))
            case "summary":
                summary |= _items(record.summary.update)
            case "exit":
                exit_code = record.exit.exit_code
    config.pop("_wandb", None)
    return OfflineRun(run_id, project, name, group, job_type, tags, config, tuple(history), summary, exit_code)


def _items(items: Any) -> dict[str, Any]:
    """Key-value records as a dict; a nested key a, b is spelled `a.b`."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(path: Path) -> Iterator[Any]:
    for data in unpack(path.read_bytes()):
        record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
        record.ParseFromString(data)
        yield record
