from .posterior import ThresholdPosterior as ThresholdPosterior
from .stopping import (
    Failed as Failed,
    SearchState as SearchState,
    judge as judge,
    posterior_of as posterior_of,
)
from .threshold_sampler import (
    WIDTH as WIDTH,
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
