"""A sampler for Optuna that looks for a width threshold instead of an optimum.

One study is one cell and one trial one point: the parameter `m`, a fresh seed, and as its value the point's relative loss. The
sampler keeps the posterior of the threshold (module `posterior`), asks for widths at its quantiles that are not in flight yet,
and says when the search may end:

    study = optuna.create_study(sampler=ThresholdSampler(target_loss=0.1, seed=0))
    study.optimize(lambda trial: relative_loss(trial.suggest_int("m", 8, 256, log=True)), n_trials=96)
    print(study.user_attrs["stsq:estimate"], study.user_attrs["stsq:interval"])

What it knows comes from the study alone, so that any number of threads or processes may share a storage, and one that starts
again goes on. A trial that failed counts as a lapse where its user attribute `status` is `diverged`, and else as no evidence:
where some fail beyond all widths that ended well, in two batches, no more are asked there.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from sweeps.sampler.posterior import ThresholdPosterior
from sweeps.sampler.stopping import Failed, SearchState, judge, posterior_of

WIDTH = "m"
STATUS, DIVERGED = "status", "diverged"
GOLDEN = (math.sqrt(5) - 1) / 2


def constrain(trial: Trial, relative_loss: float, target_loss: float) -> None:
    """Mark a trial as feasible where it reaches the target: the constraint `target` is `log(loss / target)`, at most 0."""
    trial.set_constraint("target", math.log(max(relative_loss, 1e-300) / target_loss))


@dataclass
class _StudyPoints:
    """What was read of a study: the points that have ended, failed ones with the numbers of their trials, those in flight, and
    the trials that may still change. `only_told`: see `ThresholdSampler`.
    """

    widths: list[int] = field(default_factory=list)
    log_losses: list[float] = field(default_factory=list)
    failed: list[tuple[int, int]] = field(default_factory=list)
    in_flight: dict[int, int] = field(default_factory=dict)
    unfinished: list[int] = field(default_factory=list)
    num_read: int = 0
    bounds: tuple[int, int] | None = None
    posterior: ThresholdPosterior | None = None
    only_told: bool = False

    def read(self, trials: Sequence[FrozenTrial]) -> None:
        """Take note of what is new in the trials of a study, in the order of their numbers."""
        waiting = [*self.unfinished, *range(self.num_read, len(trials))]
        self.unfinished, self.in_flight, self.num_read = [], {}, len(trials)
        for place in waiting:
            trial = trials[place]
            if not trial.state.is_finished():
                self.unfinished.append(place)
            if WIDTH in trial.params:
                self._note(trial)

    def _note(self, trial: FrozenTrial) -> None:
        self.bound(_bounds(trial.distributions[WIDTH]))
        width = int(trial.params[WIDTH])
        if trial.state == TrialState.RUNNING:
            self.in_flight[trial.number] = width
        else:
            self.add(trial, trial.state, trial.values)

    def add(self, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Take note of a trial that ended: as evidence, as a failed point, or, where it was stopped or pruned, not at all."""
        width = int(trial.params[WIDTH])
        if (log_loss := _log_loss(state, values, trial.user_attrs)) is not None:
            self.widths.append(width)
            self.log_losses.append(log_loss)
        elif state == TrialState.FAIL and (STATUS in trial.user_attrs or not self.only_told):
            self.failed.append((width, trial.number))
        self.posterior = None

    @property
    def num_ended(self) -> int:
        """Points that ended, those that failed among them."""
        return len(self.widths) + len(self.failed)

    def bound(self, bounds: tuple[int, int]) -> None:
        if bounds != self.bounds:
            self.bounds, self.posterior = bounds, None


def _log_loss(state: TrialState, values: Sequence[float] | None, attributes: Mapping[str, Any]) -> float | None:
    """The log loss of a trial that ended; inf where it diverged, None where it is no evidence."""
    if state != TrialState.COMPLETE:
        return math.inf if state == TrialState.FAIL and attributes.get(STATUS) == DIVERGED else None
    loss = values[0] if values else math.nan
    if not math.isfinite(loss):
        return math.inf
    return math.log(loss) if loss > 0 else -math.inf


def _bounds(distribution: BaseDistribution) -> tuple[int, int]:
    if not isinstance(distribution, IntDistribution) or distribution.step != 1:
        raise ValueError(
            f"a threshold search suggests whole widths: suggest_int({WIDTH!r}, low, high, log=True); got {distribution}"
        )
    return distribution.low, distribution.high


