from .catalog import catalog_names as catalog_names, read_catalog as read_catalog
from .loading import (
    check_sweep as check_sweep,
    load_sweep as load_sweep,
    spec_json_schema as spec_json_schema,
    sweep_name as sweep_name,
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
    trial_operations as trial_operations,
)
from .plan import (
    Cell as Cell,
    Plan as Plan,
    describe as describe,
    distinct_labels as distinct_labels,
    expand as expand,
    make_plan as make_plan,
    model_words as model_words,
)
from .recheck import STEPS_FACTOR as STEPS_FACTOR, recheck_trials as recheck_trials, twice_the_steps as twice_the_steps
from .searched import (
    SearchedCell as SearchedCell,
    cells_with_points as cells_with_points,
    point_seed as point_seed,
    searched_cells as searched_cells,
)
from .trials import Trials as Trials, cell_of as cell_of, cell_of_family as cell_of_family
