"""Reads a `.wandb` offline file back, so that what was published can be compared with the ledger number by number."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboards.publishing.files import BLOCK_BYTES, CHUNK_HEADER, FILE_HEADER, FIRST, FULL, LAST, checksum
from dashboards.publishing.wandb_border import record_class


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
    """Read one `.wandb` file; one that was cut off is read up to the cut.

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
        yield record_class().FromString(data)


def unpack(data: bytes) -> Iterator[bytes]:
    """The whole records of a file; one that was cut off is read up to the cut.

    Raises:
        ValueError: it is no W&B file, or a chunk other than a cut-off last one is damaged.
    """
    if not data.startswith(FILE_HEADER):
        raise ValueError(f"not a W&B file: it starts with {data[:7]!r}; a W&B file starts with {FILE_HEADER!r}")
    at, parts = len(FILE_HEADER), b""
    while True:
        room = BLOCK_BYTES - at % BLOCK_BYTES
        if room < CHUNK_HEADER.size:
            at += room
        if at + CHUNK_HEADER.size > len(data):
            return
        crc, size, kind = CHUNK_HEADER.unpack_from(data, at)
        chunk = data[at + CHUNK_HEADER.size : at + CHUNK_HEADER.size + size]
        if kind == 0 or len(chunk) < size:
            return
        if checksum(kind, chunk) != crc:
            raise ValueError(f"damaged W&B file: the checksum of the chunk at byte {at} does not fit")
        parts = chunk if kind in (FULL, FIRST) else parts + chunk
        if kind in (FULL, LAST):
            yield parts
        at += CHUNK_HEADER.size + size
