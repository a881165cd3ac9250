from .cells import (
    Cell as Cell,
    Pack as Pack,
    Plan as Plan,
    SearchedCell as SearchedCell,
    catalog_names as catalog_names,
    cell_of as cell_of,
    describe as describe,
    expand as expand,
    load_sweep as load_sweep,
    make_packs as make_packs,
    make_plan as make_plan,
    read_catalog as read_catalog,
    searched_cells as searched_cells,
    spec_json_schema as spec_json_schema,
)
from .laws import (
    compare_laws as compare_laws,
    fcn_line as fcn_line,
)
from .sampler import ThresholdSampler as ThresholdSampler
from .schedule import (
    Failure as Failure,
    Grid as Grid,
    PackOutcome as PackOutcome,
    PackQueue as PackQueue,
    Strategy as Strategy,
)
from .schema import (
    Budget as Budget,
    Criterion as Criterion,
    SearchSettings as SearchSettings,
    SweepSpec as SweepSpec,
    TrialGroup as TrialGroup,
    WandbSettings as WandbSettings,
    WidthRange as WidthRange,
)
from .store import (
    Ledger as Ledger,
    LedgerRecord as LedgerRecord,
    RunDirectory as RunDirectory,
    create_or_open as create_or_open,
    load_weights as load_weights,
    merge as merge,
    open_run as open_run,
    read_curves as read_curves,
    read_metrics as read_metrics,
    save_weights as save_weights,
)
from .thresholds import (
    WidthThreshold as WidthThreshold,
    thresholds_of as thresholds_of,
    width_thresholds as width_thresholds,
)
