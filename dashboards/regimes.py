"""Regimes: cells that agree in everything but T, q and d, and so lie on one law; with the law and its words."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dashboards.style import NAMES
from stsq_core import TrialConfig
from stsq_core.architecture import Fcn, Transformer
from stsq_core.positions import OneHot
from stsq_core.task import Stsq
from sweeps.intervals import interval_of
from sweeps.laws import ScalingLaw, fit_attention_law, fit_fcn_law
from sweeps.plan import cell_of
from sweeps.thresholds import WidthThreshold

NUM_REPLICATES = 1000
GAMMA = "\N{GREEK SMALL LETTER GAMMA}"
LETTERS = {"gamma": GAMMA}
SPOKEN_REDRAWS = {"never": "fixed", "per_step": "redrawn every step", "per_sample": "redrawn for every sample"}


@dataclass(frozen=True)
class Regime:
    """The thresholds of one regime and the law fitted to them; no law where too few thresholds were found."""

    kind: str
    thresholds: tuple[WidthThreshold, ...]
    law: ScalingLaw | None

    @property
    def name(self) -> str:
        """The architecture in words."""
        return NAMES.get(self.kind, self.kind)

    @property
    def target_loss(self) -> float:
        """The relative loss that counts as solved."""
        return self.thresholds[0].target_loss

    @property
    def sample(self) -> TrialConfig:
        """One of the regime's configs."""
        return self.thresholds[0].config_sample


def regimes_of(thresholds: Iterable[WidthThreshold]) -> tuple[Regime, ...]:
    """The regimes of a sweep, in the order of their first threshold."""
    groups: dict[str, list[WidthThreshold]] = {}
    for threshold in thresholds:
        groups.setdefault(_regime_key(threshold.config_sample), []).append(threshold)
    return tuple(
        Regime(members[0].kind, tuple(members), (fit_fcn_law if members[0].kind == "fcn" else fit_attention_law)(members))
        for members in groups.values()
    )


def setting_words(regime: Regime, *, without: str = "") -> str:
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
    training = config.training
    batch = "every subset" if training.batch_size == "all" else f"batch {training.batch_size}"
    optimizer = {"adam": "Adam", "gd": "gradient descent"}.get(config.optimizer.kind, config.optimizer.kind)
    return f"{', '.join(letters)} · {model} · {training.objective} objective · {optimizer}, {training.steps:,} steps, {batch}"


class Formula(NamedTuple):
    """A formula as plain text, for TeX and for HTML."""

    text: str
    tex: str
    html: str


def fitted_formula(law: ScalingLaw) -> Formula:
    """The fitted law with its numbers: `d + 2.48 q ln T`."""
    if law.name == "attention":
        b = f"{law.parameters['b'].value:.2f}"
        return Formula(f"d + {b} q ln T", rf"$d + {b}\,q\,\ln T$", f"<i>d</i> + {b} <i>q</i> ln <i>T</i>")
    c, gamma = (f"{law.parameters[name].value:.2f}" for name in ("c", "gamma"))
    return Formula(f"{c} (T d)^{gamma}", rf"${c}\,(T d)^{{{gamma}}}$", f"{c} (<i>Td</i>)<sup>{gamma}</sup>")


def estimate_words(law: ScalingLaw, name: str) -> str:
    """One fitted number with its interval, its letter in backquotes; says so where there are too few cells for one."""
    estimate = law.parameters[name]
    told = f"`{LETTERS.get(name, name)}` = {estimate.value:.2f}"
    if not np.isfinite([estimate.low, estimate.high]).all():
        return f"{told}, no interval"
    return f"{told}, {law.level:.0%} interval {estimate.low:.2f} to {estimate.high:.2f}"


def law_html(law: ScalingLaw) -> str:
    """The law without its numbers, as HTML."""
    return {"attention": "<i>d</i> + <i>b q</i> ln <i>T</i>", "fcn": f"<i>c</i> (<i>Td</i>)<sup><i>{GAMMA}</i></sup>"}[law.name]


def law_band(
    regime: Regime, *, T: np.ndarray, d: np.ndarray, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """A law's widths at tasks [n], and the ends of their pointwise interval; no interval where the law's numbers have none.

    Raises:
        ValueError: the regime has no law.
    """
    law = regime.law
    if law is None:
        raise ValueError("this regime has no law")
    y = np.array([law.predict(T=float(t), d=float(dd), q=float(qq)) for t, dd, qq in zip(T, d, q, strict=True)])
    if not all(np.isfinite([estimate.low, estimate.high]).all() for estimate in law.parameters.values()):
        return y, None, None
    if law.name == "attention":  # increasing in b, its only number: the interval of b gives the band exactly
        b = law.parameters["b"]
        return y, d + b.low * q * np.log(T), d + b.high * q * np.log(T)
    low, high = _power_band(regime.thresholds, np.log(T * d), level=law.level)
    return y, np.minimum(low, y), np.maximum(high, y)


def _power_band(thresholds: Iterable[WidthThreshold], at: np.ndarray, *, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The interval of a power law at log scales [n]: c and gamma vary together, so their own intervals do not give it.

    Drawn as the law's numbers are: cells with replacement, and in each a bootstrap replicate of its threshold.
    """
    found = [threshold for threshold in thresholds if threshold.status == "found"]
    stream = np.random.default_rng([int(threshold.cell_id, 16) for threshold in found])
    scales = np.log([threshold.config_sample.task.T * threshold.config_sample.task.d for threshold in found])
    ends = [np.log([threshold.widths[0], threshold.widths[-1]]) for threshold in found]
    logs = np.stack(
        [stream.choice(np.clip(t.replicates, *end), size=NUM_REPLICATES) for t, end in zip(found, ends, strict=True)], axis=1
    )
    draws = stream.integers(len(found), size=(NUM_REPLICATES, len(found)))
    x, y = scales[draws], np.take_along_axis(logs, draws, axis=1)
    centred = x - x.mean(axis=1, keepdims=True)
    spread = (centred**2).sum(axis=1)
    usable = spread > 1e-12
    slope = (centred * y).sum(axis=1)[usable] / spread[usable]
    lines = y.mean(axis=1)[usable, None] + slope[:, None] * (at[None, :] - x.mean(axis=1)[usable, None])
    pairs = [interval_of(column, level=level, num=len(found)) for column in lines.T]
    low, high = np.exp(np.array(pairs)).T
    return low, high


def _letter_words(regime: Regime, name: str) -> str:
    values = sorted({getattr(threshold.config_sample.task, name) for threshold in regime.thresholds})
    told = ", ".join(map(str, values)) if len(values) <= 6 else f"{values[0]} to {values[-1]}"
    return f"`{name}` = {told}"


def _regime_key(config: TrialConfig) -> str:
    """Equal for configs whose cells differ in T, q and d only."""
    model = config.model
    if isinstance(model, Transformer) and isinstance(model.positions, OneHot):
        model = model.model_copy(update={"positions": model.positions.model_copy(update={"d_e": 1})})
    return cell_of(config.model_copy(update={"task": Stsq(T=1, q=1, d=1), "model": model}))
