"""Whether the head of the cluster that a run has joined is still the one that it joined.

Ray ends a driver whose head has been away for a minute, with a log of its own and without a word about the sweep; and a head
that was restarted knows nothing of the workers that the driver waits for. Either is one clear error here, some time before.
"""

import atexit
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled, its stubs are not whole

from cluster.environment import BAD_INPUT
from stsq_core.configs import UserError

LOOK_EVERY_S = 1.0
"""Sooner than any head is started again: one that was away, however shortly, is asked whether it is the same."""

LOST_AFTER_S = 30.0
"""How long a head may not answer: half of the time after which Ray ends this process."""

CONNECT_S = 3.0
EXIT_PATIENCE_S = 10.0

HEARD_WITHIN_S = 15.0
"""How soon the main thread must have heard of it; one that waits in a call of Ray's never does."""


class HeadWatch:
    """Asks the head every few seconds, in a thread, while the context is open.

    Args:
        address: HOST:PORT of the head.
        cluster_id: what the head at an address calls its cluster; None where it cannot tell now.
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
        self._thread.join(EXIT_PATIENCE_S)  # a thread in Ray's code while Ray ends may keep the process from ending

    def check(self) -> None:
        """Pass on what the thread found.

        Raises:
            UserError: the head is lost, or another one.
        """
        if self.lost is not None:
            self._heard.set()
            raise UserError(self.lost)

    def _watch(self) -> None:
        answered_at, was_away = time.monotonic(), False
        while self.lost is None and not self._over.wait(LOOK_EVERY_S):
            if not _listens(self._address):
                was_away = True
                if time.monotonic() - answered_at > LOST_AFTER_S:
                    self._tell(f"has not answered for {LOST_AFTER_S:.0f} s")
                continue
            answered_at = time.monotonic()
            if was_away and (now := self._cluster_id(self._address)):
                was_away = False
                if self._joined and now != self._joined:
                    self._tell("was restarted, and knows nothing of the workers that were training")

    def _tell(self, what: str) -> None:
        self.lost = (
            f"the head of the Ray cluster at {self._address} {what}: every result is in the ledger, and the same command "
            "goes on from there, and from the saved states, once the cluster is back"
        )
        if not self._heard.wait(HEARD_WITHIN_S) and not self._over.is_set():
            print(f"stsq: {self.lost}", file=sys.stderr, flush=True)
            os._exit(BAD_INPUT)


def cluster_id_at(address: str) -> str | None:
    """The id that the head at an address has given its cluster; None where it cannot tell now."""
    try:
        return str(GcsClient(address=address).cluster_id.hex())
    except (RuntimeError, ray.exceptions.RayError):
        return None


def leave_behind() -> None:
    """Let go of a Ray whose head is lost: an orderly goodbye would wait for it, until Ray ends the process."""
    atexit.unregister(ray._private.worker.shutdown)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_S):
            return True
    except OSError:
        return False
