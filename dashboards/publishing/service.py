"""wandb's service process: how many runs it can take, and an end to it that nothing can hold up.

One service serves all runs of a Python process. Short of file descriptors it loses runs without a word, so the runs that are
open at once are capped, and the service is restarted before what ended runs leave open uses its descriptors up.
"""

import contextlib
import logging
import os
import resource
import subprocess
import threading

import wandb

LOG = logging.getLogger(__name__)

MAX_OPEN_RUNS = 256
"""The most runs one publisher keeps open: a fifth of a megabyte each in the service."""

MAX_RUNS = 2000
"""The most runs one service takes before it is restarted: it keeps some memory of each."""

OPEN_DESCRIPTORS = 5
KEPT_DESCRIPTORS = 3
SPARE_DESCRIPTORS = 64
"""File descriptors of wandb's service (measured, wandb 0.31): of an open online run, of one that has ended, and of its own."""

TEARDOWN_PATIENCE_S = 10.0


def server_url() -> str:
    """The W&B server this machine is set up for."""
    return os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)


def restart_service(patience_s: float = TEARDOWN_PATIENCE_S) -> None:
    """End wandb's service process, if need be by force; the next run starts a fresh one.

    Asked to end, a service first uploads what it holds, for as long as that takes.
    """
    process = _process()
    ending = threading.Thread(target=_tear_down, daemon=True)
    ending.start()
    ending.join(patience_s)
    if ending.is_alive() and process is not None:
        process.kill()
        ending.join(TEARDOWN_PATIENCE_S)
    os.environ.pop("WANDB_SERVICE", None)  # left behind by a service that has died, it would send the next one to a dead socket


def _tear_down() -> None:
    for _ in range(2):  # tearing down a service that has died raises once
        with contextlib.suppress(Exception, SystemExit):
            wandb.teardown()


def _process() -> "subprocess.Popen[bytes] | None":
    """The service process; None where there is none, or a release of wandb keeps it elsewhere."""
    connection = getattr(wandb.setup(), "_connection", None)
    process = getattr(getattr(connection, "_proc", None), "_process", None)
    return process if isinstance(process, subprocess.Popen) else None


class Service:
    """Counts what the service of this process still has room for."""

    def __init__(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # the service raises its own limit to the hard one; this process has one descriptor for each open run
        own = MAX_OPEN_RUNS if soft == resource.RLIM_INFINITY else soft - SPARE_DESCRIPTORS
        limit = None if hard == resource.RLIM_INFINITY else hard - SPARE_DESCRIPTORS
        theirs = MAX_OPEN_RUNS if limit is None else limit // (OPEN_DESCRIPTORS + KEPT_DESCRIPTORS)
        self.capacity = max(1, min(MAX_OPEN_RUNS, own, theirs))
        """Runs that may be open at once."""
        kept = MAX_RUNS if limit is None else (limit - OPEN_DESCRIPTORS * self.capacity) // KEPT_DESCRIPTORS
        self._max_ended = max(1, min(MAX_RUNS, kept))
        self._num_ended = 0

    @property
    def is_worn(self) -> bool:
        """Whether the service must be restarted before another run is opened."""
        return self._num_ended >= self._max_ended

    def start(self) -> None:
        """Start the service; several threads at a time would lose the server's address.

        Raises:
            ConnectionError: it does not start.
        """
        try:
            wandb.setup()
        except Exception as error:
            raise ConnectionError(f"W&B's service does not start: {error}") from error

    def ended(self, num_runs: int = 1) -> None:
        """Count runs that were finished."""
        self._num_ended += num_runs

    def restart(self, *, at_once: bool = False) -> None:
        """End the service; `at_once` where it holds runs that are to be forgotten."""
        restart_service(0.0 if at_once else TEARDOWN_PATIENCE_S)
        self._num_ended = 0
