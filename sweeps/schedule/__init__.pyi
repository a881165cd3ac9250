from .queue import Failure as Failure, PackOutcome as PackOutcome, PackQueue as PackQueue
from .strategy import Grid as Grid, Sequel as Sequel, Strategy as Strategy, Together as Together
from .time_left import (
    Ahead as Ahead,
    Load as Load,
    Outlook as Outlook,
    WorkerPace as WorkerPace,
    ends_of as ends_of,
    shares as shares,
)
