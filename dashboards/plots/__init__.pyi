from .cells import (
    MAX_CELLS as MAX_CELLS,
    CellView as CellView,
    cell_names as cell_names,
    cell_views as cell_views,
    curve_words as curve_words,
    median_curve as median_curve,
    median_words as median_words,
    read_shown_curves as read_shown_curves,
)
from .chart import (
    Axis as Axis,
    Chart as Chart,
    Layer as Layer,
    Letter as Letter,
    Line as Line,
    Marks as Marks,
    OpenEnd as OpenEnd,
    Rule as Rule,
    Span as Span,
    Tiles as Tiles,
    tile_opacity as tile_opacity,
)
from .charts_of_cells import (
    MAX_SEED_LINES as MAX_SEED_LINES,
    cell_strips as cell_strips,
    curve_charts as curve_charts,
    loss_charts as loss_charts,
    share_loss_axis as share_loss_axis,
)
from .charts_of_laws import exponents_chart as exponents_chart, residual_charts as residual_charts
from .charts_of_thresholds import (
    comparison_chart as comparison_chart,
    history_chart as history_chart,
    run_shade as run_shade,
    settings_differ as settings_differ,
    threshold_charts as threshold_charts,
)
from .drawings import (
    ChartFigure as ChartFigure,
    CustomFigure as CustomFigure,
    Heat as Heat,
    HeatFigure as HeatFigure,
    custom_figures as custom_figures,
)
from .phase_diagram import phase_diagrams as phase_diagrams
from .series import (
    Panel as Panel,
    Series as Series,
    cells_of as cells_of,
    names_of as names_of,
    numbers_of as numbers_of,
    panels_of as panels_of,
    place_of as place_of,
)
