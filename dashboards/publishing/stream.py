"""Streams projected runs to a server with the wandb client.

Every call into wandb is bounded in time. An error of wandb is caught here and logged once, and the run counts as not
published; the caller decides when to try again. A run counts as published when the server confirms that it holds it; where
it gives no answer, the run counts as sent and not confirmed.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dashboards.publishing.client import FINISH_TIMEOUT_S, INIT_TIMEOUT_S, Service, end_run, log_rows, open_run
from dashboards.publishing.files import Target, delete_local, local_files
from dashboards.publishing.held import BATCH, Account
from dashboards.publishing.projection import RunProjection

LOG = logging.getLogger(__name__)

MAX_THREADS = 64
HANGS_S = 0.9 * min(INIT_TIMEOUT_S, FINISH_TIMEOUT_S)
"""A call that fails after this long has waited for a server that hangs: the other runs are not tried."""

HELD_PATIENCE_S = 10.0
"""How long a server may take from the end of a run until it confirms that it holds it."""

Note = Callable[[Sequence[RunProjection]], None]
T = TypeVar("T")


class OnlineStream:
    """Open runs on a server: new rows are sent as they come, and a run is finished when its trial has ended.

    A run that exists on the server is continued after its last row, so that nothing is sent twice.
    """

    def __init__(self, target: Target, account: Account) -> None:
        self._target = target
        self._account = account
        self._service = Service()
        self._open: dict[str, Any] = {}
        self._next_step: dict[str, int] = {}
        self.silence: str | None = None
        """Why the server did not say what it holds when it was last asked; None where it did."""

    def deliver(self, projections: Sequence[RunProjection], *, note: Note, note_sent: Note) -> None:
        """Send runs that have ended, as many at once as may be open.

        Args:
            projections: the runs.
            note: gets those that the server holds.
            note_sent: gets those that were sent, and about which the server gives no answer.

        Raises:
            ConnectionError: the service died, or the server takes nothing; a later call sends the runs that were not recorded.
        """
        capacity = self._service.capacity
        for start in range(0, len(projections), capacity):
            wave = projections[start : start + capacity]
            own = {projection.key for projection in wave}
            others, num_missing = [key for key in self._open if key not in own], len(own - self._open.keys())
            self._interrupt(others[: max(0, len(self._open) + num_missing - capacity)])
            if num_missing:
                self._renew_if_worn()
            opened = self._advance(wave)
            self._service.ended(len(opened))
            ended = self._in_threads(lambda one: end_run(self._open.pop(one.key), one.outcome), opened)
            # a server that was silent last time is given one chance to answer: training may wait for the publisher's end
            held, unknown = self.held(ended, patience_s=HELD_PATIENCE_S if self.silence is None else 0.0)
            note(held)
            if unknown:
                LOG.warning("W&B: %d of %d runs are not confirmed: %s", len(unknown), len(wave), self.silence)
                note_sent(unknown)
            if not held and not unknown:
                raise self._lost(f"the server took none of {len(wave)} runs")

    def stream(self, projections: Sequence[RunProjection]) -> None:
        """Send the new rows of runs that are not complete; of those that are not open yet, as many as there is room for.

        Raises:
            ConnectionError: the service died, or the server takes nothing; a later call replays every run.
        """
        room = self._service.capacity - len(self._open)
        missing = [projection for projection in projections if projection.key not in self._open][: max(0, room)]
        wanted = {projection.key for projection in missing} | self._open.keys()
        if missing:
            self._renew_if_worn()
        at_hand = [projection for projection in projections if projection.key in wanted]
        if at_hand and not self._advance(at_hand):
            raise self._lost("the server opens no run")

    def close(self) -> None:
        """Interrupt every run and end the service, without waiting for a server that hangs."""
        with contextlib.suppress(ConnectionError):
            self._interrupt(list(self._open))
        self._service.restart()

    def _renew_if_worn(self) -> None:
        if self._service.is_worn:
            self._interrupt(list(self._open))
            self._service.restart()

    def _interrupt(self, keys: Sequence[str]) -> None:
        """Finish open runs as interrupted; a later stream continues them."""
        self._service.ended(len(keys))
        self._in_threads(lambda run: end_run(run, None), [self._open.pop(key) for key in keys])

    def _lost(self, reason: str) -> ConnectionError:
        """Forget every open run and end the service at once; returns the error to raise."""
        self._open.clear()
        self._service.restart(at_once=True)
        return ConnectionError(reason)

    def _advance(self, projections: Sequence[RunProjection]) -> list[RunProjection]:
        """Open the missing runs and send new rows; returns the runs that are then open."""

        def start(projection: RunProjection) -> None:
            run = open_run(projection, self._target, "online")
            self._next_step[projection.key] = run.starting_step
            self._open[projection.key] = run

        missing = [projection for projection in projections if projection.key not in self._open]
        try:
            if missing:
                self._service.start()
                delete_local(self._target, [projection.run_id for projection in missing])
                self._in_threads(start, missing)
            at_hand = [projection for projection in projections if projection.key in self._open]
            for projection in at_hand:
                rows = [row for row in projection.rows if row.step >= self._next_step[projection.key]]
                if rows:
                    log_rows(self._open[projection.key], rows)
                    self._next_step[projection.key] = rows[-1].step + 1
        except ConnectionError as error:
            raise self._lost(str(error)) from error
        except Exception as error:  # a dead service raises from every call, so all runs are opened again
            raise self._lost(f"W&B's service was lost: {error}") from error
        return at_hand

    def held(
        self, projections: Sequence[RunProjection], *, patience_s: float = 0.0
    ) -> tuple[list[RunProjection], list[RunProjection]]:
        """Those of these runs that the server holds, and those about which it gives no answer.

        Args:
            projections: runs that were sent.
            patience_s: how long it is asked again about those that it does not hold yet.
        """
        deadline, pause = time.monotonic() + patience_s, 0.1
        waiting, held = list(projections), []
        while True:
            found, unknown = self._ask(waiting)
            held += found
            known = {one.key for one in found}
            waiting = [one for one in waiting if one.key not in known]
            if not waiting or time.monotonic() + pause > deadline:
                break
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
        for path in (path for one in held for path in local_files(self._target, one.run_id)):
            path.with_name(path.name + ".synced").touch()  # wandb's own mark: `wandb sync` does not append it again
        return held, unknown

    def _ask(self, projections: Sequence[RunProjection]) -> tuple[list[RunProjection], list[RunProjection]]:
        """Ask once; as `held`."""
        found: list[RunProjection] = []
        self.silence = None
        for start in range(0, len(projections), BATCH):
            some = projections[start : start + BATCH]
            try:
                answer = self._account.held([one.run_id for one in some], self._target.project, self._target.entity)
            except ConnectionError as error:
                self.silence = str(error)
                return found, list(projections[start:])
            found += [one for one in some if one.run_id in answer and answer[one.run_id].covers(one)]
        return found, []

    def _in_threads(self, act: Callable[[T], None], items: Sequence[T]) -> list[T]:
        """Do something to all runs at once, because each waits for the server; returns those for which it succeeded.

        Raises:
            ConnectionError: one waited for a server that hangs; every run is forgotten.
        """
        hangs = threading.Event()

        def attempt(item: T) -> Exception | None:
            began = time.monotonic()
            try:
                if not hangs.is_set():
                    act(item)
            except Exception as error:
                if time.monotonic() - began > HANGS_S:
                    hangs.set()
                return error
            return None

        if not items:
            return []
        with ThreadPoolExecutor(min(MAX_THREADS, len(items))) as pool:
            errors = list(pool.map(attempt, items))
        refusals = [str(error) for error in errors if error is not None]
        if refusals:
            LOG.warning("W&B refused %d of %d runs: %s", len(refusals), len(errors), "; ".join(sorted(set(refusals))[:3]))
        if hangs.is_set():
            raise self._lost("the server hangs")
        return [item for item, error in zip(items, errors, strict=True) if error is None]
