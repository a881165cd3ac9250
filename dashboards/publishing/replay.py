"""One publication of a run directory, from its first look at it to its end: missing runs are streamed or written offline.

A published run is noted at once, so that a publisher that is killed at any time leaves nothing to be done twice. A server that
was lost is tried again after a pause that doubles, up to five minutes; in the meantime runs are written offline.

Runs that were sent while the server did not say whether it holds them are noted as sent. It is asked about them again before
anything is sent, after the same pauses; only those that it then lacks are sent again.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dashboards.publishing.client import OfflineWriter, restart_service, server_url
from dashboards.publishing.files import Target
from dashboards.publishing.held import Account
from dashboards.publishing.mode import Decision, Mode, can_reach, key_for
from dashboards.publishing.projection import RunProjection
from dashboards.publishing.published import SENT, Published, PublishedRun
from dashboards.publishing.stream import OnlineStream
from stsq_core.configs import UserError
from sweeps.cells import Shard

LOG = logging.getLogger(__name__)

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0
BATCH = 256
"""Runs projected, and written or sent, before they are noted as published."""

MAX_LOSSES = 2
"""Attempts in a row that a server may fail at the end, before the rest is left offline."""


@dataclass(frozen=True)
class PublishReport:
    """The result of one publication: its last mode and the reason for it; runs published now, up to date before, and missing.

    `num_missing` runs are neither online nor offline, and `num_unconfirmed` were sent while the server did not say that it
    holds them, for the reason `silence`.
    """

    mode: Mode
    reason: str
    num_published: int
    num_up_to_date: int
    num_missing: int
    num_unconfirmed: int = 0
    silence: str = ""

    @property
    def unconfirmed_words(self) -> str:
        """How many runs are confirmed and how many are not; empty where all are."""
        if not self.num_unconfirmed:
            return ""
        num_confirmed = self.num_published + self.num_up_to_date
        return (
            f"not confirmed: {self.num_unconfirmed} of {num_confirmed + self.num_unconfirmed} runs, which were sent; "
            f"{num_confirmed} are confirmed; {self.silence or 'the server was not asked again'}"
        )


class Runs(Protocol):
    """The W&B runs of a sweep and a shard: one a trial, or one a cell."""

    @property
    def ended_keys(self) -> Collection[str]:
        """The runs that have ended."""

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Read new results; returns the ended runs that changed. `closing`: the sweep has ended."""

    def ended(self, keys: Collection[str]) -> Sequence[RunProjection]:
        """Ended runs as they are now."""

    def live(self) -> Sequence[RunProjection]:
        """Runs that are not complete."""

    @property
    def write_offline(self) -> OfflineWriter:
        """Writes ended runs as offline files; returns these by key."""


