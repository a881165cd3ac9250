"""The whole of `stsq run`: from a sweep's name to a ledger, thresholds, a page and a truthful exit code."""

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from cluster.inline import InlineRunner
from cluster.options import RunOptions, run_path
from cluster.progress import Progress
from cluster.runner import Runner, Work
from cluster.stop import Stopped, StopSignals, stop_signals
from cluster.terminal import say
from cluster.verdict import STOPPED, exit_code
from cluster.worker import adopt_outcomes
from dashboards import PublisherProcess
from stsq_core import UserError
from sweeps import Cell, SweepSpec, expand, load_sweep
from sweeps.ledger import Ledger
from sweeps.queue import PackQueue
from sweeps.run_directory import Lock, RunDirectory, create_or_open
from sweeps.sessions import elapsed_minutes, session
from sweeps.strategy import Grid

PUBLISHER_PATIENCE_S = 120.0
STOP_PATIENCE_S = 10.0


def run_sweep(sweep: str, settings: Sequence[str], options: RunOptions, *, out: Console, log: Console) -> int:
    """Run a sweep, or what is left of it, and return the exit code of the command.

    Args:
        sweep: a catalogue name or the path of a YAML file.
        settings: the `--set` strings.
        options: how to run it.
        out: for results.
        log: for progress and what happens on the way.

    Raises:
        UserError: bad input, a run directory that cannot be used, or an environment that cannot run it.
    """
    spec = load_sweep(sweep, settings)
    run = create_or_open(run_path(spec.name, options.out), spec)
    cells = expand(spec)
    with stop_signals() as stop, Lock(run.lock), _publication(run, spec, options, log=log) as publication:
        try:
            with session(run):
                _train_rest(run, spec, cells, options, stop=stop, log=log)
            publication.finish()
            return _conclude(run, spec, cells, out=out, log=log)
        except Stopped as stopped:
            publication.patience_s = STOP_PATIENCE_S
            done = len(Ledger(run.ledger).read())
            say(
                log, f"stopped by {stopped.signal_name} with {done} trials in {run.ledger}; the same command goes on from there"
            )
            return STOPPED


def _train_rest(
    run: RunDirectory, spec: SweepSpec, cells: Sequence[Cell], options: RunOptions, *, stop: StopSignals, log: Console
) -> None:
    ledger = Ledger(run.ledger)
    if num_adopted := adopt_outcomes(run, ledger):
        say(log, f"{num_adopted} trials that had ended when the last run was killed are in the ledger now")
    for note in ledger.notes:
        say(log, note)
    queue = PackQueue(Grid(cells), ledger, retry_failed=options.retry_failed)
    if queue.finished:
        say(log, f"nothing to train: all {queue.total} trials of {spec.name} are in {run.ledger}")
        _forget_states(run)
        return
    may_start = _budget(run, spec)
    if not may_start():
        raise UserError(_spent(spec, queue.total - queue.skipped))
    say(
        log,
        f"{spec.name}: {len(cells)} cells, {queue.total} trials, {queue.skipped} of them in the ledger already -> {run.path}",
    )
    with _runner(run, options, stop) as runner:
        queue = PackQueue(Grid(cells), ledger, slots=runner.slots, retry_failed=options.retry_failed)
        with Progress(queue, run.curves, log, num_workers=runner.slots) as progress:
            runner.train(Work(queue, run, options, progress, stop, spec.budget.retries, may_start))
        say(log, progress.summary())
    if queue.finished:
        _forget_states(run)
    else:
        say(log, _spent(spec, queue.total - queue.skipped - queue.done))


def _runner(run: RunDirectory, options: RunOptions, stop: StopSignals) -> Runner:
    if options.inline:
        return InlineRunner()
    from cluster.tune_runner import TuneRunner

    return TuneRunner(run, options, stop)


def _budget(run: RunDirectory, spec: SweepSpec) -> Callable[[], bool]:
    """Whether the time budget, which all sessions of a run share, allows another pack to start."""
    minutes, spent, began = spec.budget.minutes, elapsed_minutes(run), time.monotonic()
    return lambda: minutes is None or spent + (time.monotonic() - began) / 60 < minutes


def _spent(spec: SweepSpec, num_left: int) -> str:
    return (
        f"the time budget of {spec.budget.minutes:g} minutes is spent and {num_left} trials were not started: raise it "
        f"(--set budget.minutes={2 * (spec.budget.minutes or 0):g}) and run again"
    )


class Publication:
    """A publisher beside a run; None where nothing is to be published. It ends in a thread while the run is being concluded."""

    def __init__(self, process: PublisherProcess | None) -> None:
        self._process = process
        self._ending: threading.Thread | None = None
        self.patience_s = PUBLISHER_PATIENCE_S
        self.complete = process is None

    def finish(self) -> None:
        """Say that training is over; `wait` waits for the publisher to end."""
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
def _publication(run: RunDirectory, spec: SweepSpec, options: RunOptions, *, log: Console) -> Iterator[Publication]:
    """Publish to W&B in a process of its own; no failure of it is one of the run."""
    disabled = (options.wandb or os.environ.get("WANDB_MODE") or spec.wandb.mode) == "disabled"
    publication = Publication(None if disabled else PublisherProcess.start(run.path, mode=options.wandb))
    try:
        yield publication
    finally:
        publication.wait()
        if not publication.complete:
            say(log, f"W&B: not everything is published; see {run.wandb / 'publisher.log'}, then `stsq wandb sync {run.path}`")


def _forget_states(run: RunDirectory) -> None:
    """Remove the states of packs that will never go on, once nothing is left to train."""
    for path in run.checkpoints.glob("*"):
        path.unlink(missing_ok=True)


def _conclude(run: RunDirectory, spec: SweepSpec, cells: Sequence[Cell], *, out: Console, log: Console) -> int:
    from cluster.results import show_run
    from sweeps.thresholds import width_thresholds

    wanted = {config.trial_id for cell in cells for config in cell.configs}
    records = [record for record in Ledger(run.ledger).read() if record.trial_id in wanted]
    thresholds = width_thresholds(records, spec.criterion)
    show_run(out, records, thresholds)
    write_page(run, out=out, log=log)
    return exit_code(len(wanted), records, thresholds)


def write_page(run: RunDirectory, *, out: Console, log: Console) -> None:
    """Write the report; a fault in drawing loses no result and is told."""
    from dashboards import write_report

    try:
        page = write_report(run.path)
    except UserError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        say(log, f"the report could not be drawn ({what}); the results are kept: stsq report {shlex.quote(str(run.path))}")
    else:
        say(out, f"page: {page}")
