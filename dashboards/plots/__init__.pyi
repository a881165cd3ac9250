from .cells import (
    LEAST_SHOWN as LEAST_SHOWN,
    MAX_CELLS as MAX_CELLS,
    CellView as CellView,
    cell_names as cell_names,
    cell_views as cell_views,
    median_curve as median_curve,
    read_shown_curves as read_shown_curves,
)
from .drawn_plots import Heat as Heat, HeatPlot as HeatPlot, drawn as drawn
from .law_panels import (
    Exponent as Exponent,
    ResidualPanel as ResidualPanel,
    ResidualSeries as ResidualSeries,
    exponent_range as exponent_range,
    exponents as exponents,
    residual_panels as residual_panels,
)
from .panels import (
    Axis as Axis,
    Line as Line,
    Mark as Mark,
    Panel as Panel,
    Series as Series,
    mark_of as mark_of,
    settings_differ as settings_differ,
    threshold_panels as threshold_panels,
)
from .plots import Plot as Plot, PlotPanel as PlotPanel, Trace as Trace
