"""The whole of `stsq run`: from a sweep's name to a ledger, thresholds, a page and a truthful exit code."""

import importlib
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from cluster.commands.end_notice import EndNotice
from cluster.commands.publication import publication_of, publishes
from cluster.run import (
    STOPPED,
    Budgets,
    InlineRunner,
    Notifier,
    ProgressLine,
    Runner,
    RunOptions,
    StallWatch,
    Stopped,
    StopSignals,
    Work,
    adopt_outcomes,
    check_earlier,
    check_submitter,
    exit_code,
    load_remembered,
    located,
    print_line,
    rate_of,
    run_path,
    stop_signals,
    without_command,
)
from dashboards.publishing import check_names, may_be_online
from stsq_core.configs import UserError
from stsq_core.plugins import used_plugins
from sweeps.cells import ExpandedSweep, Trials, load_expanded, recheck_trials
from sweeps.schedule import Grid, PackQueue, Sequel, Strategy, Together
from sweeps.schema import SweepSpec, keeps_weights
from sweeps.store import (
    FAILED,
    FINISHED,
    Ledger,
    Lock,
    Outcomes,
    Results,
    RunDirectory,
    RunGuard,
    begun_packs,
    create_or_open,
    create_shard,
    elapsed_minutes,
    former_search_seeds,
    keep_plugins,
    kin_of,
    mend_for_run,
    merge_shards,
    read_curves,
    read_results,
    session,
)

if TYPE_CHECKING:
    from sweeps.findings import Findings

STOP_PATIENCE_S = 10.0
"""How long a run that was stopped waits for its publisher."""


def run_sweep(sweep: str, settings: Sequence[str], options: RunOptions, *, out: Console, log: Console) -> int:
    """Run a sweep, or what is left of it, and return the exit code of the command.

    Args:
        sweep: a catalogue name, the path of a YAML file, or a run directory, whose sweep is then run on.
        settings: the `--set` strings.
        options: how to run it.
        out: for results.
        log: for progress and warnings.

    Raises:
        UserError: bad input, a run directory that cannot be used, or an environment that cannot run it.
    """
    check_submitter(accept=options.accept_versions)
    sweep, place = located(sweep, options.out)
    options = replace(options, out=place)
    load_remembered(sweep, options.out)
    expanded = load_expanded(sweep, settings)
    spec = expanded.spec
    options = replace(options, keep_weights=options.keep_weights or keeps_weights(spec.drawings))
    options = options.bounded(spec.budget.max_workers)
    check_names(options.wandb_asked)
    run = RunDirectory(run_path(spec.name, options.out))
    notice = EndNotice(_notifier(run, spec, options, log=log), spec.name, run)
    try:
        code = _run(run, expanded, settings, options, notice, out=out, log=log)
    except Exception as error:
        notice.failed(error)
        raise
    notice.ended(code)
    return code


def _run(
    run: RunDirectory,
    expanded: ExpandedSweep,
    settings: Sequence[str],
    options: RunOptions,
    notice: EndNotice,
    *,
    out: Console,
    log: Console,
) -> int:
    """Run what is left of a sweep in its run directory; returns the exit code."""
    spec, shard = expanded.spec, options.shard or run.shard
    _check_cluster(run, options)
    run = create_or_open(run.path, expanded) if options.shard is None else create_shard(run.path, expanded, shard)
    num_cells, expanded = len(expanded.labels), expanded.of_shard(shard)
    if not expanded.labels:
        print_line(log, f"shard {shard} has none of the {num_cells} cells of {spec.name}: nothing to train")
        return 0
    with stop_signals() as stop:
        try:
            with Lock(run.lock) as lock:
                notice.run, notice.holds = run, True
                if run.shards:
                    num_new, num = merge_shards(run), len(run.shards)
                    print_line(log, f"{num_new} trials of {num} shard{'s' if num > 1 else ''} are new in {run.ledger}")
                for note in mend_for_run(run):
                    print_line(log, note)
                _keep_plugins(run, expanded)
                with publication_of(run, spec, options, log=log) as publication:
                    try:
                        with ExitStack() as last:
                            with session(run, without_command(sys.argv, options.notify)):
                                _train_rest(run, expanded, options, notice, lock=lock, stop=stop, log=log, last=last)
                            publication.finish()
                            return _conclude(run, expanded, options, notice, out=out, log=log)
                    except Stopped as stopped:
                        notice.stopped_by = stopped.signal_name
                        publication.patience_s = STOP_PATIENCE_S
                        done = f"{len(Ledger(run.ledger).trial_ids())} trials in {run.ledger}"
                        # The run directory holds the sweep with its further seeds: the same command would add some again.
                        adds, place = any("seeds+=" in setting for setting in settings), shlex.quote(str(run.path))
                        again = f"`stsq run {place}`" if adds else "the same command"
                        known = f"`stsq show {place}` shows what is known"
                        print_line(
                            log, f"stopped by {stopped.signal_name} with {done}; {again} goes on from there, and {known}"
                        )
                        return STOPPED
        except (Stopped, KeyboardInterrupt) as stopped:  # while the publisher or the lock was being let go
            if isinstance(stopped.__context__, UserError):
                raise stopped.__context__ from None
            notice.stopped_by = getattr(stopped, "signal_name", "SIGINT")
            print_line(log, f"stopped by {notice.stopped_by}: every result is kept in {run.ledger}")
            return STOPPED


