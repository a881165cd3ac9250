"""A sampler for Optuna that looks for a threshold instead of an optimum.

One trial is one point: a value of the parameter whose threshold is sought, a fresh seed, and as its value what the objective
returned. The sampler keeps the posterior of the threshold (module `posterior`), asks for values at its quantiles that are not
in flight yet, and ends a running `optimize` when the threshold is known:

    sampler = ThresholdSampler(target=0.8, scale="linear", seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(lambda trial: accuracy(trial.suggest_int("width", 8, 256, log=True), seed=trial.number), n_trials=96)
    print(sampler.result(study))  # width* = 81.9 (90% interval 74.5 to 88.8), precise, 16 points

What it knows comes from the study alone, so that any number of threads or processes may share a storage, and one that starts
again goes on. A trial that failed counts as a lapse where its user attribute `status` is `diverged`, and else as no evidence:
where some fail beyond all values that ended well, in two batches, no more are asked there.
"""

import math
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from sweeps.sampler.objective import Objective, Scale
from sweeps.sampler.parameter import Parameter
from sweeps.sampler.posterior import ThresholdPosterior
from sweeps.sampler.result import ThresholdResult
from sweeps.sampler.stopping import Failed, SearchState, StopRule, judge, posterior_of
from sweeps.sampler.study_points import SOLVED, StudyPoints, name_among, values_of

GOLDEN = (math.sqrt(5) - 1) / 2


def constrain(trial: Trial, relative_loss: float, target_loss: float) -> None:
    """Mark a trial as feasible where it reaches the target: the constraint `target` is `log(loss / target)`, at most 0."""
    trial.set_constraint("target", math.log(max(relative_loss, 1e-300) / target_loss))


