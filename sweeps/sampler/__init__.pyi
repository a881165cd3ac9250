from .posterior import ThresholdPosterior as ThresholdPosterior
from .result import ThresholdResult as ThresholdResult
from .stopping import (
    Failed as Failed,
    SearchState as SearchState,
    StopRule as StopRule,
    judge as judge,
    posterior_of as posterior_of,
)
from .study_points import WIDTH as WIDTH
from .threshold_sampler import (
    ThresholdSampler as ThresholdSampler,
    publish as publish,
)
from .trend import (
    GROUP as GROUP,
    LEARNED as LEARNED,
    WIDEST as WIDEST,
    Trend as Trend,
    falling_side as falling_side,
    neighbours as neighbours,
    trend_of_widths as trend_of_widths,
)
