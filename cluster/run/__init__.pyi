from .budgets import Budgets as Budgets
from .exit_codes import STOPPED as STOPPED, exit_code as exit_code
from .inline import InlineRunner as InlineRunner
from .options import RunOptions as RunOptions, load_remembered as load_remembered, run_path as run_path
from .progress_line import ProgressLine as ProgressLine
from .runner import Runner as Runner, Work as Work
from .stop import Stopped as Stopped, StopSignals as StopSignals, stop_signals as stop_signals
from .strategies import strategy_of as strategy_of
from .terminal import error_line as error_line, log as log, out as out, say as say, say_table as say_table, table as table
from .versions import (
    ACCEPT as ACCEPT,
    SUBMITTED_WITH as SUBMITTED_WITH,
    VersionsDifferError as VersionsDifferError,
    check_former as check_former,
    check_submitter as check_submitter,
    own_versions as own_versions,
    release as release,
)
from .worker import Order as Order, adopt_outcomes as adopt_outcomes, train_order as train_order