class Replay:
    """The state of one publication: the missing runs, the published ones, and the connection."""

    def __init__(self, runs: Runs, target: Target, decision: Decision, shard: Shard, *, pause_s: float) -> None:
        self._runs = runs
        self._target = target
        self._published = Published(target.files, shard)
        self._connection = Connection(decision, target, pause_s=pause_s)
        self._question = Pause(pause_s)
        self._silence = ""
        self._pending: set[str] = set()
        self._done: set[str] = set()
        self._up_to_date: set[str] = set()

    def round(self) -> None:
        """Publish the new results."""
        self._pending |= self._runs.read_on()
        if self._connection.heal():
            self._pending |= self._published.offline(self._runs.ended_keys)
        self._send(live=True)
        self._write_files()

    def finish(self) -> PublishReport:
        """Publish the rest, as long as that makes progress, and close everything."""
        self._pending |= self._runs.read_on(closing=True)
        if self._is_online():
            self._pending |= self._published.offline(self._runs.ended_keys)
        last, progress = self._connection.num_losses + MAX_LOSSES, True
        while self._pending and progress and self._connection.num_losses < last and self._is_online():
            left, unconfirmed = len(self._pending), self._published.sent(self._pending)
            self._question.reset()
            self._send(live=False)
            progress = len(self._pending) < left or self._connection.stream is None
            progress |= self._published.sent(self._pending) != unconfirmed
        self._write_files()
        self._connection.close()
        unconfirmed = self._published.sent(self._pending) if self._connection.is_wanted else set()
        owed = self._published.offline(self._runs.ended_keys) if self._connection.mode == "online" else set()
        mode: Mode = "offline" if owed - unconfirmed else self._connection.mode
        return PublishReport(
            mode,
            self._connection.reason,
            num_published=len(self._done),
            num_up_to_date=len(self._up_to_date - self._done),
            num_missing=len(self._pending - unconfirmed),
            num_unconfirmed=len(unconfirmed),
            silence=self._silence,
        )

    def _is_online(self) -> bool:
        return self._connection.stream is not None or self._connection.heal(now=True)

    def _send(self, *, live: bool) -> None:
        stream = self._connection.stream
        if stream is None:
            return
        try:
            for keys in _batches(self._pending - self._ask_again(stream)):
                if projections := self._changed(keys):
                    stream.deliver(projections, note=lambda held: self._note(held, {}), note_sent=self._note_sent)
                    self._silence = stream.silence or ""
            if live:
                stream.stream(self._runs.live())
            self._connection.reset_pause()
        except ConnectionError as error:
            self._connection.lose(error)
        except UserError as error:  # a full disk: the next round finds on the server the runs that were not recorded
            LOG.warning("%s", error)

    def _ask_again(self, stream: OnlineStream) -> set[str]:
        """Ask the server about the runs that were sent and are not confirmed; returns those that it is still silent about."""
        sent = self._published.sent(self._pending)
        if not sent or not self._question.is_over:
            return sent
        silent: set[str] = set()
        for keys in _batches(sent):
            asked = [one for one in self._runs.ended(keys) if self._published.was_sent(one.key, self._digest(one))]
            held, unknown = stream.held(asked)
            self._note(held, {})
            silent |= {one.key for one in unknown}
            self._silence = stream.silence or ""
        if silent:
            self._question.begin()
        else:
            self._question.reset()
        return silent

    def _write_files(self) -> None:
        if self._connection.stream is not None:
            return
        for keys in _batches(self._pending):
            projections = self._changed(keys)
            if self._connection.is_wanted:  # what was sent is asked about first: the server may have all of it
                projections = [one for one in projections if not self._published.was_sent(one.key, self._digest(one))]
            try:
                self._note(projections, self._runs.write_offline(projections, self._target))
            except UserError as error:  # a full disk: the next round tries again
                LOG.warning("%s", error)
                return

    def _note(self, projections: Sequence[RunProjection], files: Mapping[str, Path]) -> None:
        """Record runs as published, with the names of those that were written to files."""
        names = {key: str(path.relative_to(self._target.files)) for key, path in files.items()}
        mode, at = self._connection.mode, time.time()
        self._published.add(
            PublishedRun(one.key, one.run_id, mode, self._digest(one), names.get(one.key), at) for one in projections
        )
        keys = {projection.key for projection in projections}
        self._pending -= keys
        self._done |= keys

    def _note_sent(self, projections: Sequence[RunProjection]) -> None:
        """Record runs as sent and not confirmed."""
        at = time.time()
        new = [one for one in projections if not self._published.was_sent(one.key, self._digest(one))]
        self._published.add(PublishedRun(one.key, one.run_id, SENT, self._digest(one), at=at) for one in new)
        self._question.begin()

    def _changed(self, keys: Collection[str]) -> list[RunProjection]:
        """Those of these ended runs whose present state is not published; the others are up to date."""
        changed = []
        for projection in self._runs.ended(keys):
            if self._published.holds(projection.key, self._digest(projection), self._connection.mode):
                self._pending.discard(projection.key)
                self._up_to_date.add(projection.key)
            else:
                changed.append(projection)
        return changed

    def _digest(self, projection: RunProjection) -> str:
        """The digest of a run and its destination: another project is another publication."""
        return f"{projection.digest} {self._target.entity or ''}/{self._target.project}"


def _batches(keys: Collection[str]) -> list[list[str]]:
    """The keys in order, in lists that do not change while the keys do."""
    ordered = sorted(keys)
    return [ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH)]


class Pause:
    """A pause before something is tried again, which doubles from time to time until it is `reset`."""

    def __init__(self, first_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._ends_at = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it may be tried now."""
        return time.monotonic() >= self._ends_at

    def begin(self) -> None:
        """It failed: begin the next pause."""
        self._ends_at = time.monotonic() + self._next_s
        self._next_s = min(2 * self._next_s, LONGEST_PAUSE_S)

    def reset(self) -> None:
        """Let it be tried now, and let the next pause be the shortest."""
        self._next_s, self._ends_at = self._first_s, 0.0


class Connection:
    """The stream to the server while it can be reached, and the reason for the present mode in words."""

    def __init__(self, decision: Decision, target: Target, *, pause_s: float = FIRST_PAUSE_S) -> None:
        self.reason = decision.reason
        self.stream: OnlineStream | None = None
        self.num_losses = 0
        self._target = target
        self.is_wanted = decision.mode == "online" or decision.may_heal
        self._pause = Pause(pause_s)
        self._has_service = False
        if decision.mode == "online":
            self._open(server_url())
        LOG.info("W&B %s: %s", self.mode, self.reason)

    @property
    def mode(self) -> Mode:
        """Where runs are published now."""
        return "offline" if self.stream is None else "online"

    def heal(self, *, now: bool = False) -> bool:
        """Try a lost server again, if the pause is over or `now`; true where it answers."""
        if self.stream is not None or not self.is_wanted or not (now or self._pause.is_over):
            return False
        url = server_url()
        if not can_reach(url):
            self._pause.begin()
            return False
        self._open(url)
        self.reason = f"publishing to {url}"
        LOG.info("W&B online: %s", self.reason)
        return True

    def lose(self, error: ConnectionError) -> None:
        """Go offline until the server is tried again."""
        self.stream = None
        self.num_losses += 1
        self.reason = f"the server stopped taking runs ({error}); runs are written offline until it takes them again"
        LOG.warning("W&B offline: %s", self.reason)
        self._pause.begin()

    def reset_pause(self) -> None:
        """Try again soon, should the server be lost again: it has taken runs."""
        self._pause.reset()

    def close(self) -> None:
        """Interrupt open runs and end the service."""
        if self.stream is not None:
            self.stream.close()
        elif self._has_service:
            restart_service(0.0)

    def _open(self, url: str) -> None:
        self.stream = OnlineStream(self._target, Account(url, key_for(url) or ""))
        self._has_service = True
