"""Which law the thresholds of a regime of cells obey: all laws on the same cells, by AICc and by leaving out one cell.

Transformers and fully connected nets have all laws tried on them, so that a difference between them is a result; other
architectures have the constant tried as well, and not the laws that begin above a threshold. A law within `CLOSE` of the
least AICc cannot be distinguished from the best, one beyond `FAR` is ruled out (after Burnham and Anderson 2002, section 2.6);
but a law that is behind only because AICc charges for its further numbers, while it fits as well and does not misfit, is richer
than needed and not wrong. Cells that a sweep holds out are left out of every fit, and predicted.

One law of each regime is named, and every headline, figure and table shows that one: the law of theory where it was compared
and is not ruled out, else the best of those compared; not one with as many numbers as thresholds, which passes through them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from stsq_core.configs import WIDTH, Stsq, TokenTask
from sweeps.laws.cells import ABOVE, LawCells, by_regime, law_cells, regime_summary, tasks_of
from sweeps.laws.fit import Estimate
from sweeps.laws.formulas import (
    ATTENTION,
    ATTENTION_FACTOR,
    ATTENTION_FREE,
    CONSTANT,
    FCN_LINE,
    Law,
    applicable_laws,
    applicable_letter_laws,
    contains,
)
from sweeps.laws.misfit import MISFIT_LEVEL
from sweeps.laws.scaling_law import OF_POPULATION, ScalingLaw, distinct_laws, spread_words
from sweeps.schema import LawSettings
from sweeps.thresholds import WidthThreshold

CLOSE, FAR = 4.0, 10.0
NO_WORSE = 1.0
"""By how much twice the log likelihood of a law that fits as well may be smaller."""

Standing = Literal["best", "as good", "richer than needed", "less likely", "ruled out", "too few cells"]


@dataclass(frozen=True)
class Prediction:
    """A held-out cell under a law: what a new cell was predicted to have, and what was measured.

    The measured interval's ends are 0 or inf where they lie beyond the widths tried, nan where there is none. `error` is m*
    over the prediction, less 1, None where m* is censored; `agrees` says whether the two intervals meet, None where one is
    missing.
    """

    cell_id: str
    label: str
    task: TokenTask
    predicted: Estimate
    m_star: float | None
    low: float
    high: float

    @property
    def error(self) -> float | None:
        return None if self.m_star is None else self.m_star / self.predicted.value - 1

    @property
    def agrees(self) -> bool | None:
        if not self.predicted.has_interval or math.isnan(self.low):
            return None
        return self.low <= self.predicted.high and self.predicted.low <= self.high


@dataclass(frozen=True)
class LawComparison:
    """The laws of one regime of cells, best first; `held_out` are cells of the regime that no fit has seen.

    `left_out` are others of which no fit knows anything: the target was not reached, or no trial gave a number.
    """

    kind: str
    regime: str
    laws: tuple[ScalingLaw, ...]
    held_out: tuple[WidthThreshold, ...]
    left_out: tuple[WidthThreshold, ...] = ()

    @property
    def num_cells(self) -> int:
        """Cells that the laws are fitted to, censored ones included."""
        return self.laws[0].num_cells + self.laws[0].num_censored

    @property
    def expected(self) -> str | None:
        """The name of the law that theory expects of the width; None where it says nothing."""
        return _expected(self.laws[0].fit.cells)

    @property
    def theory(self) -> ScalingLaw | None:
        """The law that theory expects of the width: attention's of a transformer, the power of T d of an FCN."""
        return self.law(self.expected) if self.expected is not None else None

    @cached_property
    def named(self) -> ScalingLaw | None:
        """The one law that is shown of this regime; None of two cells or fewer for which theory names none."""
        return self._choice[0]

    @property
    def reason(self) -> str:
        """Why the named law is the one, in words."""
        return self._choice[1]

    @cached_property
    def _choice(self) -> tuple[ScalingLaw | None, str]:
        theory, found = self.theory, self._best_of_alike()
        if not _is_tried(found) or (theory is None and len(found.points) < 3):
            return None, f"{self._cells_are} too few to name a law"
        if theory is None:
            return found, self._why_best(found)
        if not _is_tried(theory):
            return found, f"{self._why_best(found)}; the theory's law, {theory.formula}, has no fewer numbers than thresholds"
        match self.standing(theory):
            case "too few cells" if self.best is None:
                misfits = ", and it misfits" if _misfit(theory) else ""
                return theory, f"the theory's law; {self._cells_are} too few to compare it{misfits}"
            case "too few cells":
                needs = f"needs {self._needed(theory)} to be compared"
                if _misfit(found) and not _misfit(theory):
                    return theory, f"the theory's law; it {needs}, and the best of those compared, {found.formula}, misfits"
                return found, f"{self._why_best(found)}; the theory's law, {theory.formula}, {needs}"
            case "ruled out":
                return found, f"{self._why_best(found)}; the theory's law, {theory.formula}, is ruled out"
            case "best":
                place = "as good as any by AICc" if self.rivals() else "the best of those compared"
            case "as good":
                place = "as good as the best by AICc"
            case "richer than needed":
                place = "not ruled out: it fits as well as the best, with more numbers"
            case "less likely":
                misfits = ", and it misfits" if _misfit(theory) else ""
                return theory, f"the theory's law; less likely than {found.formula}, but not ruled out{misfits}"
        return theory, f"the theory's law; {place}{_but(theory)}"

    def _best_of_alike(self) -> ScalingLaw:
        """Of the laws as good as the best, of all where none is compared, the best predictor of each cell from the others."""
        alike = self.of_standing("best", "as good") or self.laws
        tried = [law for law in alike if _is_tried(law)] or alike
        return min(tried, key=lambda law: math.inf if math.isnan(law.loo_error) else law.loo_error)

    def _why_best(self, law: ScalingLaw) -> str:
        if self.best is None:
            why = f"{self._cells_are} too few to compare laws; it predicts each cell best from the others"
        elif self.rivals():
            why = "of those that the cells do not tell apart, it predicts each cell best from the others"
        else:
            why = "the best of those compared" if law is self.best else "as good as the best of those compared"
        return why + _but(law)

    @property
    def naming(self) -> str:
        """Which law is named and why, and how it stands to the thresholds' own intervals."""
        law = self.named
        if law is None:
            return ""
        sentences = [f"Named law: {law.formula} ({self.reason})."]
        if law.test is None:
            return " ".join([*sentences, "Its fit is not tested: no more thresholds with an interval than numbers."])
        slopes = [
            f"in ln {own.letter} {own.slope.value:+.3f} ({own.slope.low:+.3f} to {own.slope.high:+.3f})"
            for own in law.test.residual_slopes
        ]
        fits = f"it misfits: {law.test.words}" if law.test.misfits else f"no misfit shown at the level of {MISFIT_LEVEL:.0%}"
        of_residuals = f" Slope of the residuals, {law.level:.0%} interval: {', '.join(slopes)}." if slopes else ""
        sentences.append(f"Test of its fit: {law.test.p_words}, {fits}.{of_residuals}")
        return " ".join(filter(None, [*sentences, self._factor_of_d()]))

    def _factor_of_d(self) -> str:
        """Whether the factor of d is 1, as theory has it of attention, from a law that leaves it free."""
        free = [law for law in self.laws if law.name in (ATTENTION_FACTOR.name, ATTENTION_FREE.name)]
        if self.expected != ATTENTION.name or not free or OF_POPULATION in free[0].note:
            return ""
        a = free[0].parameters["a"]
        if not a.has_interval:
            return ""
        contained = "is not excluded" if a.low <= 1 <= a.high else "is excluded"
        standing = {
            "ruled out": "is ruled out",
            "less likely": "is less likely",
            "too few cells": "has too few cells to be compared",
        }
        but = [standing.get(self.standing(free[0]), ""), "misfits" if _misfit(free[0]) else ""]
        which = f", which {' and '.join(filter(None, but))}" if any(but) else ""
        interval = f"{free[0].level:.0%} interval {a.low:.2f} to {a.high:.2f}"
        return f"With a free factor of d, {free[0].formula}{which}: a = {a.value:.2f} ({interval}), so 1 {contained}."

    @property
    def best(self) -> ScalingLaw | None:
        """The law of least AICc; None where cells are too few for any, or for any but one."""
        num = sum(math.isfinite(law.aicc) for law in self.laws)
        return self.laws[0] if num > 1 or (num and len(self.laws) == 1) else None

    def law(self, name: str) -> ScalingLaw | None:
        """A law by its name, which `formulas` gives; None where the cells do not determine it."""
        return next((law for law in self.laws if law.name == name), None)

    def delta(self, law: ScalingLaw) -> float:
        """By how much a law's AICc exceeds the least; nan where cells are too few."""
        return law.aicc - self.laws[0].aicc if self.best is not None and math.isfinite(law.aicc) else math.nan

    def standing(self, law: ScalingLaw) -> Standing:
        """A law's place among the laws of its regime."""
        delta = self.delta(law)
        if law is self.best:
            return "best"
        worse = 2 * (self.laws[0].fit.log_likelihood - law.fit.log_likelihood)
        standing = standing_beside(delta, worse, is_nested=delta > 0 and self._contains_best(law))
        if standing == "richer than needed" and _misfit(law):
            return "as good" if delta <= CLOSE else "less likely"
        return standing

    def _contains_best(self, law: ScalingLaw) -> bool:
        """Whether a law is the best one with further numbers; none contains no growth, which is another answer."""
        best = self.best
        if best is None or best.name == CONSTANT.name or len(law.numbers) <= len(best.numbers):
            return False
        return contains(law.fit.law, best.fit.law, best.fit.cells.tasks)

    def of_standing(self, *standings: Standing) -> tuple[ScalingLaw, ...]:
        """The laws of some standings, best first."""
        return tuple(law for law in self.laws if self.standing(law) in standings)

    def rivals(self) -> tuple[ScalingLaw, ...]:
        """The laws that cannot be distinguished from the best."""
        return self.of_standing("as good")

    def predictions(self, law: ScalingLaw) -> tuple[Prediction, ...]:
        """The held-out cells under a law, failed ones left out."""
        return tuple(_prediction(law, threshold) for threshold in self.held_out if threshold.is_bounded)

    @property
    def notes(self) -> tuple[str, ...]:
        """The laws' notes, each once, with the laws that it is about where these are not all."""
        about: dict[str, list[str]] = {}
        for law in self.laws:
            for note in filter(None, law.note.split("; ")):
                about.setdefault(note, []).append(law.formula)
        return tuple(
            note if len(own) == len(self.laws) or any(formula in note for formula in own) else f"{spread_words(own)}: {note}"
            for note, own in about.items()
        )

    @property
    def conclusion(self) -> str:
        """The result of the comparison in a few sentences that claim no more than the cells support."""
        best, uncompared = self.best, self.of_standing("too few cells")
        if best is None:
            opening = f"Undecided: {self._cells_are} too few to tell laws apart by AICc."
            told = [opening, *self._best_predictor(), *_misfits([self.named] if self.named else [])]
            return " ".join([*told, *self._left_out()])
        scope = f"Of the laws that can be compared with {self._cells}, " if uncompared else ""
        richer = [law.formula for law in self.of_standing("richer than needed")]
        more, fit = f"{spread_words(richer)} {'fits' if len(richer) == 1 else 'fit'}" if richer else "", "with more numbers"
        if rivals := self.rivals():
            told = [f"Undecided: {self._cells} do not tell {spread_words([law.formula for law in (best, *rivals)])} apart."]
            told += [*_misfits((best, *rivals)), *([f"{more} as well as {best.formula}, {fit}."] if richer else [])]
        elif words := _misfit(best):
            also = f"; {more} no worse, {fit}" if richer else ""
            told = [f"{scope}{best.formula} is {'best' if scope else 'the best law'}, but it misfits: {words}{also}."]
        elif richer:
            told = [f"{scope}{best.formula} is enough; {more} as well, {fit}."]
        else:
            told = [f"{scope}{best.formula} is best." if scope else f"The thresholds follow {best.formula}."]
        others = "All others of these" if scope else "All others"
        return " ".join([*told, *self._beaten(others), *self._needs(uncompared), *self._left_out()])

    def _beaten(self, others: str) -> list[str]:
        """The laws that fit less well, each that is not ruled out, and the nearest of those that are."""
        less, out = self.of_standing("less likely"), self.of_standing("ruled out")
        by = {law.formula: f"its AICc is {self.delta(law):.1f} larger" for law in (*less, *out)}
        told = []
        if less:
            named = [f"{law.formula} ({by[law.formula]})" for law in less]
            told.append(f"{spread_words(named)} {'is' if len(less) == 1 else 'are'} less likely.")
        if len(out) == 1:
            told.append(f"{out[0].formula} is ruled out: {by[out[0].formula]}.")
        elif out:
            told.append(f"{others} are ruled out, the nearest, {out[0].formula}, by {self.delta(out[0]):.1f} in AICc.")
        return told

    def _needs(self, laws: Sequence[ScalingLaw]) -> list[str]:
        """The laws that could not be compared, with what they need, in a sentence a need."""
        by_need: dict[str, list[str]] = {}
        for law in laws:
            by_need.setdefault(self._needed(law), []).append(law.formula)
        return [
            f"{spread_words(own)} {'needs' if len(own) == 1 else 'need'} {need} to be compared."
            for need, own in by_need.items()
        ]

    def _needed(self, law: ScalingLaw) -> str:
        """What AICc, which counts the scatter as a parameter, needs to compare a law; censored cells alone do not do."""
        num = len(law.numbers)
        return f"{num + 3} cells" if self.num_cells < num + 3 else f"{num + 2} found thresholds"

    def _left_out(self) -> list[str]:
        """The cells of which no fit knows anything."""
        reasons = {
            "not_reached": "in which the target was not reached",
            "solved": "of one width only",
            "not_solved": "of one width only, at which the target was not reached",
            "failed": "in which no trial gave a number",
            "open": "whose search does not tell it yet",
        }
        nums = {status: sum(cell.status == status for cell in self.left_out) for status in reasons}
        return [
            f"{num} {'cell' if num == 1 else 'cells'} {reasons[status]} {'is' if num == 1 else 'are'} left out."
            for status, num in nums.items()
            if num
        ]

    @property
    def _cells(self) -> str:
        censored = f" ({self.laws[0].num_censored} censored)" if self.laws[0].num_censored else ""
        return f"{self.num_cells} {'cell' if self.num_cells == 1 else 'cells'}{censored}"

    @property
    def _cells_are(self) -> str:
        return f"{self._cells} {'is' if self.num_cells == 1 else 'are'}"

    def _best_predictor(self) -> list[str]:
        """The law that best predicts each cell from the others."""
        known = sorted((law for law in self.laws if math.isfinite(law.loo_error)), key=lambda law: law.loo_error)
        if len(known) < 2:
            return []
        first, last = known[0], known[-1]
        least = f"Predicting each cell from the others, {first.formula} errs least, by {first.loo_error:.1%}"
        return [f"{least}, and {last.formula} most, by {last.loo_error:.0%}."]


