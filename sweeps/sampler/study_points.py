"""What a threshold search knows of a study: points that have ended, those that failed, and those in flight."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from sweeps.sampler.parameter import Parameter
from sweeps.sampler.posterior import ThresholdPosterior

WIDTH = "m"
"""The parameter whose threshold is sought where nobody names one and a study has it."""
STATUS, DIVERGED = "status", "diverged"
SOLVED = "solved"
"""The user attribute by which an objective says itself whether it has reached what was wanted."""


@dataclass(frozen=True)
class Point:
    """A trial that ended: its number, value of the parameter, value of the objective (nan where it diverged), and whether the
    user says that it is solved.
    """

    number: int
    at: float
    value: float
    solved: bool | None


@dataclass
class StudyPoints:
    """The points of a study, failed ones with the numbers of their trials, and the trials that may still change.

    `name` of the parameter: None until one is known. `only_told`, `is_upper`: see `ThresholdSampler`.
    """

    name: str | None = None
    only_told: bool = False
    is_upper: bool = False
    is_maximized: bool = False
    points: list[Point] = field(default_factory=list)
    failed: list[tuple[float, int]] = field(default_factory=list)
    in_flight: dict[int, float] = field(default_factory=dict)
    unfinished: list[int] = field(default_factory=list)
    num_read: int = 0
    is_warned: bool = False
    parameter: Parameter | None = None
    posterior: ThresholdPosterior | None = None

    def read(self, trials: Sequence[FrozenTrial]) -> None:
        """Take note of what is new in the trials of a study, in the order of their numbers."""
        waiting = [*self.unfinished, *range(self.num_read, len(trials))]
        self.unfinished, self.in_flight, self.num_read = [], {}, len(trials)
        for place in waiting:
            trial = trials[place]
            if not trial.state.is_finished():
                self.unfinished.append(place)
            self._note(trial)

    def _note(self, trial: FrozenTrial) -> None:
        if self.name is None and trial.state.is_finished():
            self.name = name_among(trial.distributions)
        if self.name is None or self.name not in trial.params:
            return
        self.bound(trial.distributions[self.name])
        if trial.state == TrialState.RUNNING:
            self.in_flight[trial.number] = trial.params[self.name]
        else:
            self.add(trial, trial.state, trial.values)

    def add(self, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Take note of a trial that ended: as evidence, as a failed point, or, where it was stopped or pruned, not at all."""
        assert self.name is not None
        at, attributes = trial.params[self.name], trial.user_attrs
        if (value := _value(state, values, attributes)) is not None:
            solved = attributes.get(SOLVED)
            self.points.append(Point(trial.number, at, value, None if solved is None else bool(solved)))
        elif state == TrialState.FAIL and (STATUS in attributes or not self.only_told):
            self.failed.append((at, trial.number))
        self.posterior = None

    @property
    def num_ended(self) -> int:
        """Points that ended, those that failed among them."""
        return len(self.points) + len(self.failed)

    def bound(self, distribution: BaseDistribution) -> None:
        """Take a distribution for that of the parameter. Raises a `ValueError` where it has no order."""
        assert self.name is not None
        if self.parameter is None or self.parameter.distribution != distribution:
            self.parameter = Parameter.of(self.name, distribution, is_upper=self.is_upper)
            self.posterior = None


def values_of(points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Values of points and whether they are solved, as `Objective.log_losses` takes them."""
    solved = [-1 if point.solved is None else int(point.solved) for point in points]
    return np.array([point.value for point in points], dtype=float), np.array(solved, dtype=int)


def name_among(distributions: Mapping[str, BaseDistribution]) -> str | None:
    """The parameter whose threshold is sought: `m`, or the only one of whole numbers.

    Raises:
        ValueError: where there are several.
    """
    whole = [name for name, one in distributions.items() if isinstance(one, IntDistribution)]
    if WIDTH in whole:
        return WIDTH
    if len(whole) > 1:
        names = ", ".join(map(repr, whole))
        raise ValueError(f"several parameters are whole numbers ({names}): say whose threshold is sought by param=NAME")
    return whole[0] if whole else None


def _value(state: TrialState, values: Sequence[float] | None, attributes: Mapping[str, Any]) -> float | None:
    """The value of a trial that ended; nan where it diverged, None where it is no evidence."""
    if state != TrialState.COMPLETE:
        return math.nan if state == TrialState.FAIL and attributes.get(STATUS) == DIVERGED else None
    return values[0] if values and math.isfinite(values[0]) else math.nan
