"""Replays the ledger and the journals of a run directory into W&B, as often as wanted and without disturbing the training.

Offline, a run is written when it has ended, as one complete file. Online, it is streamed while its trial trains, and counts as
published when the server confirms that it holds it. Published runs are recorded in `RUN/wandb/published.jsonl`; publishing
again writes only those that are missing or have changed. A server that fails is tried again later; in the meantime runs are
written offline, and once it answers they are published from the journals.

A sweep whose plan has more trials than `wandb.max_trial_runs` has one run a cell instead of one a trial (module `form`).

A publisher locks the places of its shard as a range of bytes in `RUN/wandb/publisher.lock`. A lock of byte ranges, and not a
lock file for each shard, because two publishers with different N may overlap in part; it also works between machines that share
the directory, and ends with its process.
"""

import fcntl
import json
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from dashboards.publishing.cell_runs import CellRuns
from dashboards.publishing.client import server_url
from dashboards.publishing.destination import NOTHING_ASKED, Asked, choose_destination
from dashboards.publishing.files import Target
from dashboards.publishing.form import form_of
from dashboards.publishing.mode import Request, decide_mode
from dashboards.publishing.process import asks_again
from dashboards.publishing.published import directory_id
from dashboards.publishing.replay import FIRST_PAUSE_S, PublishReport, Replay, Runs
from dashboards.publishing.search_runs import JoinedRuns, SearchRuns
from dashboards.publishing.trial_runs import TrialRuns
from stsq_core.configs import UserError
from sweeps.cells import WHOLE, ExpandedSweep, Shard
from sweeps.store import RunDirectory, disk_errors, open_run, write_atomically

LOG = logging.getLogger(__name__)

POLL_S = 2.0
LOCK_PATIENCE_S = 60.0


def publish(
    run_path: Path,
    *,
    mode: Request | None = None,
    asked: Asked = NOTHING_ASKED,
    shard: Shard = WHOLE,
    stop: Callable[[], bool] = lambda: True,
    poll_s: float = POLL_S,
    pause_s: float = FIRST_PAUSE_S,
) -> PublishReport:
    """Publish a run directory until `stop()` is true, then once more for new results.

    Args:
        run_path: the run directory.
        mode: overrides `WANDB_MODE` and the sweep file.
        asked: project, entity and tags that override the environment and the sweep file.
        shard: the share of the runs that this publisher owns.
        stop: true once the sweep has ended; the default makes one pass.
        poll_s: least number of seconds between two looks at the directory.
        pause_s: first number of seconds until a server that failed is tried again.

    Raises:
        UserError: no run directory, a mode that does not exist, or another publisher that does not end.
    """
    run = open_run(run_path)
    sweep = run.read_sweep()
    spec = sweep.spec
    decision = decide_mode(mode, spec.wandb.mode, server=server_url)
    if decision.mode == "disabled":
        return PublishReport("disabled", decision.reason, 0, 0, 0)
    destination = choose_destination(asked, spec.wandb, run.wandb)
    target = Target(run.path, destination.project, destination.entity)
    with sole_publisher(run.wandb, shard, may_wait=_patience(stop)):
        runs = runs_of(run, sweep, shard, tags=destination.tags)
        replay = Replay(runs, target, decision, shard, pause_s=pause_s)
        while not stop():
            began = time.monotonic()
            replay.round()
            # reading a large directory takes long: at most a fifth of the time is spent on it
            _sleep(max(poll_s, 4 * (time.monotonic() - began)), stop)
        report = replay.finish()
    with suppress(UserError):  # a full disk: the log has it
        fields = asdict(report) | {"unconfirmed": report.unconfirmed_words}
        write_atomically(run.wandb / "report.json", json.dumps(fields).encode())
    return report


def sync(run_path: Path, *, asked: Asked = NOTHING_ASKED, shard: Shard = WHOLE) -> PublishReport:
    """Publish a run directory online now, from its journals; runs that are online already are left alone.

    Raises:
        UserError: there is no key, the server does not answer, or it refused or did not confirm some runs.
    """
    decision = decide_mode("online", "online", server=server_url)
    if decision.mode != "online":
        raise UserError(f"cannot publish {run_path} online: {decision.reason}")
    report = publish(run_path, mode="online", asked=asked, shard=shard)
    if report.num_missing or report.mode != "online":
        raise UserError(
            f"the W&B server did not take every run of {run_path}: {report.reason}."
            " The missing runs are kept; run the same command again"
        )
    if words := report.unconfirmed_words:
        raise UserError(f"{words}; {asks_again(run_path)}")
    return report


def runs_of(run: RunDirectory, sweep: ExpandedSweep, shard: Shard, *, tags: tuple[str, ...]) -> Runs:
    """The W&B runs of a sweep: one a trial, or one a cell (`form_of`); a cell that is searched has one in either form."""
    form, identity = form_of(run), directory_id(run.wandb)
    runs_of_form = TrialRuns if form == "trial" else CellRuns
    runs: Runs = runs_of_form(run, sweep, shard, identity=identity, tags=tags)
    if not sweep.searched:
        return runs
    return JoinedRuns(runs, SearchRuns(run, sweep, shard, identity=identity, tags=tags, form=form))


def _patience(stop: Callable[[], bool]) -> Callable[[], bool]:
    """A function that is true while another publisher is waited for: until the sweep has ended, and a minute more."""
    deadline: list[float] = []

    def may_wait() -> bool:
        if stop() and not deadline:
            deadline.append(time.monotonic() + LOCK_PATIENCE_S)
        return not deadline or time.monotonic() < deadline[0]

    return may_wait


def _sleep(seconds: float, stop: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not stop() and time.monotonic() < deadline:
        time.sleep(0.1)


@contextmanager
def sole_publisher(folder: Path, shard: Shard = WHOLE, *, may_wait: Callable[[], bool]) -> Iterator[None]:
    """Be the only publisher of a shard's runs.

    Raises:
        UserError: another publisher has one of these runs, and `may_wait()` is false.
    """
    path = folder / "publisher.lock"
    with disk_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+b")
    with lock:
        while True:
            with suppress(BlockingIOError, PermissionError):
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, len(shard.places), shard.places.start)
                break
            if not may_wait():
                raise UserError(
                    f"another publisher ({_holder(lock, shard)}) is writing {folder}: wait until it has ended, then try again"
                )
            time.sleep(0.2)
        lock.write(f"{shard} process {os.getpid()} on {socket.gethostname()}\n".encode())
        lock.flush()
        yield


def _holder(lock: BinaryIO, shard: Shard) -> str:
    """The newest publisher named in the file whose shard overlaps."""
    lock.seek(0)
    for line in reversed(lock.read().decode(errors="replace").splitlines()):
        if named := re.fullmatch(r"(\d+)/([1-9]\d*) (.+)", line):
            places = Shard(int(named[1]), int(named[2])).places
            if places.start < shard.places.stop and shard.places.start < places.stop:
                return named[3]
    return "unknown process"
