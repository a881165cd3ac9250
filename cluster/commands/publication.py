"""The publication of a run to W&B while it trains: a process beside it, and what is said of it at the end."""

import os
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console

from cluster.run import RunOptions, print_line
from dashboards.publishing import PublisherProcess, has_key, offline_reason, silence_client, unconfirmed_words
from stsq_core.configs import UserError
from sweeps.schema import SweepSpec
from sweeps.store import RunDirectory

PUBLISHER_PATIENCE_S = 120.0


class Publication:
    """The publisher beside a run, or None where nothing is published; it ends in a thread while the run is concluded."""

    def __init__(self, process: PublisherProcess | None) -> None:
        self._process = process
        self._ending: threading.Thread | None = None
        self.patience_s = PUBLISHER_PATIENCE_S
        self.complete = process is None

    def finish(self) -> None:
        """Begin to end the publisher, once training is over; `wait` waits for it."""
        if self._process is not None and self._ending is None:
            self._ending = threading.Thread(target=self._end, args=(self._process,), daemon=True)
            self._ending.start()

    def wait(self) -> None:
        """Wait for the end, for `patience_s` at most: a publisher that is busy longer ends by itself."""
        self.finish()
        if self._ending is not None:
            self._ending.join(self.patience_s)

    def _end(self, process: PublisherProcess) -> None:
        self.complete = process.finish(PUBLISHER_PATIENCE_S)


@contextmanager
def publication_of(run: RunDirectory, spec: SweepSpec, options: RunOptions, *, log: Console) -> Iterator[Publication]:
    """Publish to W&B in a separate process; its failures are never failures of the run.

    Of shards the run that merges them publishes all, unless the command asks for more.
    """
    place = shlex.quote(str(run.path))
    later = f"`stsq wandb sync {place}`"
    process = None
    if publishes(run, spec, options):
        try:
            notify = partial(print_line, log)
            process = PublisherProcess.start(run.path, mode=options.wandb, asked=options.wandb_asked, notify=notify)
        except (UserError, OSError) as error:
            print_line(log, f"W&B: nothing is published, and training goes on without it: {error}; then publish with {later}")
    publication = Publication(process)
    try:
        yield publication
    finally:
        try:
            publication.wait()
        finally:
            if not publication.complete:
                from dashboards.publishing import server_url  # loads wandb, which no process that trains does

                silence_client()
                rest = later if has_key(server_url()) else f"`stsq run {place} --wandb offline`, which trains nothing again"
                why = f"see {run.wandb / 'publisher.log'}"
                print_line(log, f"W&B: not everything is published yet; {why}, then publish the rest with {rest}")
            elif process is not None and (reason := offline_reason(run.path)):
                print_line(log, f"W&B: written offline to {run.wandb}: {reason}; publish with {later}")
            if process is not None and publication.complete and (words := unconfirmed_words(run.path)):
                print_line(log, f"W&B: {words}")


def publishes(run: RunDirectory, spec: SweepSpec, options: RunOptions) -> bool:
    """Whether this command publishes the run, online or offline."""
    of_sweep = os.environ.get("WANDB_MODE") or spec.wandb.mode
    shard = options.shard or run.shard
    return (options.wandb or (of_sweep if shard.count == 1 else "disabled")) != "disabled"
