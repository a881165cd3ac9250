from .cell import Cell as Cell, describe as describe, distinct_labels as distinct_labels, model_words as model_words
from .expanded_sweep import (
    ExpandedSweep as ExpandedSweep,
    Plan as Plan,
    expand as expand,
    make_plan as make_plan,
    searched_cells as searched_cells,
)
from .loading import (
    catalog_names as catalog_names,
    check_sweep as check_sweep,
    copy_sweep as copy_sweep,
    load_expanded as load_expanded,
    load_sweep as load_sweep,
    read_catalog as read_catalog,
    suggestion_of_run as suggestion_of_run,
    sweep_name as sweep_name,
    sweep_text as sweep_text,
)
from .packs import (
    ANYWHERE as ANYWHERE,
    CPU_PACKS as CPU_PACKS,
    GPU_PACKS as GPU_PACKS,
    Pack as Pack,
    Room as Room,
    cut as cut,
    halves as halves,
    make_packs as make_packs,
    pack_of as pack_of,
    pack_row as pack_row,
    trial_operations as trial_operations,
)
from .recheck import STEPS_FACTOR as STEPS_FACTOR, recheck_trials as recheck_trials, twice_the_steps as twice_the_steps
from .searched import SearchedCell as SearchedCell, point_seed as point_seed
from .shard import WHOLE as WHOLE, Shard as Shard, read_shard as read_shard
from .sweep_schema import (
    schema_text as schema_text,
    spec_json_schema as spec_json_schema,
    sweep_reference as sweep_reference,
)
from .trials import Trials as Trials, cell_of as cell_of, cell_of_family as cell_of_family
