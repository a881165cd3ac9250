"""What has been published of a run directory, kept beside W&B's files so that a second publication does nothing.

`wandb/published.jsonl` has one line a publication and the newest line of a trial counts; `wandb/identity.json` holds the random
id that keeps the runs of two directories apart in one project; `wandb/publisher.lock` admits one publisher at a time.
"""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stsq_core import UserError
from sweeps.files import disk_errors


@dataclass(frozen=True)
class Publication:
    """One trial as it was published: `digest` of what W&B was told, and the offline file's name when there is one."""

    trial_id: str
    run_id: str
    mode: str
    digest: str
    file: str | None = None


class PublishedTrials:
    """The publications of one run directory, by trial."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "published.jsonl"
        self._folder = folder
        self._latest: dict[str, Publication] = {}
        text = self._path.read_text() if self._path.exists() else ""
        self._torn = bool(text) and not text.endswith("\n")
        for line in text.splitlines():
            with suppress(ValueError, TypeError):  # a line torn by a kill: that trial is published again
                publication = Publication(**json.loads(line))
                self._latest[publication.trial_id] = publication

    def holds(self, trial_id: str, digest: str, mode: str) -> bool:
        """Whether exactly this was published, online or, where offline will do, in a file that is still there."""
        known = self._latest.get(trial_id)
        if known is None or known.digest != digest:
            return False
        if known.mode == "online":
            return True
        return mode == "offline" and known.file is not None and (self._folder / known.file).exists()

    def add(self, publications: Iterable[Publication]) -> None:
        """Note publications; a kill after this returns loses none.

        Raises:
            UserError: the disk is full or may not be written.
        """
        added = {publication.trial_id: publication for publication in publications}
        lines = "".join(json.dumps(asdict(publication)) + "\n" for publication in added.values())
        if not added:
            return
        begin, self._torn = "\n" if self._torn else "", True
        with disk_errors(self._path), self._path.open("a") as file:
            file.write(begin + lines)
        self._torn = False
        self._latest |= added


def directory_id(folder: Path) -> str:
    """The id of this run directory in W&B: made once, then kept."""
    path = folder / "identity.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps({"id": secrets.token_hex(4)}) + "\n")
        draft.replace(path)
    return str(json.loads(path.read_text())["id"])


@contextmanager
def sole_publisher(folder: Path, *, may_wait: Callable[[], bool]) -> Iterator[None]:
    """Be the only publisher of this directory; a publisher that died is no obstacle.

    Raises:
        UserError: another publisher is at work and `may_wait` says that the waiting is over.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "publisher.lock").open("a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not may_wait():
                    lock.seek(0)
                    holder = lock.read().strip() or "unknown"
                    raise UserError(
                        f"another publisher (process {holder}) is writing {folder}: wait until it has ended, then try again"
                    ) from None
                time.sleep(0.2)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
