"""Regimes: cells that agree in everything but T, q and d, and so lie on one law; with their laws and what they share."""

from collections.abc import Iterable
from dataclasses import dataclass

from dashboards.words.style import NAMES
from stsq_core.configs import Fcn, Size, Transformer, TrialConfig
from sweeps.cells import model_words
from sweeps.laws import LawComparison, ScalingLaw, compare_families, families_of
from sweeps.schema import LawSettings
from sweeps.thresholds import WidthThreshold

SPOKEN_REDRAWS = {"never": "fixed", "per_step": "redrawn every step", "per_sample": "redrawn for every sample"}


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
        """The law that theory expects of the architecture; where it expects none the best, of more than two cells."""
        if self.comparison is None or not (self.comparison.is_expected or len(self.comparison.laws[0].points) > 2):
            return None
        return self.comparison.expected

    @property
    def rival(self) -> ScalingLaw | None:
        """The law that theory expects of the other architecture, where it expects one of each."""
        if self.comparison is None or not self.comparison.is_expected:
            return None
        return self.comparison.law("attention" if self.kind == "fcn" else "td_power")

    @property
    def size(self) -> Size:
        """What the thresholds are about."""
        return self.thresholds[0].size

    def letter(self, name: str) -> str:
        """The letter that the task's paper has for T, q or d."""
        return self.sample.task.letters.get(name, name)

    @property
    def name(self) -> str:
        """The architecture in words."""
        return NAMES.get(self.kind, self.kind)

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
    families = tuple(families_of(thresholds))
    return tuple(
        Regime(
            members[0].kind,
            tuple(members),
            comparison,
            frozenset(threshold.cell_id for threshold in members if settings.holds_out(threshold.config_sample)),
        )
        for members, comparison in zip(families, compare_families(families, settings), strict=True)
    )


def regime_words(regime: Regime, *, without: str = "") -> str:
    """What a regime's cells have in common, in a reader's words; letters of the task that vary are told as a list."""
    config = regime.sample
    letters = [_letter_words(regime, name) for name in ("q", "d", "T") if name != without]
    match config.model:
        case Transformer(positions=positions, extensions=extensions):
            kind = {"one_hot": "one-hot", "random_sign": "random-sign", "gaussian": "Gaussian"}.get(
                positions.kind, positions.kind
            )
            redrawn = "" if positions.kind == "learned" else f" {SPOKEN_REDRAWS.get(positions.redraw, positions.redraw)}"
            further = [name for name in extensions if not name.startswith("positions.")]
            model = ", ".join([f"{kind} codes{redrawn}", f"{positions.query} query", *further])
        case Fcn(depth=depth, tail_width=tail):
            model = f"{depth} hidden layers, later ones {tail} wide"
        case other:
            model = model_words(other) or other.kind
    training = config.training
    batch = "every subset" if training.batch_size == "all" else f"batch {training.batch_size}"
    optimizer = {"adam": "Adam", "gd": "gradient descent"}.get(config.optimizer.kind, config.optimizer.kind)
    return f"{', '.join(letters)} · {model} · {training.objective} objective · {optimizer}, {training.steps:,} steps, {batch}"


def _letter_words(regime: Regime, name: str) -> str:
    values = sorted({getattr(threshold.config_sample.task, name) for threshold in regime.thresholds})
    told = ", ".join(map(str, values)) if len(values) <= 6 else f"{values[0]} to {values[-1]}"
    return f"`{regime.letter(name)}` = {told}"