def _notifier(run: RunDirectory, spec: SweepSpec, options: RunOptions, *, log: Console) -> Notifier:
    """Sends the notices of a run; W&B gets alerts where the run may be published online."""
    alerts = False
    with suppress(UserError):  # a mode that does not exist: the publisher says so
        alerts = publishes(run, spec, options) and may_be_online(options.wandb, spec.wandb.mode)
    notify = partial(print_line, log)
    return Notifier(options.notify, alerts=alerts, mode=options.wandb, asked=options.wandb_asked, log=notify)


def _check_cluster(run: RunDirectory, options: RunOptions) -> None:
    """Refuse a cluster that does not answer before a run directory is made; a run that is complete needs none."""
    if options.inline or not (options.address or os.environ.get("RAY_ADDRESS")):
        return
    from cluster.tune import check_answers
    from sweeps.findings import read_progress

    try:
        check_answers(options.address)
    except UserError:
        if not run.spec.is_file() or not read_progress(run).complete:
            raise


def _keep_plugins(run: RunDirectory, sweep: ExpandedSweep) -> None:
    """Try the plugins of a sweep and keep copies in its run directory: nothing is trained with one that fails."""
    samples = [cell.trials[0] for cell in sweep.cells] + [cell.family.sample for cell in sweep.searched]
    if plugins := used_plugins(samples):
        from stsq_core.plugins import try_pairs

        try_pairs(samples)
        keep_plugins(run.plugins, plugins)


def _train_rest(
    run: RunDirectory,
    sweep: ExpandedSweep,
    options: RunOptions,
    notice: EndNotice,
    *,
    lock: Lock,
    stop: StopSignals,
    log: Console,
    last: ExitStack,
) -> None:
    """Train what the ledger does not hold, as far as the budgets allow; `last` waits for the end of Ray at the very end."""
    guard = RunGuard(run, lock)
    ledger = Ledger(run.ledger, notify=lambda text: print_line(log, text), guard=guard)
    name = sweep.spec.name
    if num_adopted := adopt_outcomes(run, ledger):
        print_line(log, f"{num_adopted} trials that had ended when the last run was killed are in the ledger now")
    results = read_results(run, sweep)
    for note in (*sweep.notes, *results.ledger_notes):
        print_line(log, note)
    if num_foreign := len(results.foreign_cells):
        cells, are, them = ("cell", "is", "its") if num_foreign == 1 else ("cells", "are", "their")
        print_line(
            log,
            f"{num_foreign} {cells} with results in {run.path} {are} not in this sweep: {them} results stay in the ledger "
            "and are left out of tables, laws and figures",
        )
    if options.retry_failed:
        num_failed = results.records.num_ended("failed") + results.rechecks.num_ended("failed")
        print_line(log, f"--retry-failed: {num_failed} failed trial{'' if num_failed == 1 else 's'} to be trained again")
    num_searched, num_trials = len(sweep.searched), len(results.records)
    with closing(_strategy_of(run, sweep, results, options)) as strategy:
        held = Outcomes.joined([results.records, results.rechecks])
        num_before = num_trials - (results.records.num_ended("failed") if options.retry_failed else 0)
        queue = PackQueue(
            strategy, ledger, retry_failed=options.retry_failed, held=held, num_before=num_before, begun=begun_packs(run)
        )
        budgets = Budgets(sweep.spec.budget, queue, spent_minutes=elapsed_minutes(run))
        if queue.finished and num_searched:
            done = f"{num_searched} cells searched with {num_trials} trials in {run.ledger}"
            print_line(log, f"nothing to train: {name} is complete, {done}")
        elif queue.finished:
            print_line(log, f"nothing to train: all {queue.total} trials of {name} are in {run.ledger}")
        elif not budgets.allow():
            print_line(log, budgets.words())
            return
        else:
            check_earlier(run, accept=options.accept_versions)
            print_line(log, _opening(run, sweep, results))
            run.make_rooms()
            with _runner(run, name, options, stop, log) as runner:
                last.callback(runner.wait_for_end)
                queue.fit(room=runner.room, slots=runner.slots)
                line = ProgressLine(queue, run.curves, log, num_workers=runner.slots, rate_before=rate_of(held))
                watch = StallWatch(line.signs, lambda why: notice.stalled(why, queue, line), after_s=options.stalled_after_s)
                with line as progress, watch, _page_prepared(queue):
                    runner.train(Work(queue, run, options, progress, stop, sweep.spec.budget.retries, budgets, guard))
                print_line(log, progress.summary())
            if not queue.finished:
                print_line(log, budgets.words())
                return
    for path in run.checkpoints.glob("*"):  # states of packs that will never go on
        if path.is_file():
            path.unlink(missing_ok=True)