def standing_beside(delta: float, worse: float, *, is_nested: bool) -> Standing:
    """The place of what is not best.

    Args:
        delta: by how much its AICc is larger; nan where it has none.
        worse: by how much twice its log likelihood is smaller.
        is_nested: whether it is the best with further numbers, which then are not needed.
    """
    if math.isnan(delta):
        return "too few cells"
    if is_nested and abs(worse) <= CLOSE:
        return "richer than needed"
    if delta <= CLOSE or worse < -CLOSE:  # far better a fit, with too many numbers for so few cells: AICc decides nothing
        return "as good"
    if worse <= NO_WORSE:
        return "richer than needed"
    return "less likely" if delta <= FAR or worse <= CLOSE else "ruled out"


def _is_tried(law: ScalingLaw) -> bool:
    """Whether thresholds try a law, which passes through no more of them than it has numbers."""
    return law.num_cells > len(law.numbers)


def _misfit(law: ScalingLaw) -> str:
    return f"{law.test.words} ({law.test.p_words})" if law.test is not None and law.test.misfits else ""


def _misfits(laws: Iterable[ScalingLaw]) -> list[str]:
    return [f"{law.formula} misfits: {words}." for law in laws if (words := _misfit(law))]


def _but(law: ScalingLaw) -> str:
    return ", but it misfits" if _misfit(law) else ""


