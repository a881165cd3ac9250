"""The Optuna study of one cell: it proposes points, takes their results, and is kept in step with the ledger.

The ledger is the truth and the study a view of it: a point that the ledger holds and the study lacks is added, and a study
that claims what the ledger does not hold is made again. Points that were asked for and have not ended stay as running trials
with their width and seed, so that a killed search goes on with the very points that it had asked for; one that is stopped in
order has them wait.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.distributions import IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from stsq_core.configs import UserError
from sweeps.cells import SearchedCell
from sweeps.sampler import WIDTH
from sweeps.search.finished_points import Curves, FinishedPoint, intermediate_values
from sweeps.search.samplers import suggest_width

OWNER = "stsq:run"
TARGET = "target"
Key = tuple[int, int]


@dataclass(frozen=True)
class OpenPoint:
    """A point that was asked for and has no result yet: its width, seed and live Optuna trial."""

    width: int
    seed: int
    trial: Trial

    @property
    def key(self) -> Key:
        return self.width, self.seed


class CellStudy:
    """One study; `owner` names the run directory whose ledger it is a view of, `kin` others that it may have begun in."""

    def __init__(
        self, storage: BaseStorage, name: str, cell: SearchedCell, *, owner: str, kin: Collection[str] = (), curves: Curves
    ) -> None:
        self._curves = curves
        self._storage = storage
        self._name = name
        self._cell = cell
        self._owner, self._kin = owner, kin
        self._study = self._created()

    def resume(self, ended: Sequence[FinishedPoint], seeds: Iterator[int]) -> tuple[OpenPoint, ...]:
        """Bring the study into step with the complete points of the ledger; returns the points asked for that go on."""
        results = {(one.width, one.seed): one for one in ended}
        found: dict[Key, OpenPoint] = {}
        for frozen in self._trials(TrialState.RUNNING):
            if (point := self._adopted(frozen)) is None or not self._taken_on(point, results, found):
                self._study.tell(frozen.number, state=TrialState.FAIL)
        for _ in self._trials(TrialState.WAITING):
            point = self._asked(RandomSampler(seed=0), seeds)
            if not self._taken_on(point, results, found):
                self._study.tell(point.trial, state=TrialState.FAIL)
        return self.reconcile(ended, tuple(found.values()))

    def _taken_on(self, point: OpenPoint, results: Mapping[Key, FinishedPoint], found: dict[Key, OpenPoint]) -> bool:
        """Give the result of a point that has ended meanwhile, or add one that goes on to `found`; False if it is neither."""
        if point.key in results:
            self.tell(point, results[point.key])
            return True
        if point.key in found or not self._cell.low <= point.width <= self._cell.high:
            return False
        found[point.key] = point
        return True

    def ask(self, num: int, seeds: Iterator[int], sampler: BaseSampler, *, low: int, high: int) -> tuple[OpenPoint, ...]:
        """New points with fresh seeds, at the widths from `low` to `high` that the sampler chooses."""
        return tuple(self._asked(sampler, seeds, low=low, high=high) for _ in range(num))

    def tell(self, point: OpenPoint, result: FinishedPoint) -> None:
        """Give the study the result of a point."""
        self._study.sampler = RandomSampler(seed=0)  # ours would look at the posterior after each point of a round
        for name, value in result.attributes.items():
            point.trial.set_user_attr(name, value)
        for step, loss in intermediate_values(result, self._curves).items():
            point.trial.report(loss, step)
        if result.constraint is not None:
            point.trial.set_constraint(TARGET, result.constraint)
        self._study.tell(point.trial, result.value, state=result.state)

    def reconcile(self, ended: Sequence[FinishedPoint], going_on: tuple[OpenPoint, ...] = ()) -> tuple[OpenPoint, ...]:
        """Add what the study lacks of these points; make it again where it says else. Returns the points that go on."""
        held = {
            key for frozen in self._trials(TrialState.COMPLETE, TrialState.FAIL) if (key := _finished_key(frozen)) is not None
        }
        is_wrong = bool(held - {one.key for one in ended})
        if is_wrong:
            optuna.delete_study(study_name=self._name, storage=self._storage)
            self._study = self._created()
            held = set()
        for one in ended:
            if one.key not in held:
                self._study.add_trial(self._frozen(one))
        if not is_wrong:
            return going_on
        return self.ask_for([point.key for point in going_on])

    def ask_for(self, keys: Sequence[Key]) -> tuple[OpenPoint, ...]:
        """Points of these widths and seeds."""
        for key in keys:
            self._enqueue(key)
        return tuple(self._asked(RandomSampler(seed=0), iter(())) for _ in keys)

    def release(self) -> None:
        """Let the points wait that will not end in this session: none of them is left running."""
        for frozen in self._trials(TrialState.RUNNING):
            self._study.tell(frozen.number, state=TrialState.FAIL)
            if (key := _key(frozen)) is not None:
                self._enqueue(key)

    def _enqueue(self, key: Key) -> None:
        self._study.enqueue_trial({WIDTH: key[0]}, user_attrs={"seed": key[1]})

    @property
    def study(self) -> optuna.Study:
        """The study itself, for samplers and for attributes."""
        return self._study

    @property
    def seeds(self) -> frozenset[int]:
        """The seeds of points that are running or wait."""
        live = self._trials(TrialState.RUNNING, TrialState.WAITING)
        return frozenset(frozen.user_attrs["seed"] for frozen in live if "seed" in frozen.user_attrs)

    def _created(self) -> optuna.Study:
        study = optuna.create_study(
            storage=self._storage, study_name=self._name, sampler=RandomSampler(seed=0), load_if_exists=True
        )
        owner = study.user_attrs.get(OWNER)
        if owner is None:
            study.set_user_attr(OWNER, self._owner)
            study.set_user_attr("cell", self._cell.label)
        elif owner not in (self._owner, *self._kin):
            raise UserError(
                f"the Optuna storage holds the study {self._name!r} of another run directory: give this sweep another name, or "
                "another search.storage"
            )
        return study

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=states)

    def _asked(
        self, sampler: BaseSampler, seeds: Iterator[int], *, low: int | None = None, high: int | None = None
    ) -> OpenPoint:
        self._study.sampler = sampler
        trial = self._study.ask()
        width = suggest_width(trial, low or self._cell.low, high or self._cell.high, sampler)
        if "seed" not in trial.user_attrs:
            trial.set_user_attr("seed", next(seeds))
        return OpenPoint(width, int(trial.user_attrs["seed"]), trial)

    def _adopted(self, frozen: FrozenTrial) -> OpenPoint | None:
        """A running trial of a former session as a live one; None where a kill left it without width or seed."""
        key = _key(frozen)
        if key is None:
            return None
        study_id = self._storage.get_study_id_from_name(self._name)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, frozen.number)
        return OpenPoint(*key, Trial(self._study, trial_id))

    def _frozen(self, result: FinishedPoint) -> FrozenTrial:
        """A finished trial made of what the ledger says."""
        return create_trial(
            state=result.state,
            value=result.value,
            params={WIDTH: result.width},
            distributions={WIDTH: IntDistribution(self._cell.low, self._cell.high, log=True)},
            user_attrs=dict(result.attributes),
            intermediate_values=intermediate_values(result, self._curves),
            constraints=None if result.constraint is None else {TARGET: result.constraint},
        )


def _key(frozen: FrozenTrial) -> Key | None:
    """The width and seed of a trial; None for one that a kill left before it had both."""
    width, seed = frozen.params.get(WIDTH), frozen.user_attrs.get("seed")
    return None if width is None or seed is None else (int(width), int(seed))


def _finished_key(frozen: FrozenTrial) -> tuple[int, int, float | None, str] | None:
    """As `FinishedPoint.key`; None for a trial that says nothing (one that was stopped, or never ended)."""
    key, attributes = _key(frozen), frozen.user_attrs
    if key is None or "status" not in attributes:
        return None
    return (*key, frozen.value if frozen.state is TrialState.COMPLETE else None, str(attributes["status"]))
