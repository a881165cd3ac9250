"""One publication from its first look at a run directory to its end: what is not out as yet is sent, or written offline.

A run that was published is noted at once, so that a publisher that is killed at any time leaves nothing to be done twice.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dashboards.publishing.client import OfflineWriter
from dashboards.publishing.connection import Connection
from dashboards.publishing.files import Target
from dashboards.publishing.mode import Decision, Mode
from dashboards.publishing.projection import RunProjection
from dashboards.publishing.published import Publication, Published
from dashboards.publishing.shards import Shard
from stsq_core.configs import UserError

LOG = logging.getLogger(__name__)

BATCH = 256
"""Runs projected, and written or sent, before they are noted as published."""

MAX_LOSSES = 2
"""Attempts in a row that a server may fail at the end, before the rest is left offline."""


@dataclass(frozen=True)
class PublishReport:
    """What one publication did: the mode it ended in and why; runs published now, up to date before, missing still.

    `num_missing` runs are neither online nor offline.
    """

    mode: Mode
    reason: str
    num_published: int
    num_up_to_date: int
    num_missing: int


class Runs(Protocol):
    """The W&B runs of a sweep and a shard: one a trial, or one a cell."""

    @property
    def ended_keys(self) -> Collection[str]:
        """The runs that have ended."""

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Take what came since; returns the ended runs that changed. `closing`: nothing more is to come."""

    def ended(self, keys: Collection[str]) -> Sequence[RunProjection]:
        """Ended runs as they are now."""

    def live(self) -> Sequence[RunProjection]:
        """Runs that go on."""

    @property
    def write_offline(self) -> OfflineWriter:
        """Writes ended runs as offline files; returns these by key."""


class Replay:
    """The life of one publication: what is not out as yet, what is, and the connection."""

    def __init__(self, runs: Runs, target: Target, decision: Decision, shard: Shard, *, pause_s: float) -> None:
        self._runs = runs
        self._target = target
        self._published = Published(target.files, shard)
        self._connection = Connection(decision, target, pause_s=pause_s)
        self._pending: set[str] = set()
        self._done: set[str] = set()
        self._up_to_date: set[str] = set()

    def round(self) -> None:
        """Publish what is new."""
        self._pending |= self._runs.read_on()
        if self._connection.heal():
            self._take_up_offline_runs()
        self._send(live=True)
        self._write_files()

    def finish(self) -> PublishReport:
        """Publish the rest, as long as that makes progress, and close everything."""
        self._pending |= self._runs.read_on(closing=True)
        if self._is_online():
            self._take_up_offline_runs()
        last, progress = self._connection.num_losses + MAX_LOSSES, True
        while self._pending and progress and self._connection.num_losses < last and self._is_online():
            left = len(self._pending)
            self._send(live=False)
            progress = len(self._pending) < left or self._connection.stream is None
        self._write_files()
        self._connection.close()
        owed = self._published.offline(self._runs.ended_keys) if self._connection.mode == "online" else set()
        mode: Mode = "offline" if owed else self._connection.mode
        return PublishReport(
            mode, self._connection.reason, len(self._done), len(self._up_to_date - self._done), len(self._pending)
        )

    def _is_online(self) -> bool:
        return self._connection.stream is not None or self._connection.heal(now=True)

    def _take_up_offline_runs(self) -> None:
        """What was written offline while the server was away is to be published."""
        self._pending |= self._published.offline(self._runs.ended_keys)

    def _send(self, *, live: bool) -> None:
        stream = self._connection.stream
        if stream is None:
            return
        try:
            for keys in _batches(self._pending):
                if projections := self._changed(keys):
                    stream.deliver(projections, lambda held: self._note(held, {}))
            if live:
                stream.stream(self._runs.live())
            self._connection.took()
        except ConnectionError as error:
            self._connection.lose(error)
        except UserError as error:  # a full disk: what is out but not noted is found on the server by the next round
            LOG.warning("%s", error)

    def _write_files(self) -> None:
        if self._connection.stream is not None:
            return
        for keys in _batches(self._pending):
            projections = self._changed(keys)
            try:
                self._note(projections, self._runs.write_offline(projections, self._target))
            except UserError as error:  # a full disk: the next round tries again
                LOG.warning("%s", error)
                return

    def _note(self, projections: Sequence[RunProjection], files: Mapping[str, Path]) -> None:
        names = {key: str(path.relative_to(self._target.files)) for key, path in files.items()}
        mode, at = self._connection.mode, time.time()
        self._published.add(
            Publication(one.key, one.run_id, mode, self._digest(one), names.get(one.key), at) for one in projections
        )
        keys = {projection.key for projection in projections}
        self._pending -= keys
        self._done |= keys

    def _changed(self, keys: Collection[str]) -> list[RunProjection]:
        """Those of these ended runs that are not out as they are now; the others are settled."""
        changed = []
        for projection in self._runs.ended(keys):
            if self._published.holds(projection.key, self._digest(projection), self._connection.mode):
                self._pending.discard(projection.key)
                self._up_to_date.add(projection.key)
            else:
                changed.append(projection)
        return changed

    def _digest(self, projection: RunProjection) -> str:
        """What is published, and where: another project is another publication."""
        return f"{projection.digest} {self._target.entity or ''}/{self._target.project}"


def _batches(keys: Collection[str]) -> list[list[str]]:
    ordered = sorted(keys)
    return [ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH)]
