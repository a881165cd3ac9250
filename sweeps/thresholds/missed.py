"""Why no width of a cell reaches the target, in words."""

import math
from dataclasses import dataclass

import numpy as np

from stsq_core.configs import Transformer, TrialConfig
from sweeps.sampler import GROUP, LEARNED, Trend, neighbours
from sweeps.schema import LOSS, Criterion


@dataclass(frozen=True)
class Missed:
    """Points that do not reach the target often enough: log widths [n], log losses [n], inf where diverged, and their trend.

    `by_width` where several seeds share each width, as on a grid.
    """

    log_widths: np.ndarray
    log_losses: np.ndarray
    trend: Trend
    by_width: bool

    def words(self, criterion: Criterion, sample: TrialConfig, *, is_final: bool) -> str:
        """Why no width reaches the target, with what to try by what was seen."""
        size, judged = criterion.size, "loss" if criterion.metric == LOSS else criterion.measure
        opening = "not reached" if is_final else "not reached so far"
        place, loss = self._least()
        num_solved, num = int(np.sum(self.log_losses <= math.log(criterion.target))), len(self.log_losses)
        tries = [] if size.name == "training.steps" else ["more steps"]
        tries += ["another rate"] if loss > LEARNED else ["a smaller rate", "a schedule"]
        if self.trend == "diverging":
            tries = ["a smaller rate", "a schedule"]
            seen = f"{_least(judged, loss)} at {size.letter} = {place}, and wider ones diverged"
        elif loss <= math.log(criterion.target):
            seen = f"{num_solved} of {num} trials reach the target, at no {size.noun} {criterion.success_rate:.0%} of them"
        elif loss > LEARNED:
            median = min(float(np.median(self.log_losses[np.isfinite(self.log_losses)])), 0.0)
            seen = f"nothing learned at any {size.noun}, {judged} {math.exp(median):.2f} throughout"
        else:
            beyond = {"turned": "rising", "flat": "not falling"}.get(self.trend, "unclear whether falling")
            seen = f"{_least(judged, loss)} at {size.letter} = {place}, {beyond} beyond"
            if self.trend == "unclear":
                tries = ["a larger high", "a larger cap"]
        match sample.model:
            case Transformer(positions=positions) if positions.query == "sum" and positions.kind != "one_hot":
                tries.append("positions.query: dual")
        return f"{opening}: {seen}" + (f" (try {_listed(tries)})" if is_final else "")

    def _least(self) -> tuple[str, float]:
        """The width of the least median log loss, in words, and that loss."""
        order = np.lexsort((self.log_losses, self.log_widths))
        log_widths, log_losses = self.log_widths[order], self.log_losses[order]
        if self.by_width or np.count_nonzero(np.isfinite(log_losses)) < 3 * GROUP:
            _, starts = np.unique(log_widths, return_index=True)
            medians = np.array([np.median(own) for own in np.split(log_losses, starts[1:])])
            places = log_widths[starts]
        else:
            medians = neighbours(log_losses)
            places = np.array([np.median(log_widths[start : start + GROUP]) for start in range(len(medians))])
        least = int(np.argmin(medians))
        return f"{math.exp(places[least]):.0f}", float(medians[least])


def _least(judged: str, log_loss: float) -> str:
    return f"least {judged} {math.exp(log_loss):.2g}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
