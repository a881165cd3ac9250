"""Whether steps or width was the limit of a threshold, from its re-check at twice the steps (module `recheck_trials`)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stsq_core.configs import TrialConfig
from sweeps.cells import STEPS_FACTOR, recheck_trials
from sweeps.schema import Criterion
from sweeps.store import FAILED, FINISHED, Outcomes
from sweeps.thresholds.crossings import chosen_rates, is_reached


@dataclass(frozen=True)
class Recheck:
    """What came of a re-check: `num_solved` of `num_seeds` seeds reach the target at `width` with `steps` steps."""

    width: int
    steps: int
    num_solved: int
    num_seeds: int
    limit: Literal["steps", "width"]

    @property
    def words(self) -> str:
        """For people."""
        words = f"with {self.steps} steps {self.num_solved} of {self.num_seeds} seeds reach the target at m = {self.width}"
        if self.limit == "steps":
            return f"steps were the limit: {words}, below the threshold"
        return f"width was the limit: {words}"


class Rechecks:
    """The re-checks that a ledger holds."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._places: Mapping[str, int] = {trial_id: place for place, trial_id in enumerate(outcomes.trial_ids)}

    def of(
        self, cell_id: str, sample: TrialConfig, rates: tuple[float, ...], m_star: float | None, criterion: Criterion
    ) -> Recheck | None:
        """The re-check of a threshold; None where it has not been made whole."""
        if m_star is None or not self._places:
            return None
        trials = recheck_trials(cell_id, sample, rates, m_star, criterion.size)
        places = [self._places.get(trial_id, -1) for trial_id in trials.trial_ids]
        if not places or min(places) < 0:
            return None
        losses = self._losses(np.array(places)).reshape(-1, len(rates))
        target = criterion.target if criterion.statistic == "solved" else None
        own = losses[:, chosen_rates(losses.T, log_target=target)]
        own = own[~np.isnan(own)]
        if not len(own):
            return None
        num_solved = int(np.count_nonzero(own <= criterion.target))
        return Recheck(
            width=int(trials.widths[0]),
            steps=STEPS_FACTOR * sample.training.steps,
            num_solved=num_solved,
            num_seeds=len(own),
            limit="steps" if is_reached(own, criterion) else "width",
        )

    def _losses(self, places: np.ndarray) -> np.ndarray:
        """Relative losses: inf where a trial diverged, nan where it failed."""
        outcomes = self._outcomes.take(places)
        losses = np.where(outcomes.status == FINISHED, outcomes.relative_loss, math.inf)
        return np.asarray(np.where(outcomes.status == FAILED, math.nan, losses))


NO_RECHECKS = Rechecks(Outcomes.of(()))
