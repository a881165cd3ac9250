"""The charts of the laws: residuals of each regime's named law and of its rival, and the fitted exponents."""

import math
from collections.abc import Iterable, Sequence

from dashboards.plots.chart import Axis, Chart, Layer, Marks, Rule, log_ends
from dashboards.plots.charts_of_thresholds import MARGIN
from dashboards.plots.series import letter_of
from dashboards.words import (
    INK,
    MUTED,
    Axes,
    Formula,
    architecture_name,
    axes_of,
    family_title,
    mark_shape,
    plain_formula,
    series_shade,
    ticks_at,
)
from sweeps.findings import Regime
from sweeps.laws import LETTERS, LawComparison, ScalingLaw

MAX_CHARTS = 6
"""Regimes whose residuals are drawn; the tables hold all."""

POWERS = (
    "td_power", "T_power", "excess_q_power", "excess_power",
    *(f"{kind}_{letter}" for letter in LETTERS for kind in ("power", "log_power")),
)  # fmt: skip
"""The laws with an exponent, in the order in which their exponents are shown."""


def residual_charts(regimes: Sequence[Regime]) -> tuple[Chart, ...]:
    """A chart of m* over a law's size, less 1, for each regime with a law, at most `MAX_CHARTS`."""
    axes = axes_of(threshold for regime in regimes for threshold in regime.thresholds)
    return tuple(_residual_chart(regime, axes) for regime in [own for own in regimes if own.law is not None][:MAX_CHARTS])


def exponents_chart(comparisons: Iterable[LawComparison]) -> Chart | None:
    """The exponent of every power law of every regime that has an interval, with lines at 0 and 1; None where there is none."""
    comparisons = tuple(comparisons)
    axes = axes_of(threshold for own in comparisons for threshold in own.laws[0].fit.cells.thresholds)
    fitted = [
        (comparison, law)
        for comparison in comparisons
        for name in POWERS
        if (law := comparison.law(name)) is not None and law.parameters["gamma"].has_interval
    ]
    if not fitted:
        return None
    layers: list[Layer] = [Rule("x", value, INK) for value in (0.0, 1.0)]
    places, labels = [float(place) for place in reversed(range(len(fitted)))], []
    for place, (comparison, law) in zip(places, fitted, strict=True):
        gamma, formula, kind = law.parameters["gamma"], plain_formula(law), comparison.kind
        settings = axes.family_settings(*law.fit.cells.thresholds)
        name = " ".join([architecture_name(kind, short=True), *settings])
        # On paper a name of several words stands above the formula.
        gaps = (", ", ",\n" if settings else ", ", ", ")
        label = Formula(*(f"{name}{gap}{form}" for gap, form in zip(gaps, formula, strict=True)))
        labels.append(label)
        text = f"{label.html}<br>{gamma.value:.2f} ({gamma.low:.2f} to {gamma.high:.2f})"
        layers.append(
            Marks(
                [gamma.value], [place], series_shade(kind, 0), mark_shape(kind), 9,
                low=[gamma.low], high=[gamma.high], interval_of="x", texts=(text,),
            )
        )  # fmt: skip
    ends = [end for _, law in fitted for end in (law.parameters["gamma"].low, law.parameters["gamma"].high)]
    low, high = min(0.0, *ends), max(1.0, *ends)
    room = 0.06 * (high - low)
    x = Axis(Formula.of(r"exponent $\gamma$"), log=False, ends=(low - room, high + room))
    y = Axis(log=False, ends=(-0.6, len(fitted) - 0.4), ticks=tuple(places), words=tuple(labels), grid=False)
    return Chart("Fitted exponents", x, y, tuple(layers))


def _residual_chart(regime: Regime, axes: Axes) -> Chart:
    """The residuals of the regime's own law, and of its rival while those leave the chart readable."""
    letter, size = letter_of(regime.thresholds), regime.size
    x_ends = log_ends((getattr(threshold.config_sample.task, letter) for threshold in regime.thresholds), MARGIN)
    own = [_residuals(regime, law, letter) for law in (regime.law,) if law is not None]
    rivals = [_residuals(regime, law, letter) for law in (regime.rival,) if law is not None]
    reach = 1.12 * max(0.02, min(_largest(own + rivals), max(4 * _largest(own), 0.1)))
    xs = [float(x) for marks in own for one in marks for x in one.x]
    return Chart(
        family_title(regime, axes),
        Axis(Formula.of(f"${regime.letter(letter)}$"), ends=x_ends, ticks=ticks_at(xs, x_ends)),
        Axis(Formula.of(f"${size.letter}^*$ / law $- 1$"), log=False, ends=(-reach, reach), percent=True),
        (Rule("y", 0.0, INK, "solid"), *(one for marks in own + rivals for one in marks)),
    )


def _residuals(regime: Regime, law: ScalingLaw, letter: str) -> list[Marks]:
    """The residuals of one law, those of held-out cells hollow."""
    is_rival = law is not regime.law
    members = [threshold for threshold in regime.thresholds if threshold.m_star is not None]
    members.sort(key=lambda threshold: getattr(threshold.config_sample.task, letter))
    layers = []
    for held_out in (False, True):
        x, y, low, high, texts = [], [], [], [], []
        for threshold in members:
            m_star, task = threshold.m_star, threshold.config_sample.task
            if m_star is None or (threshold.cell_id in regime.held_out) is not held_out:
                continue
            predicted = law.predict(T=task.T, d=task.d, q=task.q)
            x.append(float(getattr(task, letter)))
            y.append(m_star / predicted - 1)
            known = threshold.low is not None and threshold.high is not None
            low.append((threshold.low or m_star if known else m_star) / predicted - 1)
            high.append((threshold.high or m_star if known else m_star) / predicted - 1)
            text = f"{threshold.size.letter}* = {m_star:.2f}, {y[-1]:+.1%} of the law's {predicted:.2f}"
            texts.append(f"{threshold.label}<br>{text}" + ("<br>held out of the fits" if held_out else ""))
        if x or not held_out:
            layers.append(
                Marks(
                    x,
                    y,
                    MUTED if is_rival else series_shade(regime.kind, 0),
                    "diamond" if is_rival else mark_shape(regime.kind),
                    8,
                    plain_formula(law) if not held_out else Formula.of("" if is_rival else "held out"),
                    low=None if is_rival else low,
                    high=None if is_rival else high,
                    hollow=held_out,
                    dash="dashed" if is_rival and not held_out else None,
                    texts=tuple(texts),
                    role="rival" if is_rival else "data",
                )
            )
    return layers


def _largest(laws: Sequence[Sequence[Marks]]) -> float:
    """The largest residual, with the end of its interval where that lies no further than twice as far."""
    marks = [one for own in laws for one in own]
    values = [abs(float(value)) for one in marks for value in one.y]
    ends = [abs(float(end)) for one in marks for side in (one.low, one.high) if side is not None for end in side]
    ends = [end for end in ends if math.isfinite(end)]
    return max(*values, min(max(ends, default=0.0), max(0.05, 2 * max(values))))
