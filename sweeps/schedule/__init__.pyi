from .queue import Failure as Failure, PackOutcome as PackOutcome, PackQueue as PackQueue
from .strategy import Grid as Grid, Sequel as Sequel, Strategy as Strategy, Together as Together
