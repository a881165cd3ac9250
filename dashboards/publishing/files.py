"""The offline files of W&B runs, and a quick writer for those of trials that have ended.

W&B's client takes some 70 ms of CPU a run, the quick writer one or two. It is used with the releases of wandb that it is tried
with (`wandb_border`): there `test_files.py` compares its files with the client's record by record.

A file is a 7-byte header and then a LevelDB log of protobuf records. The log is divided into blocks of 32 KiB. A record is one
chunk or, where a block ends within it, several; a chunk has a 7-byte header: CRC-32 of type and data, length, type.

Source: `wandb/proto/wandb_internal.proto`; the LevelDB log format, with the plain CRC-32 that W&B uses.
"""

import json
import math
import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dashboards.publishing.projection import Outcome, RunProjection
from dashboards.publishing.wandb_border import record_class
from sweeps.store import disk_errors, write_atomically

MIN_CONSUMER = "0.70.0"
"""The oldest reader of the file, as in the files of wandb 0.31."""

WRITERS = 4
"""Files that are written at a time."""

FILE_HEADER = b":W&B\xe1\xbe\x00"
BLOCK_BYTES = 32 * 1024
CHUNK_HEADER = struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
_KINDS = {(True, True): FULL, (True, False): FIRST, (False, False): MIDDLE, (False, True): LAST}  # by: first chunk, last chunk


@dataclass(frozen=True)
class Target:
    """Where runs go: the local files to `directory/wandb`, the runs to a project of an entity (None: the account's default)."""

    directory: Path
    project: str
    entity: str | None = None

    @property
    def files(self) -> Path:
        """The folder of the local files."""
        return self.directory / "wandb"


def write_quick_files(projections: Sequence[RunProjection], target: Target) -> dict[str, Path]:
    """Write trials that have ended, each as one complete offline file that replaces every local file of that trial.

    A file is there as a whole or not at all, whenever the process or the machine stops.

    Returns:
        The files by key.

    Raises:
        UserError: the disk is full or may not be written.
    """
    delete_local(target, [projection.run_id for projection in projections])
    with ThreadPoolExecutor(WRITERS) as writers:  # a disk that is waited for by several at once forces their files out together
        paths = writers.map(partial(_write, target=target), projections)
        return {projection.key: path for projection, path in zip(projections, paths, strict=True)}


def local_files(target: Target, run_id: str) -> tuple[Path, ...]:
    """Every local `.wandb` file of a run."""
    return tuple(sorted(target.files.glob(f"*run-*-{run_id}/run-{run_id}.wandb")))


def delete_local(target: Target, run_ids: Iterable[str]) -> None:
    """Delete every local file of some runs: the journal holds all of it, and two fragments would be uploaded twice."""
    endings = frozenset(run_ids)
    if not target.files.is_dir():
        return
    with os.scandir(target.files) as entries:  # named offline-run-<date>_<time>-<run_id>, or run-... where they were online
        found = [entry.path for entry in entries if entry.name.rpartition("run-")[2].partition("-")[2] in endings]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)


def _write(projection: RunProjection, target: Target) -> Path:
    outcome = projection.outcome
    if outcome is None:
        raise ValueError(f"run {projection.key} has not ended: only ended trials are written offline")
    seconds = float(outcome.summary["seconds"])
    began = outcome.ended_at - seconds
    folder = target.files / f"offline-run-{datetime.fromtimestamp(began, UTC):%Y%m%d_%H%M%S}-{projection.run_id}"
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"run-{projection.run_id}.wandb"
    records = []
    for number, record in enumerate(_records(projection, outcome, target, began=began, seconds=seconds), start=1):
        record.num = number
        records.append(record.SerializeToString())
    write_atomically(path, pack(records))
    return path


def _records(projection: RunProjection, outcome: Outcome, target: Target, *, began: float, seconds: float) -> Iterator[Any]:
    """The records of a run in the order in which the client writes them."""
    Record = record_class()
    yield Record(header={"version_info": {"producer": "stsq", "min_consumer": MIN_CONSUMER}})
    whole, fraction = divmod(began, 1)
    yield Record(
        run={
            "run_id": projection.run_id,
            "entity": target.entity or "",
            "project": target.project,
            "config": {"update": _items(projection.config)},
            "run_group": projection.group,
            "job_type": projection.job_type,
            "display_name": projection.name,
            "tags": projection.tags,
            "start_time": {"seconds": int(whole), "nanos": int(fraction * 1e9)},
        }
    )
    last: dict[str, Any] = {}  # the newest value of every key: not every row has the metrics of an evaluation
    for row in projection.rows:
        # journals hold no times: the rows are spread evenly over the trial's steps
        runtime = seconds * row.step / max(1, projection.rows[-1].step)
        values = dict(row.values) | {"_step": row.step, "_runtime": runtime, "_timestamp": began + runtime}
        yield Record(history={"item": _items(values), "step": {"num": row.step}})
        last |= values
    nested = {"nested_key": ["_wandb", "runtime"], "value_json": str(round(seconds))}
    yield Record(summary={"update": [*_items(last | {"_runtime": seconds} | dict(outcome.summary)), nested]})
    yield Record(exit={"exit_code": outcome.exit_code, "runtime": round(seconds)})


def _items(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Keys with their values in JSON, where NaN, Infinity and -Infinity are spelled as the client spells them."""
    return [
        # most values are finite floats, and repr is JSON for those at a third of the cost
        {"key": key, "value_json": repr(value) if type(value) is float and math.isfinite(value) else json.dumps(value)}
        for key, value in values.items()
    ]


def pack(records: Iterable[bytes]) -> bytes:
    """The file that holds these records."""
    log = bytearray(FILE_HEADER)
    for record in records:
        rest, is_first = record, True
        while rest or is_first:
            room = BLOCK_BYTES - len(log) % BLOCK_BYTES
            if room < CHUNK_HEADER.size:
                log += bytes(room)
                room = BLOCK_BYTES
            chunk, rest = rest[: room - CHUNK_HEADER.size], rest[room - CHUNK_HEADER.size :]
            kind = _KINDS[is_first, not rest]
            log += CHUNK_HEADER.pack(checksum(kind, chunk), len(chunk), kind) + chunk
            is_first = False
    return bytes(log)


def checksum(kind: int, chunk: bytes) -> int:
    """The CRC-32 of a chunk's type and data."""
    return zlib.crc32(chunk, zlib.crc32(bytes([kind])))
