"""The page's figures of the laws, as plotly specifications: residuals of a regime's laws, and the fitted exponents."""

import math

import plotly.graph_objects as go

from dashboards.page.interactive import Spec, base_axis, base_layout, log_axis, spec_of, stroke
from dashboards.plots import Exponent, ResidualPanel, ResidualSeries, exponent_range
from dashboards.words import CARD, GAMMA, INK, MUTED, mark_shape, series_shade, translucent


def residuals_plot(panel: ResidualPanel) -> Spec:
    """One panel of residuals."""
    figure = go.Figure()
    figure.add_hline(y=0, line=stroke(INK.light, 1.2))
    for series in panel.series:
        _add_series(figure, series, panel.kind)
    figure.update_layout(
        base_layout(left=54, bottom=42),
        xaxis=log_axis(panel.x_range, panel.x_ticks, f"<i>{panel.letter}</i>"),
        yaxis=base_axis()
        | {
            "range": [-panel.reach, panel.reach],
            "tickformat": "+.0%" if panel.reach > 0.05 else "+.1%",
            "title": {"text": f"<i>{panel.size.letter}</i>* / law − 1", "standoff": 6, "font": {"size": 13}},  # noqa: RUF001
            "nticks": 7,
        },
        legend={"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "font": {"size": 12}},
        showlegend=True,
    )
    return spec_of(figure)


def exponents_plot(shown: tuple[Exponent, ...]) -> Spec:
    """The interval of every exponent, with lines at 0 and 1; labels stand above their intervals, so that phones have room."""
    figure = go.Figure()
    for value in (0, 1):
        figure.add_vline(x=value, line=stroke(INK.light, 1.2, "dash"))
    places = list(range(len(shown)))[::-1]
    for place, one in zip(places, shown, strict=True):
        colour = one.shade.light
        figure.add_scatter(
            x=[one.value], y=[place], mode="markers", name="",
            marker={"symbol": mark_shape(one.kind)[0], "size": 9, "color": colour, "line": {"width": 1, "color": CARD.light}},
            error_x={
                "type": "data", "symmetric": False, "color": colour, "thickness": 2, "width": 4,
                "array": [one.high - one.value], "arrayminus": [one.value - one.low],
            },
            hovertemplate=f"{one.label_html}<br>{one.value:.2f} ({one.low:.2f} to {one.high:.2f})<extra></extra>",
        )  # fmt: skip
        figure.add_annotation(
            x=(one.low + one.high) / 2, y=place + 0.22, text=one.label_html, showarrow=False, yanchor="bottom",
            font={"size": 12, "color": INK.light}, bgcolor=translucent(CARD.light, 0.85),
        )  # fmt: skip
    low, high = exponent_range(shown)
    figure.update_layout(
        base_layout(left=12, bottom=42),
        xaxis=base_axis() | {"range": [low, high], "title": {"text": f"exponent {GAMMA}", "standoff": 8, "font": {"size": 13}}},
        yaxis=base_axis() | {"range": [-0.5, len(shown) - 0.25], "showticklabels": False, "showgrid": False, "showline": False},
        showlegend=False,
    )
    return spec_of(figure)


def _add_series(figure: go.Figure, series: ResidualSeries, kind: str) -> None:
    colour = MUTED.light if series.is_rival else series_shade(kind, 0).light
    symbol = "diamond" if series.is_rival else mark_shape(kind)[0]
    for held_out in (False, True):
        own = [one for one in series.residuals if one.held_out is held_out]
        if held_out and not own:
            continue
        filled, edge = (CARD.light, {"width": 2, "color": colour}) if held_out else (colour, {"width": 1, "color": CARD.light})
        bars = [(one.high - one.value, one.value - one.low) for one in own]
        bars = [(0.0, 0.0) if not all(map(math.isfinite, bar)) else bar for bar in bars]
        figure.add_scatter(
            x=[one.x for one in own], y=[one.value for one in own],
            mode="lines+markers" if series.is_rival and not held_out else "markers",
            line=stroke(colour, 1.2, "dash"),
            name="held out" if held_out else series.html, showlegend=not (held_out and series.is_rival),
            text=[one.text for one in own], hovertemplate="%{text}<extra></extra>",
            marker={"symbol": symbol, "size": 8, "color": filled, "line": edge},
            error_y=None if series.is_rival else {
                "type": "data", "symmetric": False, "color": colour, "thickness": 1.8, "width": 4,
                "array": [bar[0] for bar in bars], "arrayminus": [bar[1] for bar in bars],
            },
        )  # fmt: skip
