"""Reads a `.wandb` offline file back, so that what was published can be compared with the ledger number by number.

The file is a 7-byte header and then a LevelDB log: blocks of 32 KiB, each chunk with a 7-byte header (CRC-32 of type and data,
length, type), each whole record a protobuf `Record` of the wandb package. A file that was cut off is read up to the cut.

Source: the LevelDB log format; `wandb/proto/wandb_internal.proto` of the installed wandb.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

FILE_HEADER = b":W&B\xe1\xbe\x00"
BLOCK_BYTES = 32 * 1024
CHUNK_HEADER_BYTES = 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class OfflineRun:
    """What one `.wandb` file holds: `history` row by row, the last `summary`, `exit_code` (None while it is incomplete)."""

    run_id: str
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
    run_id = group = job_type = ""
    tags: tuple[str, ...] = ()
    config: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    exit_code: int | None = None
    for record in _records(path):
        match record.WhichOneof("record_type"):
            case "run":
                run_id, group, job_type = record.run.run_id, record.run.run_group, record.run.job_type
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
    return OfflineRun(run_id, group, job_type, tags, config, tuple(history), summary, exit_code)


def is_complete(path: Path) -> bool:
    """Whether the file ends with the record that says how the run exited."""
    try:
        return any(record.WhichOneof("record_type") == "exit" for record in _records(path))
    except (OSError, ValueError):
        return False


def _items(items: Any) -> dict[str, Any]:
    """Key-value records as a dict; a nested key a, b is spelled `a.b`."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(path: Path) -> Iterator[Any]:
    for data in _framed(path.read_bytes()):
        record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
        record.ParseFromString(data)
        yield record


def _framed(data: bytes) -> Iterator[bytes]:
    """The whole records of a LevelDB log; stops at a cut-off tail."""
    if not data.startswith(FILE_HEADER):
        raise ValueError(f"not a W&B file: it starts with {data[:7]!r}; a W&B file starts with {FILE_HEADER!r}")
    at, parts = len(FILE_HEADER), b""
    while True:
        room = BLOCK_BYTES - at % BLOCK_BYTES
        if room < CHUNK_HEADER_BYTES:
            at += room
        if at + CHUNK_HEADER_BYTES > len(data):
            return
        crc, size, kind = struct.unpack_from("<IHB", data, at)
        chunk = data[at + CHUNK_HEADER_BYTES : at + CHUNK_HEADER_BYTES + size]
        if kind == 0 or len(chunk) < size:
            return
        if zlib.crc32(bytes([kind]) + chunk) != crc:
            raise ValueError(f"damaged W&B file: the checksum of the chunk at byte {at} does not fit")
        parts = chunk if kind in (FULL, FIRST) else parts + chunk
        if kind in (FULL, LAST):
            yield parts
        at += CHUNK_HEADER_BYTES + size
