"""The watchdog: which packs show no sign of life for so long that their workers must hang.

A sign is a change of a pack's claim, journal or state, whatever it is: a worker that trains writes a state every few seconds.
Files are compared with what they were at the last look, by this process's monotonic clock, so neither the clocks of nodes nor
those of file servers have a say.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from sweeps.store import RunDirectory

LEAST_PATIENCE_S = 300.0
"""The least time without a sign after which a worker counts as hung: evaluations and compilations give none either."""

GAPS = 10.0
"""The same, in times of the longest pause between two signs that any pack of the run has made."""

LOOKS = 20.0
"""Looks within the patience, each no sooner than `SOONEST_LOOK_S` after the last: a look costs three questions a pack."""

SOONEST_LOOK_S = 1.0

Look = tuple[int, int, int] | None
Sign = tuple[Look, ...]


@dataclass
class _Watch:
    """The last sign of a pack, and since when it has been so."""

    sign: Sign
    since: float


class Watchdog:
    """Looks at the packs in training.

    Args:
        patience_s: how long a pack may be silent; None derives it from what was measured, 0 waits for ever.
        checkpoint_every_s: how often a pack in training saves its state.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        patience_s: float | None = None,
        checkpoint_every_s: float = 20.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._told_patience_s = patience_s
        self._checkpoint_every_s = checkpoint_every_s
        self._now = now
        self._watched: dict[str, _Watch] = {}
        self._longest_gap_s = 0.0
        self._looked_at = now()

    @property
    def patience_s(self) -> float:
        """How long a pack may be silent now."""
        if self._told_patience_s is not None:
            return self._told_patience_s or float("inf")
        return max(LEAST_PATIENCE_S, GAPS * self._longest_gap_s, GAPS * self._checkpoint_every_s)

    def hung(self, running: Collection[str]) -> dict[str, float]:
        """The packs that have been silent for too long, with the seconds; cheap while it is not yet time to look again.

        A look that comes after half of the patience or more (this process was held up, as by storage that was away) starts all
        watches anew: nobody knows what happened meanwhile.
        """
        now, pause_s = self._now(), max(SOONEST_LOOK_S, min(self.patience_s, LEAST_PATIENCE_S) / LOOKS)
        late = now - self._looked_at > self.patience_s / 2
        if now - self._looked_at < pause_s:
            return {}
        self._looked_at = now
        try:
            signs = {pack_id: self._sign(pack_id) for pack_id in running}
        except OSError:  # the run directory cannot be reached: workers wait for it too
            self._watched.clear()
            return {}
        self._watched = {
            pack_id: self._renewed(self._watched.get(pack_id), sign, now, late=late) for pack_id, sign in signs.items()
        }
        silent = {pack_id: now - watch.since for pack_id, watch in self._watched.items()}
        return {pack_id: seconds for pack_id, seconds in silent.items() if seconds > self.patience_s}

    def forget(self, pack_id: str) -> None:
        """The pack's worker was ended: another one starts with a whole patience."""
        self._watched.pop(pack_id, None)

    def _renewed(self, before: _Watch | None, sign: Sign, now: float, *, late: bool) -> _Watch:
        if before is None or late:
            return _Watch(sign, now)
        if before.sign == sign:
            return before
        self._longest_gap_s = max(self._longest_gap_s, now - before.since)
        return _Watch(sign, now)

    def _sign(self, pack_id: str) -> Sign:
        """What the pack's files look like; a run directory without its sweep is one whose storage is away."""
        self._run.spec.stat()
        run = self._run
        paths = (
            run.checkpoints / f"{pack_id}.claim",
            run.curves / f"{pack_id}.jsonl",
            run.checkpoints / f"{pack_id}.state",
        )
        return tuple(_look_of(path) for path in paths)


def _look_of(path: Path) -> Look:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
