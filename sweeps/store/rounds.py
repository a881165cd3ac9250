"""The newest round of each search: which points it asked for, so that others know trials of a search before they end.

A ledger says which of them have ended. Nothing is trained by this file: a search goes on from its studies and the ledger.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweeps.store.files import retry_io
from sweeps.store.jsonl import Addition, JsonLines, read_lines, sealed_lines, warn_once


@dataclass(frozen=True)
class Round:
    """The points (width, seed) that the search of a cell asked for, and how many `more` it expects to ask for after them."""

    cell_id: str
    points: tuple[tuple[int, int], ...]
    more: int = 0


def append_rounds(path: Path, rounds: Iterable[Round]) -> None:
    """Add the rounds that are asked for now.

    Raises:
        UserError: the disk is full, may not be written or did not come back.
    """
    retry_io(path, Addition(path, sealed_lines(map(asdict, rounds))))


def round_lines(path: Path) -> JsonLines[Round]:
    """The round of each line."""
    return JsonLines(path, _round)


def read_rounds(path: Path) -> dict[str, Round]:
    """The newest round of each search, by its cell."""
    return {one.cell_id: one for one in read_lines(round_lines(path))}


def follow_rounds(path: Path, offset: int = 0) -> tuple[list[Round], int]:
    """The rounds asked for after `offset` bytes, and the offset to go on from next time."""
    lines, rounds = round_lines(path), []
    for one, end in lines.after(offset):
        rounds.append(one)
        offset = end
    warn_once(lines.note)
    return rounds, offset


def _round(fields: dict[str, Any], _: bool) -> Round:
    """The fields of a line."""
    cell_id, points, more = fields.get("cell_id"), fields.get("points"), fields.get("more")
    if type(cell_id) is not str or type(points) is not list or type(more) is not int:
        raise ValueError("it has no cell_id, points or more")
    if any(type(point) is not list or list(map(type, point)) != [int, int] for point in points):
        raise ValueError("a point is no width and seed")
    return Round(cell_id, tuple((width, seed) for width, seed in points), more)
