"""The record of a run directory's published runs, kept beside W&B's files so that a second publication does nothing.

`wandb/published.jsonl` has one line a publication and the newest line of a run counts; a publisher of shard I of N has a file
`published-I-of-N.jsonl`, and all of them are read. `wandb/identity.json` holds the random id that keeps the runs
of two directories apart in one project.
"""

import json
import os
import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeps.cells import WHOLE, Shard
from sweeps.store import append_lines, read_objects


@dataclass(frozen=True)
class PublishedRun:
    """One run as it was published: the `digest` of its content and destination, and the offline file's name, if any.

    `key` is the trial's or the cell's id; `at` is in seconds since 1970.
    """

    key: str
    run_id: str
    mode: str
    digest: str
    file: str | None = None
    at: float = 0.0


class Published:
    """The publications of one run directory, by key."""

    def __init__(self, folder: Path, shard: Shard = WHOLE) -> None:
        name = "published" if shard.count == 1 else f"published-{shard.index}-of-{shard.count}"
        self._path = folder / f"{name}.jsonl"
        self._folder = folder
        read = [publication for path in sorted(folder.glob("published*.jsonl")) for publication in self._read(path)]
        self._latest = {publication.key: publication for publication in sorted(read, key=lambda one: one.at)}

    def _read(self, path: Path) -> Iterable[PublishedRun]:
        for fields in read_objects(path):
            with suppress(TypeError, KeyError):  # a line of another form: that run is published again
                # lines of old run directories name the trial
                yield PublishedRun(**({"key": fields.pop("trial_id")} if "trial_id" in fields else {}), **fields)

    def holds(self, key: str, digest: str, mode: str) -> bool:
        """Whether this content was published: online or, if the mode is offline, in a file that still exists."""
        known = self._latest.get(key)
        if known is None or known.digest != digest:
            return False
        if known.mode == "online":
            return True
        return mode == "offline" and known.file is not None and (self._folder / known.file).exists()

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
        append_lines(self._path, "".join(json.dumps(asdict(publication)) + "\n" for publication in added.values()).encode())
        self._latest |= added


def directory_id(folder: Path) -> str:
    """The id of this run directory in W&B: made once, then kept."""
    path = folder / "identity.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"identity.{os.getpid()}.tmp")
        draft.write_text(json.dumps({"id": secrets.token_hex(4)}) + "\n")
        with suppress(FileExistsError):  # another shard's publisher was first
            os.link(draft, path)
        draft.unlink()
    return str(json.loads(path.read_text())["id"])
