from .axes import is_axis as is_axis, thinned as thinned, values_of as values_of
from .claims import (
    TARGET as TARGET,
    Bound as Bound,
    Claim as Claim,
    Compare as Compare,
    Exponent as Exponent,
    Floor as Floor,
    Selection as Selection,
    Sharpness as Sharpness,
    Slope as Slope,
    Slug as Slug,
    ThresholdClaim as ThresholdClaim,
    ThresholdGrowth as ThresholdGrowth,
    ThresholdNear as ThresholdNear,
    ThresholdOrder as ThresholdOrder,
    ThresholdRatio as ThresholdRatio,
)
from .drawings import (
    Curves as Curves,
    Drawing as Drawing,
    Matrices as Matrices,
    Profile as Profile,
    keeps_weights as keeps_weights,
)
from .errors import (
    Path as Path,
    PlacedError as PlacedError,
    first_problem as first_problem,
    listed as listed,
    nearest as nearest,
    suggestion as suggestion,
)
from .fields import (
    fields_of as fields_of,
    flattened as flattened,
    free_fields as free_fields,
    known_fields as known_fields,
    known_leaves as known_leaves,
    with_field as with_field,
    without_field as without_field,
)
from .judged_metric import (
    LOSS as LOSS,
    judged_number as judged_number,
    metric_at as metric_at,
    metric_words as metric_words,
)
from .kept_sweeps import (
    as_kept as as_kept,
    check_seal as check_seal,
    sealed_text as sealed_text,
    unsealed as unsealed,
)
from .law_settings import LawSettings as LawSettings
from .overrides import (
    apply_settings as apply_settings,
    settable_fields as settable_fields,
    to_blame as to_blame,
)
from .search_spec import (
    PASSWORD_IN as PASSWORD_IN,
    DecideSettings as DecideSettings,
    SamplerName as SamplerName,
    SearchSettings as SearchSettings,
    WidthRange as WidthRange,
    storage_beyond_a_file as storage_beyond_a_file,
    without_password as without_password,
)
from .spec import (
    Budget as Budget,
    Criterion as Criterion,
    Statistic as Statistic,
    SweepSpec as SweepSpec,
    TrialGroup as TrialGroup,
    WandbSettings as WandbSettings,
)
from .yaml_source import YamlDocument as YamlDocument, parse as parse
