"""What Ray Tune sees: a Tune trial is a worker that pulls packs; each result that it reports is the end of one.

One Tune trial a pack would be plainer and was measured: Tune keeps every trial that it has had and walks them all at every
step, so that its memory and time grow with the number of packs (docs/scale.md). Loaded by `tune_runner` while Ray starts,
because importing `ray.tune` takes seconds.
"""

import logging
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle, tune
from ray.air._internal import usage
from ray.tune.search import Searcher
from ray.tune.stopper import NoopStopper, Stopper

from cluster.run import Order, Work
from cluster.tune.head_watch import HeadWatch
from cluster.tune.metrics import Metrics
from cluster.tune.placement import Seat
from cluster.tune.trainable import PackTrainable
from cluster.tune.watchdog import Watchdog
from cluster.tune.worker_pool import PREEMPTED, Crew


class Hiring(Searcher):
    """Starts a worker where there is a seat for one and a pack that waits.

    An error of the run itself (the disk is full) leaves as `Abort`, which Tune does not take for the failure of a trial.
    """

    def __init__(self, crew: Crew) -> None:
        super().__init__()
        self._crew = crew

    def suggest(self, trial_id: str) -> Any:
        """The seat of a new worker; None while Tune is to ask again later, `FINISHED` when there will be none."""
        with aborting():
            if self._crew.over:
                return Searcher.FINISHED
            seat = self._crew.hire(trial_id)
            return None if seat is None else seat.as_config()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        if not error:  # of an error `Foreman` is told next, and knows why
            self._crew.left(trial_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Hiring":
        return self  # Tune copies its configuration, and there is one crew

    def __reduce__(self) -> tuple[Any, ...]:
        return Searcher, ()  # Tune pickles itself for a restore that the ledger makes needless

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""


class Answers(Stopper):
    """Takes what workers told, and lets those go for whom there is no pack; keeps the orders of the others for `Foreman`."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.orders: dict[str, Order] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        with aborting():
            order = self._crew.answered(trial_id, result)
        result.pop("outcome", None)  # Tune would keep it
        if order is None:
            return True
        self.orders[trial_id] = order
        return False

    def stop_all(self) -> bool:
        """Whether workers that are still to start, or train for a sweep that is stopped, are to end."""
        if not self._crew.over:
            return False
        self._crew.give_up()
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> "Answers":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return NoopStopper, ()


class Foreman(tune.Callback):
    """Hands orders to workers; looks every step whether the run is to stop; tells the crew of lost workers, and why."""

    def __init__(self, crew: Crew, answers: Answers, metrics: Metrics) -> None:
        self._crew = crew
        self._answers = answers
        self._metrics = metrics

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self._crew.work.stop.check()
        self._metrics.publish()

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any) -> None:
        order = self._answers.orders.pop(trial.trial_id, None)
        if order is not None:  # a worker does what it is asked in order: it takes this before its next step
            trial.temporary_state.ray_actor.take.remote(order.as_json())

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        with aborting():
            self._crew.lost(trial.trial_id, *_cause(trial))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Foreman":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return tune.Callback, ()


class Guard(tune.Callback):
    """Ends workers that hang, of which Tune then tells as of other lost ones, and the run where the cluster's head is lost."""

    def __init__(self, crew: Crew, watchdog: Watchdog, head: HeadWatch | None) -> None:
        self._crew = crew
        self._watchdog = watchdog
        self._head = head

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        with aborting():
            if self._head is not None:
                self._head.check()
            for pack_id, seconds in self._watchdog.hung(self._crew.running).items():
                name = self._crew.running[pack_id]
                self._crew.condemn(name, f"no step for {seconds:.0f} s")
                self._watchdog.forget(pack_id)
                ray.kill(next(trial for trial in trials if trial.trial_id == name).temporary_state.ray_actor)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Guard":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return tune.Callback, ()


class Abort(BaseException):
    """Carries an error of the run itself through Tune."""


@contextmanager
def aborting() -> Iterator[None]:
    """Let an error of the run itself pass through Tune."""
    try:
        yield
    except Exception as error:
        raise Abort from error


def _cause(trial: Any) -> tuple[str, str]:
    """The name and first line of what ended a Tune trial."""
    error = _error_of(trial)
    if error is None:
        return "unknown", "no cause was told"
    if getattr(error, "preempted", False):
        return PREEMPTED, "the node was taken away"
    if isinstance(error, ray.exceptions.RayTaskError):
        error = error.cause
    lines = str(error).strip().splitlines() or ["no message"]
    return type(error).__name__, lines[0]


def _error_of(trial: Any) -> Any:
    """What ended a Tune trial, where the driver has just written it: Tune itself would look where that is copied to later."""
    path = trial.pickled_error_file
    return cloudpickle.loads(Path(path).read_bytes()) if path and Path(path).exists() else trial.get_pickled_error()


def _watchdog(work: Work) -> Watchdog:
    options = work.options
    return Watchdog(work.run, patience_s=options.hung_after_s, checkpoint_every_s=options.checkpoint_every_s)


def fit(work: Work, seats: Callable[[], Mapping[Seat, int]], metrics: Metrics, head: HeadWatch | None) -> None:
    """Let workers on these seats train every pack of the queue that may start.

    Raises:
        UserError: the run directory cannot be written, no worker starts, or the cluster's head is lost.
    """
    try:
        _fit(Crew(work, seats), metrics, head)
    except Abort as abort:
        raise abort.__cause__ or abort from None


def _fit(crew: Crew, metrics: Metrics, head: HeadWatch | None) -> None:
    usage.tag_callbacks = _not_counted
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a lost worker is told in a line of ours, not in a traceback
    metrics.watch(crew)
    answers, name, storage = Answers(crew), secrets.token_hex(4), crew.work.run.ray
    tune.Tuner(
        tune.with_resources(PackTrainable, _resources),
        tune_config=tune.TuneConfig(
            search_alg=Hiring(crew),
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(storage.resolve()),
            stop=answers,
            verbose=0,
            callbacks=[Foreman(crew, answers, metrics), Guard(crew, _watchdog(crew.work), head)],
            failure_config=tune.FailureConfig(max_failures=0),  # the crew counts, by pack
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    ).fit()
    shutil.rmtree(storage / name, ignore_errors=True)


def _resources(config: dict[str, Any]) -> tune.PlacementGroupFactory:
    return tune.PlacementGroupFactory([Seat(**config).resources])


def _name(trial: Any) -> str:
    return f"worker-{trial.trial_id}"


def _not_counted(callbacks: object) -> bool:
    """In place of Ray's usage statistics, which are off here, and which take a second to load W&B's client."""
    return False
