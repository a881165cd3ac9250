from .budgets import Budgets as Budgets
from .claim import claim_path as claim_path
from .exit_codes import STOPPED as STOPPED, exit_code as exit_code
from .notices import (
    MOST_THRESHOLDS as MOST_THRESHOLDS,
    Notifier as Notifier,
    Summary as Summary,
    command_words as command_words,
    without_command as without_command,
)
from .options import (
    RunOptions as RunOptions,
    load_remembered as load_remembered,
    located as located,
    run_path as run_path,
)
from .progress_line import ProgressLine as ProgressLine, rate_of as rate_of
from .runner import LOOK_EVERY_S as LOOK_EVERY_S, InlineRunner as InlineRunner, Runner as Runner, Work as Work
from .stall import StallWatch as StallWatch
from .stop import Stopped as Stopped, StopSignals as StopSignals, sheltered as sheltered, stop_signals as stop_signals
from .terminal import (
    drop as drop,
    error_line as error_line,
    harmless as harmless,
    log as log,
    out as out,
    print_line as print_line,
    print_table as print_table,
    table as table,
    unfailing_output as unfailing_output,
)
from .versions import (
    ACCEPT as ACCEPT,
    SUBMITTED_WITH as SUBMITTED_WITH,
    VersionsDifferError as VersionsDifferError,
    check_earlier as check_earlier,
    check_submitter as check_submitter,
    own_versions as own_versions,
    release as release,
)
from .worker import (
    Order as Order,
    adopt_outcomes as adopt_outcomes,
    read_outcome as read_outcome,
    train_order as train_order,
)
