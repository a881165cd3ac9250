from .rate_ends import rate_end_lines as rate_end_lines
from .resampling import (
    attainable_level as attainable_level,
    interval_of as interval_of,
    mean_interval as mean_interval,
)
from .samples_thresholds import samples_to_target as samples_to_target
from .search_points import CellPoints as CellPoints, outcomes_by_cell as outcomes_by_cell
from .search_state import (
    SearchPlan as SearchPlan,
    open_target as open_target,
    plan_of as plan_of,
    plan_searches as plan_searches,
)
from .searched_thresholds import searched_threshold as searched_threshold
from .thresholds import thresholds_of as thresholds_of, width_thresholds as width_thresholds
from .width_threshold import Point as Point, Points as Points, WidthThreshold as WidthThreshold