def _opening(run: RunDirectory, sweep: ExpandedSweep, results: Results) -> str:
    """The size of the sweep, and how much of it the ledger holds already."""
    num_points, parts = results.num_of_points, []
    if sweep.cells:
        num_trials, num_held = len(results.declared) - num_points, len(results.records) - num_points
        parts.append(f"{len(sweep.cells)} cells, {num_trials} trials, {num_held} of them in the ledger already")
    if sweep.searched:
        parts.append(f"{len(sweep.searched)} cells to search, {num_points} trials of theirs in the ledger already")
    return f"{sweep.spec.name}: {'; '.join(parts)} -> {run.path}"


def _runner(run: RunDirectory, sweep: str, options: RunOptions, stop: StopSignals, log: Console) -> Runner:
    if options.inline:
        return InlineRunner(options.device)
    from cluster.tune import TuneRunner

    return TuneRunner(run, options, stop, sweep=sweep, notify=lambda text: print_line(log, text))


def _strategy_of(run: RunDirectory, sweep: ExpandedSweep, results: Results, options: RunOptions) -> Strategy:
    """The strategy of a sweep: its grids and searches side by side, then the re-checks where the options ask for them."""
    strategy: Strategy = Grid(sweep.cells)
    if sweep.searched:
        from sweeps.search import Search

        records = results.records
        search = Search(
            sweep.spec,
            sweep.searched,
            journal=run.studies,
            owner=run.owner(is_shared=sweep.spec.search.storage is not None),
            kin=kin_of(run),
            curves=lambda ended_in: read_curves(run, ended_in, ended_in=ended_in),
            rounds=run.rounds,
            again=records.take(records.status == FAILED) if options.retry_failed else None,
            former_seeds=former_search_seeds(run),
        )
        strategy = Together([strategy, search]) if sweep.cells else search
    return Sequel(strategy, lambda: Grid((), more=_rechecks(run, sweep))) if options.recheck else strategy


def _rechecks(run: RunDirectory, sweep: ExpandedSweep) -> Trials:
    """The trials that show, for each threshold that was found, whether steps or width was limiting."""
    from sweeps.thresholds import thresholds_of

    parts = {}
    for threshold in thresholds_of(sweep.spec, read_results(run, sweep)):
        if threshold.m_star is not None:
            rates = tuple(np.unique(threshold.points.outcomes.trials.rates).tolist())
            trials = recheck_trials(threshold.cell_id, threshold.config_sample, rates, threshold.m_star, threshold.size)
            parts[threshold.cell_id, tuple(trials.widths.tolist())] = trials  # several targets may ask for the same
    return Trials.joined([*parts.values()])


@contextmanager
def _page_prepared(queue: PackQueue) -> Iterator[None]:
    """Load what draws the page (seconds) once the first trials have ended, so that the run's end does not wait for it."""
    over = threading.Event()

    def prepare() -> None:
        while not queue.done and not over.wait(0.2):
            pass
        if queue.done:
            for module in ("dashboards.page.report", "cluster.commands.results", "scipy.special"):
                importlib.import_module(module)
            importlib.import_module("dashboards.paper.figures").load_backends()

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _conclude(
    run: RunDirectory, sweep: ExpandedSweep, options: RunOptions, notice: EndNotice, *, out: Console, log: Console
) -> int:
    """Print and draw the findings of a run; returns its exit code."""
    from cluster.commands.results import show_findings
    from sweeps.findings import findings_of
    from sweeps.thresholds import thresholds_of

    results = read_results(run, sweep)
    thresholds = thresholds_of(sweep.spec, results)
    notice.findings = findings = findings_of(run, sweep, results, thresholds)
    page, refused = None, None
    try:
        page = write_page(run, findings, log=log)  # before anything is printed, which a pager may hold up
    except UserError as error:
        refused = error
    show_findings(out, findings)
    if results.note_on_others:
        print_line(log, results.note_on_others)
    if options.keep_weights:
        kept = {path.stem for path in run.weights.glob("*.npz")}
        finished = results.records.take(results.records.status == FINISHED).trial_ids
        if num_without := sum(trial_id not in kept for trial_id in finished):
            again = f"`stsq trial {shlex.quote(str(run.path))} TRIAL_ID --keep-weights`"
            print_line(
                log,
                f"the weights of {num_without} finished trials are not kept, as these were trained without --keep-weights: "
                f"{again} trains one again and keeps its weights",
            )
    if refused is not None:
        raise refused
    if page is not None:
        print_line(out, f"page: {page}")
    return exit_code(results, thresholds, num_searching=findings.num_searching)


def write_page(run: RunDirectory, findings: "Findings", *, log: Console) -> Path | None:
    """Write the report and return the path of its page; a fault in drawing loses no result and becomes a warning.

    Raises:
        UserError: the report cannot be written.
    """
    from dashboards.page import write_report

    try:
        return write_report(run.path, findings)
    except UserError:
        raise
    except Exception as error:
        what, again = f"{type(error).__name__}: {error}", f"stsq report {shlex.quote(str(run.path))}"
        print_line(log, f"the report could not be drawn ({what}); the results are kept: {again}")
    return None
