"""Two watches over a run: of the cluster's head, which may be lost, and of the workers, which may hang.

Ray ends a driver whose head has been away for a minute, with a log of Ray's and without a word about the sweep; and a head that
was restarted knows nothing of the workers that the driver waits for. Either becomes one clear error here, some time before.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster.environment import BAD_INPUT
from cluster.run import claim_path
from stsq_core.configs import UserError
from sweeps.store import RunDirectory

POLL_S = 1.0
"""Sooner than any head restarts: one that was away, however shortly, is asked whether it is the same."""

HEAD_LOST_AFTER_S = 30.0
"""How long a head may not answer: half of the time after which Ray ends this process."""

CONNECT_TIMEOUT_S = 3.0
EXIT_TIMEOUT_S = 10.0

HEARD_WITHIN_S = 15.0
"""How soon the main thread must have seen the loss; one that waits in a call of Ray's never does."""

MIN_SILENCE_S = 300.0
"""The shortest silence after which a worker counts as hung: evaluations and compilations are silent too."""

SILENCE_IN_PAUSES = 10.0
"""The same, in multiples of the longest pause between two signs of life that any pack of the run has made."""

LOOKS_PER_SILENCE = 20.0
"""Looks within the silence that is allowed, at most one in `MIN_LOOK_S`: a look costs three file queries a pack."""

MIN_LOOK_S = 1.0


class HeadWatch:
    """Asks the head every second, in a thread, while the context is open.

    Args:
        address: HOST:PORT of the head.
        cluster_id: the id that the head at an address gives its cluster; None where it does not answer now.
    """

    def __init__(self, address: str, cluster_id: Callable[[str], str | None]) -> None:
        self._address = address
        self._cluster_id = cluster_id
        self._joined = cluster_id(address)
        self._over = threading.Event()
        self._heard = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.lost: str | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(EXIT_TIMEOUT_S)  # a thread in Ray's code while Ray ends may keep the process from ending

    def check(self) -> None:
        """Raise the loss that the thread has found, if any.

        Raises:
            UserError: the head is lost, or another one.
        """
        if self.lost is not None:
            self._heard.set()
            raise UserError(self.lost)

    def _watch(self) -> None:
        answered_at, was_away = time.monotonic(), False
        while self.lost is None and not self._over.wait(POLL_S):
            if not _accepts_connections(self._address):
                was_away = True
                if time.monotonic() - answered_at > HEAD_LOST_AFTER_S:
                    self._declare_lost(f"has not answered for {HEAD_LOST_AFTER_S:.0f} s")
                continue
            answered_at = time.monotonic()
            if was_away and (now := self._cluster_id(self._address)):
                was_away = False
                if self._joined and now != self._joined:
                    self._declare_lost("was restarted, and knows nothing of the workers that were training")

    def _declare_lost(self, what: str) -> None:
        """Leave the loss for `check`; end the process where the main thread does not come to it."""
        self.lost = (
            f"the head of the Ray cluster at {self._address} {what}: every result is in the ledger, and the same command "
            "goes on from there, and from the saved states, once the cluster is back"
        )
        if not self._heard.wait(HEARD_WITHIN_S) and not self._over.is_set():
            print(f"stsq: {self.lost}", file=sys.stderr, flush=True)
            os._exit(BAD_INPUT)


def _accepts_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


FileState = tuple[int, int, int] | None
"""Modification time, size and inode of a file; None where there is none."""


@dataclass
class _LastSign:
    """The state of a pack's files, and since when it has been so."""

    files: tuple[FileState, ...]
    since: float


class Watchdog:
    """Finds packs without a sign of life for so long that their workers must hang.

    A sign of life is any change of a pack's claim, journal or state: a worker that trains writes a state every few seconds.
    Files are compared with those at the last look, by this process's monotonic clock, so that neither the clocks of nodes nor
    those of file servers matter.

    Args:
        hung_after_s: how long a pack may be silent; None derives it from what was measured, 0 waits for ever.
        checkpoint_every_s: how often a pack in training saves its state.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        hung_after_s: float | None = None,
        checkpoint_every_s: float = 20.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._hung_after_s = hung_after_s
        self._checkpoint_every_s = checkpoint_every_s
        self._now = now
        self._signs: dict[str, _LastSign] = {}
        self._longest_pause_s = 0.0
        self._looked_at = now()

    @property
    def silence_s(self) -> float:
        """How long a pack may be silent now."""
        if self._hung_after_s is not None:
            return self._hung_after_s or float("inf")
        return max(MIN_SILENCE_S, SILENCE_IN_PAUSES * max(self._longest_pause_s, self._checkpoint_every_s))

    def hung(self, running: Collection[str]) -> dict[str, float]:
        """The packs that have been silent for too long, with the seconds; cheap while it is not yet time to look again.

        A look that is late by half of the silence or more (this process was held up, as by storage that was away) starts all
        watches anew: nobody knows what happened meanwhile.
        """
        now, pause_s = self._now(), max(MIN_LOOK_S, min(self.silence_s, MIN_SILENCE_S) / LOOKS_PER_SILENCE)
        is_late = now - self._looked_at > self.silence_s / 2
        if now - self._looked_at < pause_s:
            return {}
        self._looked_at = now
        try:
            found = {pack_id: self._files_of(pack_id) for pack_id in running}
        except OSError:  # the run directory cannot be reached: workers wait for it too
            self._signs.clear()
            return {}
        before, self._signs = self._signs, {}
        for pack_id, files in found.items():
            last = before.get(pack_id)
            if last is not None and not is_late:
                if last.files == files:
                    self._signs[pack_id] = last
                    continue
                self._longest_pause_s = max(self._longest_pause_s, now - last.since)
            self._signs[pack_id] = _LastSign(files, now)
        silent = {pack_id: now - last.since for pack_id, last in self._signs.items()}
        return {pack_id: seconds for pack_id, seconds in silent.items() if seconds > self.silence_s}

    def forget(self, pack_id: str) -> None:
        """The pack's worker was ended: the next one starts with no silence behind it."""
        self._signs.pop(pack_id, None)

    def _files_of(self, pack_id: str) -> tuple[FileState, ...]:
        run = self._run
        run.spec.stat()  # raises where the storage is away, which would look like missing files
        claim, state = claim_path(run, pack_id), run.checkpoints / f"{pack_id}.state"
        return tuple(_file_state(path) for path in (claim, run.curves / f"{pack_id}.jsonl", state))


def _file_state(path: Path) -> FileState:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
