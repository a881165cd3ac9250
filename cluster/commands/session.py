"""The whole of `stsq run`: from a sweep's name to a ledger, thresholds, a page and a truthful exit code."""

import importlib
import os
import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from cluster.run import (
    STOPPED,
    Budgets,
    InlineRunner,
    ProgressLine,
    Runner,
    RunOptions,
    Stopped,
    StopSignals,
    Work,
    adopt_outcomes,
    check_former,
    check_submitter,
    exit_code,
    load_remembered,
    run_path,
    say,
    stop_signals,
    strategy_of,
)
from dashboards.publishing import PublisherProcess, offline_reason
from stsq_core.configs import UserError
from stsq_core.plugins import used_plugins
from sweeps.cells import ExpandedSweep, load_expanded
from sweeps.schedule import PackQueue
from sweeps.schema import SweepSpec, keeps_weights
from sweeps.store import (
    FINISHED,
    Ledger,
    Lock,
    Outcomes,
    Results,
    RunDirectory,
    begun_packs,
    create_or_open,
    elapsed_minutes,
    keep_plugins,
    read_results,
    session,
)

if TYPE_CHECKING:
    from sweeps.findings import Findings

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
    check_submitter(accept=options.accept_versions)
    load_remembered(sweep, options.out)
    expanded = load_expanded(sweep, settings)
    spec = expanded.spec
    options = replace(options, keep_weights=options.keep_weights or keeps_weights(spec.drawings))
    options = options.bounded(spec.budget.max_workers)
    run = create_or_open(run_path(spec.name, options.out), expanded)
    with stop_signals() as stop:
        try:
            with Lock(run.lock), _plugins_kept(run, expanded), _publication(run, spec, options, log=log) as publication:
                try:
                    with ExitStack() as last:
                        with session(run):
                            _train_rest(run, expanded, options, stop=stop, log=log, last=last)
                        publication.finish()
                        return _conclude(run, expanded, options, out=out, log=log)
                except Stopped as stopped:
                    publication.patience_s = STOP_PATIENCE_S
                    done = len(Ledger(run.ledger).trial_ids())
                    name = stopped.signal_name
                    say(log, f"stopped by {name} with {done} trials in {run.ledger}; the same command goes on from there")
                    return STOPPED
        except (Stopped, KeyboardInterrupt) as stopped:
            if isinstance(stopped.__context__, UserError):
                raise stopped.__context__ from None
            say(log, f"stopped by {getattr(stopped, 'signal_name', 'SIGINT')}: every result is kept in {run.ledger}")
            return STOPPED


@contextmanager
def _plugins_kept(run: RunDirectory, sweep: ExpandedSweep) -> Iterator[None]:
    """Within it the plugins of a sweep lie in its run directory, tried: nothing is trained with one that fails."""
    samples = [cell.trials[0] for cell in sweep.cells] + [cell.family.sample for cell in sweep.searched]
    if plugins := used_plugins(samples):
        from stsq_core.plugins import try_pairs

        try_pairs(samples)
        keep_plugins(run.plugins, plugins)
    yield


def _train_rest(
    run: RunDirectory,
    sweep: ExpandedSweep,
    options: RunOptions,
    *,
    stop: StopSignals,
    log: Console,
    last: ExitStack,
) -> None:
    """Train what the ledger does not hold; `last` is given what is to be waited for at the very end."""
    ledger = Ledger(run.ledger, notify=lambda text: say(log, text))
    if num_adopted := adopt_outcomes(run, ledger):
        say(log, f"{num_adopted} trials that had ended when the last run was killed are in the ledger now")
    results = read_results(run, sweep)
    for note in results.ledger_notes:
        say(log, note)
    if num_foreign := len(results.foreign_cells):
        say(log, _foreign(run, num_foreign))
    with closing(strategy_of(run, sweep, results, options)) as strategy:
        held = Outcomes.joined([results.records, results.rechecks])
        begun = begun_packs(run)
        queue = PackQueue(strategy, ledger, retry_failed=options.retry_failed, held=held, begun=begun)
        if queue.finished:
            say(log, _nothing_left(run, sweep.spec, queue, results))
            _forget_states(run)
        else:
            _train(run, sweep, queue, results, options, stop=stop, log=log, last=last)


def _train(
    run: RunDirectory,
    sweep: ExpandedSweep,
    queue: PackQueue,
    results: Results,
    options: RunOptions,
    *,
    stop: StopSignals,
    log: Console,
    last: ExitStack,
) -> None:
    """Train what waits, as far as the budgets allow."""
    budgets = Budgets(sweep.spec.budget, queue, spent_minutes=elapsed_minutes(run))
    if not budgets.allow():
        say(log, budgets.words())
        return
    check_former(run, accept=options.accept_versions)
    say(log, _opening(run, sweep, results))
    run.make_rooms()
    with _runner(run, sweep.spec.name, options, stop, log) as runner:
        last.callback(runner.wait_for_end)
        if runner.told:
            say(log, runner.told)
        queue.fit(room=runner.room, slots=runner.slots)
        with ProgressLine(queue, run.curves, log, num_workers=runner.slots) as progress, _page_prepared(queue):
            runner.train(Work(queue, run, options, progress, stop, sweep.spec.budget.retries, budgets))
        say(log, progress.summary())
    if queue.finished:
        _forget_states(run)
    else:
        say(log, budgets.words())