def compare_laws(thresholds: Iterable[WidthThreshold], settings: LawSettings | None = None) -> tuple[LawComparison, ...]:
    """The comparison of all laws for each regime of cells that has a threshold to fit, in the order of their first cell."""
    compared = compare_regimes(by_regime(thresholds), settings or LawSettings())
    return tuple(comparison for comparison in compared if comparison is not None)


def compare_regimes(regimes: Iterable[Sequence[WidthThreshold]], settings: LawSettings) -> tuple[LawComparison | None, ...]:
    """The comparison for each regime; None for those of an architecture whose several regimes are one cell each.

    Such a sweep compares settings, and nothing in it grows.
    """
    regimes = tuple(regimes)
    by_kind: dict[str, list[int]] = {}
    for members in regimes:
        by_kind.setdefault(members[0].kind, []).append(len(members))
    grows = {kind: len(sizes) == 1 or max(sizes) > 1 for kind, sizes in by_kind.items()}
    return tuple(_compare_regime(members, settings) if grows[members[0].kind] else None for members in regimes)


def _compare_regime(members: Sequence[WidthThreshold], settings: LawSettings) -> LawComparison | None:
    """The comparison for cells that differ in T, q and d only; None where no threshold was found to fit."""
    held_out = tuple(threshold for threshold in members if settings.holds_out(threshold.config_sample))
    cells = law_cells(threshold for threshold in members if not settings.holds_out(threshold.config_sample))
    if cells is None:
        return None
    everywhere = tasks_of([threshold.config_sample for threshold in members], members[0].target_loss)
    fitted = distinct_laws((law for law in _laws_for(cells) if law.is_defined(everywhere)), cells)
    if not fitted:
        return None
    if sum(math.isfinite(law.aicc) for law in fitted) > 1 or cells.size == WIDTH:
        ordered = sorted(fitted, key=lambda law: (law.aicc, len(law.fit.law.letters), -law.fit.log_likelihood))
    else:  # where AICc compares nothing, the law that best predicts a cell from the others
        ordered = sorted(fitted, key=lambda law: (math.inf if math.isnan(law.loo_error) else law.loo_error, law.aicc))
    summary = regime_summary(members[0].config_sample, members[0].size)
    left_out = tuple(one for one in members if not (one.is_bounded or settings.holds_out(one.config_sample)))
    return LawComparison(members[0].kind, summary, tuple(ordered), held_out, left_out)


