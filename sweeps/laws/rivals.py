"""Which of some rival laws the thresholds speak for so far, and in which cells more points would tell the rivals apart.

Evidence. A law's probability follows from its likelihood (module `fit`) averaged over its parameters and over the scatter. The
prior of the parameters is one of unit information: what a single measurement with a standard deviation of `PRIOR_SD` in ln m,
spread evenly over all candidate cells, would say. So a law pays for a further number by how much wider its predictions were,
and all laws are as likely beforehand.

Where to look. Each law predicts what a round of points in a cell would measure: a mean and a variance, given all rounds before.
The criterion of Box and Hill bounds the expected change of entropy between the laws from above:

    D = 1/2 sum over pairs i, j of P_i P_j ((v_i - v_j)^2 / (v_i v_j) + (mu_i - mu_j)^2 (1/v_i + 1/v_j))

It is the T-optimality of Atkinson and Fedorov, the largest squared difference between the laws' predictions, weighted by how
well they and the measurement are known. A cell measured before is known but for its scatter about the law: measuring it better
does not tell more than that.

Sources: Box and Hill 1967, doi:10.1080/00401706.1967.10490441; Atkinson and Fedorov 1975, doi:10.1093/biomet/62.1.57; Kass and
Wasserman 1995, doi:10.1080/01621459.1995.10476592 (unit information).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sweeps.laws.cells import FOUND
from sweeps.laws.fit import PRIOR_SCATTER, SCATTERS, Measurements, fitted
from sweeps.laws.formulas import Law, Tasks

PRIOR_SD = 0.4
"""Standard deviation in ln m of what a law is thought to predict beforehand. It cancels but for further numbers of a law: the
larger, the sooner a law with fewer numbers leads, also where it is wrong (`tests/benchmarks/decisions.py`)."""

FIRST_SD = 0.15
"""Standard deviation in ln m of what the first round of a cell is thought to measure."""

UNLIKELY, MARGIN = 0.01, 0.25
"""A law less probable than this does not say which widths to ask; the others' widths are extended by so much in ln m."""


@dataclass(frozen=True)
class Candidates:
    """Cells that may be measured, and what is known of each, [cell].

    `y` is log m*, or the end of the widths tried beyond which it lies (`side`), and `sd` its standard deviation, inf where
    nothing is known yet; `rounds` have been measured.
    """

    tasks: Tasks
    y: np.ndarray
    side: np.ndarray
    sd: np.ndarray
    rounds: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        """A mask of the cells of which something is known."""
        return np.asarray(np.isfinite(self.sd))

    @property
    def round_sd(self) -> np.ndarray:
        """The standard deviation of what another round would measure by itself: as of those before."""
        sd = np.where(self.seen, self.sd, 0.0) * np.sqrt(np.maximum(self.rounds, 1))
        return np.asarray(np.where(self.seen, sd, FIRST_SD))


@dataclass(frozen=True)
class Rival:
    """A law given what is known: its evidence, the median scatter of cells about it, and the means and variances [cell] of the
    thresholds' logarithms, the scatter included.
    """

    law: Law
    log_evidence: float
    scatter: float
    means: np.ndarray
    variances: np.ndarray


def rival_of(law: Law, known: Candidates) -> Rival | None:
    """A law given what is known; None where that does not determine its parameters."""
    seen, found = known.seen, known.seen & (known.side == FOUND)
    if not law.is_identifiable(known.tasks.take(found)):
        return None
    tasks, y, sd = known.tasks.take(seen), known.y[seen], known.sd[seen]
    measured = Measurements.broadcast(y, known.side[seen], np.hypot(sd, SCATTERS[:, None]))
    theta = fitted(law, tasks, measured, law.start(np.exp(y), tasks))
    best = measured.curvature(law, tasks, theta)
    logs, slopes = law.logs(theta, known.tasks)  # [scatter, cell], [scatter, cell, parameter]
    prior = np.einsum("scp,scq->spq", slopes, slopes) / (len(known.tasks) * PRIOR_SD**2)
    informed = prior + best.second
    given_scatter = best.value + (np.linalg.slogdet(prior)[1] - np.linalg.slogdet(informed)[1]) / 2
    given_scatter = np.where(np.isfinite(given_scatter), given_scatter, -np.inf)
    if not np.isfinite(given_scatter.max()):
        return None
    density = np.exp(given_scatter - given_scatter.max()) / (1 + (SCATTERS / PRIOR_SCATTER) ** 2)
    masses = np.diff(SCATTERS) * (density[1:] + density[:-1]) / 2
    place = int(np.searchsorted(np.cumsum(masses), masses.sum() / 2)) + 1
    scatter = float(SCATTERS[place])
    of_law = np.einsum("cp,pq,cq->c", slopes[place], np.linalg.pinv(informed[place], hermitian=True), slopes[place])
    kept = np.zeros(len(known.tasks))  # the part of a measurement's distance from the law that is the cell's own
    kept[found] = scatter**2 / (scatter**2 + known.sd[found] ** 2)
    means = logs[place] + kept * np.where(found, known.y - logs[place], 0.0)
    own = np.where(found, kept * np.where(found, known.sd, 0.0) ** 2, scatter**2)
    evidence = float(given_scatter.max()) + math.log(masses.sum())
    return Rival(law, evidence, scatter, means, (1 - kept) ** 2 * of_law + own)


@dataclass(frozen=True)
class Standoff:
    """The rivals given what is known, with their probabilities [rival]."""

    rivals: tuple[Rival, ...]
    probabilities: np.ndarray
    known: Candidates

    @classmethod
    def of(cls, laws: Sequence[Law], known: Candidates) -> "Standoff | None":
        """None where what is known does not determine every law."""
        rivals = [rival for law in laws if (rival := rival_of(law, known)) is not None]
        if len(rivals) < len(laws):
            return None
        evidence = np.array([rival.log_evidence for rival in rivals])
        weights = np.exp(evidence - evidence.max())
        return cls(tuple(rivals), weights / weights.sum(), known)

    @property
    def odds(self) -> float:
        """Of the most probable law against the next."""
        first, second = np.sort(self.probabilities)[::-1][:2]
        return float(first / second) if second > 0 else math.inf

    def span(self, cell: int) -> tuple[float, float]:
        """The log widths among which the laws that may be true expect the threshold of a cell, with a margin."""
        likely = [rival for rival, p in zip(self.rivals, self.probabilities.tolist(), strict=True) if p > UNLIKELY]
        ends = [(rival.means[cell], 2 * math.sqrt(rival.variances[cell])) for rival in likely]
        return min(mean - reach for mean, reach in ends) - MARGIN, max(mean + reach for mean, reach in ends) + MARGIN

    def discrimination(self) -> np.ndarray:
        """The criterion of Box and Hill of another round in each cell, [cell]."""
        total = np.zeros(len(self.known.tasks))
        noise = self.known.round_sd**2
        for i, j in combinations(range(len(self.rivals)), 2):
            one, other = self.rivals[i], self.rivals[j]
            weight = self.probabilities[i] * self.probabilities[j]
            v, w = one.variances + noise, other.variances + noise
            total += weight * ((v - w) ** 2 / (v * w) + (one.means - other.means) ** 2 * (1 / v + 1 / w)) / 2
        return total