class ThresholdSampler(BaseSampler):
    """Asks for the values of a parameter that say most about where the median seed reaches the target.

    Args:
        target: what the objective has to reach, from above where the study minimizes, from below where it maximizes. None where
            each trial says so by `trial.set_user_attr("solved", True)` or `False`; that goes before the value in any case.
        scale: of the objective. `log`: ratios of values count, which are above 0 (losses, counts, times). `linear`: differences
            count (accuracies, scores, logarithms).
        target_loss: in place of `target`, for losses relative to that of what has learned nothing: a number between 0 and 1.
        param: the name of the parameter. Else `m`, or the only parameter of whole numbers. Whole numbers above 0, and real ones
            with `log=True`, are compared by ratios, others by differences.
        reached: whether the target is reached from the threshold on (`above`) or up to it (`below`, such as the largest
            learning rate that trains).
        success_rate: the fraction of seeds that must reach the target.
        level: of the interval.
        tolerance: how far the interval's ends may lie from its middle for the search to end, relative to it, or for parameters
            compared by differences to their range; an interval no longer than one step of whole numbers is narrow enough, too.
        batch: points that are meant to be in flight together.
        cap: the most points of a search.
        offset: a part of every width that is not searched, such as d of m = d + d_e; the tolerance is relative to the rest.
        others: the sampler of a study's other parameters; Optuna's TPE if None.
        seed: of the small shifts of the quantiles at which values are asked.
        only_told: whether a failed trial is a failed point only where its user attribute `status` says how it ended. Otherwise
            every failed trial is one.
    """

    def __init__(
        self,
        *,
        target: float | None = None,
        scale: Scale = "log",
        target_loss: float | None = None,
        param: str | None = None,
        reached: Literal["above", "below"] = "above",
        success_rate: float = 0.5,
        level: float = 0.9,
        tolerance: float = 0.1,
        batch: int = 8,
        cap: int = 96,
        offset: int = 0,
        others: BaseSampler | None = None,
        seed: int | None = None,
        only_told: bool = False,
    ) -> None:
        if target is not None and target_loss is not None:
            raise ValueError(f"target and target_loss are two ways to say one thing: give one; got {target} and {target_loss}")
        if target_loss is not None and not 0 < target_loss < 1:
            raise ValueError(
                "target_loss is relative to the loss of what has learned nothing and lies between 0 and 1 (others: "
                f"target); got {target_loss}"
            )
        if scale not in ("log", "linear"):
            raise ValueError(f"scale is 'log' or 'linear'; got {scale!r}")
        if target is not None and not (math.isfinite(target) and (target > 0 or scale == "linear")):
            raise ValueError(f"on a log scale a target lies above 0 (scale='linear' takes any finite one); got {target}")
        if reached not in ("above", "below"):
            raise ValueError(f"reached is 'above' or 'below'; got {reached!r}")
        if not 0 < level < 1 or not 0 < success_rate < 1 or not tolerance > 0:
            raise ValueError(
                "level and success_rate must lie between 0 and 1 and tolerance above 0; "
                f"got {level}, {success_rate} and {tolerance}"
            )
        if batch < 1 or cap < 1 or offset < 0:
            raise ValueError(f"batch and cap must be at least 1, and offset at least 0; got {batch}, {cap} and {offset}")
        wanted = target if target_loss is None else target_loss
        self.objective = Objective(wanted, scale, is_relative=target_loss is not None)
        self.param, self.reached = param, reached
        self.success_rate = success_rate
        self.level, self.tolerance = level, tolerance
        self.batch, self.cap, self.offset = batch, cap, offset
        self.only_told = only_told
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self.others = TPESampler(seed=seed) if others is None else others
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._studies: WeakKeyDictionary[Study, StudyPoints] = WeakKeyDictionary()

    def reseed_rng(self) -> None:
        self.others.reseed_rng()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_studies")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def result(self, study: Study) -> ThresholdResult:
        """What the study's points say about the threshold, also while the search goes on."""
        with self._lock:
            known = self._read(study)
            return ThresholdResult.of(self._state_of(known), self.level, known.parameter)

    def state(self, trials: Study | Sequence[FrozenTrial]) -> SearchState:
        """Whether the search may end and why, and the posterior: None before the first point was asked. Trials without their
        study are taken for those of one that minimizes.
        """
        if isinstance(trials, Study):
            with self._lock:
                return self._state_of(self._read(trials))
        known = self._nothing()
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
            raise ValueError("a threshold search has one objective; got a multi-objective study")
        if self.objective.is_relative and study.direction == StudyDirection.MAXIMIZE:
            raise ValueError(
                "target_loss is for a loss, and this study maximizes: give target, and scale='linear' for accuracies"
            )
        with self._lock:
            name = self._read(study).name
        space = self.others.infer_relative_search_space(study, trial)
        return {other: distribution for other, distribution in space.items() if other != name}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        return self.others.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        with self._lock:
            known = self._read(study)
            if known.name is None:
                known.name = name_among({param_name: param_distribution})
            elif self.param is None and isinstance(param_distribution, IntDistribution):
                known.name = name_among({known.name: IntDistribution(1, 2), param_name: param_distribution})
            if param_name == known.name:
                return self._asked(known, trial, param_distribution)
        return self.others.sample_independent(study, trial, param_name, param_distribution)

    def _asked(self, known: StudyPoints, trial: FrozenTrial, distribution: BaseDistribution) -> float:
        known.bound(distribution)
        posterior = self._posterior(known)
        assert known.parameter is not None
        in_flight = [known.parameter.width(at) for number, at in known.in_flight.items() if number != trial.number]
        shift = np.random.default_rng((self.seed, known.num_ended)).uniform(-0.25, 0.25)
        places = posterior.next_log_widths(max(1, self.batch - len(in_flight)), in_flight, shift=shift)
        # Trials that end one by one, each before the next is asked, must not all take the same quantile.
        return known.parameter.asked(places[int(len(places) * (GOLDEN * (known.num_ended + len(in_flight)) % 1))])

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self.others.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Once nothing else is in flight, or another batch has ended: publish the estimate as attributes of the study, and
        end a running `optimize` whose search may end.

        Raises:
            ValueError: if there is no target and the trial does not say whether it is solved.
        """
        self.others.after_trial(study, trial, state, values)
        if self.objective.target is None and state == TrialState.COMPLETE and SOLVED not in trial.user_attrs:
            raise ValueError(
                f"trial {trial.number} does not say whether it reached what was wanted: give the sampler a target, or call "
                f"trial.set_user_attr({SOLVED!r}, True) or False in the objective"
            )
        with self._lock:
            read = self._read(study)
            if self._is_idle(read, trial, state):
                return
            self._warn_of(read, trial, values)
            known = self._with(read, trial, state, values)
            if len(known.in_flight) > 1 and known.num_ended % self.batch:
                return
            reached = self._state_of(known)
        publish(study, ThresholdResult.of(reached, self.level, known.parameter))
        if reached.finished:
            try:
                study.stop()
            except RuntimeError:
                return  # A study without a running `optimize` has no loop to stop: `state` says that the search may end.

    def _is_idle(self, known: StudyPoints, trial: FrozenTrial, state: TrialState) -> bool:
        """Whether no trial has had the parameter yet; that is said once."""
        if known.parameter is not None:
            return False
        if state == TrialState.COMPLETE and not known.is_warned:
            known.is_warned = True
            warnings.warn(
                f"ThresholdSampler chooses nothing in this study: {self._wanted()}, and trial {trial.number} has "
                f"{', '.join(map(repr, trial.params)) or 'no parameter'}. Name the parameter by param=.",
                stacklevel=2,
            )
        return True

    def _warn_of(self, known: StudyPoints, trial: FrozenTrial, values: Sequence[float] | None) -> None:
        """Say once that a value has no logarithm."""
        if self.objective.scale == "linear" or self.objective.target is None or known.is_warned or not values or values[0] > 0:
            return
        known.is_warned = True
        warnings.warn(
            f"trial {trial.number} has the value {values[0]:g}, which has no logarithm and counts as far below the target: "
            "give ThresholdSampler scale='linear' where values may reach 0",
            stacklevel=2,
        )

    def _wanted(self) -> str:
        return (
            "no trial has a parameter of whole numbers" if self.param is None else f"no trial has the parameter {self.param!r}"
        )

    def _with(self, known: StudyPoints, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> StudyPoints:
        """The study's points with this trial, which has just ended and which the storage has as running still."""
        if known.name not in trial.params:
            return known
        extended = replace(known, points=list(known.points), failed=list(known.failed))
        extended.add(trial, state, values)
        return extended

    def _nothing(self, *, is_maximized: bool = False) -> StudyPoints:
        return StudyPoints(self.param, self.only_told, self.reached == "below", is_maximized)

    def _read(self, study: Study) -> StudyPoints:
        if (known := self._studies.get(study)) is None:
            is_maximized = len(study.directions) == 1 and study.direction == StudyDirection.MAXIMIZE
            known = self._studies[study] = self._nothing(is_maximized=is_maximized)
        known.read(study.get_trials(deepcopy=False))
        return known

    def _posterior(self, known: StudyPoints) -> ThresholdPosterior:
        parameter = known.parameter
        assert parameter is not None
        if known.posterior is None:
            objective = replace(self.objective, is_maximized=known.is_maximized)
            points = sorted(known.points, key=lambda point: point.number)
            log_losses, by_sign = objective.log_losses(*values_of(points), num_first=self.batch)
            known.posterior = posterior_of(
                np.array([parameter.width(point.at) for point in points], dtype=None if points else float),
                log_losses,
                self._failed(known, parameter),
                low=parameter.low,
                high=parameter.high,
                log_target=objective.log_target,
                success_rate=self.success_rate,
                by_sign=by_sign,
                log_ceiling=objective.log_ceiling,
                step=parameter.beside,
            )
        return known.posterior

    def _failed(self, known: StudyPoints, parameter: Parameter) -> Failed:
        widths = np.array([parameter.width(at) for at, _ in known.failed], dtype=float)
        return Failed(widths, np.array([number for _, number in known.failed], dtype=int) // self.batch)

    def _state_of(self, known: StudyPoints) -> SearchState:
        if known.parameter is None:
            return SearchState(False, "", 0, None)
        posterior = self._posterior(known)
        tolerance, unit = known.parameter.narrowness(self.tolerance)
        rule = StopRule(self.level, tolerance, self.batch, self.cap, self.offset, unit)
        state = judge(posterior, rule, num_failed=len(known.failed))
        is_sure = not state.finished and posterior.probability_not_reached <= (1 - self.level) / 2
        if is_sure and known.parameter.is_one_step(*posterior.interval(self.level)):
            return replace(state, finished=True, reason="precise")
        return state


def publish(study: Study, result: ThresholdResult) -> None:
    """Write what a search has found to the user attributes of its study, for viewers; values beyond the range are None."""
    threshold, *interval = (None if value is None else float(f"{value:.6g}") for value in (result.threshold, *result.interval))
    found = {
        "state": result.reason or "searching", "points": result.num_points, "estimate": threshold, "interval": interval,
    }  # fmt: skip
    for name, value in found.items():
        study.set_user_attr(f"stsq:{name}", value)