def _expected(cells: LawCells) -> str | None:
    """The law that theory expects of these cells: it speaks of the width for sparse token selection alone."""
    sample = cells.thresholds[0].config_sample
    return sample.model.width_law if cells.size == WIDTH and isinstance(sample.task, Stsq) else None


def _laws_for(cells: LawCells) -> tuple[Law, ...]:
    """The laws to fit: where theory expects none the width may not grow, no law begins above it, and no bound is known."""
    tasks = cells.tasks.take(cells.found)
    if cells.size != WIDTH:
        return applicable_letter_laws(tasks)
    laws = applicable_laws(tasks)
    if _expected(cells) is not None:
        return laws
    bounded = cells.side != ABOVE
    most, tasks = np.exp(cells.y[bounded]), cells.tasks.take(bounded)
    is_bounded = isinstance(cells.thresholds[0].config_sample.task, Stsq)
    return CONSTANT, *(law for law in laws if np.all(law.offset(tasks) < most) and (is_bounded or law is not FCN_LINE))


def _prediction(law: ScalingLaw, threshold: WidthThreshold) -> Prediction:
    task = threshold.config_sample.task
    low = 0.0 if threshold.low_censored else threshold.low
    high = math.inf if threshold.high_censored else threshold.high
    if threshold.status == "above_range":
        low, high = (low or threshold.widths[-1]), math.inf
    elif threshold.status == "below_range":
        low, high = 0.0, (threshold.widths[0] if high is None else high)
    return Prediction(
        cell_id=threshold.cell_id,
        label=threshold.label,
        task=task,
        predicted=law.predict_cell(T=task.T, d=task.d, q=task.q),
        m_star=threshold.m_star,
        low=math.nan if low is None else float(low),
        high=math.nan if high is None else float(high),
    )
