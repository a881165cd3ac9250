"""Whether the server is taken to be there: found, lost and found again, each said once in the log.

Lost, it is asked again after a while that doubles, up to five minutes; in the meantime runs are written offline.
"""

import logging
import time

from dashboards.publishing.client import restart_service, server_url
from dashboards.publishing.files import Target
from dashboards.publishing.held import Account
from dashboards.publishing.mode import Decision, Mode, can_reach, key_for
from dashboards.publishing.stream import OnlineStream

LOG = logging.getLogger(__name__)

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0


class Connection:
    """The stream to the server while there is one, and in words why there is or is not."""

    def __init__(self, decision: Decision, target: Target, *, pause_s: float = FIRST_PAUSE_S) -> None:
        self.reason = decision.reason
        self.stream: OnlineStream | None = None
        self.num_losses = 0
        self._target = target
        self._wanted = decision.mode == "online" or decision.may_heal
        self._first_pause_s = self._pause_s = pause_s
        self._next_try = 0.0
        self._has_service = False
        if decision.mode == "online":
            self._open(server_url())
        LOG.info("W&B %s: %s", self.mode, self.reason)

    @property
    def mode(self) -> Mode:
        """Where runs are published now."""
        return "offline" if self.stream is None else "online"

    def heal(self, *, now: bool = False) -> bool:
        """Look for a server that was lost, when it is time or `now`; true where it was found."""
        if self.stream is not None or not self._wanted or not (now or time.monotonic() >= self._next_try):
            return False
        url = server_url()
        if not can_reach(url):
            self._wait()
            return False
        self._open(url)
        self.reason = f"publishing to {url}"
        LOG.info("W&B online: %s", self.reason)
        return True

    def lose(self, error: ConnectionError) -> None:
        """Take the server to be gone for a while."""
        self.stream = None
        self.num_losses += 1
        self.reason = f"the server stopped taking runs ({error}); until it does again, runs are written offline"
        LOG.warning("W&B offline: %s", self.reason)
        self._wait()

    def took(self) -> None:
        """The server is well: should it be lost again, it is asked again soon."""
        self._pause_s = self._first_pause_s

    def close(self) -> None:
        """End what goes on, and the service."""
        if self.stream is not None:
            self.stream.close()
        elif self._has_service:
            restart_service(0.0)

    def _open(self, url: str) -> None:
        self.stream = OnlineStream(self._target, Account(url, key_for(url) or ""))
        self._has_service = True

    def _wait(self) -> None:
        self._next_try = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
