"""The history of a cell's W&B run, kept as it was first told: `RUN/wandb/cells/CELL_ID.jsonl`, one row a line, append-only.

A row's place in the file is its step in W&B, so that a continued run is sent the rows behind the last one that the server has,
and none twice. Rows come in groups, each for the state after some number of ledger lines (`num_lines`); a group's last row
carries `num_ended`, and a group without it was cut off by a crash and is dropped, to be told again.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dashboards.publishing.projection import Row
from sweeps.store import disk_errors

LAST_OF_GROUP = "num_ended"


class CellLog:
    """The rows of one cell.

    Raises:
        UserError: the disk is full or may not be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[Row] = []
        self._size = 0
        if path.exists():
            self._resume(path.read_bytes())

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in order."""
        return tuple(self._rows)

    @property
    def num_lines(self) -> int:
        """The ledger lines of the cell that the last row rests on."""
        return int(self._rows[-1].values["num_lines"]) if self._rows else 0

    def append(self, group: Sequence[Mapping[str, Any]]) -> None:
        """Add a group of rows; the last of them has `num_ended`."""
        data = "".join(json.dumps(dict(values), allow_nan=False) + "\n" for values in group).encode()
        with disk_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.ftruncate(descriptor, self._size)
                view = memoryview(data)
                while view:
                    view = view[os.pwrite(descriptor, view, self._size + len(data) - len(view)) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._take(group)
        self._size += len(data)

    def _resume(self, data: bytes) -> None:
        """Take the whole groups of the file."""
        group: list[Mapping[str, Any]] = []
        size = 0
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            size += len(line)
            group.append(json.loads(line))
            if LAST_OF_GROUP in group[-1]:
                self._take(group)
                group, self._size = [], size

    def _take(self, group: Sequence[Mapping[str, Any]]) -> None:
        start = len(self._rows)
        self._rows += [Row(start + place, values) for place, values in enumerate(group)]