def _opening(run: RunDirectory, sweep: ExpandedSweep, results: Results) -> str:
    """What there is to do."""
    num_points = results.num_of_points
    num_cells, num_searched = len(sweep.cells), len(sweep.searched)
    parts = []
    if num_cells:
        num_trials, num_held = len(results.declared) - num_points, len(results.records) - num_points
        parts.append(f"{num_cells} cells, {num_trials} trials, {num_held} of them in the ledger already")
    if num_searched:
        parts.append(f"{num_searched} cells to search, {num_points} trials of theirs in the ledger already")
    return f"{sweep.spec.name}: {'; '.join(parts)} -> {run.path}"


def _nothing_left(run: RunDirectory, spec: SweepSpec, queue: PackQueue, results: Results) -> str:
    if not results.searched:
        return f"nothing to train: all {queue.total} trials of {spec.name} are in {run.ledger}"
    num = len(results.searched)
    return f"nothing to train: {spec.name} is complete, {num} cells searched with {len(results.records)} trials in {run.ledger}"


def _runner(run: RunDirectory, sweep: str, options: RunOptions, stop: StopSignals, log: Console) -> Runner:
    if options.inline:
        return InlineRunner(options.device)
    from cluster.tune import TuneRunner

    return TuneRunner(run, options, stop, sweep=sweep, say=lambda text: say(log, text))


def _foreign(run: RunDirectory, num_cells: int) -> str:
    cells, are, them = ("cell", "is", "its") if num_cells == 1 else ("cells", "are", "their")
    return (
        f"{num_cells} {cells} with results in {run.path} {are} not in this sweep: {them} results stay in the ledger and are "
        "left out of tables, laws and figures"
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
    later = f"`stsq wandb sync {shlex.quote(str(run.path))}`"
    process = None
    if (options.wandb or os.environ.get("WANDB_MODE") or spec.wandb.mode) != "disabled":
        try:
            process = PublisherProcess.start(run.path, mode=options.wandb, asked=options.wandb_asked)
        except (UserError, OSError) as error:
            say(log, f"W&B: nothing is published, and training goes on without it: {error}; then publish with {later}")
    publication = Publication(process)
    try:
        yield publication
    finally:
        try:
            publication.wait()
        finally:
            if not publication.complete:
                log_path = run.wandb / "publisher.log"
                say(log, f"W&B: not everything is published yet; see {log_path}, then publish the rest with {later}")
            elif process is not None and (reason := offline_reason(run.path)):
                say(log, f"W&B: written offline to {run.wandb}: {reason}; publish with {later}")


@contextmanager
def _page_prepared(queue: PackQueue) -> Iterator[None]:
    """Load what draws the page (seconds) once the first trials have ended, so that the run's end does not wait for it."""
    over = threading.Event()

    def prepare() -> None:
        while not queue.done and not over.wait(0.2):
            pass
        if queue.done:
            for module in ("dashboards.page.report", "cluster.commands.results"):
                importlib.import_module(module)
            importlib.import_module("dashboards.paper.figures").load_backends()

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _forget_states(run: RunDirectory) -> None:
    """Remove the states of packs that will never go on, once nothing is left to train."""
    for path in run.checkpoints.glob("*"):
        path.unlink(missing_ok=True)


def _conclude(run: RunDirectory, sweep: ExpandedSweep, options: RunOptions, *, out: Console, log: Console) -> int:
    from cluster.commands.results import show_findings
    from sweeps.findings import findings_of
    from sweeps.thresholds import thresholds_of

    results = read_results(run, sweep)
    thresholds = thresholds_of(sweep.spec, results)
    findings = findings_of(run, sweep, results, thresholds)
    show_findings(out, findings)
    if results.note_on_others:
        say(log, results.note_on_others)
    if options.keep_weights and (num_without := _num_without_weights(run, results.records)):
        say(log, _not_kept(run, num_without))
    write_page(run, findings, out=out, log=log)
    return exit_code(results, thresholds)


def _num_without_weights(run: RunDirectory, records: Outcomes) -> int:
    kept = {path.stem for path in run.weights.glob("*.npz")}
    return sum(trial_id not in kept for trial_id in records.take(records.status == FINISHED).trial_ids)


def _not_kept(run: RunDirectory, num_trials: int) -> str:
    return (
        f"the weights of {num_trials} finished trials are not kept, as these were trained without --keep-weights: "
        f"`stsq trial {shlex.quote(str(run.path))} TRIAL_ID --keep-weights` trains one again and keeps its weights"
    )


def write_page(run: RunDirectory, findings: "Findings", *, out: Console, log: Console) -> None:
    """Write the report; a fault in drawing loses no result and is told."""
    from dashboards.page import write_report

    try:
        page = write_report(run.path, findings)
    except UserError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        say(log, f"the report could not be drawn ({what}); the results are kept: stsq report {shlex.quote(str(run.path))}")
    else:
        say(out, f"page: {page}")
