"""What Ray Tune sees of packs: a searcher that hands them out, and a word about lost workers.

Loaded by `tune_runner` while Ray starts, because importing `ray.tune` takes seconds.
"""

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ray import tune
from ray.air._internal import usage
from ray.tune.search import Searcher

from cluster.runner import Work, is_over
from cluster.trainable import PackTrainable
from sweeps.packs import Pack
from sweeps.queue import Failure, PackOutcome


class QueueSearcher(Searcher):
    """Feeds Tune from the pack queue, and the queue with what Tune's trials told.

    An error of the run itself (the disk is full) leaves as `Abort`, which Tune does not take for the failure of a trial.
    """

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work
        self._running: dict[str, Pack] = {}
        self._began: dict[str, float] = {}

    def suggest(self, trial_id: str) -> Any:
        """The next order; None while Tune is to ask again later, `FINISHED` when there will be none."""
        with _aborting():
            order = self._work.next_order()
            if order is not None:
                self._running[trial_id] = order.pack
                self._began[trial_id] = time.monotonic()
                return {"order": order.as_json()}
            return Searcher.FINISHED if is_over(self._work, self._running) else None

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        if error:
            return  # `Attendant` is told next, and knows why
        with _aborting():
            del self._running[trial_id]
            self._work.take((result or {})["outcome"])

    def lost(self, trial_id: str, failure: Failure) -> None:
        """Record that Tune gave a pack up."""
        with _aborting():
            failure = replace(failure, seconds=time.monotonic() - self._began[trial_id])
            self._work.record(PackOutcome(self._running.pop(trial_id), failure=failure))

    def __deepcopy__(self, memo: dict[int, Any]) -> "QueueSearcher":
        return self  # Tune copies its configuration, and there is one queue

    def __reduce__(self) -> tuple[Any, ...]:
        return Searcher, ()  # Tune pickles itself for a restore that the ledger makes needless

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""


class Attendant(tune.Callback):
    """Looks every step whether the run is to stop, and tells the searcher of packs whose workers were lost, and why."""

    def __init__(self, searcher: QueueSearcher, work: Work) -> None:
        self._searcher = searcher
        self._work = work

    def __deepcopy__(self, memo: dict[int, Any]) -> "Attendant":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return tune.Callback, ()

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self._work.stop.check()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._work.progress.note(f"a worker was lost ({_cause(trial)[0]}); its pack goes on from its last checkpoint")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        name, line = _cause(trial)
        if name == "OutOfMemoryError":
            self._searcher.lost(trial.trial_id, Failure(reason="out of memory", kind="out_of_memory"))
            return
        reason = f"lost worker, {trial.num_failures} times: {name}: {line}"
        self._searcher.lost(trial.trial_id, Failure(reason=reason, kind="lost_worker"))


class Abort(BaseException):
    """Carries an error of the run itself through Tune."""


@contextmanager
def _aborting() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Abort from error


def _cause(trial: Any) -> tuple[str, str]:
    """The name and first line of what ended a Tune trial."""
    error = trial.get_pickled_error()
    if error is None:
        return "unknown", "no cause was told"
    lines = str(error).strip().splitlines() or ["no message"]
    return type(error).__name__, lines[0]


def fit(work: Work, share: dict[str, float], slots: int) -> None:
    """Let Tune train every pack of the queue that may start, `slots` at once, each with its `share` of CPUs and GPUs.

    Raises:
        UserError: the run directory cannot be written.
    """
    try:
        _fit(work, share, slots)
    except Abort as abort:
        raise abort.__cause__ or abort from None


def _fit(work: Work, share: dict[str, float], slots: int) -> None:
    usage.tag_callbacks = _not_counted
    searcher = QueueSearcher(work)
    name = secrets.token_hex(4)
    grid = tune.Tuner(
        tune.with_resources(PackTrainable, share),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=-1,
            max_concurrent_trials=slots,
            reuse_actors=True,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(work.run.ray.resolve()),
            verbose=0,
            callbacks=[Attendant(searcher, work)],
            failure_config=tune.FailureConfig(max_failures=work.retries),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    ).fit()
    if not grid.num_errors:
        shutil.rmtree(work.run.ray / name, ignore_errors=True)


def _name(trial: Any) -> str:
    return f"pack-{trial.trial_id}"


def _not_counted(callbacks: object) -> bool:
    """In place of Ray's usage statistics, which are off here, and which take a second to load W&B's client."""
    return False
