"""The record of a run directory's published runs, kept beside W&B's files so that a second publication does nothing.

`wandb/published.jsonl` has one line a publication and the newest line of a run counts; a publisher of shard I of N has a file
`published-I-of-N.jsonl`, and all of them are read. `wandb/identity.json` holds the random id that keeps the runs
of two directories apart in one project.
"""

import json
import re
import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sweeps.cells import WHOLE, Shard
from sweeps.store import JsonLines, append_lines, free_name, read_lines, sealed, unsealed, write_first

SENT = "sent"
"""The mode of a run that was sent whole, while the server has not said that it holds it."""


@dataclass(frozen=True)
class PublishedRun:
    """One run as it was published: the `digest` of its content and destination, and the offline file's name, if any.

    `key` is the trial's or the cell's id; `mode` is "online", "offline", or `SENT`; `at` is in seconds since 1970.
    """

    key: str
    run_id: str
    mode: str
    digest: str
    file: str | None = None
    at: float = 0.0


_RUN = TypeAdapter(PublishedRun)
_KEY = TypeAdapter(str)


class Published:
    """The publications of one run directory, by key."""

    def __init__(self, folder: Path, shard: Shard = WHOLE) -> None:
        name = "published" if shard.count == 1 else f"published-{shard.index}-of-{shard.count}"
        self._path = folder / f"{name}.jsonl"
        self._folder = folder
        read = [
            publication for path in sorted(folder.glob("published*.jsonl")) for publication in read_lines(publications(path))
        ]
        self._latest = {one.key: one for one in sorted(read, key=lambda one: one.at)}

    def holds(self, key: str, digest: str, mode: str) -> bool:
        """Whether this content was published: online or, if the mode is offline, in a file that still exists."""
        known = self._latest.get(key)
        if known is None or known.digest != digest:
            return False
        if known.mode == "online":
            return True
        return mode == "offline" and known.file is not None and (self._folder / known.file).exists()

    def sent(self, keys: Collection[str]) -> set[str]:
        """Those of these runs that were sent and are not confirmed, in their present content or an earlier one."""
        return {key for key in keys if key in self._latest and self._latest[key].mode == SENT}

    def was_sent(self, key: str, digest: str) -> bool:
        """Whether this content was sent and is not confirmed."""
        known = self._latest.get(key)
        return known is not None and known.mode == SENT and known.digest == digest

    def offline(self, keys: Collection[str]) -> set[str]:
        """Those of these runs that are not online yet."""
        return {key for key in keys if key not in self._latest or self._latest[key].mode != "online"}

    def add(self, publications: Iterable[PublishedRun]) -> None:
        """Record publications; once this has returned, a kill loses none.

        Raises:
            UserError: the disk is full or may not be written.
        """
        added = {publication.key: publication for publication in publications}
        if not added:
            return
        append_lines(self._path, map(asdict, added.values()))
        self._latest |= added


def publications(path: Path) -> JsonLines[PublishedRun]:
    """The lines of a record of publications; a run whose line is damaged is published again."""

    def check(fields: dict[str, Any], _: bool) -> PublishedRun:
        if "trial_id" in fields:  # lines of old run directories name the trial
            fields["key"] = fields.pop("trial_id")
        return _RUN.validate_python(fields)

    return JsonLines(path, check)


def alerts_sent(path: Path) -> JsonLines[str]:
    """The keys of the alerts that were sent; one whose line is damaged may be sent once more."""
    return JsonLines(path, lambda fields, _: _KEY.validate_python(fields["key"]))


def directory_id(folder: Path) -> str:
    """The id of this run directory in W&B: made once, then kept; where its file is damaged, as the published runs have it."""
    path = folder / "identity.json"
    if kept_id(path) is None:
        renew_id(folder)
    return kept_id(path) or _published_id(folder)


def renew_id(folder: Path) -> None:
    """Make the file of the id where there is none, or a damaged one."""
    path = folder / "identity.json"
    if path.exists() and kept_id(path) is None:
        path.replace(free_name(path))
    write_first(path, sealed(json.dumps({"id": _published_id(folder)}).encode()))


def _published_id(folder: Path) -> str:
    """The id in the names of the runs that were published; a new one where none was."""
    runs = (run for record in sorted(folder.glob("published*.jsonl")) for run in publications(record))
    return next((run.run_id.removesuffix(f"-{run.key}") for run in runs), secrets.token_hex(4))


def kept_id(path: Path) -> str | None:
    """The id in a file; None where there is none, or a damaged one."""
    with suppress(OSError, ValueError, KeyError):
        found = unsealed(path.read_bytes())[0]["id"]
        return found if isinstance(found, str) and re.fullmatch(r"[0-9a-f]{8}", found) else None
    return None
