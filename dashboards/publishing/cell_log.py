"""The rows of a cell's W&B run, kept in a file so that whoever publishes next sends the same ones."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dashboards.publishing.projection import Row
from sweeps.store import JsonLines, disk_errors, sealed, write_from

LAST_OF_GROUP = "num_ended"
"""The key that only the last row of a group in a cell's log has."""


class CellLog:
    """The rows of one cell's run, as first written to `RUN/wandb/cells/CELL_ID.jsonl`: one row a line, append-only.

    A row's place in the file is its step in W&B, so that a continued run is sent the rows after the last one that the server
    has, and none twice. Rows come in groups, each for the state after some number of ledger lines (`num_lines`); a group
    without its last row (the one with `num_ended`) was cut off by a crash and is dropped and written again.

    Raises:
        UserError: the disk is full or may not be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[Row] = []
        self._size = 0
        group: list[Mapping[str, Any]] = []
        lines = cell_rows(path)
        for fields, end in lines.after(0):
            if lines.bad:  # it and what follows is written again, each row in its place
                break
            group.append(fields)
            if LAST_OF_GROUP in group[-1]:
                self._take(group)
                group, self._size = [], end

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in order."""
        return tuple(self._rows)

    @property
    def num_lines(self) -> int:
        """The number of the cell's ledger lines at the last row."""
        return int(self._rows[-1].values["num_lines"]) if self._rows else 0

    def append(self, group: Sequence[Mapping[str, Any]]) -> None:
        """Add a group of rows; the last of them has `num_ended`."""
        data = b"".join(sealed(json.dumps(dict(values), allow_nan=False).encode()) for values in group)
        with disk_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
            write_from(self._path, data, self._size)  # drops a group that a crash cut off
        self._take(group)
        self._size += len(data)

    def _take(self, group: Sequence[Mapping[str, Any]]) -> None:
        start = len(self._rows)
        self._rows += [Row(start + place, values) for place, values in enumerate(group)]


def cell_rows(path: Path) -> JsonLines[dict[str, Any]]:
    """The lines of a cell's log."""
    return JsonLines(path, _row_fields)


def _row_fields(fields: dict[str, Any], _: bool) -> dict[str, Any]:
    """The fields of a line of a cell's log."""
    if wrong := [name for name, value in fields.items() if type(value) not in (int, float)]:
        raise ValueError(f"{wrong[0]} is no number")
    if type(fields.get("num_lines")) is not int:
        raise ValueError("it has no num_lines")
    return fields