class ThresholdSampler(BaseSampler):
    """Asks for the widths that say most about where the median seed reaches the target.

    Args:
        target_loss: the relative loss to reach, between 0 and 1.
        success_rate: the fraction of seeds that must reach it.
        level: of the interval.
        tolerance: how far the interval's ends may lie from its middle, relative to it, for the search to end; an interval no
            longer than one unit of width is narrow enough, too.
        batch: points that are meant to be in flight together.
        cap: the most points of a search.
        offset: a part of every width that is not searched, such as d of m = d + d_e; the tolerance is relative to the rest.
        seed: of the small shifts of the quantiles at which widths are asked.
        only_told: whether a failed trial is a failed point only where its user attribute `status` says how it ended. Otherwise
            every failed trial is one.
    """

    def __init__(
        self,
        *,
        target_loss: float,
        success_rate: float = 0.5,
        level: float = 0.9,
        tolerance: float = 0.1,
        batch: int = 8,
        cap: int = 96,
        offset: int = 0,
        seed: int | None = None,
        only_told: bool = False,
    ) -> None:
        if not 0 < target_loss < 1:
            raise ValueError(f"target_loss is relative to the zero predictor's and lies between 0 and 1; got {target_loss}")
        if not 0 < level < 1 or not tolerance > 0:
            raise ValueError(f"level must lie between 0 and 1 and tolerance above 0; got {level} and {tolerance}")
        if batch < 1 or cap < 1 or offset < 0:
            raise ValueError(f"batch and cap must be at least 1, and offset at least 0; got {batch}, {cap} and {offset}")
        self.target_loss, self.success_rate = target_loss, success_rate
        self.level, self.tolerance = level, tolerance
        self.batch, self.cap, self.offset = batch, cap, offset
        self.only_told = only_told
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._others = RandomSampler(seed=seed)
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._studies: WeakKeyDictionary[Study, _StudyPoints] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_studies")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def state(self, trials: Study | Sequence[FrozenTrial]) -> SearchState:
        """Whether the search may end and why, and the posterior: None before the first point was asked."""
        if isinstance(trials, Study):
            with self._lock:
                return self._state_of(self._read(trials))
        known = _StudyPoints(only_told=self.only_told)
        known.read(trials)
        return self._state_of(known)

    def batch_size(self, study: Study) -> int:
        """How many points to ask now: 0 when the search may end or the cap is in flight."""
        with self._lock:
            known = self._read(study)
            if self._state_of(known).finished:
                return 0
            return max(0, min(self.batch, self.cap - known.num_ended - len(known.in_flight)))

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        if len(study.directions) > 1:
            raise ValueError("a threshold search has one objective, the relative loss; got a multi-objective study")
        return {}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if param_name != WIDTH:
            return self._others.sample_independent(study, trial, param_name, param_distribution)
        bounds = _bounds(param_distribution)
        with self._lock:
            known = self._read(study)
            known.bound(bounds)
            posterior = self._posterior(known)
            in_flight = [width for number, width in known.in_flight.items() if number != trial.number]
            shift = np.random.default_rng((self.seed, known.num_ended)).uniform(-0.25, 0.25)
            widths = posterior.next_widths(max(1, self.batch - len(in_flight)), in_flight, shift=shift)
        # Trials that end one by one, each before the next is asked, must not all take the same quantile.
        return widths[int(len(widths) * (GOLDEN * (known.num_ended + len(in_flight)) % 1))]

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Once nothing else is in flight, or another batch has ended: publish the estimate as attributes of the study, and
        end a running `optimize` whose search may end.
        """
        with self._lock:
            known = self._with(self._read(study), trial, state, values)
            if len(known.in_flight) > 1 and known.num_ended % self.batch:
                return
            reached = self._state_of(known)
        publish(study, reached, self.level)
        if reached.finished:
            try:
                study.stop()
            except RuntimeError:
                return  # A study without a running `optimize` has no loop to stop: `state` says that the search may end.

    def _with(self, known: _StudyPoints, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> _StudyPoints:
        """The study's points with this trial, which has just ended and which the storage has as running still."""
        if WIDTH not in trial.params:
            return known
        extended = replace(known, widths=list(known.widths), log_losses=list(known.log_losses), failed=list(known.failed))
        extended.add(trial, state, values)
        return extended

    def _read(self, study: Study) -> _StudyPoints:
        known = self._studies.setdefault(study, _StudyPoints(only_told=self.only_told))
        known.read(study.get_trials(deepcopy=False))
        return known

    def _posterior(self, known: _StudyPoints) -> ThresholdPosterior:
        assert known.bounds is not None
        if known.posterior is None:
            known.posterior = posterior_of(
                np.array(known.widths, dtype=np.int64),
                np.array(known.log_losses),
                self._failed(known),
                low=known.bounds[0],
                high=known.bounds[1],
                log_target=math.log(self.target_loss),
                success_rate=self.success_rate,
            )
        return known.posterior

    def _failed(self, known: _StudyPoints) -> Failed:
        widths, numbers = np.array(known.failed, dtype=np.int64).reshape(-1, 2).T
        return Failed(widths, numbers // self.batch)

    def _state_of(self, known: _StudyPoints) -> SearchState:
        if known.bounds is None:
            return SearchState(False, "", 0, None)
        posterior = self._posterior(known)
        return judge(
            posterior,
            num_failed=len(known.failed),
            level=self.level,
            tolerance=self.tolerance,
            batch=self.batch,
            cap=self.cap,
            offset=self.offset,
        )


def publish(study: Study, state: SearchState, level: float) -> None:
    """Write the state of a search to the user attributes of its study, for viewers; widths beyond the range are None."""
    ends = [math.nan] * 3 if state.posterior is None else [state.posterior.median, *state.posterior.interval(level)]
    estimate, *interval = (round(math.exp(end), 2) if math.isfinite(end) else None for end in ends)
    found = {
        "state": state.reason or "searching", "points": state.num_points, "estimate": estimate, "interval": interval,
    }  # fmt: skip
    for name, value in found.items():
        study.set_user_attr(f"stsq:{name}", value)
