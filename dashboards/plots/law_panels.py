"""What the figures of the laws show, as plain values: residuals of each architecture's law and of its rival, and exponents."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dashboards.plots.panels import MARGIN, Axis, axis_of
from dashboards.words import Shade, architecture_name, plain_formula, series_shade, ticks_at
from stsq_core.configs import Size
from sweeps.findings import Regime
from sweeps.laws import LETTERS, LawComparison, ScalingLaw

MAX_PANELS = 6
"""Regimes whose residuals are drawn; the tables hold all."""

POWERS = (
    "td_power", "T_power", "excess_q_power", "excess_power",
    *(f"{kind}_{letter}" for letter in LETTERS for kind in ("power", "log_power")),
)  # fmt: skip
"""The laws with an exponent, in the order in which their exponents are shown."""


@dataclass(frozen=True)
class Residual:
    """A cell's m* over a law's width, less 1, with the measurement's interval; `low_open` and `high_open` as of a `Mark`."""

    x: float
    value: float
    low: float
    high: float
    held_out: bool
    text: str


@dataclass(frozen=True)
class ResidualSeries:
    """The residuals of one law; `is_rival` where it is the law that theory expects of the other architecture."""

    law: str
    tex: str
    html: str
    is_rival: bool
    residuals: tuple[Residual, ...]


@dataclass(frozen=True)
class ResidualPanel:
    """One pair of axes: residuals against a letter of the task, of an architecture's law and of its rival."""

    title: str
    kind: str
    axis: Axis
    letter: str
    size: Size
    x_range: tuple[float, float]
    series: tuple[ResidualSeries, ...]

    @property
    def x_ticks(self) -> tuple[float, ...]:
        """The measured values where they are few, else round numbers."""
        return ticks_at((one.x for series in self.series for one in series.residuals), self.x_range)

    @property
    def reach(self) -> float:
        """How far the axis reaches: to all residuals of the panel's own law, to its rival's while those leave it readable."""
        own, all_of = (self._largest(series) for series in ([s for s in self.series if not s.is_rival], self.series))
        return 1.12 * max(0.02, min(all_of, max(4 * own, 0.1)))

    def _largest(self, series: Sequence[ResidualSeries]) -> float:
        """The largest residual, with the end of its interval where that lies no further than twice as far."""
        values = [abs(one.value) for own in series for one in own.residuals]
        ends = [abs(end) for own in series for one in own.residuals for end in (one.low, one.high) if math.isfinite(end)]
        return max(*values, min(max(ends, default=0.0), max(0.05, 2 * max(values))))


@dataclass(frozen=True)
class Exponent:
    """One fitted power with its interval, nan where there is none."""

    kind: str
    shade: Shade
    label_tex: str
    label_html: str
    value: float
    low: float
    high: float


def residual_panels(regimes: Sequence[Regime]) -> tuple[ResidualPanel, ...]:
    """A panel for each regime with an expected law, at most `MAX_PANELS`."""
    panels = [_residual_panel(regime) for regime in regimes if regime.law is not None]
    return tuple(panels[:MAX_PANELS])


def exponents(comparisons: Iterable[LawComparison]) -> tuple[Exponent, ...]:
    """The exponent of every power law of every regime that has an interval, at most a handful a regime."""
    return tuple(
        _exponent(comparison, law)
        for comparison in comparisons
        for name in POWERS
        if (law := comparison.law(name)) is not None and law.parameters["gamma"].has_interval
    )


def _residual_panel(regime: Regime) -> ResidualPanel:
    axis = axis_of(regime.thresholds)
    places = [float(getattr(threshold.config_sample.task, axis)) for threshold in regime.thresholds]
    laws = [law for law in (regime.law, regime.rival) if law is not None]
    return ResidualPanel(
        title=architecture_name(regime.kind),
        kind=regime.kind,
        axis=axis,
        letter=regime.letter(axis),
        size=regime.size,
        x_range=(min(places) / MARGIN, max(places) * MARGIN),
        series=tuple(_series(regime, law, axis, is_rival=law is not regime.law) for law in laws),
    )


def _series(regime: Regime, law: ScalingLaw, axis: Axis, *, is_rival: bool) -> ResidualSeries:
    residuals = []
    for threshold in regime.thresholds:
        if threshold.m_star is None:
            continue
        task = threshold.config_sample.task
        predicted = law.predict(T=task.T, d=task.d, q=task.q)
        low, high = (math.nan if end is None else end / predicted - 1 for end in (threshold.low, threshold.high))
        value = threshold.m_star / predicted - 1
        held_out = threshold.cell_id in regime.held_out
        text = (
            f"{threshold.label}<br>{threshold.size.letter}* = {threshold.m_star:.2f}, {value:+.1%} of the law's {predicted:.2f}"
        )
        text += "<br>held out of the fits" if held_out else ""
        residuals.append(Residual(float(getattr(task, axis)), value, low, high, held_out, text))
    formula = plain_formula(law)
    return ResidualSeries(law.name, formula.tex, formula.html, is_rival, tuple(sorted(residuals, key=lambda one: one.x)))


def _exponent(comparison: LawComparison, law: ScalingLaw) -> Exponent:
    gamma, formula = law.parameters["gamma"], plain_formula(law)
    name = architecture_name(comparison.kind, short=True)
    return Exponent(
        kind=comparison.kind,
        shade=series_shade(comparison.kind, 0),
        label_tex=f"{name}, {formula.tex}",
        label_html=f"{name}, {formula.html}",
        value=gamma.value,
        low=gamma.low,
        high=gamma.high,
    )


def exponent_range(shown: Sequence[Exponent]) -> tuple[float, float]:
    """The range of an exponents' axis: all intervals, and 0 and 1."""
    ends = np.array([[one.low, one.high] for one in shown])
    low, high = min(0.0, float(ends.min())), max(1.0, float(ends.max()))
    room = 0.06 * (high - low)
    return low - room, high + room
