from .child_process import module_command as module_command
from .damage import (
    Damage as Damage,
    damaged_lines as damaged_lines,
    examine as examine,
    mend_for_run as mend_for_run,
    moved_away as moved_away,
)
from .files import (
    disk_errors as disk_errors,
    retry_io as retry_io,
    write_atomically as write_atomically,
    write_first as write_first,
    write_with_retries as write_with_retries,
)
from .gc_pause import gc_paused as gc_paused
from .journal import (
    Curve as Curve,
    FileCheckpoint as FileCheckpoint,
    JournalWriter as JournalWriter,
    Preempted as Preempted,
    follow as follow,
    read_curves as read_curves,
    read_metrics as read_metrics,
    trials_of_journal as trials_of_journal,
)
from .jsonl import (
    JsonLines as JsonLines,
    append_lines as append_lines,
    cut_torn_line as cut_torn_line,
    free_name as free_name,
    read_lines as read_lines,
    sealed as sealed,
    unsealed as unsealed,
    warn_once as warn_once,
    write_from as write_from,
)
from .ledger import (
    MEASURED as MEASURED,
    Ledger as Ledger,
    LedgerRecord as LedgerRecord,
    Status as Status,
    merge as merge,
    record_of_failure as record_of_failure,
    record_of_result as record_of_result,
)
from .live_training import (
    TrainingPack as TrainingPack,
    begun_packs as begun_packs,
    last_step as last_step,
    read_training as read_training,
)
from .outcomes import (
    DIVERGED as DIVERGED,
    FAILED as FAILED,
    FINISHED as FINISHED,
    LEAST_LOSS as LEAST_LOSS,
    STATUSES as STATUSES,
    Outcomes as Outcomes,
    is_solved as is_solved,
    judged_loss as judged_loss,
    none_of_nan as none_of_nan,
)
from .results import Results as Results, cells_with_points as cells_with_points, read_results as read_results
from .rounds import (
    Round as Round,
    append_rounds as append_rounds,
    follow_rounds as follow_rounds,
    read_rounds as read_rounds,
)
from .run_directory import (
    Lock as Lock,
    RunDirectory as RunDirectory,
    create_or_open as create_or_open,
    former_search_seeds as former_search_seeds,
    open_run as open_run,
)
from .run_folders import holds_runs as holds_runs, removable_run as removable_run, remove_run as remove_run, runs_in as runs_in
from .run_guard import RunGuard as RunGuard
from .run_plugins import keep_plugins as keep_plugins, load_kept as load_kept, name_plugins as name_plugins
from .sessions import Session as Session, elapsed_minutes as elapsed_minutes, read_sessions as read_sessions, session as session
from .shards import create_shard as create_shard, kin_of as kin_of, merge_shards as merge_shards
from .temporary import held_folder as held_folder
from .weights import load_weights as load_weights, save_weights as save_weights
