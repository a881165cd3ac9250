"""Regimes: the cells that agree in everything but T, q and d, with the laws fitted to their thresholds."""

from collections.abc import Iterable
from dataclasses import dataclass

from stsq_core.configs import Size, TrialConfig
from sweeps.laws import LawComparison, ScalingLaw, by_regime, compare_regimes
from sweeps.schema import LawSettings
from sweeps.thresholds import WidthThreshold


@dataclass(frozen=True)
class Regime:
    """The thresholds of one regime and the laws fitted to them; none where too few thresholds were found.

    `held_out` names the cells that no fit has seen.
    """

    kind: str
    thresholds: tuple[WidthThreshold, ...]
    comparison: LawComparison | None
    held_out: frozenset[str] = frozenset()

    @property
    def law(self) -> ScalingLaw | None:
        """The law that is named of the regime, which every figure and table shows."""
        return self.comparison.named if self.comparison else None

    @property
    def rival(self) -> ScalingLaw | None:
        """The law that theory expects of architectures of the other kind, where it expects one of this and another is named."""
        if self.comparison is None or self.comparison.theory is None:
            return None
        rival = self.comparison.law("td_power" if self.comparison.expected == "attention" else "attention")
        return None if rival is self.law else rival

    @property
    def size(self) -> Size:
        """The size that the thresholds are of."""
        return self.thresholds[0].size

    def letter(self, name: str) -> str:
        """The letter for T, q or d in the task's paper."""
        return self.sample.task.letters.get(name, name)

    @property
    def target_loss(self) -> float:
        """The relative loss that counts as solved."""
        return self.thresholds[0].target_loss

    @property
    def samples(self) -> tuple[TrialConfig, ...]:
        """One config of each cell."""
        return tuple(threshold.config_sample for threshold in self.thresholds)

    @property
    def sample(self) -> TrialConfig:
        """One of the regime's configs."""
        return self.thresholds[0].config_sample


def regimes_of(thresholds: Iterable[WidthThreshold], settings: LawSettings | None = None) -> tuple[Regime, ...]:
    """The regimes of a sweep, in the order of their first threshold; `settings` say which cells are held out of the laws."""
    settings = settings or LawSettings()
    regimes = tuple(by_regime(thresholds))
    return tuple(
        Regime(
            members[0].kind,
            tuple(members),
            comparison,
            frozenset(threshold.cell_id for threshold in members if settings.holds_out(threshold.config_sample)),
        )
        for members, comparison in zip(regimes, compare_regimes(regimes, settings), strict=True)
    )
